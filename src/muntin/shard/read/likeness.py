"""Likeness: what queries have in common that differ in nothing but numbers and windows, and what each has of its own.

`HAVING SUM(n) > 0.2 * COUNT(*)` and `HAVING SUM(n) > 0.7 * COUNT(*)` are one condition over two answers and a
*constant*: `$0 > "?0" * $1`. Where a number must stay a number, as the digits of ROUND(x, 2), it stays.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from muntin.aggregates.approximate import ItemAggregate
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.fixed_point import is_decimal
from muntin.shard.read.reading import Reading
from muntin.shard.state import State
from muntin.sql import parse_expression
from muntin.structure.runs import RunSynopsis

# texts and quoted names are passed over; `$0` is no number
_NUMBER = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w.$])(\d{1,18}(?:\.\d{1,17})?)(?![\w.])""")

Constant = int | float
_Types = tuple[tuple[str, pa.DataType], ...]  # of the columns that an expression reads


class Opened(NamedTuple):
    """An expression with constants as columns `?0`, `?1`, …; it is the same for all that have the same `shape`."""

    shape: Hashable
    expression: Expression
    constants: tuple[Constant, ...]


def opened(expression: Expression, types: _Types, first: int = 0) -> Opened:
    """An expression with its constants taken out, numbered from `first` on.

    >>> types = (("$0", pa.int64()), ("$1", pa.int64()))
    >>> found = opened(parse_expression("$0 > 0.25 * $1 AND ROUND($1, 2) > 7", dict(types)), types)
    >>> found.expression.sql, found.constants
    ('$0 > "?0" * $1 AND ROUND($1, 2) > "?1"', (0.25, 7))
    """
    pieces, numbers, end = list[str](), list[str](), 0
    for found in _NUMBER.finditer(expression.sql):
        if found[1] is not None:
            pieces.append(expression.sql[end : found.start()])
            numbers.append(found[1])
            end = found.end()
    if not numbers:
        return Opened(expression.sql, expression, ())
    pieces.append(expression.sql[end:])
    constants = tuple(float(each) if "." in each else int(each) for each in numbers)
    kinds = tuple(map(type, constants))
    free = _free(tuple(pieces), kinds, types, expression.type, first)
    kept = tuple(None if number in free else text for number, text in enumerate(numbers))
    made = _open(tuple(pieces), kinds, kept, types, expression.type, first)
    if made is None:
        return Opened(expression.sql, expression, ())
    return Opened((tuple(pieces), kinds, kept), made, tuple(constants[number] for number in free))


@lru_cache(maxsize=1024)
def _free(
    pieces: tuple[str, ...], kinds: tuple[type, ...], types: _Types, kind: pa.DataType, first: int
) -> tuple[int, ...]:
    """The numbers that may be columns: that depends on where they stand, not on which numbers they are."""
    every, probes = tuple(range(len(kinds))), ["1" if each is int else "1.5" for each in kinds]
    if _open(pieces, kinds, (None,) * len(kinds), types, kind, first) is not None:
        return every
    alone = [tuple(None if each == one else text for each, text in enumerate(probes)) for one in every]
    return tuple(one for one in every if _open(pieces, kinds, alone[one], types, kind, first) is not None)


@lru_cache(maxsize=1024)
def _open(
    pieces: tuple[str, ...], kinds: tuple[type, ...], kept: tuple[str | None, ...], types: _Types,
    kind: pa.DataType, first: int,
) -> Expression | None:  # fmt: skip
    """The expression with columns for the numbers that are not kept; None if it is not the same with them."""
    columns, text, number = dict(types), pieces[0], first
    for piece, each, written in zip(pieces[1:], kinds, kept, strict=True):
        if written is None:
            columns[f"?{number}"] = pa.int64() if each is int else pa.float64()
            written, number = f'"?{number}"', number + 1
        text += written + piece
    try:
        made = parse_expression(text, columns)
    except MuntinError:
        return None
    return made if made.type == kind and made.sql == text else None


class Likeness(NamedTuple):
    """Queries with the same number `same` differ in their windows and constants alone; or in their calls, too, if each
    is a row."""

    same: int
    having: Expression | None
    outputs: tuple[int | Expression, ...]  # numbers of calls, or expressions
    constants: tuple[Constant, ...]


def likeness_of(state: State, reading: Reading) -> Likeness | None:
    """Of a query that may be answered together with its like; None of others. Found once."""
    if reading.likeness is False:
        reading.likeness = _likeness(state, reading)
    found: Likeness | None = reading.likeness
    return found


def _likeness(state: State, reading: Reading) -> Likeness | None:
    if not _may_be_like_others(state, reading):
        return None
    query = reading.query
    if reading.is_row and not query.emits_changes:
        places = (tuple([each.number for each in reading.windows]), reading.presence[0].window)
        row = ("row", places, query.window is None, tuple(reading.schema))
        return Likeness(state.prepared.number(row), None, reading.outputs, ())
    types = [(f"${number}", call.type) for number, call in enumerate(reading.calls)]
    types += [(key.name, key.expression.type) for key in query.keys]
    shapes, constants = list[Hashable](), list[Constant]()

    def take(expression: Expression) -> Expression:
        read = tuple(each for each in types if each[0] in expression.columns)
        shape, made, more = opened(expression, read, len(constants))
        shapes.append(shape)
        constants.extend(more)
        return made

    having = None if query.having is None else take(query.having)
    outputs = tuple(each if isinstance(each, int) else take(each) for each in reading.outputs)
    what = (
        query.key_expressions, tuple((each.number, each.needs) for each in reading.windows), reading.presence,
        tuple((call.aggregate.name, call.parts, call.text) for call in reading.calls), tuple(shapes),
        tuple(each if isinstance(each, int) else None for each in outputs), having is None, reading.compared,
        tuple(reading.schema.names), query.window is None, query.emits_changes,
        None if query.top is None else query.top.by,
    )  # fmt: skip
    return Likeness(state.prepared.number(what), having, outputs, tuple(constants))


def _kinds_read(reading: Reading) -> Iterator[pa.DataType]:
    """The types of its keys, and of what its calls are of."""
    yield from (key.expression.type for key in reading.query.keys)
    yield from (call.argument.type for call in reading.query.calls if call.argument is not None)


def _may_be_like_others(state: State, reading: Reading) -> bool:
    """Whether a query looks at windows of time alone, and at all keys of them."""
    if reading.laned is not None or reading.has_laned_calls or reading.query.tolerance is not None:
        return False
    if reading.query.top is not None and (reading.query.emits_changes or len(reading.windows) > 1):
        return False
    if reading.range is not None and reading.range.is_forced:
        return False
    if any(is_decimal(kind) for kind in _kinds_read(reading)):  # a constant beside decimals is no DOUBLE
        return False
    if any(key.name.startswith("?") for key in reading.query.keys):  # as constants are called
        return False
    synopses = [state.synopses[each.number] for each in reading.windows]
    return (
        all(each.window.is_time for each in reading.windows)
        and not any(each.is_sketched for each in synopses)
        and (reading.keys is not None or all(isinstance(each, RunSynopsis) for each in synopses))
        and not any(isinstance(call.aggregate, ItemAggregate) for call in reading.calls)
    )
