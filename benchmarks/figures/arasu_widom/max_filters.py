"""Four ways to find the symbols whose MAX over the last minutes exceeds a threshold, with the same verbs.

* `staircase_tree`, `staircase_dense`: the two forms of `StaircaseIndex`.
* `scan_keys`: the raw trades of each symbol side by side; a look-up scans those in the window, symbol by symbol.
* `scan_columns`: all trades in columns; a look-up folds those in the window into an array of maxima.

One input at a time the loop over inputs is compiled, in batches Python calls for each look-up. Inputs are
a trade and a look-up in turns; in batches the trades of a batch go first.
"""

from __future__ import annotations

import numpy as np

from benchmarks.figures.arasu_widom.priced_day import TradeDay
from benchmarks.figures.arasu_widom.workload import BATCH, Ints
from muntin.kernels.dyadic import find_keys
from muntin.kernels.jit import kernel
from muntin.kernels.staircase_index import index_waiting
from muntin.kernels.staircase_index import insert_events as insert_indexed
from muntin.kernels.suffix_maxima import insert_events, scan_keys
from muntin.kernels.treap import UNTOUCHED
from muntin.key_index.staircase_index import StaircaseIndex

GREATEST = 2**63 - 1


class Filter:
    """A day of trades, known to a structure up to some trade, and a window in microseconds."""

    name: str

    def __init__(self, day: TradeDay, window: int, known: int, mode: str):
        self.day, self.window, self.end, self.mode = day, window, 0, mode
        self.found = np.zeros(day.symbols, np.int64)
        self.start()
        self.insert(0, known)
        self.end = known
        self.look_up(int(day.at[known - 1]), 0)  # what waits to be indexed is not part of a run
        self.asked = 0

    def take(self, trades: int, thresholds: Ints) -> None:
        """Take so many trades, and look up as many times; remembers the last answer and the sizes of all."""
        start, stop = self.end, self.end + trades
        sizes = np.zeros(trades, np.int64)
        if self.mode == "scalar":
            last = self.take_each(start, stop, thresholds[:trades], sizes)
        else:
            last = np.zeros(0, np.int64)
            for part in range(start, stop, BATCH // 2):
                upto = min(part + BATCH // 2, stop)
                self.insert(part, upto)
                since = int(self.day.at[upto - 1]) + 1 - self.window
                for i in range(part, upto):
                    last = self.look_up(since, int(thresholds[i - start]))
                    sizes[i - start] = len(last)
        self.end = stop
        self.asked += trades
        self.last = (int(thresholds[trades - 1]), np.sort(last))
        self.sizes = sizes

    def check(self) -> None:
        """Compare the last answer with NumPy."""
        threshold, found = self.last
        day, now = self.day, self.day.at[self.end - 1]
        inside = slice(int(np.searchsorted(day.at, now + 1 - self.window)), self.end)
        best = np.zeros(day.symbols, np.int64)
        np.maximum.at(best, day.symbol[inside], day.shares[inside])
        expected = np.flatnonzero(best > threshold)
        if not np.array_equal(found, expected):
            raise AssertionError(
                f"{self.name}, {self.mode}: {len(found)} symbols above {threshold}, NumPy has {len(expected)}"
            )

    def start(self) -> None:
        raise NotImplementedError

    def insert(self, start: int, stop: int) -> None:
        raise NotImplementedError

    def look_up(self, since: int, threshold: int) -> Ints:
        raise NotImplementedError

    def take_each(self, start: int, stop: int, thresholds: Ints, sizes: Ints) -> Ints:
        raise NotImplementedError


class Indexed(Filter):
    """`StaircaseIndex`, in the form of the same name."""

    form: str

    def start(self) -> None:
        self.index = StaircaseIndex("max", np.dtype(np.int64), self.form)  # type: ignore[arg-type]

    def insert(self, start: int, stop: int) -> None:
        part = slice(start, stop)
        self.index.add(self.day.symbol[part], self.day.at[part], self.day.shares[part])
        self.index.forget(int(self.day.at[stop - 1]) + 1 - self.window)

    def look_up(self, since: int, threshold: int) -> Ints:
        return self.index.keys_in(since, threshold, None, low_open=True)


class StaircaseTree(Indexed):
    name, form = "staircase_tree", "tree"

    def take_each(self, start: int, stop: int, thresholds: Ints, sizes: Ints) -> Ints:
        """All that the class does around its kernels is done once a run: numbering, room, forgetting."""
        stairs, index, part = self.index.maxima, self.index.maxima.index, slice(start, stop)
        position, since = stairs._number(self.day.at[part]), self.day.at[part] + 1 - self.window
        since_position = stairs._instants.dropped + np.searchsorted(stairs._instants["at"], since)
        while len(stairs._stairs.state.at) < 4 * len(stairs._stairs) + 8 * len(position):
            stairs._stairs.grow()
        if len(index.nodes.pair) < index.nodes.state[UNTOUCHED] + 20 * len(position):
            index.grow()
        count = take_each_tree(
            stairs._stairs.state, index.nodes, stairs._waiting, stairs._waiting_count, index.first,
            self.day.symbol[part], position, self.day.shares[part], since_position, thresholds,
            index._waiting, self.found, sizes,
        )  # fmt: skip
        assert count >= 0
        self.index._until = int(self.day.at[stop - 1])
        self.index.forget(int(since[-1]))
        return self.found[:count].copy()


class StaircaseDense(Indexed):
    name, form = "staircase_dense", "dense"

    def take_each(self, start: int, stop: int, thresholds: Ints, sizes: Ints) -> Ints:
        stairs, part = self.index.maxima, slice(start, stop)
        since = self.day.at[part] + 1 - self.window
        while len(stairs.state.at) < 4 * len(stairs) + 8 * len(since):
            stairs.grow()
        count = take_each_dense(
            stairs.state, self.day.symbol[part], self.day.at[part], self.day.shares[part],
            since, thresholds, self.found, sizes,
        )  # fmt: skip
        self.index._until = int(self.day.at[stop - 1])
        self.index.forget(int(since[-1]))
        return self.found[:count].copy()


class ScanKeys(Filter):
    name = "scan_keys"

    def start(self) -> None:
        """Each symbol has room for all its trades of the day: a ring would do, at some cost."""
        day = self.day
        self.offset = np.concatenate([[0], np.cumsum(np.bincount(day.symbol, minlength=day.symbols))])
        self.count = np.zeros(day.symbols, np.int64)
        self.at, self.shares = np.zeros(len(day.at), np.int64), np.zeros(len(day.at), np.int64)

    def insert(self, start: int, stop: int) -> None:
        day, part = self.day, slice(start, stop)
        file_trades(day.symbol[part], day.at[part], day.shares[part], *self._arrays())

    def look_up(self, since: int, threshold: int) -> Ints:
        return self.found[: scan_each_key(since, threshold, *self._arrays(), self.found)].copy()

    def take_each(self, start: int, stop: int, thresholds: Ints, sizes: Ints) -> Ints:
        day, part = self.day, slice(start, stop)
        count = take_each_scanning(
            day.symbol[part], day.at[part], day.shares[part], self.window, thresholds,
            *self._arrays(), self.found, sizes,
        )  # fmt: skip
        return self.found[:count].copy()

    def _arrays(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.offset, self.count, self.at, self.shares


class ScanColumns(Filter):
    name = "scan_columns"

    def start(self) -> None:
        """The columns are there already."""

    def insert(self, start: int, stop: int) -> None:
        self.end = stop

    def look_up(self, since: int, threshold: int) -> Ints:
        inside = slice(int(np.searchsorted(self.day.at[: self.end], since)), self.end)
        best = np.zeros(self.day.symbols, np.int64)
        np.maximum.at(best, self.day.symbol[inside], self.day.shares[inside])
        return np.flatnonzero(best > threshold)

    def take_each(self, start: int, stop: int, thresholds: Ints, sizes: Ints) -> Ints:
        day, best = self.day, np.zeros(self.day.symbols, np.int64)
        count = take_each_folding(
            day.symbol, day.at, day.shares, start, stop, self.window, thresholds, best, self.found, sizes
        )
        return self.found[:count].copy()


FILTERS = {each.name: each for each in (StaircaseTree, StaircaseDense, ScanKeys, ScanColumns)}


@kernel
def take_each_tree(stairs, nodes, waiting, waiting_count, first, key, at, code, since, threshold, scratch,
                   found, sizes):  # fmt: skip
    """Trade, look up, trade, look up, …; how many the last look-up found."""
    count = 0
    for i in range(len(key)):
        one = slice(i, i + 1)
        insert_indexed(stairs, nodes, waiting, waiting_count, first, key[one], at[one], code[one], 0)
        if index_waiting(stairs, nodes, waiting, waiting_count, first, 0) < waiting_count[0]:
            return -1  # the room was not enough
        waiting_count[0] = 0
        count = find_keys(nodes, at[i] + 1, since[i], threshold[i] + 1, GREATEST, scratch, found)
        sizes[i] = count
    return count


@kernel
def take_each_dense(stairs, key, at, code, since, threshold, found, sizes):
    """Trade, look up, trade, look up, …; how many the last look-up found."""
    count = 0
    for i in range(len(key)):
        one = slice(i, i + 1)
        insert_events(stairs, key[one], at[one], code[one], 0)
        count = scan_keys(stairs, since[i], threshold[i] + 1, GREATEST, found)
        sizes[i] = count
    return count


@kernel
def file_trades(key, at, value, offset, count, at_of, value_of):
    """Append trades to those of their symbols."""
    for i in range(len(key)):
        place = offset[key[i]] + count[key[i]]
        at_of[place] = at[i]
        value_of[place] = value[i]
        count[key[i]] += 1


@kernel
def scan_each_key(since, threshold, offset, count, at_of, value_of, found):
    """The symbols with a maximum above a threshold, from all their trades since an instant; how many."""
    hits = 0
    for key in range(len(count)):
        best = np.int64(0)
        place = offset[key] + count[key] - 1
        while place >= offset[key] and at_of[place] >= since:
            best = max(best, value_of[place])
            place -= 1
        if best > threshold:
            found[hits] = key
            hits += 1
    return hits


@kernel
def take_each_scanning(key, at, value, window, threshold, offset, count, at_of, value_of, found, sizes):
    """Trade, look up, trade, look up, …; how many the last look-up found."""
    hits = 0
    for i in range(len(key)):
        one = slice(i, i + 1)
        file_trades(key[one], at[one], value[one], offset, count, at_of, value_of)
        hits = scan_each_key(at[i] + 1 - window, threshold[i], offset, count, at_of, value_of, found)
        sizes[i] = hits
    return hits


@kernel
def take_each_folding(key, at, value, start, stop, window, threshold, best, found, sizes):
    """Trade, look up, trade, look up, …; how many the last look-up found."""
    hits = 0
    first = 0
    for i in range(start, stop):
        while at[first] < at[i] + 1 - window:
            first += 1
        best[:] = 0
        for j in range(first, i + 1):
            best[key[j]] = max(best[key[j]], value[j])
        hits = 0
        for k in range(len(best)):
            if best[k] > threshold[i - start]:
                found[hits] = k
                hits += 1
        sizes[i - start] = hits
    return hits
