"""A query: one standing question, parsed, checked and ready to plan.

A query is a list of aggregate calls, each over a window, and expressions over their answers. The
calls are what gets shared; the expressions (`outputs`, `having`) run on the few rows of an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from muntin.expression import Expression
from muntin.stream import Stream
from muntin.window import Pace, Window

CHANGE = "change"  # the column that says whether a row of EMIT CHANGES enters or leaves
UNNAMED = "\0"  # in the place of a query's name: no query's own


class Input(NamedTuple):
    """What an aggregate reads: a value of each event (None for COUNT(*)) of those that pass a filter.

    Calls with equal inputs share partials, whatever their function and window.
    """

    argument: Expression | None
    filter: Expression | None = None

    def __str__(self) -> str:
        kept = f" FILTER (WHERE {self.filter})" if self.filter else ""
        return f"{self.argument or '*'}{kept}"


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate over one window: `SUM(shares) FILTER (WHERE side = 'ask') OVER [RANGE 2 MINUTES]`.

    `argument` is None for COUNT(*). `window` is the call's own OVER window or else the query's.
    """

    function: str  # a name in muntin.aggregates.AGGREGATES
    argument: Expression | None
    window: Window
    filter: Expression | None = None
    parameters: tuple[float | str, ...] = ()  # constants; of APPROX_COUNT(x = v, eps) the first is v

    def __str__(self) -> str:
        inside = ", ".join([str(self.argument or "*"), *map(str, self.parameters)])
        kept = f" FILTER (WHERE {self.filter})" if self.filter else ""
        return f"{self.function.upper()}({inside}){kept} OVER {self.window}"


@dataclass(frozen=True)
class Key:
    """One GROUP BY expression and the name of its column in the answers."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Output:
    """One SELECT item that is not a key: an expression over key names and over `$0`, `$1`, …,
    the answers of the query's calls in order."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Top:
    """`ORDER BY a DESC, b LIMIT 10`: at an instant, the first keys that pass HAVING. NULL comes last, and keys with
    the same values in the order of the keys themselves."""

    by: tuple[tuple[Expression, bool], ...]  # over the answers, as an output is; and whether it descends
    limit: int


@dataclass(frozen=True)
class Query:
    """WHERE filters events before they enter a window, FILTER those inside it; the two differ
    for ROWS windows only (docs/decisions)."""

    text: str  # as the user wrote it
    stream: Stream
    keys: tuple[Key, ...]
    where: Expression | None
    window: Window | None  # of FROM; None when every call has its own
    calls: tuple[Call, ...]
    outputs: tuple[Output, ...]
    having: Expression | None = None
    hint: str | None = None  # a synopsis asked for by name
    tolerance: float | None = None  # of a HAVING that may be missed by this factor; None: exact
    emits_changes: bool = False  # push: who enters and who leaves, instead of all who are in
    is_joined: bool = False  # with tables (`table_query.py`), which answers for it: all its keys are read
    top: Top | None = None  # which of the keys are in, if not all
    named: str | None = None  # the selection that the text names, if it names one (`derived.py`)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams it reads."""
        return (self.stream,)

    @cached_property
    def key_expressions(self) -> tuple[Expression, ...]:
        """What its keys are, whatever their names: queries that agree on it share dictionaries and state."""
        return tuple(key.expression for key in self.keys)

    @cached_property
    def pace(self) -> Pace:
        """Its instants: those of the window after FROM, or else of the window that moves most often."""
        if self.window is not None:
            return self.window.pace
        return min((call.window.pace for call in self.calls if call.window.pace.every), default=Pace())

    @property
    def slide(self) -> int:
        """Microseconds between its instants, 0 if it can be looked up at any instant."""
        return self.pace.every

    @property
    def moves_by_events(self) -> bool:
        """Whether its windows close by events, each key's on its own, instead of at instants."""
        return self.window is not None and self.window.closes_by_events and not self.emits_changes

    def answer_schema(self) -> pa.Schema:
        """Columns of its answers: keys, values, then the window and whether it was covered."""
        return schema_of_answers(self.keys, self.outputs)

    def emission_schema(self) -> pa.Schema:
        """Columns of what `advance` gives: with EMIT CHANGES, one more that is 'enter' or 'leave'."""
        schema = self.answer_schema()
        return schema.append(pa.field(CHANGE, pa.string())) if self.emits_changes else schema


def schema_of_answers(keys: Sequence[Key], outputs: Sequence[Output]) -> pa.Schema:
    """Columns that answers have: keys, values, then the bounds of the window and whether it was covered."""
    instant = pa.timestamp("us")
    return pa.schema(
        [pa.field(key.name, key.expression.type) for key in keys]
        + [pa.field(output.name, output.expression.type) for output in outputs]
        + [("window_start", instant), ("window_end", instant), ("complete", pa.bool_())]
    )
