"""Rows left out: those of an answer for which a value does not exist, so that no other row goes with them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools
from muntin.errors import NoValue
from muntin.expression import Expression
from muntin.query import Call

if TYPE_CHECKING:
    from muntin.shard.read.reading import Reading


class LeftOut(NamedTuple):
    """How many rows are left out, and why the first of them is."""

    rows: int = 0
    reason: str = ""

    def also(self, other: LeftOut) -> LeftOut:
        """Both of them."""
        return LeftOut(self.rows + other.rows, self.reason or other.reason)


NONE = LeftOut()


class Counts(Protocol):
    """Whoever counts the rows of a query that were left out."""

    overflows: int


class Values(NamedTuple):
    """An expression for some rows: `lost` are the rows for which it has no value, None if it has one for all."""

    column: pa.Array
    lost: Bools | None = None
    reason: str = ""


def evaluate_each(expression: Expression, columns: Mapping[str, pa.Array]) -> Values:
    """An expression for rows of which some may have no value; O(rows), and O(log rows) evaluations for each
    that has none."""
    try:
        return Values(expression.evaluate(columns))
    except (NoValue, pa.ArrowException) as error:
        count = len(next(iter(columns.values())))
        if count == 1:
            return Values(pa.nulls(1, expression.type), np.ones(1, np.bool_), str(error))
    middle = count // 2
    first, second = (
        evaluate_each(expression, {name: column[lo:hi] for name, column in columns.items()})
        for lo, hi in ((0, middle), (middle, count))
    )
    lost = [
        np.zeros(len(each.column), np.bool_) if each.lost is None else each.lost for each in (first, second)
    ]
    return Values(
        pa.concat_arrays([first.column, second.column]), np.concatenate(lost), first.reason or second.reason
    )


def either(one: Bools | None, other: Bools | None) -> Bools | None:
    """Rows that are in one of two sets, None being the empty one."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def no_sum(call: Call) -> str:
    """Why a SUM has no value, or what adds up weights."""
    if call.function != "sum":
        return f"the weights of {call} do not fit 62 bits; divide them by 1000"
    return f"SUM({call.argument}) does not fit 64 bits; use SUM(CAST({call.argument} AS DOUBLE))"


def lost_of(
    reading: Reading, expression: Expression, lost: Sequence[Bools | None]
) -> tuple[Bools | None, str]:
    """The rows for which one of the calls that an expression reads has no value, and why."""
    found, reason = None, ""
    if any(each is not None for each in lost):  # seldom
        for number in (int(name[1:]) for name in expression.columns if name[0] == "$"):
            if lost[number] is not None:
                found, reason = either(found, lost[number]), reason or no_sum(reading.query.calls[number])
    return found, reason


def tell(name: str, counts: Counts, left_out: LeftOut, stacklevel: int) -> None:
    """Count the rows of a query that a call has left out, and warn of them once."""
    if left_out.rows:
        counts.overflows += left_out.rows
        rows = f"{left_out.rows:,} {'row' if left_out.rows == 1 else 'rows'}"
        warnings.warn(
            f"query '{name}' leaves out {rows}, for which there is no value: {left_out.reason}",
            RuntimeWarning,
            stacklevel=stacklevel + 1,
        )
