"""Results of windows by count: two streams whose rates vary, and matches of events that are in both windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.figures.golab.results import KEYS, UPDATES, payload_of
from muntin.archive import GENERATED, Definition

_OWN_BYTES = 40  # key, two times and two positions
_CHUNK = 500_000  # results that come together when an index is built


@dataclass(frozen=True)
class CountedResults:
    """A result a unit of time; each stream brings a tenth as many events, at rates up to `factor` apart."""

    units: int
    factor: float = 4.0
    tuple_bytes: int = 1000
    reach: int | None = 1
    seed: int = 1

    @property
    def every(self) -> int:
        """Between two updates."""
        return self.units // UPDATES

    @property
    def window(self) -> int:
        """The time that a window takes to fill, on average."""
        return self.every * UPDATES

    @property
    def size(self) -> int:
        """Events in a window."""
        return max(UPDATES, self.window // 10)

    @property
    def definition(self) -> Definition:
        """Of the archive that keeps them."""
        columns = pa.schema([("k", pa.int64()), ("payload", pa.binary(self.tuple_bytes - _OWN_BYTES)),
                             ("a", pa.int64()), ("b", pa.int64())])  # fmt: skip
        return Definition(columns, ("k",), self.window, self.every, inputs=("a", "b"), sizes=(self.size, self.size),
                          by_count=True, reach=self.reach)  # fmt: skip

    def initial(self) -> Iterator[dict[str, Any]]:
        """Arguments of updates that bring all that is alive when the first window is full."""
        yield {"counts": tuple(self.counts(UPDATES - 2))}
        seen = self.counts(UPDATES - 1)
        for slot in range(0, UPDATES, step := max(1, _CHUNK // max(self.every, 1))):
            rows = pa.concat_tables([self.slot(each) for each in range(slot, min(slot + step, UPDATES))])
            alive = (rows["a"].to_numpy() + self.size > seen[0]) & (
                rows["b"].to_numpy() + self.size > seen[1]
            )
            yield {"results": rows.filter(pa.array(alive)), "counts": tuple(seen)}

    def arguments(self, slot: int) -> dict[str, Any]:
        """Arguments of the update after a slot."""
        return {"results": self.slot(slot), "counts": tuple(self.counts(slot))}

    def count_alive(self, slot: int, key: int) -> int:
        """How many results with a key are alive after a slot, found by looking at all."""
        seen, found = self.counts(slot), 0
        for each in range(slot + 1):
            keys, a, b, _ = self._places(each)
            found += int(((keys == key) & (a + self.size > seen[0]) & (b + self.size > seen[1])).sum())
        return found

    def counts(self, slot: int) -> list[int]:
        """Events that have come of each stream by the end of a slot; both windows are full at the first."""
        return [self.size + came for came in _arrivals(self.seed, self.size / UPDATES, self.factor, slot)]

    def slot(self, slot: int) -> pa.Table:
        """What is generated in a slot."""
        keys, a, b, generated = self._places(slot)
        payload = payload_of(len(keys), self.tuple_bytes - _OWN_BYTES, slot)
        return pa.table({"k": keys, "payload": payload, "a": a, "b": b, GENERATED: generated})

    def _places(self, slot: int) -> tuple[Any, Any, Any, Any]:
        random, seen = np.random.default_rng((self.seed, slot)), self.counts(slot)
        newest, other = np.array(seen), random.integers(0, self.size, (2, self.every))
        fresh = random.integers(0, 2, self.every)  # one of the two has just come
        places = [np.where(fresh == side, newest[side], newest[side] - other[side]) for side in (0, 1)]
        generated = np.sort(random.integers(1, self.every + 1, self.every)) + slot * self.every
        return random.integers(0, KEYS, self.every), places[0], places[1], generated


@cache
def _arrivals(seed: int, mean: float, factor: float, slot: int) -> tuple[int, int]:
    if slot < 0:
        return 0, 0
    before = _arrivals(seed, mean, factor, slot - 1)
    low = 2 / (1 + factor) * mean
    came = np.random.default_rng((seed, slot, 2)).uniform(low, low * factor, 2)
    return before[0] + int(came[0]), before[1] + int(came[1])
