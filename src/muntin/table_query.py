"""Queries of tables: a SELECT that reads the rows of one, once; and a stream joined with tables, which stands.

State is kept by the stream's side of ON, never by rows of tables. So a `TableQuery` is an ordinary query over the
stream, its `source`, and what is made of its answers and the rows:

    source     GROUP BY the values that ON and GROUP BY read of the stream  ->  a key, `$0`, `$1`, … for each
    sides      the rows of each table that are equal to the key
    where      which of these joined rows count
    keys       which of them make one group; if it `merges`, several keys of the source are in one
    having, outputs

For example, `SELECT p.account, SUM(p.amount), l.daily … JOIN limits AS l ON p.account = l.account … GROUP BY p.account
HAVING SUM(p.amount) > l.daily` has the source `SUM(amount) … GROUP BY account`, and HAVING is `$0 > l.daily`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.expression import Expression
from muntin.query import CHANGE, Key, Output, Query, schema_of_answers
from muntin.stream import Stream
from muntin.table import Table
from muntin.window import Pace


@dataclass(frozen=True)
class RowsWhere:
    """Rows of a table: those for which `condition` is true, all if it is None. If the condition says what each column
    of the primary key equals, `key` are these values: only one row need be looked at."""

    condition: Expression | None = None
    key: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class TableSelect:
    """`SELECT … FROM limits WHERE …`: a row of the answer for each row, or aggregates of them (`fold`)."""

    table: Table
    where: RowsWhere
    outputs: tuple[Output, ...]
    fold: Query | None
    order: tuple[tuple[str, bool], ...] = ()  # columns of the answer, and whether they descend
    limit: int | None = None  # rows of the answer


@dataclass(frozen=True)
class TableSide:
    """One table of a join: `JOIN limits AS l ON p.account = l.account AND l.tier = 'gold'`."""

    name: str  # by which the query calls it
    table: Table
    on: tuple[tuple[int, str], ...]  # a key of the source, by number, and the column that must equal it
    where: Expression | None  # over its columns, by their own names: the rows that take part
    is_optional: bool  # LEFT JOIN: what has no row here stays, with NULL for its columns
    columns: tuple[str, ...]  # that answers read, WHERE and GROUP BY among them

    @property
    def covers_key(self) -> bool:
        """Whether an event joins one row at most, since ON compares the whole primary key."""
        return set(self.table.key) <= {column for _, column in self.on}

    def __str__(self) -> str:
        alias = "" if self.name == self.table.name else f" AS {self.name}"
        return f"{self.table.name}{alias}"


@dataclass(frozen=True)
class RowSpan:
    """`[RANGE s.span UP TO 1 DAY STEP 1 SECOND …]`: each row of a table says how long its window is. The window of the
    source is the longest one."""

    side: int  # whose column it is
    column: str
    most: int  # microseconds
    step: int  # of which lengths are multiples


@dataclass(frozen=True)
class RowThreshold:
    """`HAVING SUM(t.shares) > s.floor`: one call is compared with what a row says, both integers or both floats."""

    call: int
    bound: Expression  # over columns of tables and keys of GROUP BY
    is_above: bool
    is_inclusive: bool


@dataclass(frozen=True)
class TableQuery:
    """Columns of tables are called `l.daily`, those that the source is keyed by as its keys are: `p.account`.

    GROUP BY (`keys`) and `where` are over these. `having` and `outputs` are over the names of GROUP BY's keys, `$0`,
    `$1`, …, and the columns of tables that GROUP BY determines.
    """

    text: str  # as the user wrote it
    source: Query
    sides: tuple[TableSide, ...]
    keys: tuple[Key, ...]
    where: Expression | None
    outputs: tuple[Output, ...]
    having: Expression | None
    span: RowSpan | None = None
    merges: bool = False  # whether keys of the source may share a group
    is_table_first: bool = (
        False  # `FROM t LEFT JOIN stream`: every row of the one table answers, in silence too
    )
    emits_changes: bool = False
    threshold: RowThreshold | None = None  # what HAVING is, if it is nothing else

    @property
    def is_of_rows(self) -> bool:
        """Whether each row of its one table is a rule, with a key of the stream, a threshold and perhaps a window."""
        (side, *others) = self.sides
        key = {f"{side.name}.{name}" for name in side.table.key}
        grouped = [each.expression.columns[0] for each in self.keys if each.expression.is_column]
        return (
            not (others or self.merges or self.is_table_first or side.is_optional)
            and self.where is None
            and self.threshold is not None
            and len(grouped) == len(self.keys) == len(key)
            and set(grouped) == key
        )

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams it reads."""
        return self.source.streams

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables it reads, each once."""
        return tuple(dict.fromkeys(side.table for side in self.sides))

    @property
    def pace(self) -> Pace:
        """Its instants."""
        return self.source.pace

    @property
    def slide(self) -> int:
        """Microseconds between its instants, 0 if it can be looked up at any instant."""
        return self.source.slide

    def answer_schema(self) -> pa.Schema:
        """Columns of its answers: keys, values, then the window and whether it was covered."""
        return schema_of_answers(self.keys, self.outputs)

    def emission_schema(self) -> pa.Schema:
        """Columns of what `advance` gives: with EMIT CHANGES, one more that is 'enter' or 'leave'."""
        schema = self.answer_schema()
        return schema.append(pa.field(CHANGE, pa.string())) if self.emits_changes else schema
