"""An expression over the columns of a batch (or over the parts of an answer), parsed and typed once.

Built by `muntin.sql`; here so that every part of the package can hold one without parsing SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.band import Band

if TYPE_CHECKING:
    from muntin.condition import Condition

Columns = Mapping[str, pa.Array]


def not_written() -> exp.Expression:
    """In place of the tree of an expression that has none."""
    raise AssertionError("this is for muntin's own shards")


@dataclass(frozen=True, eq=False)
class Expression:
    """Two expressions are the same iff their canonical text is, so equal ones are evaluated once."""

    sql: str  # canonical text: names and keywords normalised
    type: pa.DataType
    columns: tuple[str, ...]  # the columns it reads, sorted
    evaluate: Callable[[Columns], pa.Array] = field(repr=False)
    written: exp.Expression | Callable[[], exp.Expression] = field(repr=False)  # see `tree`
    band: Band | None = field(default=None, repr=False)  # of a predicate that is one
    understand: Callable[[], Condition] | None = field(default=None, repr=False)  # see `condition`

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Expression)
            and self.sql == other.sql
            and self.type == other.type
            and self.columns == other.columns
        )

    def __hash__(self) -> int:
        return hash(self.sql)  # hashing the Arrow type each time would cost more than all else

    @property
    def tree(self) -> exp.Expression:
        """For runtimes with an evaluator of their own; made when it is first asked for, if it is not there."""
        return self.written if isinstance(self.written, exp.Expression) else self.written()

    @cached_property
    def condition(self) -> Condition:
        """Of a predicate: where it is TRUE, in canonical form; found when it is first asked for."""
        if self.understand is None:
            raise TypeError(f"{self.sql} is no predicate")
        condition = self.understand()
        self.__dict__.pop("understand", None)  # what it holds is not needed any more
        return condition

    @property
    def is_written(self) -> bool:
        """Whether there is a tree: what only muntin's own shards evaluate has none."""
        return self.written is not not_written

    @property
    def is_column(self) -> bool:
        """Whether it is nothing but a column's name."""
        return isinstance(self.written, exp.Column)

    def __str__(self) -> str:
        return self.sql


class Deferred(Expression):
    """An expression whose text and type are known; the rest is made when somebody asks for it.

    Of ten thousand standing queries only some are looked up in the next second.
    """

    def __init__(
        self, sql: str, type: pa.DataType, columns: tuple[str, ...], make: Callable[[], Expression]
    ):  # what is not set here is not there: see `_made`
        self.__dict__.update(sql=sql, type=type, columns=columns, make=make)

    def __repr__(self) -> str:
        return super().__repr__().replace("Deferred", "Expression", 1)  # to which it is equal

    @cached_property
    def _made(self) -> Expression:
        made: Expression = self.__dict__["make"]()
        return made

    @property
    def evaluate(self) -> Callable[[Columns], pa.Array]:
        return self._made.evaluate

    @property
    def written(self) -> exp.Expression | Callable[[], exp.Expression]:
        return self._made.written

    @property
    def band(self) -> Band | None:
        return self._made.band

    @property
    def condition(self) -> Condition:
        return self._made.condition


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
    return Expression(
        sql, left.type, columns, evaluate, tree, band, lambda: first.condition & second.condition
    )
