"""An expression over the columns of a batch (or over the parts of an answer), parsed and typed once.

Built by `muntin.sql`; here so that every part of the package can hold one without parsing SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

Columns = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Expression:
    """Two expressions are the same iff their canonical text is, so equal ones are evaluated once."""

    sql: str  # canonical text: names and keywords normalised
    type: pa.DataType
    columns: tuple[str, ...]  # the columns it reads, sorted
    evaluate: Callable[[Columns], pa.Array] = field(compare=False, repr=False)
    tree: exp.Expression = field(compare=False, repr=False)  # for runtimes with their own evaluator

    def __hash__(self) -> int:
        return hash(self.sql)  # hashing the Arrow type each time would cost more than all else

    @property
    def is_column(self) -> bool:
        """Whether it is nothing but a column's name."""
        return isinstance(self.tree, exp.Column)

    def __str__(self) -> str:
        return self.sql
