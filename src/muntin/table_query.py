"""Queries of tables: a SELECT that reads the rows of one, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.expression import Expression
from muntin.query import Output, Query
from muntin.table import Table


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
