"""Requests: a table of keys and instants, for each row of which queries are looked up; and the table of their answers.

requests   account  at      label        answers   account  at      label   spent  found  complete
           a        12:00   fraud                  a        12:00   fraud   40     true   true
           b        12:07   fine                   b        12:07   fine    NULL   false  true
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from muntin.argument import text_of
from muntin.arrays import Ints
from muntin.errors import MuntinError, SchemaError, nearest
from muntin.join_query import AnyQuery
from muntin.query import Query
from muntin.shard.read.lookup_at import AtPoints
from muntin.shard.record_batch import to_record_batch, to_table, to_times
from muntin.stream import Stream
from muntin.table_query import TableQuery
from muntin.view_select import StandingQuery

FOUND, COMPLETE = "found", "complete"


@dataclass(frozen=True)
class _Asked(Stream):
    """The columns of requests that are read."""

    @property
    def label(self) -> str:
        return "the requests"


@dataclass(frozen=True)
class Requests:
    """Rows to be answered by queries, checked: all columns that these read are there, and of their types."""

    table: pa.Table  # as given
    at: Ints
    keys: dict[str, list[pa.Array]]  # of each query: the columns of its keys
    fields: dict[
        str, list[pa.Field]
    ]  # of each query: its outputs, `found` and `complete`, as they are called

    def __len__(self) -> int:
        return len(self.at)

    def take(self, rows: Ints) -> Requests:
        """Some of them, for which answers are computed; `table` stays whole."""
        some = pa.array(rows)
        return self._some(self.at[rows], lambda column: column.take(some))

    def slice(self, begin: int, end: int) -> Requests:
        """The same for neighbours."""
        return self._some(self.at[begin:end], lambda column: column.slice(begin, end - begin))

    def _some(self, at: Ints, pick: Callable[[pa.Array], pa.Array]) -> Requests:
        made: dict[int, pa.Array] = {}  # of columns that several queries read
        for column in (each for columns in self.keys.values() for each in columns):
            if id(column) not in made:
                made[id(column)] = pick(column)
        keys = {name: [made[id(each)] for each in columns] for name, columns in self.keys.items()}
        return Requests(self.table, at, keys, self.fields)

    def answered(self, found: Mapping[str, AtPoints]) -> list[pa.Array]:
        """Columns of answers, in the order of queries and fields."""
        columns = []
        for name, fields in self.fields.items():
            given = [*found[name].values, pa.array(found[name].found), pa.array(found[name].complete)]
            columns += [
                each if each.type == field.type else each.cast(field.type)
                for each, field in zip(given, fields, strict=True)
            ]
        return columns

    def wide(self, columns: Sequence[Any]) -> pa.Table:
        """The table of requests with the columns of answers behind its own."""
        fields = [field for some in self.fields.values() for field in some]
        whole = [*self.table.columns, *columns]
        return pa.Table.from_arrays(whole, schema=pa.schema([*self.table.schema, *fields]))


def answerable(name: str, query: AnyQuery) -> Query:
    """The query, unless its answers of the past are not those that it had then."""
    if isinstance(query, TableQuery):
        table = query.tables[0].name
        raise MuntinError(
            f"query '{name}' joins table '{table}', whose rows of today would leak into the past: look up a query of "
            "the stream alone, and join its answers with the rows that held then"
        )
    if isinstance(query, StandingQuery):
        raise MuntinError(
            f"query '{name}' reads a view, as of its updates; lookup_at takes queries over streams"
        )
    if not isinstance(query, Query):
        raise MuntinError(f"query '{name}' joins two streams; lookup_at takes queries over one stream")
    if query.window is not None and query.window.is_session:
        raise MuntinError(
            f"query '{name}' is over {query.window}, of which the past is not kept event by event; look up a query "
            "over a time window, or the open sessions with lookup"
        )
    if query.top is not None:
        raise MuntinError(
            f"query '{name}' has LIMIT: who is among the first depends on all keys, at every instant of a request; "
            "look up a query without ORDER BY and LIMIT"
        )
    return query


def read_requests(queries: Mapping[str, Query], requests: Any, at: str, is_prefixed: bool) -> Requests:
    """Requests of queries, with a column `at` that has the instants; answers are called by their names, after that of
    their query if they are to be `prefixed`."""
    text_of("at", at)
    table = to_table(requests)
    keys = [(name, key) for name, query in queries.items() for key in query.keys]
    for name, key in keys:
        if key.name == at:
            raise SchemaError(
                f"'{at}' is a key of query '{name}' and cannot be the column of instants, too: give another "
                "column, as in lookup_at(…, at='asked_at')"
            )
        _require(table, key.name, f"a key of query '{name}'")
    _require(table, at, "the instants to look up")
    fields = {name: _fields(name, query, is_prefixed) for name, query in queries.items()}
    _refuse_taken(table, fields, is_prefixed)
    asked = _Asked("requests", pa.schema([(at, pa.timestamp("us"))]), at)
    instants = to_record_batch(asked, table)
    made = {
        (key.name, key.expression.type): _column(table, key.name, key.expression.type, asked)
        for _, key in keys
    }
    return Requests(
        table,
        to_times(asked, instants),
        {
            name: [made[key.name, key.expression.type] for key in query.keys]
            for name, query in queries.items()
        },
        fields,
    )


def _fields(name: str, query: Query, is_prefixed: bool) -> list[pa.Field]:
    given = [(output.name, output.expression.type) for output in query.outputs]
    given += [(FOUND, pa.bool_()), (COMPLETE, pa.bool_())]
    return [pa.field(f"{name}.{each}" if is_prefixed else each, kind) for each, kind in given]


def _refuse_taken(table: pa.Table, fields: Mapping[str, Sequence[pa.Field]], is_prefixed: bool) -> None:
    taken = set(table.column_names)
    for query, some in fields.items():
        for field in some:
            if field.name in taken:
                instead = (
                    ""
                    if is_prefixed
                    else f", or ask for ['{query}'], whose answers are '{query}.{field.name}' …"
                )
                raise SchemaError(
                    f"the requests have a column '{field.name}', and so have the answers of query '{query}': rename it"
                    f"{instead}"
                )
            taken.add(field.name)


def _require(table: pa.Table, name: str, what: str) -> None:
    many = table.column_names.count(name)
    if many != 1:
        has = f"{many} columns called '{name}'" if many else f"no column '{name}'"
        near = "" if many else nearest(name, table.column_names)
        raise SchemaError(f"the requests have {has}, {what}{near}")


def _column(table: pa.Table, name: str, kind: pa.DataType, asked: _Asked) -> pa.Array:
    """A column in the type of a key."""
    return to_record_batch(replace(asked, schema=asked.schema.insert(0, pa.field(name, kind))), table).column(
        0
    )
