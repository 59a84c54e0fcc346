"""Shard ids: how Spark knows a shard, chosen so that shards spread evenly over its partitions.

Spark sends a row to the partition that a hash of its grouping column names, and 4 shards may well meet in
one of 2 partitions. The id of shard `i` is one whose hash has `i` in its lowest six bits: neighbouring shards
then lie in different partitions, for every number of partitions that is a power of two up to 64.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.store.words import hashes_of

_SPREAD = 64
_WORD = 2**32 - 1


def shard_id(route: str, bucket: int) -> int:
    """The id of one shard; the same for all time.

    >>> [spark_hash(shard_id("symbol", bucket)) % 4 for bucket in range(8)]
    [0, 1, 2, 3, 0, 1, 2, 3]
    """
    candidate = zlib.crc32(f"{route}\0{bucket}".encode()) >> 2  # Spark's integers have a sign; leave room
    while spark_hash(candidate) % _SPREAD != bucket % _SPREAD:
        candidate += 1
    return candidate


def spark_hash(value: int) -> int:
    """What Spark computes of an INT that it partitions by: Murmur3 with seed 42, as a signed integer.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = _rotate(value * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    hashed = (_rotate(42 ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    hashed ^= 4
    hashed = (hashed ^ (hashed >> 16)) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ (hashed >> 13)) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return hashed - 2**32 if hashed >= 2**31 else hashed


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _WORD


# Which shard owns a key: a hash that equal keys share, in every process and for all time.
#
# It is part of the format of the state: change it, and no checkpoint can be gone on with.


def shard_of_keys(columns: Sequence[pa.Array], shards: int) -> Ints:
    """The number of the shard that owns each key; O(bytes). NULL and NaN are keys, 0.0 and -0.0 are one.

    >>> shard_of_keys([pa.array([0.0, -0.0, float("nan"), None])], 1 << 40).tolist()
    [193093106787, 193093106787, 661180275569, 1036185085365]
    """
    return (hashes_of(columns) % np.uint64(shards)).astype(np.int64)
