"""Which shard owns a key: a hash that equal keys share, in every process and for all time.

It is part of the format of the state: change it, and no checkpoint can be gone on with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Ints
from muntin.kernels.shard_of import mix_texts, mix_words
from muntin.keys.table_room import ALL_VALID
from muntin.keys.words import dtype_of_words, to_words


def shard_of_keys(columns: Sequence[pa.Array], shards: int) -> Ints:
    """The number of the shard that owns each key; O(bytes). NULL and NaN are keys, 0.0 and -0.0 are one.

    >>> shard_of_keys([pa.array([0.0, -0.0, float("nan"), None])], 1 << 40).tolist()
    [193093106787, 193093106787, 661180275569, 1036185085365]
    """
    hashes: npt.NDArray[np.uint64] = np.ones(len(columns[0]), np.uint64)
    for column in columns:
        if dtype_of_words(column.type) is not None or pa.types.is_null(column.type):
            mix_words(*to_words(column), hashes)
        else:
            mix_texts(*_texts(column), hashes)
    return (hashes % np.uint64(shards)).astype(np.int64)


def _texts(column: pa.Array) -> tuple[Ints, npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    valid = np.asarray(column.is_valid()) if column.null_count else ALL_VALID
    _, offsets, data = column.cast(pa.large_binary()).buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return ends, np.frombuffer(data or b"", np.uint8), valid
