"""What a checkpoint saves of a catalog, and a catalog made of it again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.arrow_bytes import read_sound_schema
from muntin.described import COUNT, Absent, Each, check_shape
from muntin.engine.catalog import Catalog
from muntin.join_query import JoinQuery
from muntin.query import Query
from muntin.sql import parse_query, parse_view
from muntin.stream import Stream
from muntin.synopsis.saved import Saved

Description = dict[str, Any]
Named = dict[str, Any]  # arrays by path


_SHAPE = {
    "streams": [{"name": str, "time": str, "delay": COUNT, "state": dict}],
    "queries": [str],
    "joins": Absent(dict),
    "view_operators": Absent(Each({"text": str})),
}


def save(catalog: Catalog) -> tuple[Description, Named]:
    """Streams, queries and state."""
    catalog.views.refuse_pending()
    description: Description = {"streams": [], "queries": list(catalog.stream_of)}
    arrays: Named = {}
    for number, operator in enumerate(catalog.operators.values()):
        stream, (state, named) = operator.shard.stream, operator.snapshot()
        description["streams"].append(
            {"name": stream.name, "time": stream.time, "delay": stream.delay, "state": state}
        )
        arrays[f"{number}/schema"] = pa.array([stream.schema.serialize().to_pybytes()], pa.binary())
        arrays |= _below(f"{number}/", named)
    description["joins"], joined = catalog.joins.snapshot()
    description["view_operators"], held = catalog.views.snapshot()
    return description, arrays | _below("joins/", joined) | held


def load(catalog: Catalog, description: Description, arrays: Named) -> None:
    """Fill an empty catalog."""
    check_shape(description, _SHAPE, "the description")
    for number, saved in enumerate(description["streams"]):
        _load_stream(catalog, saved, _under(f"{number}/", arrays))
    if "joins" in description:
        _load_joins(catalog, description["joins"], _under("joins/", arrays))
    catalog.views.restore(description.get("view_operators", {}), arrays, catalog.streams)
    catalog.stream_of = {name: catalog.stream_of[name] for name in description["queries"]}


def _load_stream(catalog: Catalog, saved: Description, arrays: Named) -> None:
    schema = read_sound_schema(Saved(arrays).column("schema", {pa.binary()}, 1)[0].as_py())
    stream = Stream(saved["name"], schema, saved["time"], saved["delay"])
    operator = catalog.operators[stream.name] = catalog.make_operator(stream)
    texts = {name: each["text"] for name, each in saved["state"]["registrations"].items()}
    parsed = {name: parse_query(text, {stream.name: stream}) for name, text in texts.items()}
    queries = {name: query for name, query in parsed.items() if isinstance(query, Query)}
    operator.restore(saved["state"], arrays, queries)
    catalog.stream_of |= dict.fromkeys(queries, stream.name)


def _load_joins(catalog: Catalog, saved: Description, arrays: Named) -> None:
    texts = {name: each["text"] for name, each in saved["registrations"].items()}
    views = {name: view for name, text in texts.items() if (view := parse_view(text, catalog.streams))}
    joins = {name: view.source for name, view in views.items() if isinstance(view.source, JoinQuery)}
    for name in texts.keys() - views.keys():
        query = parse_query(texts[name], catalog.streams)
        assert isinstance(query, JoinQuery)
        joins[name] = query
    joins = {name: joins[name] for name in texts}
    catalog.joins.restore(saved, arrays, joins)
    catalog.stream_of |= {name: query.left.stream.name for name, query in joins.items()}
    for view in views.values():
        catalog.views.create(view)


def _below(prefix: str, arrays: Named) -> Named:
    return {prefix + name: array for name, array in arrays.items()}


def _under(prefix: str, arrays: Named) -> Named:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
