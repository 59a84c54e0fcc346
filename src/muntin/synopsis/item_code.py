"""Item codes: values as integers that are equal where values are, and back. NaN are one item, 0.0 and -0.0 too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregate.contract import Array
from muntin.arrays import Ints


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
