"""Ways to find the busy symbols of a day of trades, one input at a time or in batches, with the same verbs.

* `scalar`: a trade, then a look-up, and so on, in compiled loops (`substream_loops.py`).
* `batch`: half a batch of trades, then as many look-ups, each a call from Python to the structure and one to verify.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom import substream_loops as loops
from benchmarks.figures.arasu_widom.trade_day import WINDOWS, Asked, Day, Ints
from benchmarks.figures.arasu_widom.workload import BATCH
from muntin.key_index.collective_index import CollectiveIndex

LONGEST = WINDOWS[-1]
CHECKED = 20  # answers of a run that are computed again


class Naive:
    """R-INT per symbol, and all of them visited: by search (`naive`), or with one probe each (`scan`)."""

    def __init__(self, name: str, mode: str, day: Day, stamps: Ints, start: int):
        """With the trades before number `start`; `stamps` has room for those of all symbols, shared by all."""
        self.name, self.mode, self.day = name, mode, day
        self.is_probe = name == "scan" or name.endswith("_probe")
        self.end = start
        count = np.bincount(day.symbol[:start], minlength=day.symbols)
        gone = day.first_after(int(day.at[start - 1]) + 1 - LONGEST)
        oldest = np.bincount(day.symbol[:gone], minlength=day.symbols)
        self.logs = (stamps, day.place, oldest, count)
        self.found = np.empty(day.symbols + 1, np.int64)
        self.out = np.empty(day.symbols + 1, np.int64)
        self.updates = self.asked = 0

    def take(self, asked: Asked) -> None:
        """A trade for each look-up, from where it stopped; remembers the answers."""
        size = len(asked.window)
        asked = Asked(self.end, asked.window, asked.v)
        self.answers, self.last = np.zeros((size, 2), np.int64), asked
        key, at = (array[self.end : self.end + size] for array in (self.day.symbol, self.day.at))
        if self.mode == "scalar":
            self._take(key, at, asked.since(self.day), asked.v)
        else:
            self._take_batches(key, at, asked.window, asked.v)
        self.end += size
        self.updates += size
        self.asked += size

    def check(self) -> None:
        """Compare some answers of the last run with NumPy."""
        asked, size = self.last, len(self.last.window)
        for n in np.linspace(0, size - 1, min(CHECKED, size)).astype(int).tolist():
            stop = asked.first + n + 1
            if self.mode == "batch":  # look-ups are answered as of the end of their batch
                stop = asked.first + min((n // (BATCH // 2) + 1) * (BATCH // 2), size)
            since = int(self.day.at[stop - 1]) + 1 - int(asked.window[n])
            wanted = np.flatnonzero(self.day.counts(since, stop) > asked.v[n])
            if self.answers[n].tolist() != [len(wanted), wanted.sum()]:
                raise AssertionError(
                    f"{self.name}, {self.mode}: {self.answers[n, 0]} symbols, NumPy has {len(wanted)}"
                )

    def _take(self, key: Ints, at: Ints, since: Ints, v: Ints) -> None:
        loops.take_naive(self.is_probe, self.logs, key, at, LONGEST, since, v, self.found, self.answers)

    def _take_batches(self, key: Ints, at: Ints, window: Ints, v: Ints) -> None:
        for start in range(0, len(key), BATCH // 2):
            part = slice(start, start + BATCH // 2)
            self._add(key[part], at[part])
            now = int(at[part][-1]) + 1
            for n in range(start, start + len(at[part])):
                hits = self._find(now - int(window[n]), int(v[n]))
                loops.note(self.answers, n, self.found, hits)

    def _add(self, key: Ints, at: Ints) -> None:
        loops.append_all(self.logs, key, at, LONGEST)

    def _find(self, since: int, v: int) -> int:
        stamps, place, oldest, count = self.logs
        if self.is_probe:
            return int(loops.probe_all(stamps, place, count, since, v, self.found))
        return int(loops.visit_all(stamps, place, oldest, count, since, v, self.found))


class Indexed(Naive):
    """The same, but only of the symbols that a collective index names.

    `tree` and `dense` look them up by search, `tree_probe` and `dense_probe` with a probe each.
    """

    def __init__(self, name: str, mode: str, day: Day, stamps: Ints, start: int, parts: int):
        super().__init__(name, mode, day, stamps, start)
        form: Any = name.removesuffix("_probe")
        self.index = CollectiveIndex("count", parts, form)
        for at in range(0, start, 20_000):
            part = slice(at, min(at + 20_000, start))
            self._index_trades(day.symbol[part], day.at[part])
        self.listed = np.zeros(1, np.int64)
        self.changes = self.index.changes

    def counted(self) -> dict[str, float]:
        """What an update changed and a look-up listed, on average."""
        changed = (self.index.changes - self.changes) / self.updates
        return {f"{self.name}_changed": changed, f"{self.name}_listed": self.listed[0] / self.asked}

    def _index_trades(self, key: Ints, at: Ints) -> None:
        self.index.add(key, at)
        self.index.forget(int(at[-1]) + 1 - LONGEST)

    def _take(self, key: Ints, at: Ints, since: Ints, v: Ints) -> None:
        index, begin = self.index, 0
        index.forget(int(at[0]) + 1 - LONGEST)
        level_of = {low: index.levels.level_above(low) for low in set(v.tolist())}
        level = np.array([level_of[low] for low in v.tolist()])
        while begin < len(key):
            state = (index._marks, index._total, index.levels.parts, index.before, index._counts)
            room = (self.out, self.found, self.answers, self.listed)
            begin = loops.take_indexed(
                self.is_probe, index._arrays(), state, self.logs, (key, at), begin, LONGEST, (since, v, level), room
            )  # fmt: skip
            if begin < len(key):  # as `add` does: room for levels or slots
                self._make_room()

    def _make_room(self) -> None:
        index = self.index
        if index._counts[0]:
            index._resize(int(index._counts[0]), index._marks.shape[1])
        else:
            index._renew()

    def _add(self, key: Ints, at: Ints) -> None:
        super()._add(key, at)
        self._index_trades(key, at)

    def _find(self, since: int, v: int) -> int:
        candidate = self.index.candidates(since, v + 1)
        self.listed[0] += len(candidate)
        return int(loops.verify(self.is_probe, self.logs, candidate, since, v, self.found))


def stamps_of(day: Day) -> Ints:
    """The stamps of all trades, symbol by symbol. Drivers write the same numbers again as they come to them."""
    return day.at[np.argsort(day.symbol, kind="stable")]
