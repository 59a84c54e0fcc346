"""Words: values as 64-bit integers, and hashes of values.

Words stand for values of fixed width: two words are equal exactly when the values are. Integers, times and booleans are
their own words; floats are their bits, with one word for 0.0 and -0.0 and one for every NaN. Hashes are the same in
every process and for all time: they are part of the format of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.fixed_point import HALVES, halves_of, is_kept
from muntin.kernels.shard_of import mix_texts, mix_words

ALL_VALID: Bools = np.frombuffer(b"", np.bool_)  # for rows none of which is NULL


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
    if is_kept(kind):
        return HALVES
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
    if dtype == HALVES:
        return np.ascontiguousarray(values["low"]), valid
    if dtype.kind == "f":
        return _bits(values).astype(np.int64, copy=False), valid
    return (values.view(np.int64) if dtype.itemsize == 8 else values.astype(np.int64)), valid


def from_words(words: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Words as NumPy values of a type, without copying where they are as wide."""
    if dtype.itemsize == 8:
        return words.view(dtype)
    if dtype == HALVES:
        return halves_of(words)
    return words.astype(f"i{dtype.itemsize}").view(dtype)


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values = values + values.dtype.type(0)  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    return values.view(f"i{values.dtype.itemsize}")


def hashes_of(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
    """A hash of each row, which equal rows share; O(bytes). NULL and NaN have one, 0.0 and -0.0 the same."""
    hashes: npt.NDArray[np.uint64] = np.ones(len(columns[0]), np.uint64)
    for column in columns:
        if dtype_of_words(column.type) is not None or pa.types.is_null(column.type):
            mix_words(*to_words(column), hashes)
        else:
            mix_texts(*_texts(column), hashes)
    return hashes


def _texts(column: pa.Array) -> tuple[Ints, npt.NDArray[np.uint8], Bools]:
    valid = np.asarray(column.is_valid()) if column.null_count else ALL_VALID
    wide = column.cast(pa.large_binary())  # whose buffers may begin elsewhere
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    return ends, np.frombuffer(data or b"", np.uint8), valid
