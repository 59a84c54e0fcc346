"""What there is, as tables: SHOW lists names, DESCRIBE the columns of one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.derived import DerivedStream
from muntin.engine.catalog import Catalog
from muntin.errors import NotFound, nearest
from muntin.sql.type_name import type_name

_SPAN = pa.duration("us")
_COLUMNS: dict[str, list[tuple[str, pa.DataType]]] = {
    "STREAMS": [
        ("name", pa.string()),
        ("time", pa.string()),
        ("delay", _SPAN),
        ("ahead", _SPAN),
        ("sql", pa.string()),
    ],
    "TABLES": [("name", pa.string()), ("primary_key", pa.string()), ("rows", pa.int64())],
    "QUERIES": [("name", pa.string()), ("streams", pa.string()), ("sql", pa.string())],
    "VIEWS": [("name", pa.string()), ("key", pa.string()), ("sql", pa.string())],
}


def listed(catalog: Catalog, kind: str) -> pa.Table:
    """All STREAMS, TABLES, QUERIES or VIEWS, in the order in which they came."""
    rows: list[tuple[Any, ...]]
    if kind == "STREAMS":
        rows = [
            (name, of.time, of.delay, of.ahead, of.text if isinstance(of, DerivedStream) else None)
            for name, of in catalog.streams.items()
        ]
    elif kind == "TABLES":
        rows = [(name, ", ".join(of.table.key), len(of)) for name, of in catalog.tables.items()]
    elif kind == "QUERIES":
        names = [name for name in catalog.stream_of if name not in catalog.views.at_work]
        rows = [(name, _streams(catalog, name), catalog.query(name).text) for name in names]
    else:
        texts = {name: view.query.text for name, view in catalog.views.at_work.items()}
        known = catalog.views.known()
        rows = [(name, ", ".join(of.key), texts.get(name)) for name, of in known.items()]
    schema = pa.schema(_COLUMNS[kind])
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.table(
        [pa.array(list(each), field.type) for each, field in zip(columns, schema, strict=True)], schema
    )


def _streams(catalog: Catalog, query: str) -> str:
    return ", ".join(dict.fromkeys(stream.name for stream in catalog.query(query).streams))


def described(catalog: Catalog, name: str) -> pa.Table:
    """The columns of a stream or table, of a view, or of the answers of a query: what each is called, its type, and
    whether it is the time or a key. A name that both a stream and a query have means the stream."""
    keys: tuple[str, ...] = ()
    time = None
    known = catalog.views.known()
    if name in catalog.streams:
        schema, time = catalog.streams[name].schema, catalog.streams[name].time
    elif name in catalog.tables:
        schema, keys = catalog.tables[name].table.schema, catalog.tables[name].table.key
    elif name in known:
        schema, keys = known[name].columns, known[name].key
    elif name in catalog.stream_of:
        query = catalog.query(name)
        schema, keys = query.emission_schema(), tuple(key.name for key in query.keys)
    else:
        names = [*catalog.streams, *catalog.tables, *known, *catalog.stream_of]
        raise NotFound(f"there is no stream, table, view or query '{name}'{nearest(name, names)}")
    roles = ["time" if each == time else "key" if each in keys else None for each in schema.names]
    return pa.table(
        {
            "column": pa.array(schema.names, pa.string()),
            "type": pa.array([type_name(field.type) for field in schema], pa.string()),
            "role": pa.array(roles, pa.string()),
        }
    )
