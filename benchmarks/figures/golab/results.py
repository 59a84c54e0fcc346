"""Made-up results of a join of windows, as the paper has them: one a unit of time, tuples of 1000 bytes, 100 keys.

A result lives until the older of its two events leaves the window: up to a window, uniformly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive import EXPIRES, GENERATED, Definition

KEYS = 100
UPDATES, QUICK_UPDATES = 36, 4  # in a window, and those that a rough run measures
TUPLE_BYTES = 1000
_OWN_BYTES = 24  # key and two times


@dataclass(frozen=True)
class Results:
    """The stream of results: `units` of time in a window, a result each on average."""

    units: int
    tuple_bytes: int = TUPLE_BYTES
    factor: float = 1.0  # between the least and the greatest rate, which changes at random with each update
    seed: int = 1
    ended: int = 0  # keys whose results a negation ends, at each update
    power: float = 0.0  # key number k comes with a chance that goes with 1 / (k + 1)**power; 0: all alike
    chunk: int = 500_000  # results that come together when an index is built

    @property
    def every(self) -> int:
        """Between two updates."""
        return self.units // UPDATES

    @property
    def window(self) -> int:
        """A whole number of updates."""
        return self.every * UPDATES

    @property
    def definition(self) -> Definition:
        """Of the archive that keeps them."""
        payload = pa.binary(self.tuple_bytes - _OWN_BYTES)
        return Definition(
            pa.schema([("k", pa.int64()), ("payload", payload)]), ("k",), self.window, self.every
        )

    def initial(self) -> Iterator[dict[str, Any]]:
        """Arguments of updates that bring all that is alive when the first window is full."""
        for slot in range(0, UPDATES, step := max(1, self.chunk // max(self.every, 1))):
            made = [self._alive(each) for each in range(slot, min(slot + step, UPDATES))]
            yield {"results": pa.concat_tables(made)}

    def _alive(self, slot: int) -> pa.Table:
        rows = self.slot(slot)
        return rows.filter(pa.array(rows[EXPIRES].to_numpy() > self.window))

    def arguments(self, slot: int) -> dict[str, Any]:
        """Arguments of the update after a slot."""
        given: dict[str, Any] = {"results": self.slot(slot)}
        if self.ended:
            at = np.full(self.ended, (slot + 1) * self.every - self.every // 2)
            given["invalidated"] = {"k": self.ended_keys(slot), "invalidated_at": at}
        return given

    def ended_keys(self, slot: int) -> Any:
        """Keys whose results end in the middle of a slot."""
        return np.random.default_rng((self.seed, slot, 1)).integers(0, KEYS, self.ended)

    def count_alive(self, slot: int, key: int) -> int:
        """How many results with a key are alive after a slot, found by looking at all."""
        now, found = (slot + 1) * self.every, 0
        last_end = self._last_end(slot, key)
        for each in range(max(0, slot - UPDATES), slot + 1):
            keys, generated, expires = self._times(each)
            found += int(((keys == key) & (expires > now) & (generated > last_end)).sum())
        return found

    def _last_end(self, slot: int, key: int) -> int:
        for each in range(slot, UPDATES - 1, -1) if self.ended else ():
            if key in self.ended_keys(each):
                return (each + 1) * self.every - self.every // 2
        return -1

    def slot_count(self, slot: int) -> int:
        """How many results are generated in a slot."""
        return self._drawn_count(np.random.default_rng((self.seed, slot)))

    def _drawn_count(self, random: np.random.Generator) -> int:
        if self.factor <= 1:
            return self.every
        low = 2 / (1 + self.factor)  # the mean stays
        return int(self.every * random.uniform(low, low * self.factor))

    def _times(self, slot: int) -> tuple[Any, Any, Any]:
        """Keys, generation and expiry of the results of a slot, always the same."""
        random = np.random.default_rng((self.seed, slot))
        count = self._drawn_count(random)
        generated = np.sort(random.integers(1, self.every + 1, count)) + slot * self.every
        keys = random.integers(0, KEYS, count) if not self.power else self._skewed(random, count)
        return keys, generated, generated + random.integers(1, self.window + 1, count)

    def _skewed(self, random: np.random.Generator, count: int) -> Any:
        share = np.cumsum(1 / np.arange(1, KEYS + 1) ** self.power)
        return np.searchsorted(share, random.random(count) * share[-1], side="right")

    def slot(self, slot: int) -> pa.Table:
        """What is generated in a slot."""
        keys, generated, expires = self._times(slot)
        payload = payload_of(len(keys), self.tuple_bytes - _OWN_BYTES, slot)
        return pa.table({"k": keys, "payload": payload, GENERATED: generated, EXPIRES: expires})


def payload_of(count: int, width: int, slot: int) -> pa.Array:
    """The rest of some tuples."""
    content = np.zeros((count, width), np.uint8)
    content[:, :8] = (np.arange(count) + (slot << 32)).view(np.uint8).reshape(count, 8)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(content)])
