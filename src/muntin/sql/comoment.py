"""The comoment of two values: the sum of (x - mean of x) * (y - mean of y), from sums of x, y and x * y.

Where means are large the sums nearly cancel, so they must be known to more digits than a DOUBLE has. Sums are kept in
two parts (`component/sum.py`); so is each product: as it is rounded, and what the rounding has lost (Dekker 1971). What
is subtracted in the end is known to some 30 digits, whatever the scales of x and y.

The names of these functions begin with `$`, so that no text can call them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.sql.arithmetic import call_text, numbers
from muntin.sql.function_nodes import Clipped, Comoment, Paired, ProductRest
from muntin.sql.term import ATOM, Build, Builder, Datum, Operation, Term, apply

Reals = npt.NDArray[np.float64]
_SPLIT = 2.0**27 + 1  # takes the upper half of the digits


def _paired(value: Datum, other: Datum) -> Datum:
    return pc.if_else(pc.is_valid(other), value, pa.scalar(None, value.type))


def _product_rest(left: Datum, right: Datum) -> Datum:
    return _each(_lost, left, right)


def _comoment(count: Datum, *sums: Datum) -> Datum:
    """Of sums in two parts each: x, y, the products, what these have lost."""
    return _each(_combined, count, *sums)


def _clipped(value: Datum) -> Datum:
    return _each(lambda number: np.clip(number, -1.0, 1.0), value)


def _each(compute: Any, *values: Datum) -> Datum:
    """What is computed of the values of each row, by NumPy; NULL where one of them is."""
    if all(isinstance(each, pa.Scalar) for each in values):
        return _each(compute, *[pa.repeat(each, 1) for each in values])[0]
    rows = next(len(each) for each in values if not isinstance(each, pa.Scalar))
    arrays = [pa.repeat(each, rows) if isinstance(each, pa.Scalar) else each for each in values]
    is_known = np.logical_and.reduce([each.is_valid().to_numpy(zero_copy_only=False) for each in arrays])
    with np.errstate(all="ignore"):
        found = compute(*[pc.fill_null(each, 0.0).to_numpy(zero_copy_only=False) for each in arrays])
    made = pa.array(found, pa.float64(), mask=~is_known)
    return (
        made
        if rows == 1 == len(values) or any(not isinstance(each, pa.Scalar) for each in values)
        else made[0]
    )


def _combined(count: Reals, x: Reals, x_rest: Reals, y: Reals, y_rest: Reals, *products: Reals) -> Reals:
    (x, x_rest), (y, y_rest) = _two_sum(x, x_rest), _two_sum(y, y_rest)
    mean = x / count
    mean_rest = ((x - mean * count) - _lost(mean, count) + x_rest) / count
    high = mean * y
    low = _lost(mean, y) + (mean * y_rest + mean_rest * y)
    first, lost = _two_sum(products[0], -high)
    rest = products[1] + products[2] + products[3]
    found = first + (lost + (rest - low))
    return np.where(np.isfinite(x) & np.isfinite(y), found, np.nan)


def _two_sum(a: Reals, b: Reals) -> tuple[Reals, Reals]:
    total = a + b
    step = total - a
    rest = (a - (total - step)) + (b - step)
    return total, np.where(np.isfinite(rest), rest, 0.0)


def _lost(a: Reals, b: Reals) -> Reals:
    """What the rounding of a product has lost; nothing if it is not finite."""
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    product = a * b
    rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return np.where(np.isfinite(rest), rest, 0.0)


def _halves(value: Reals) -> tuple[Reals, Reals]:
    far = _SPLIT * value
    high = far - (far - value)
    return high, value - high


def _function(operation: Operation) -> Builder:
    def build(node: Any, build: Build) -> Term:
        terms = [build(node.this), *([build(node.expression)] if node.args.get("expression") else [])]
        terms += map(build, node.expressions)
        sql = call_text(node.sql_name(), terms)
        return apply(node, sql, ATOM, operation, numbers(node, terms, real=True))

    return build


COMOMENT: dict[type[exp.Expr], Builder] = {
    Paired: _function(_paired),
    ProductRest: _function(_product_rest),
    Comoment: _function(_comoment),
    Clipped: _function(_clipped),
}
