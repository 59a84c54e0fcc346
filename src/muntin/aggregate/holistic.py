"""QUANTILE and COUNT(DISTINCT): no fixed-size partial answers them, they need the values.

Their one component, `values`, is the sorted values of each slot laid end to end, with the offset
of each slot: slot i holds `value[offset[i]:offset[i + 1]]`, ascending.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Array, Lowered, Partials, is_number


class Quantile(Aggregate):
    """The value of rank `ceil(phi * n)` among the n values of the window, as PERCENTILE_DISC.

    `phi` is read as the decimal it was written as: 0.29 of 100 values is rank 29, though
    `0.29 * 100` is 28.999… in binary. NaN is left out like NULL.
    """

    name = "quantile"
    components = ("values",)
    parameters = ("phi",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not is_number(argument):
            raise TypeError("takes a number")
        return argument

    def check_parameters(self, parameters: tuple[float, ...]) -> None:
        if not 0 < parameters[0] <= 1:
            raise ValueError("phi must lie in (0, 1]")

    def lower(self, partials: Partials, parameters: tuple[float, ...]) -> Lowered:
        value, offset = partials["values"]
        if value.dtype == np.float64:
            count = _finite_counts(value, offset)
        else:
            count = np.diff(offset)
        phi = Fraction(str(parameters[0]))
        # ceil(phi * n) in integers; phi has at most 17 digits, so the product fits Python's ints
        # for any n but not int64's: reduce by object arithmetic only when it must
        if phi.numerator * int(count.max(initial=0)) < 2**62:
            rank = -(-count * phi.numerator // phi.denominator)
        else:
            rank = np.array([-(-int(n) * phi.numerator // phi.denominator) for n in count], np.int64)
        valid = count > 0
        at = np.where(valid, offset[:-1] + np.maximum(rank, 1) - 1, 0)
        picked = value[at] if len(value) else np.zeros(len(count), value.dtype)
        return Lowered(picked, valid)


class CountDistinct(Aggregate):
    """How many different values the window holds; 0 if none. All NaN are one value."""

    name = "count_distinct"
    components = ("values",)

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None:
            raise TypeError("takes a column or expression")
        return pa.int64()

    def lower(self, partials: Partials, parameters: tuple[float, ...]) -> Lowered:
        value, offset = partials["values"]
        starts = np.ones(len(value) + 1, np.int64)  # 1 where a value differs from the one before
        if len(value):
            same = value[1:] == value[:-1]
            if value.dtype == np.float64:
                same |= np.isnan(value[1:]) & np.isnan(value[:-1])
            starts[1:-1] = ~same
        firsts = offset[:-1][offset[:-1] < offset[1:]]
        starts[firsts] = 1
        running = np.concatenate([[0], np.cumsum(starts[:-1])])
        count = running[offset[1:]] - running[offset[:-1]]
        return Lowered(count, np.ones(len(count), np.bool_))


def _finite_counts(value: Array, offset: Array) -> Array:
    """Values per slot without the NaN, which sort last."""
    nans = np.concatenate([[0], np.cumsum(np.isnan(value))])
    return np.asarray(np.diff(offset) - (nans[offset[1:]] - nans[offset[:-1]]))
