"""Cases: one text file says what happens to a stream and what must be answered (see cases/README.md).

`read_case` and `write_case` are inverse to each other, so that a random case that failed can be
printed, shrunk and kept as a file.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from muntin.stream import Stream
from reference import EPOCH, declared, microseconds


@dataclass(frozen=True)
class Table:
    """The rows a step expects, as text: only the columns it names are compared, rows in this order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Register:
    name: str
    sql: str


@dataclass(frozen=True)
class Derive:
    """CREATE STREAM … AS SELECT, or … FROM QUERY."""

    sql: str


@dataclass(frozen=True)
class Push:
    stream: str
    batch: dict[str, list[Any]]  # the time column in microseconds

    def __len__(self) -> int:
        return len(next(iter(self.batch.values())))


@dataclass(frozen=True)
class Lookup:
    query: str
    keys: tuple[Any, ...] | None = None
    at: int | None = None
    expected: Table | None = None


@dataclass(frozen=True)
class Advance:
    until: int | None = None
    expected: dict[str, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    name: str


@dataclass(frozen=True)
class Checkpoint:
    """Write a checkpoint and go on from it."""


@dataclass(frozen=True)
class Late:
    """How many events of the stream have been late by now."""

    stream: str
    expected: int


Step = Register | Derive | Push | Lookup | Advance | Drop | Checkpoint | Late


@dataclass(frozen=True)
class Case:
    title: str
    streams: tuple[str, ...]  # CREATE STREAM statements
    steps: tuple[Step, ...]

    def stream(self, name: str) -> Stream:
        return next(stream for sql in self.streams if (stream := declared(sql)).name == name)


class CaseError(ValueError):
    """A case file that cannot be read."""


def read_case(text: str) -> Case:
    """Parse a case file."""
    title = " ".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
    streams: list[str] = []
    steps: list[Step] = []
    for number, head, block in _blocks(text):
        try:
            _read_step(head, block, streams, steps)
        except (CaseError, ValueError, KeyError, StopIteration) as error:
            raise CaseError(f"line {number}: {head}: {error!r}") from error
    return Case(title, tuple(streams), tuple(steps))


def write_case(case: Case) -> str:
    """The case as the text `read_case` reads."""
    lines = [f"# {case.title}", ""]
    for sql in case.streams:
        lines += ["stream", f"  {sql}", ""]
    for step in case.steps:
        lines += [*_written(step, case), ""]
    return "\n".join(lines).rstrip() + "\n"


def read_cell(text: str, kind: pa.DataType) -> Any:
    """A cell of a table, read as the column's type.

    >>> read_cell("8/3", pa.float64()), read_cell("NULL", pa.int64()), read_cell("true", pa.bool_())
    (2.6666666666666665, None, True)
    """
    if text == "NULL":
        return None
    if pa.types.is_timestamp(kind):
        return EPOCH + timedelta(microseconds=read_time(text))
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}[text]
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_floating(kind):
        return float(Fraction(text)) if re.fullmatch(r"-?\d+/\d+", text) else float(text)
    return ast.literal_eval(text) if text.startswith("'") else text


def read_time(text: str) -> int:
    """Microseconds of seconds (`13`, `0.000001`), of a time of the first day (`9:30:15`), or of a date.

    >>> read_time("1.5"), read_time("0:01:30"), read_time("2013-01-01T00:00:00")
    (1500000, 90000000, 1356998400000000)
    """
    if "T" in text:
        return microseconds(datetime.fromisoformat(text))
    seconds = Decimal(0)
    for part in text.split(":"):
        seconds = seconds * 60 + Decimal(part)
    if text.count(":") == 1:  # hours and minutes
        seconds *= 60
    return int(seconds * 1_000_000)


def _blocks(text: str) -> list[tuple[int, str, list[str]]]:
    """(line number, head, indented lines) of each step; comments and blank lines dropped."""
    found: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.startswith(" "):
            if not found:
                raise CaseError(f"line {number}: an indented line belongs to a step above it")
            found[-1][2].append(line.strip())
        else:
            found.append((number, line.strip(), []))
    return found


def _read_step(head: str, block: list[str], streams: list[str], steps: list[Step]) -> None:
    word, _, rest = head.partition(" ")
    if word == "stream":
        streams.append(" ".join(block))
    elif word == "query":
        steps.append(Register(rest, " ".join(block)))
    elif word == "derive":
        steps.append(Derive(" ".join(block)))
    elif word == "push":
        steps.append(Push(rest, _read_batch(block, declared(_statement(rest, streams)))))
    elif word == "lookup":
        match = _must(re.fullmatch(r"(\w+)(?: key (.+?))?(?: at (\S+))?", rest), head)
        name, keys, at = match.groups()
        steps.append(
            Lookup(
                name,
                tuple(ast.literal_eval(f"[{keys.replace('NULL', 'None')}]")) if keys else None,
                read_time(at) if at else None,
                _read_table(block) if block else None,
            )
        )
    elif word == "advance":
        until = _must(re.fullmatch(r"(?:until (\S+))?", rest), head).group(1)
        steps.append(Advance(read_time(until) if until else None))
    elif word == "emitted":
        advance = steps[-1] if steps else None
        if not isinstance(advance, Advance):
            raise CaseError("must follow an advance")
        steps[-1] = Advance(advance.until, {**advance.expected, rest: _read_table(block)})
    elif word == "drop":
        steps.append(Drop(rest))
    elif word == "checkpoint":
        steps.append(Checkpoint())
    elif word == "late":
        name, many = rest.split()
        steps.append(Late(name, int(many)))
    else:
        raise CaseError(f"no step begins with '{word}'")


def _must(match: re.Match[str] | None, head: str) -> re.Match[str]:
    if match is None:
        raise CaseError(f"cannot read: {head}")
    return match


def _statement(name: str, streams: Sequence[str]) -> str:
    return next(sql for sql in streams if declared(sql).name == name)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|"))


def _read_table(block: list[str]) -> Table:
    if block == ["nothing"]:
        return Table((), ())
    columns, *rows = map(_cells, block)
    for row in rows:
        if len(row) != len(columns):
            raise CaseError(f"a row of {len(row)} cells under {len(columns)} columns: {' | '.join(row)}")
    return Table(columns, tuple(rows))


def _read_batch(block: list[str], stream: Stream) -> dict[str, list[Any]]:
    table = _read_table(block)
    batch: dict[str, list[Any]] = {}
    for place, name in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        kind = stream.schema.field(name).type
        if name == stream.time and pa.types.is_timestamp(kind):
            batch[name] = [read_time(cell) for cell in cells]
        else:
            batch[name] = [read_cell(cell, kind) for cell in cells]
    return batch


def _written(step: Step, case: Case) -> list[str]:
    match step:
        case Register(name, sql):
            return [f"query {name}", f"  {sql}"]
        case Derive(sql):
            return ["derive", f"  {sql}"]
        case Push(name, batch):
            return [f"push {name}", *_written_batch(batch, case.stream(name))]
        case Lookup(query, keys, at, expected):
            shown = ", ".join(repr(key).replace("None", "NULL") for key in keys) if keys is not None else ""
            head = f"lookup {query}{f' key {shown}' if shown else ''}{_written_time(' at', at)}"
            return [head, *(_written_table(expected) if expected else [])]
        case Advance(until, tables):
            lines = [f"advance{_written_time(' until', until)}"]
            for name, table in tables.items():
                lines += [f"emitted {name}", *_written_table(table)]
            return lines
        case Drop(name):
            return [f"drop {name}"]
        case Checkpoint():
            return ["checkpoint"]
        case Late(stream, many):
            return [f"late {stream} {many}"]


def _written_time(word: str, instant: int | None) -> str:
    return "" if instant is None else f"{word} {seconds(instant)}"


def seconds(instant: int) -> str:
    """Microseconds as seconds, without an exponent or needless zeros."""
    return f"{(Decimal(instant) / 1_000_000).normalize():f}"


def _written_table(table: Table) -> list[str]:
    return _aligned([table.columns, *table.rows]) if table.columns else ["  nothing"]


def _written_batch(batch: dict[str, list[Any]], stream: Stream) -> list[str]:
    columns = []
    for name, values in batch.items():
        kind = stream.schema.field(name).type
        if name == stream.time and pa.types.is_timestamp(kind):
            columns.append([name, *map(seconds, values)])
        else:
            columns.append([name, *map(_written_cell, values)])
    return _aligned(list(zip(*columns, strict=True)))


def _written_cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return repr(value)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  " + " | ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
