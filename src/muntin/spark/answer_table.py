"""The layout of the answers: one table for all queries, and how each query's columns are found in it.

    query | symbol | volume | window_start | window_end | complete

A column for each name that some query gives to a key or a value, NULL for queries without it. Where two
queries mean different types by one name, each type has a column of its own, `name_type`. Spark takes names that
differ in case for one, so such names have columns of their own, too.

A column of timestamps has the time zone of the columns it is made of: UTC (Spark's TIMESTAMP) or none
(TIMESTAMP_NTZ). Embedded, there is but one kind, without a zone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import SchemaError
from muntin.join_query import LEAVES_AT, AnyQuery, JoinQuery
from muntin.query import CHANGE, Call, Query
from muntin.shard.read.reading import answer_type
from muntin.sql.type_name import type_name
from muntin.table_query import TableQuery

WINDOW = ("window_start", "window_end", "complete")
REST = "rest"  # of a controlled job: what the layout has no column for, as a JSON object
Refusal = dict[str, Any]  # `refused`: the reason; and the `statement`, the `table`, or the `event`
_OWN = ("query", *WINDOW, CHANGE, REST)


@dataclass(frozen=True)
class AnswerTable:
    """`places` has, for each query, its columns in order and where the table has them."""

    schema: pa.Schema
    places: dict[str, dict[str, str]]
    is_mixed: bool = False  # events have timestamps of both kinds

    def table(self, answers: Mapping[str, pa.Table]) -> pa.Table:
        """Answers of some queries as rows of the table. Queries with the same columns are put together first,
        so that a thousand of them cost little more than one."""
        alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for name, table in answers.items():
            # those that came later are each on their own
            shape = self.places[name] if self._has_places(name, table.schema) else {"": name}
            alike.setdefault(tuple(shape.items()), []).append(name)
        parts = [self._part(names, [answers[name] for name in names]) for names in alike.values()]
        return pa.concat_tables(parts) if parts else self.schema.empty_table()

    def _part(self, names: list[str], tables: list[pa.Table]) -> pa.Table:
        table = pa.concat_tables(tables)
        of_row = np.repeat(np.arange(len(names)), [each.num_rows for each in tables])
        columns = {"query": pa.array(names).take(pa.array(of_row))}
        for column, place in self._places_of(names[0], table.schema).items():
            columns[place] = table.column(column).cast(self.schema.field(place).type)
        if not self._has_places(names[0], table.schema):
            columns[REST] = _json_of(
                table.drop_columns([name for name in table.column_names if name in columns])
            )
        missing = [field for field in self.schema if field.name not in columns]
        columns |= {field.name: pa.nulls(len(of_row), field.type) for field in missing}
        return pa.Table.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    @property
    def _zone(self) -> str | None:
        zone: str | None = self.schema.field(WINDOW[0]).type.tz
        return zone

    def _has_places(self, name: str, schema: pa.Schema) -> bool:
        """Whether the places of a query are those of answers under its name: a statement may have put another query in
        its place."""
        places = self.places.get(name)
        return places is not None and list(places) == schema.names and all(
            _stored(field.type, None) == _stored(self.schema.field(places[field.name]).type, None) for field in schema
        )  # fmt: skip

    def _places_of(self, name: str, schema: pa.Schema) -> dict[str, str]:
        """Where a query has its columns; one that came later, where there are columns of the same name and
        type. Of its timestamps nobody knows the kind if there are two."""
        if self._has_places(name, schema):
            return self.places[name]
        kinds = {field.name: field.type for field in self.schema if field.name not in ("query", REST)}
        zone = self._zone
        return {
            field.name: field.name
            for field in schema
            if kinds.get(field.name) == _stored(field.type, zone)
            and (field.name in WINDOW or not (self.is_mixed and _has_instants(field.type)))
        }

    def refusals(self, refusals: Sequence[Refusal]) -> pa.Table:
        """A row for each, which says what was not carried out or taken in, and why."""
        rows = [
            {REST: json.dumps(each, ensure_ascii=False, default=str), "complete": False} for each in refusals
        ]
        return pa.Table.from_pylist(rows, schema=self.schema)

    def metadata(self) -> str:
        """What `answers_of` needs to know, as a text that a column of Spark's can carry."""
        return json.dumps(self.places)


def table_of(
    queries: Mapping[str, AnyQuery],
    zone: str | None,
    zones: Mapping[str, str | None],
    is_controlled: bool = False,
) -> AnswerTable:
    """One table for some queries; instants are in a time zone, or in none, and so are values of the columns in
    `zones`, where a column of a table, or of a stream of a join, is called `limits.since`. If other queries may come,
    the table has a place for columns that nobody knows yet."""
    named = {name: named_fields(name, query, zone, zones) for name, query in queries.items()}
    kinds: dict[str, dict[pa.DataType, None]] = {}  # by name, the types meant by it
    for fields in named.values():
        for field in fields:
            kinds.setdefault(field.name, {})[field.type] = None
    columns: dict[tuple[str, pa.DataType], str] = {}
    leave = {name for name, query in queries.items() if isinstance(query, JoinQuery) and query.emits_changes}
    own = (*_OWN, LEAVES_AT) if leave else _OWN
    taken = set(own)
    for name, types in kinds.items():
        for kind in types:
            plain = len(types) == 1 and name.casefold() not in own
            column = name if plain else f"{name}_{type_name(kind).lower()}"
            while column.casefold() in taken:
                column += "_"
            taken.add(column.casefold())
            columns[name, kind] = column
    instant = pa.timestamp("us", zone)
    laid = [pa.field("query", pa.string())]
    laid += [pa.field(column, kind) for (_, kind), column in columns.items()]
    laid += [pa.field(name, instant) for name in WINDOW[:2]] + [pa.field("complete", pa.bool_())]
    if is_controlled or any(query.emits_changes for query in queries.values()):
        laid.append(pa.field(CHANGE, pa.string()))
    if leave:
        laid.append(pa.field(LEAVES_AT, instant))
    if is_controlled:
        laid.append(pa.field(REST, pa.string()))
    places = {
        name: {field.name: columns[field.name, field.type] for field in named[name]}
        | {each: each for each in WINDOW}
        | ({CHANGE: CHANGE} if query.emits_changes else {})
        | ({LEAVES_AT: LEAVES_AT} if name in leave else {})
        for name, query in queries.items()
    }
    return AnswerTable(pa.schema(laid), places, len({zone, *zones.values()}) > 1)


def named_fields(
    name: str, query: AnyQuery, zone: str | None, zones: Mapping[str, str | None]
) -> list[pa.Field]:
    """The columns that a query gives names to, with the types that Spark has for them."""
    fields = list(query.answer_schema())[: -len(WINDOW)]
    return [
        pa.field(field.name, _stored(field.type, _zone_of(name, query, number, zone, zones)))
        if _has_instants(field.type)
        else field
        for number, field in enumerate(fields)
    ]


def _zone_of(
    name: str, query: AnyQuery, number: int, zone: str | None, zones: Mapping[str, str | None]
) -> str | None:
    """The zone of a query's timestamps in one of its columns: that of the columns they come from."""
    keys = {key.name: key.expression.columns for key in query.keys}
    if number < len(keys):
        made = keys[query.keys[number].name]
    else:
        calls = _calls(query)
        of_calls = {
            f"${place}": call.argument.columns if call.argument and _has_instants(answer_type(call)) else ()
            for place, call in enumerate(calls)
        }
        read = query.outputs[number - len(keys)].expression.columns
        made = tuple(column for each in read for column in {**of_calls, **keys}.get(each, (each,)))
    if isinstance(query, TableQuery | JoinQuery):
        made = tuple(column for each in made for column in _origins(query).get(each, (each,)))
    found = {zones[column]: column for column in made if column in zones}
    if len(found) > 1:
        raise SchemaError(
            f"query '{name}' makes one value of '{found['UTC']}', a TIMESTAMP, and '{found[None]}', a TIMESTAMP_NTZ: "
            "cast one of them in the DataFrame"
        )
    return next(iter(found), zone)


def _calls(query: AnyQuery) -> tuple[Call, ...]:
    if isinstance(query, JoinQuery):
        return () if query.fold is None else query.fold.calls
    if isinstance(query, TableQuery):
        return query.source.calls
    return query.calls if isinstance(query, Query) else ()


def _origins(query: TableQuery | JoinQuery) -> dict[str, tuple[str, ...]]:
    """Columns of streams and of tables, by the names that a join has for them."""
    if isinstance(query, JoinQuery):
        return {
            f"{side.name}.{column}": (f"{side.stream.name}.{column}",)
            for side in query.sides
            for column in side.stream.schema.names
        }
    found = {key.name: key.expression.columns for key in query.source.keys}
    for side in query.sides:
        found |= {f"{side.name}.{column}": (f"{side.table.name}.{column}",) for column in side.columns}
    return found


def _has_instants(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _has_instants(kind.value_type)
    return (
        any(_has_instants(part.type) for part in kind)
        if pa.types.is_struct(kind)
        else pa.types.is_timestamp(kind)
    )


def _stored(kind: pa.DataType, zone: str | None) -> pa.DataType:
    """The type that Spark has for values of a type."""
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_type, zone))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _stored(part.type, zone)) for part in kind])
    return pa.timestamp("us", zone) if pa.types.is_timestamp(kind) else kind


def _json_of(table: pa.Table) -> pa.Array:
    """Each row as a JSON object; NULL if there is no column."""
    if not table.num_columns:
        return pa.nulls(table.num_rows, pa.string())
    return pa.array(
        [json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist()], pa.string()
    )
