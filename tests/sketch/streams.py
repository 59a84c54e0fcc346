"""Streams that are easy or hard to sketch, and what is true of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

Random = np.random.Generator


def _adversarial(random: Random, count: int) -> np.ndarray:
    """Blocks of one more item than counters, equally often, with one that is in every block; and blocks that
    go up and down by turns, so that every block's quantiles say something else."""
    width = int(random.integers(2, 40))
    position = np.arange(count)
    item = 1 + position % width + width * (position // (8 * width) % 3)
    item[position // (4 * width) % 2 == 1] *= -1
    item[:: int(random.integers(3, 9))] = 0
    return item


KINDS: dict[str, Callable[[Random, int], np.ndarray]] = {
    "uniform": lambda random, count: random.integers(0, 10**6, count),
    "few": lambda random, count: random.integers(0, 5, count),
    "zipf": lambda random, count: random.zipf(1.3, count) % 10**9,
    "sorted": lambda random, count: np.arange(count),
    "reversed": lambda random, count: -np.arange(count),
    "adversarial": _adversarial,
    "drifting": lambda random, count: random.integers(0, 50, count) + np.arange(count) // 37,
}


def make(kind: str, seed: int, count: int) -> np.ndarray:
    return KINDS[kind](np.random.default_rng(seed), count).astype(np.int64)


def summaries_of_shards(sketches: Sequence[Any], stream: np.ndarray, seed: int, since: int) -> list[Any]:
    """A stream dealt out to sketches at random, each asked since one instant: the number of an element."""
    at = np.arange(len(stream))
    shard_of = np.random.default_rng(seed).integers(0, len(sketches), len(stream))
    for shard, sketch in enumerate(sketches):
        sketch.extend(stream[shard_of == shard], at=at[shard_of == shard])
    return [sketch.summary(since=since) for sketch in sketches]


class Sketching(NamedTuple):
    """A stream, the error that is allowed, and windows of it."""

    stream: np.ndarray
    eps: float
    shares: list[float]

    def rows(self, longest: int) -> set[int]:
        """Windows of some lengths, up to the longest."""
        return {longest, *(max(1, int(share * longest)) for share in self.shares)}


def sketchings(most: int, eps: Sequence[float]) -> st.SearchStrategy[Sketching]:
    """Streams of up to so many elements."""
    stream = st.builds(make, st.sampled_from(sorted(KINDS)), st.integers(0, 99), st.integers(1, most))
    shares = st.lists(st.floats(0.001, 1), min_size=1, max_size=4)
    return st.builds(Sketching, stream, st.sampled_from(eps), shares)


def rank_error(window: np.ndarray, phi: float, found: float) -> int:
    """How far the ranks of a value are from ceil(phi * n)."""
    rank = max(1, ceil(Fraction(str(phi)) * len(window)))
    first = int((window < found).sum()) + 1
    last = int((window <= found).sum())
    assert last >= first, "a value that is not in the window"
    return max(0, first - rank, rank - last)


def counts(window: np.ndarray) -> Counter[int]:
    item, often = np.unique(window, return_counts=True)
    return Counter(dict(zip(item.tolist(), often.tolist(), strict=True)))
