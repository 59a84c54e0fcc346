"""A made-up trace of network connections, one batch a timestamp: bursts of arrivals, and bytes with a long tail.

Stands for the trace of the paper, a month of connections of a laboratory, played at a rate of one's choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SECOND = 1_000_000
CREATE = "CREATE STREAM connections (ts BIGINT, bytes BIGINT) TIMESTAMP BY ts"

Ints = npt.NDArray[np.int64]


class Batch(NamedTuple):
    """The connections of one timestamp, in order of time."""

    at: Ints
    bytes: Ints

    def columns(self) -> dict[str, Ints]:
        """As the engine takes them."""
        return {"ts": self.at, "bytes": self.bytes}


def connections(rate: int, first: int, seconds: int, seed: int) -> Iterator[Batch]:
    """Batches of `seconds` timestamps from `first` on; `rate` connections in each."""
    random = np.random.default_rng(seed)
    for second in range(first, first + seconds):
        bursts = random.integers(0, SECOND, max(1, rate // 20))
        at = bursts[random.integers(0, len(bursts), rate)] + random.geometric(1 / 2_000, rate)
        sizes = np.exp(random.normal(7, 2, rate)).astype(np.int64)
        yield Batch(np.sort(at % SECOND) + second * SECOND, sizes)


def together(batches: Iterable[Batch], count: int) -> Iterator[Batch]:
    """The same connections in batches of `count` timestamps."""
    rest = iter(batches)
    while some := list(islice(rest, count)):
        yield Batch(*(np.concatenate(columns) for columns in zip(*some, strict=True)))
