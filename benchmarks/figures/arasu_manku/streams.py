"""Streams that are easy or hard to sketch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Random = np.random.Generator


def _adversarial(random: Random, count: int) -> np.ndarray:
    """Blocks with one more item than counters, and blocks that go up and down by turns."""
    position = np.arange(count)
    width = 23
    item = 1 + position % width + width * (position // (8 * width) % 3)
    item[position // (4 * width) % 2 == 1] *= -1
    item[::7] = 0
    return item


STREAMS: dict[str, Callable[[Random, int], np.ndarray]] = {
    "uniform": lambda random, count: random.integers(0, 10**6, count),
    "Zipf": lambda random, count: random.zipf(1.2, count) % 10**9,
    "sorted": lambda random, count: np.arange(count),
    "reversed": lambda random, count: -np.arange(count),
    "adversarial": _adversarial,
    "drifting": lambda random, count: random.integers(0, 50, count) + np.arange(count) // 37,
}
