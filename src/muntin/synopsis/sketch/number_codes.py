"""Numbers as the codes that sketches of quantiles take in: integers in the same order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muntin.aggregate.contract import Array
from muntin.arrays import Bools, Ints
from muntin.kernels.sliding_quantiles import encode_floats
from muntin.synopsis.order_code import OrderCode

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
