"""Order codes: values as 64-bit integers in the same order, so that one kernel serves all values, MAX and MIN.

Integers are their own codes. Floats: the bits as an integer, those of negative numbers turned round; NaN
is the greatest, and all NaN are one. -0.0 comes just before 0.0, but bounds take them for equal. For MIN
codes are complemented, which reverses any order and overflows nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregates.contract import Array
from muntin.arrays import Bools, Ints
from muntin.kernels.sliding_quantiles import encode_floats

Kind = Literal["max", "min"]
_LEAST, _GREATEST = -(2**63), 2**63 - 1


class OrderCode:
    """
    >>> code = OrderCode("min", np.dtype(np.float64))
    >>> code.values(code.codes(np.array([1.5, -np.inf, np.nan])))
    array([ 1.5, -inf,  nan])
    >>> greatest_first = code.codes(np.array([np.nan, np.inf, 1.5, -2.0]))
    >>> bool((np.diff(greatest_first) > 0).all())
    True
    """

    def __init__(self, kind: Kind, dtype: np.dtype[Any]):
        if kind not in ("max", "min") or dtype not in (np.dtype(np.int64), np.dtype(np.float64)):
            raise ValueError(f"max or min of int64 or float64, not {kind} of {dtype}")
        self.kind = kind
        self.dtype = dtype

    def codes(self, value: Array) -> Ints:
        """Codes of values: the better one has the greater code."""
        value = np.ascontiguousarray(value, self.dtype)
        code: Ints = value.view(np.int64)
        if self.dtype == np.float64:
            code = np.where(np.isnan(value), _NAN, np.where(code < 0, code ^ _GREATEST, code))
        return ~code if self.kind == "min" else code

    def values(self, code: Ints) -> Array:
        """The values of codes."""
        if self.kind == "min":
            code = ~code
        if self.dtype == np.float64:
            return np.where(code < 0, code ^ _GREATEST, code).view(np.float64)
        return code.copy()

    def span(self, low: Any, high: Any, low_open: bool, high_open: bool) -> tuple[int, int]:
        """The first and the last code of a range of values; first > last if the range is empty.

        `None` is no bound. Bounds need not be of the type of the values: `> 2.5` is `>= 3` for integers,
        and an integer that no float equals parts the floats where it lies.

        >>> OrderCode("max", np.dtype(np.int64)).span(2.5, 7, False, True)
        (3, 6)
        """
        first = _LEAST if low is None else self._cut(low, low_open)
        last = _GREATEST if high is None else self._cut(high, not high_open) - 1
        first, last = max(first, _LEAST), min(last, _GREATEST)
        if first > last:
            return 1, 0
        return (~last, ~first) if self.kind == "min" else (first, last)

    def _cut(self, bound: Any, is_above: bool) -> int:
        """The first code of values that are >= bound, or > bound if `is_above`; of MAX."""
        bound = bound.item() if isinstance(bound, np.generic) else bound
        if self.dtype == np.int64:
            return _integer_cut(bound, is_above)
        return _float_cut(bound, is_above)


def _integer_cut(bound: float, is_above: bool) -> int:
    if bound != bound or bound == math.inf:
        return _GREATEST + 1
    if bound == -math.inf:
        return _LEAST
    return math.floor(bound) + 1 if is_above else math.ceil(bound)


def _float_cut(bound: float, is_above: bool) -> int:
    if bound != bound:
        return _NAN + 1 if is_above else _NAN
    try:
        near = float(bound)
    except OverflowError:
        near = math.inf if bound > 0 else -math.inf
    # Python compares integers and floats exactly; where they differ, the bound lies between two floats.
    if near != bound:
        is_above = near < bound
    if near == 0:
        return 1 if is_above else -1  # 0.0 has the code 0, -0.0 the code -1
    bits = int(np.float64(near).view(np.int64))
    code = bits ^ _GREATEST if bits < 0 else bits
    return code + 1 if is_above else code


_NAN = int(np.float64(np.nan).view(np.int64)) & _GREATEST


def ranks_of(value: Array, kind: Kind) -> Ints:
    """Codes in the order of values, or the other way round; those of equal values are equal.

    >>> ranks_of(np.array([0.0, -0.0, 1.5]), "max").tolist()
    [0, 0, 4609434218613702656]
    """
    return OrderCode(kind, value.dtype).codes(value + 0.0 if value.dtype == np.float64 else value)


# Item codes: values as integers that are equal where values are, and back. NaN are one item, 0.0 and -0.0
# too.


def item_codes(value: Array) -> Ints:
    """Codes of int64 or float64 values.

    >>> codes = item_codes(np.array([0.0, -0.0, 1.5]))
    >>> bool(codes[0] == codes[1]), item_values(codes, np.dtype(np.float64))
    (True, array([0. , 0. , 1.5]))
    """
    if value.dtype == np.int64:
        return np.ascontiguousarray(value)
    plain = value + 0.0  # -0.0 + 0.0 is 0.0
    plain[np.isnan(plain)] = np.nan
    return np.asarray(plain.view(np.int64))


def item_values(code: Ints, dtype: np.dtype[Any]) -> Array:
    """The values of codes."""
    return code if dtype == np.int64 else code.view(np.float64)


def with_one_of_equals(values: Any) -> Any:
    """An Arrow array in which floats that are equal have the same bits, since Arrow looks values up by their bits;
    other types come back as they are.

    >>> with_one_of_equals(pa.array([-0.0, None, 1.5])).to_pylist()
    [0.0, None, 1.5]
    """
    if not pa.types.is_floating(values.type):
        return values
    plain = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 + 0.0 is 0.0
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), values.type), plain)


# Numbers as the codes that sketches of quantiles take in: integers in the same order.

_PART = 2**15


def coded_parts(
    codes: OrderCode, value: Array, valid: Bools | None, at: Ints | None
) -> Iterator[tuple[Ints, Bools, Ints | None]]:
    """Codes of elements, which of them count (neither NULL nor NaN), and their times, in parts that stay in the
    processor's cache.

    >>> order = OrderCode("max", np.dtype(np.float64))
    >>> [(code.tolist(), valid.tolist()) for code, valid, _ in coded_parts(order, [0.0, np.nan], None, None)]
    [([0, 9221120237041090560], [True, False])]
    """
    value = np.ascontiguousarray(value, codes.dtype)
    kept = np.ones(len(value), np.bool_) if valid is None else np.array(valid, np.bool_)
    if codes.dtype == np.int64:
        yield value, kept, at
        return
    for lo in range(0, len(value), _PART):
        part = slice(lo, lo + _PART)
        code = np.empty(len(value[part]), np.int64)
        encode_floats(value[part], kept[part], code)
        yield code, kept[part], None if at is None else at[part]
