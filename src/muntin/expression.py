"""An expression over the columns of a batch (or over the parts of an answer), parsed and typed once.

Built by `muntin.sql`; here so that every part of the package can hold one without parsing SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.band import Band

Columns = Mapping[str, pa.Array]


@dataclass(frozen=True)
class Expression:
    """Two expressions are the same iff their canonical text is, so equal ones are evaluated once."""

    sql: str  # canonical text: names and keywords normalised
    type: pa.DataType
    columns: tuple[str, ...]  # the columns it reads, sorted
    evaluate: Callable[[Columns], pa.Array] = field(compare=False, repr=False)
    written: exp.Expression | Callable[[], exp.Expression] = field(compare=False, repr=False)  # see `tree`
    band: Band | None = field(default=None, compare=False, repr=False)  # of a predicate that is one

    def __hash__(self) -> int:
        return hash(self.sql)  # hashing the Arrow type each time would cost more than all else

    @property
    def tree(self) -> exp.Expression:
        """For runtimes with an evaluator of their own; made when it is first asked for, if it is not there."""
        return self.written if isinstance(self.written, exp.Expression) else self.written()

    @property
    def is_column(self) -> bool:
        """Whether it is nothing but a column's name."""
        return isinstance(self.written, exp.Column)

    def __str__(self) -> str:
        return self.sql


def both(left: Expression | None, right: Expression | None) -> Expression | None:
    """The predicate that passes what both pass, with the text it has when written as one; None passes all."""
    if left is None or right is None or left.sql == right.sql:
        return left or right
    first, second = left, right

    def evaluate(columns: Columns) -> pa.Array:
        return pc.and_kleene(first.evaluate(columns), second.evaluate(columns))

    sql = " AND ".join(
        f"({each.sql})" if isinstance(each.tree, exp.Or) else each.sql for each in (left, right)
    )
    columns = tuple(sorted({*left.columns, *right.columns}))
    tree = exp.And(this=exp.paren(left.tree), expression=exp.paren(right.tree))
    band = left.band & right.band if left.band and right.band else None
    return Expression(sql, left.type, columns, evaluate, tree, band)
