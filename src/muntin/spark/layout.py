"""The layout of the answers: one table for all queries, and how each query's columns are found in it.

    query | symbol | volume | window_start | window_end | complete

A column for each name that some query gives to a key or a value, NULL for queries without it. Where two
queries mean different types by one name, each type has a column of its own, `name_type`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from muntin.query import CHANGE, Query
from muntin.sql.type_name import type_name

WINDOW = ("window_start", "window_end", "complete")
_OWN = ("query", *WINDOW, CHANGE)


@dataclass(frozen=True)
class Layout:
    """`places` has, for each query, its columns in order and where the table has them."""

    schema: pa.Schema
    places: dict[str, dict[str, str]]

    def table(self, answers: Mapping[str, pa.Table]) -> pa.Table:
        """Answers of some queries as rows of the table; O(rows * columns)."""
        return pa.concat_tables([self._one(name, table) for name, table in answers.items()])

    def _one(self, name: str, table: pa.Table) -> pa.Table:
        rows = table.num_rows
        place_of = {place: column for column, place in self.places[name].items()}
        columns = [pa.repeat(pa.scalar(name), rows)]
        for field in list(self.schema)[1:]:
            column = place_of.get(field.name)
            if column is None:
                columns.append(pa.nulls(rows, field.type))
            else:
                found = table.column(column)
                columns.append(found if found.type == field.type else found.cast(field.type))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def metadata(self) -> str:
        """What `answers_of` needs to know, as a text that a column of Spark's can carry."""
        return json.dumps(self.places)


def lay_out(queries: Mapping[str, Query], zone: str | None) -> Layout:
    """One table for some queries; instants are in a time zone, or in none."""
    kinds: dict[str, dict[pa.DataType, None]] = {}  # by name, the types meant by it
    for query in queries.values():
        for field in _named(query):
            kinds.setdefault(field.name, {})[_stored(field.type, zone)] = None
    columns: dict[tuple[str, pa.DataType], str] = {}
    taken = set(_OWN)
    for name, types in kinds.items():
        for kind in types:
            plain = len(types) == 1 and name not in _OWN
            column = name if plain else f"{name}_{type_name(kind).lower()}"
            while column in taken:
                column += "_"
            taken.add(column)
            columns[name, kind] = column
    instant = pa.timestamp("us", zone)
    fields = [pa.field("query", pa.string())]
    fields += [pa.field(column, kind) for (_, kind), column in columns.items()]
    fields += [pa.field(name, instant) for name in WINDOW[:2]] + [pa.field("complete", pa.bool_())]
    if any(query.emits_changes for query in queries.values()):
        fields.append(pa.field(CHANGE, pa.string()))
    places = {
        name: {field.name: columns[field.name, _stored(field.type, zone)] for field in _named(query)}
        | {each: each for each in WINDOW}
        | ({CHANGE: CHANGE} if query.emits_changes else {})
        for name, query in queries.items()
    }
    return Layout(pa.schema(fields), places)


def _named(query: Query) -> list[pa.Field]:
    """The columns that a query gives names to."""
    return list(query.answer_schema())[: -len(WINDOW)]


def _stored(kind: pa.DataType, zone: str | None) -> pa.DataType:
    """The type that Spark has for values of a type."""
    return pa.timestamp("us", zone) if pa.types.is_timestamp(kind) else kind
