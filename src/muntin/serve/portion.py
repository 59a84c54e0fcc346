"""A portion: answers that were given out together, as they are numbered, kept on disk and sent.

The id of an answer is the *incarnation* of its query and a number, from 1 on: `7-120` is the 120th row that the query
gave out which was the seventh to be registered. A query that is replaced goes on with both; one that is dropped and
registered again is another incarnation. Ids follow from the log of changes alone: changes that are done again after a
crash give the same answers with the same ids.

A *cursor* is a place among all answers: the record of the log of changes that closed their windows, the portion of what
it gave, and the row. Whoever was cut off goes on behind the last cursor that it saw.

On disk, a thousand queries that answer with the same columns are one Arrow table:

    8, 8, 8 bytes   the place of the portion, two numbers; and when it was given out, by the clock on the wall
    4 bytes         how long the description is
    JSON            the description: the parts, a list for each of their fields, and the bytes of each table
    the tables      in Arrow's stream format
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from muntin.arrow_bytes import stream_bytes
from muntin.described import COUNT, WHOLE, Misshapen, check_shape
from muntin.errors import MuntinError
from muntin.serve.json_text import json_rows, members

# The number of the record that closed windows, and that of the portion of answers that it gave.
PortionPlace = tuple[int, int]
_HEAD = struct.Struct("<QQqI")
_SHAPE = {
    "queries": [str], "incarnations": [WHOLE], "firsts": [WHOLE], "rows": [COUNT], "tables": [COUNT], "bytes": [COUNT],
}  # fmt: skip


class Cursor(NamedTuple):
    """A place among all answers.

    >>> Cursor.read("17.0.3")
    Cursor(record=17, portion=0, row=3)
    """

    record: int
    portion: int
    row: int

    @staticmethod
    def read(text: str) -> Cursor:
        """What `str` wrote."""
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
            raise MuntinError(
                f"'{text[:40]}' is no place among answers: give an id as it came, such as 17.0.3"
            )
        return Cursor(*map(int, parts))

    def __str__(self) -> str:
        return f"{self.record}.{self.portion}.{self.row}"


class Part(NamedTuple):
    """The answers of one query."""

    query: str
    incarnation: int
    first: int  # the number of the first row
    table: pa.Table

    @property
    def rows(self) -> list[str]:
        """JSON of each row."""
        return list(_told(self, iter(members(self.table))))


@dataclass(frozen=True)
class Portion:
    """Answers that were given out together."""

    place: PortionPlace  # the record that closed their windows, and the number of the portion
    at: int  # when, by the clock on the wall, in microseconds
    parts: tuple[Part, ...]

    @cached_property
    def rows(self) -> list[tuple[Cursor, str, str]]:
        """Cursor, query and JSON of each row; made once for all who follow."""
        numbers, tables = _together(self.parts)
        texts = [iter(members(table)) for table in tables]
        found: list[tuple[Cursor, str, str]] = []
        for part, number in zip(self.parts, numbers, strict=True):
            for told in _told(part, texts[number]):
                found.append((Cursor(*self.place, len(found)), part.query, told))
        return found

    @cached_property
    def events(self) -> bytes:
        """All rows as server-sent events; made once for all who follow all queries."""
        return events_of(self.rows)

    def pack(self) -> bytes:
        """As it is kept on disk."""
        numbers, tables = _together(self.parts)
        bodies = list(map(stream_bytes, tables))
        queries, incarnations, firsts, held = zip(*self.parts, strict=True)
        told: dict[str, Any] = {
            "queries": queries, "incarnations": incarnations, "firsts": firsts,
            "rows": [table.num_rows for table in held], "tables": numbers, "bytes": list(map(len, bodies)),
        }  # fmt: skip
        head = json.dumps(told).encode()
        return b"".join((_HEAD.pack(*self.place, self.at, len(head)), head, *bodies))


def unpack(data: bytes, query: str | None = None) -> Portion:
    """What `pack` made, or what one query has of it."""
    record, portion, at, length = _HEAD.unpack_from(data)
    told = json.loads(data[_HEAD.size : _HEAD.size + length])
    check_shape(told, _SHAPE, "the answers")
    if query is not None and query not in told["queries"]:
        return Portion((record, portion), at, ())
    start, tables = _HEAD.size + length, []
    for size in told["bytes"]:
        with pa.ipc.open_stream(pa.py_buffer(data).slice(start, size)) as reader:
            tables.append(reader.read_all())
        start += size
    return Portion((record, portion), at, tuple(_parts(told, tables, query)))


def _parts(told: dict[str, Any], tables: Sequence[pa.Table], query: str | None) -> Iterator[Part]:
    begins = [0] * len(tables)
    fields = (told[name] for name in ("queries", "incarnations", "firsts", "rows", "tables"))
    for name, incarnation, first, rows, number in zip(*fields, strict=True):
        if number >= len(tables) or begins[number] + rows > tables[number].num_rows:
            raise Misshapen("the answers have fewer rows than they say")
        if query is None or name == query:
            yield Part(name, incarnation, first, tables[number].slice(begins[number], rows))
        begins[number] += rows


def place_and_time(data: bytes) -> tuple[PortionPlace, int]:
    """Where a portion stands and when it was given out, without a look at the rest."""
    record, portion, at, _ = _HEAD.unpack_from(data)
    return (record, portion), at


def events_of(rows: Iterable[tuple[Cursor, str, str]]) -> bytes:
    """Rows as server-sent events."""
    return "".join([f"id: {here}\nevent: answer\ndata: {told}\n\n" for here, _, told in rows]).encode()


def _together(parts: Sequence[Part]) -> tuple[list[int], list[pa.Table]]:
    """As few tables as there are schemas, with the rows of parts one behind the other; and which table each is in."""
    known: dict[pa.Schema, int] = {}
    numbers: list[int] = []
    held: list[list[pa.Table]] = []
    last: pa.Schema | None = None
    for part in parts:
        schema = part.table.schema
        if last is None or not schema.equals(
            last, check_metadata=True
        ):  # it mostly is that of the part before
            last, number = schema, known.setdefault(schema, len(held))
            if number == len(held):
                held.append([])
        numbers.append(number)
        held[number].append(part.table)
    return numbers, [pa.concat_tables(some).combine_chunks() for some in held]


def _told(part: Part, texts: Iterator[str]) -> Iterator[str]:
    """JSON of each row: query, id, and its members, of which `texts` has those of others behind them."""
    names = part.table.column_names
    if "query" in names or "id" in names:  # a column has the last word
        for number, row in enumerate(json_rows(part.table), part.first):
            next(texts)
            yield json.dumps({"query": part.query, "id": f"{part.incarnation}-{number}", **row})
        return
    begin = f'{{"query": {json.dumps(part.query)}, "id": "{part.incarnation}-'
    for number, told in enumerate(islice(texts, part.table.num_rows), part.first):
        yield f'{begin}{number}", {told}}}'
