"""Hashes of keys that are the same in every process and on every machine: they say which shard owns a key."""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel

_NULL = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0x100000001B3)
_ONE = np.uint64(0xBF58476D1CE4E5B9)
_TWO = np.uint64(0x94D049BB133111EB)
_THIRTY = np.uint64(30)
_TWENTY_SEVEN = np.uint64(27)
_THIRTY_ONE = np.uint64(31)


@kernel
def mix(bits):
    """Spread 64 bits over all of them (the finaliser of SplitMix64)."""
    bits = (bits ^ (bits >> _THIRTY)) * _ONE
    bits = (bits ^ (bits >> _TWENTY_SEVEN)) * _TWO
    return bits ^ (bits >> _THIRTY_ONE)


@kernel
def mix_words(word, valid, into):
    """Mix a column of words into the hash of each row; no `valid` at all means that none is NULL."""
    for i in range(len(into)):
        bits = _NULL if len(valid) and not valid[i] else mix(np.uint64(word[i]))
        into[i] = mix(into[i] * _PRIME ^ bits)


@kernel
def mix_texts(offsets, data, valid, into):
    """Mix a column of texts, `data[offsets[i] : offsets[i + 1]]`, into the hash of each row."""
    for i in range(len(into)):
        bits = _NULL
        if not len(valid) or valid[i]:
            bits = np.uint64(offsets[i + 1] - offsets[i])
            for at in range(offsets[i], offsets[i + 1]):
                bits = (bits ^ np.uint64(data[at])) * _PRIME
        into[i] = mix(into[i] * _PRIME ^ mix(bits))
