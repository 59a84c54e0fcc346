"""sliding_registers: how many different values a window holds, about; HyperLogLog that slides, for all keys together.

| | |
|---|---|
| Full name | sliding HyperLogLog, as a log of the entries that some window needs |
| Answers | APPROX_COUNT_DISTINCT, suffix windows of any length, keyed or not |
| Insert | O(1) amortised per element |
| Lookup | O(entries in the window) |
| Space | 16 bytes an entry; about min(n, m (1 + ln(n / m))) of them for n different values, m = (1.04 / eps)^2 |
| Shares | one log for all windows, all keys and every eps over an input |
| Reference | Flajolet, Fusy, Gandouet & Meunier 2007; Chabchoub & Hebrail 2010; Ertl 2017 |

Guarantee: estimates have a standard deviation of at most eps of the number, and no bias. They are a function of the
values that are in the window, however these came.

A register of HyperLogLog is the highest rank that a hash in it has. For a window that ends now it is the highest of
those that are young enough: an element that is followed by one as high in its register is needed by no window. The
paper keeps a list for each register. Here all elements that are needed lie in one log, in order of time, of all
registers of all keys: a key with few values takes as many entries, and nobody has a sketch that is mostly empty. A
pass from the newest back, by way of a hash table, finds what is not needed any more; it is made when the log has
grown by half. Registers of some precision give those of any coarser one, so a query that asks for less is answered as
if it were alone.

>>> from muntin import Engine
>>> engine = Engine()
>>> engine.execute("CREATE STREAM s (ts BIGINT, x BIGINT) TIMESTAMP BY ts")
>>> engine.register("SELECT APPROX_COUNT_DISTINCT(x) AS many FROM s [RANGE 5 SECONDS]", "q")
>>> engine.push("s", {"ts": range(1_000), "x": [number % 300 for number in range(1_000)]})
>>> engine.rows("q")[0]["many"]
302
"""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np

from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.kernels.sliding_registers import (
    HIGHEST,
    RANK_BITS,
    add_entries,
    coarsen_entries,
    enter,
    estimate,
    mark_needed,
)
from muntin.sketch.keyed_sketches import KeyedSketches
from muntin.sketch.keyed_track import Values
from muntin.sketch.kinds import Promise, promise_of
from muntin.store.columns import Columns
from muntin.store.needs import Need
from muntin.store.saved import INSTANTS, Saved

_INT = np.dtype(np.int64)
_SPREAD = 1.04  # standard deviation of an estimate, times the root of the number of registers
_COARSEST = 4
_FEW = 1024  # entries that are not worth a pass


def precision_for(eps: float) -> int:
    """Bits of a hash for the register, so that the error is at most eps.

    >>> precision_for(0.02), precision_for(error_of(12)), error_of(12)
    (12, 12, 0.01625)
    """
    return max(_COARSEST, ceil(2 * log2(_SPREAD / eps) - 1e-9))


def error_of(precision: int) -> float:
    """The standard deviation of an estimate, as a part of it."""
    return _SPREAD / float(2.0 ** (precision / 2))


class SlidingRegisters:
    """The values of one input. `promise` may become coarser than what was asked for, if there is no room for that."""

    is_quantile = False

    def __init__(self, need: Need, promise: Promise, known_since: int):
        self.need = need
        self.asked = self.promise = promise
        self.known_since = known_since
        self.forgotten_before = LONG_AGO  # windows that begin before this instant have lost values
        self.room = 0  # bytes that there are for it; it does not plan with them
        self.precision = precision_for(promise.eps)
        self._log = Columns({"entry": _INT, "at": _INT})
        self._after_pruning = 0

    def take(self, values: Values) -> None:
        """Take in settled values; O(1) amortised each."""
        self._log.extend({"entry": self._entries(values), "at": values.at})
        if len(self._log) > self._after_pruning + self._after_pruning // 2 + _FEW:
            self.compact()

    def forget(self, instant: int) -> None:
        """Windows will begin at this instant or later."""
        if instant > self.forgotten_before:
            self.forgotten_before = instant
            self._log.drop_first(int(np.searchsorted(self._log["at"], instant)))

    def compact(self) -> None:
        """Let go of what no window needs, and have no room for more."""
        entry = self._log["entry"]
        needed = np.empty(len(entry), np.bool_)
        mark_needed(entry, _table_for(len(entry)), needed)
        self._log.retain(needed)
        self._after_pruning = len(self._log)

    def coarsen(self) -> bool:
        """Make do with less room, at a greater error; False if there is none to gain."""
        if self.precision <= _COARSEST:
            return False
        coarsen_entries(self._log["entry"], 1)
        self.precision -= 1
        self.promise = self.promise._replace(eps=error_of(self.precision))
        self.compact()
        return True

    def demote(self) -> None:
        """Nothing is kept in two ways."""

    def oldest(self, until: int) -> int:
        """Since when it has values; `until` if it has none."""
        return int(self._log["at"][0]) if len(self._log) else until

    def read(
        self, since: int, newest: Values, slot_of: Ints, width: int, wanted: list[Need]
    ) -> dict[Need, Partial]:
        """Partials of a window from `since` on for some keys: `slot_of[key]` is the slot of a key, or -1; `newest`
        are those of its values that are not settled."""
        settled = self._log["entry"][int(np.searchsorted(self._log["at"], since)) :]
        unsettled = self._entries(newest)
        partials: dict[Need, Partial] = {}
        for need in wanted:
            precision = min(precision_for(promise_of(need).eps), self.precision)
            total, filled = np.zeros((2, width), np.int64)
            table = _table_for(len(settled) + len(unsettled))
            for entry in (settled, unsettled):
                add_entries(entry, self.precision, self.precision - precision, slot_of, table, total, filled)
            found = np.empty(width)
            estimate(total, filled, precision, found)
            partials[need] = (found, np.full(width, error_of(precision)))
        return partials

    def _entries(self, values: Values) -> Ints:
        entry = np.empty(len(values.key), np.int64)
        enter(values.key, values.value, self.precision, entry)
        return entry

    # -- state -------------------------------------------------------------------------------------

    def entries(self) -> int:
        return len(self._log)

    def nbytes(self) -> int:
        return self._log.nbytes()

    def mark_keys(self, used: Bools) -> None:
        used[self._log["entry"] >> (self.precision + RANK_BITS)] = True

    def renumber_keys(self, new_id: Ints) -> None:
        entry, shift = self._log["entry"], self.precision + RANK_BITS
        entry[:] = (new_id[entry >> shift] << shift) | (entry & ((1 << shift) - 1))

    def mark_items(self, used: Any) -> None:
        """It has hashes of texts, not their codes."""

    def renumber_items(self, new_code: Any) -> None:
        """It has hashes of texts, not their codes."""

    def snapshot(self) -> Arrays:
        return {
            "promise": np.array([self.promise.eps, np.nan, self.asked.eps]),
            "track": np.array([self.known_since, self.forgotten_before], np.int64),
            "entry": self._log["entry"].copy(),
            "at": self._log["at"].copy(),
        }

    def restore(self, saved: Saved, keys: tuple[Expression, ...]) -> None:
        """Go on from a snapshot of a track of the same need."""
        eps = float(saved.floats("promise", 3)[0])
        if not self.asked.eps <= eps <= error_of(_COARSEST):
            raise saved.damaged("promise", "is none")
        if eps > self.asked.eps:
            self.promise, self.precision = self.promise._replace(eps=eps), precision_for(eps)
        self.known_since, self.forgotten_before = saved.numbers("track", INSTANTS, INSTANTS)
        most = (saved.width(keys) << (self.precision + RANK_BITS)) - 1
        entry = saved.ints("entry", (0, max(most, 0)))
        rank = entry & ((1 << RANK_BITS) - 1)
        if len(rank) and not 1 <= int(rank.min()) <= int(rank.max()) <= HIGHEST:
            raise saved.damaged("entry", "has ranks that no hash has")
        self._log.replace({"entry": entry, "at": saved.times("at", len(entry))})
        self._after_pruning = len(entry)

    def check(self) -> None:
        self._log.check()
        # entries are in order of time, and none is of what was forgotten
        at = self._log["at"]
        assert bool((np.diff(at) >= 0).all())
        assert not len(at) or at[0] >= self.forgotten_before


def _table_for(entries: int) -> Ints:
    """An empty table with room for so many entries."""
    return np.full(1 << (2 * entries + 1).bit_length(), -1)


class RegisterSketches(KeyedSketches):
    """Windows of time, per key and without keys, answered from registers."""

    def _make_track(self, need: Need, promise: Promise, known_since: int) -> Any:
        return SlidingRegisters(need, promise, known_since)

    def _keys(self, part: slice) -> Ints:
        if self.keys:
            return super()._keys(part)
        return np.zeros(len(self.store.at[part]), np.int64)

    def __str__(self) -> str:
        return "; ".join(_described(track) for track in self._all())


def _described(track: Any) -> str:
    full = " (for lack of room)" if track.promise != track.asked else ""
    return (
        f"{track.need.input}: standard error {error_of(track.precision):.2g}{full}, "
        f"{track.entries():,} entries in {track.nbytes():,} bytes"
    )
