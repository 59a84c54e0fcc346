"""Words: values of fixed width as int64, two of which are equal exactly when the values are.

Integers, times and booleans are their own words; floats are their bits, with one word for 0.0 and -0.0 and
one for every NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.keys.table_room import ALL_VALID


def dtype_of_words(kind: pa.DataType) -> np.dtype[Any] | None:
    """How Arrow keeps values of a type, as NumPy sees them; None for types that have no words.

    >>> dtype_of_words(pa.date32()), dtype_of_words(pa.timestamp("us")), dtype_of_words(pa.string())
    (dtype('int32'), dtype('int64'), None)
    """
    if pa.types.is_boolean(kind):
        return np.dtype(np.int8)  # Arrow packs them; see below
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return np.dtype(np.int64 if kind.bit_width == 64 else np.int32)
    return None


def to_words(array: pa.Array) -> tuple[Ints, Bools]:
    """The words of values, without copying where they are such already, and which of them are not NULL."""
    valid = np.asarray(array.is_valid()) if array.null_count else ALL_VALID
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), valid
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    dtype = dtype_of_words(array.type)
    assert dtype is not None
    data = array.buffers()[1]
    values = np.zeros(0, dtype) if data is None else np.frombuffer(data, dtype)
    values = values[array.offset : array.offset + len(array)]
    if dtype.kind == "f":
        return _bits(values).astype(np.int64, copy=False), valid
    return (values.view(np.int64) if dtype.itemsize == 8 else values.astype(np.int64)), valid


def from_words(words: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Words as NumPy values of a type, without copying where they are as wide."""
    if dtype.itemsize == 8:
        return words.view(dtype)
    return words.astype(f"i{dtype.itemsize}").view(dtype)


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values = values + values.dtype.type(0)  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    return values.view(f"i{values.dtype.itemsize}")
