"""A ladder: blocks of a stream, finer for what is new than for what is old, that cover any recent window.

The newest elements wait as they came. When enough have come (`base` of them), the oldest of those become
blocks: all aligned blocks among them at once, and a part of each larger block, which is *rising* until it has
all its elements. A window is covered by few blocks, of which each is a little wrong (`geometry.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.kernels.ladder import AT, FACTS, lowest_level, rooms, scale_of
from muntin.sketch.blocks import WAITS, BlockStore, Fresh, Rising
from muntin.sketch.geometry import Geometry, coarser, saved_eps, saved_geometry, shorter
from muntin.store.saved import COUNTS, Saved

_LARGEST_BITS = 31  # of a block: what an entry counts fits 32 bits
_PART = 2**13  # elements that come at a time where all are kept


class Covered(NamedTuple):
    """A window from position `start` on: blocks, and the newest elements from index `fresh` on."""

    start: int
    left_out: int  # elements of the window before `start`, at most
    pieces: Ints  # rows of (facts, first entry, level)
    fresh: int


R = TypeVar("R", bound=Rising)


class Ladder(ABC, Generic[R]):
    """What sketches over sliding windows have in common; elements are codes.

    Elements are numbered from 0. Those of windows in time come with their times, ascending.
    """

    is_counted: bool  # whether entries have counts of their own
    eps: float

    def __init__(self, geometry: Geometry):
        self.geometry = geometry
        self.end = 0  # elements that have come
        self.sketched = 0  # those before this one are in blocks only
        self.needed_from = 0  # no window starts before this element
        self._fresh = Fresh(geometry.waiting)
        self._rising: dict[int, R] = {}  # by the logarithm of the size
        self._blocks = BlockStore(geometry.shape, 0 if geometry.is_exact else 1, self.is_counted)

    @property
    def _fresh_from(self) -> int:
        """The first element that waits; between `sketched` and this one all were forgotten."""
        return self.end - len(self._fresh)

    @property
    def kept_from(self) -> int:
        """The first element that a window can be asked from."""
        return max(self.needed_from, self.end - self.geometry.window if self.geometry.window else 0)

    def extend_codes(self, code: Ints, valid: Bools, at: Ints | None) -> None:
        """Take in elements; of those that are not `valid` only the position counts.

        However they are cut into batches, the state is the same.
        """
        done = 0
        while done < len(code):
            room = self.geometry.waiting - (self.end - self.sketched) if self.geometry.waiting else _PART
            part = slice(done, done + room)
            self._fresh.extend(code[part], valid[part], None if at is None else at[part])
            self.end += len(code[part])
            self._take_fresh()
            done += room

    def forget(self, needed_from: int) -> None:
        """Windows will start at this element or later; what is older goes."""
        self.needed_from = min(max(needed_from, self.needed_from), self.end)
        self._settle()

    def forget_before(self, instant: int) -> None:
        """Windows will start at this instant or later."""
        _, before, _ = self._find(instant)
        if before >= 0:  # else all that is known is as young, and perhaps some of what has no block
            self.forget(before)

    @property
    def unsettled(self) -> int:
        """How many elements can come before any of them becomes a block."""
        if self.geometry.is_exact:
            return 2**62
        return self.geometry.base + self.geometry.shape.margin - 1 - (self.end - self.sketched)

    def cover(self, start: int) -> Covered:
        """The window from element `start` on."""
        wanted, sketched = max(start, self.kept_from), self.sketched
        if wanted >= sketched:
            return self._cover(wanted, 0)
        found = self._blocks.first_start(wanted, sketched)
        return self._cover(found, found - wanted)

    def cover_since(self, instant: int) -> Covered:
        """The window of elements that are not older than an instant."""
        start, before, young = self._find(instant)
        if before < 0 and start > self.needed_from:  # what was before is gone, and none knows how old it was
            young = start - self.needed_from
        return self._cover(max(start, self.kept_from), young)

    def _find(self, instant: int) -> tuple[int, int, int]:
        """The first element, as far as is known, that is not older than an instant; where the block before it
        starts (-1 if there is none), and how many elements of that may be as young."""
        fresh = int(np.searchsorted(self._fresh.at, instant))
        if fresh or self._fresh_from > self.sketched or self.geometry.is_exact or not self.sketched:
            first = max(self._fresh_from + fresh, self.kept_from)
            return first, first, 0
        return self._blocks.find(instant, self.sketched)

    def _cover(self, start: int, left_out: int) -> Covered:
        sketched, shape = self.sketched, self.geometry.shape
        if start >= sketched:
            return Covered(start, left_out, np.zeros((0, 3), np.int64), max(0, start - self._fresh_from))
        # with runs shorter than the smallest block, the newest part of one may be in no block yet
        end = sketched >> shape.unit_bits << shape.unit_bits
        pieces = self._blocks.cover(start, end, sketched)
        return Covered(start, left_out + sketched - max(start, end), pieces, 0)

    def time_of_last(self, rows: int) -> int:
        """The time of the first element that is known of the last `rows`; LONG_AGO if there is none."""
        start, _, pieces, fresh = self.cover(self.end - rows)
        if len(pieces):
            return int(self._blocks.arrays.about[pieces[0, 0], AT])
        return int(self._fresh.at[fresh]) if start < self.end else LONG_AGO

    # -- taking in ---------------------------------------------------------------------------------

    def _take_fresh(self) -> None:
        if self.geometry.is_exact:
            self._settle()
            return
        base, margin = self.geometry.base, self.geometry.shape.margin
        if self.end - self.sketched < base + margin:
            return
        while self.end - self.sketched >= base + margin:
            gone = min(self._fresh_from - self.sketched, base)  # forgotten, but they have their places
            run: Any = self._fresh.run(base - gone)
            if gone:
                run = [np.concatenate([np.zeros(gone, each.dtype), each]) for each in run]
            self._take(self.sketched, *run)
            self._fresh.drop_first(base - gone)

    def _take(self, first: int, code: Ints, valid: Bools, at: Ints) -> None:
        """Turn `base` elements, of which the first has number `first`, into blocks."""
        shape, sketched = self.geometry.shape, first + self.geometry.base
        if self.geometry.window:
            self.needed_from = max(self.needed_from, sketched - self.geometry.window)
        self.sketched = sketched
        if not self.geometry.window:
            self._blocks.fit(sketched, self.needed_from)
        self._blocks.promote(sketched, self.needed_from)
        if sketched <= self.needed_from:  # nobody will ask for any of them
            self._rising.clear()
            return
        self._fit_rising(first)
        run = self._cut(first, code, valid, at)
        if first < self.needed_from:
            self._blocks.promote(sketched, self.needed_from)
        for bits, rising in sorted(self._rising.items()):
            if first & ((1 << bits) - 1) == 0:
                rising.begin(first, int(at[0]))
            if rising.start < self.needed_from:
                rising.start = WAITS
                continue
            self._feed(rising, bits, run)
            if sketched & ((1 << bits) - 1) == 0:
                scale = int(scale_of(shape, (1 << bits) + shape.margin))
                self._finish(rising, scale, bits - shape.unit_bits - scale, rising.start >> bits)

    def _fit_rising(self, first: int) -> None:
        """Blocks of up to four times what is needed are rising, so that a window that grows finds those that
        it covers: one that is new begins where the next smaller one did, if that is at its own place."""
        geometry, shape = self.geometry, self.geometry.shape
        wanted = self._rising_sizes(first - self.needed_from + geometry.base)
        for bits in wanted:
            if bits not in self._rising:
                smaller = self._rising.get(bits - shape.radix_bits)
                if smaller is not None and not geometry.window and smaller.start == first >> bits << bits:
                    self._rising[bits] = self._outgrown(smaller, bits, first)
                else:
                    self._rising[bits] = self._rise(bits)
        for bits in [each for each in self._rising if each > wanted.stop + 1]:
            del self._rising[bits]

    def _rising_sizes(self, needed: int) -> range:
        """Logarithms of the sizes that blocks must rise to, for windows of so many elements."""
        geometry, shape = self.geometry, self.geometry.shape
        lowest = max(geometry.base_bits, shape.unit_bits - 1) + 1
        lowest += (shape.anchor - lowest) % shape.radix_bits
        if geometry.window:
            return range(lowest, shape.reach.bit_length())
        return range(lowest, min(needed.bit_length() + 2, _LARGEST_BITS), shape.radix_bits)

    def _settle(self) -> None:
        self._fresh.drop_first(max(0, self.kept_from - self._fresh_from))
        if self.geometry.is_exact:
            return
        self._blocks.promote(self.sketched, self.needed_from)
        if not self.geometry.window:
            self._blocks.fit(self.sketched, self.needed_from)

    def coarsen(self) -> bool:
        """Promise only twice the error from now on, in about half the space; False if there is no more to give.

        Answers from before are no worse than they were promised, those from now on no worse than is promised now.
        """
        geometry = coarser(self.geometry)
        if geometry is None or self.geometry.is_exact:
            return False
        self.geometry, self._blocks = geometry, self._blocks.coarsened(geometry.shape)
        self._fresh.most = geometry.waiting
        self.eps *= 2
        for bits, rising in self._rising.items():
            self._shrink(rising, bits)
        self._take_fresh()  # at once: only then are blocks as old as their scale has them
        self._fresh.compact()
        return True

    def shorten(self) -> bool:
        """Keep only half as many elements as they come from now on, at the same error; False if that is no gain."""
        geometry = shorter(self.geometry)
        if geometry is None or self.geometry.is_exact:
            return False
        self.geometry, self._blocks = geometry, self._blocks.shifted(geometry.shape)
        self._fresh.most = geometry.waiting
        self._take_fresh()  # at once, as above
        self._fresh.compact()
        return True

    def bytes_for(self, count: int) -> int:
        """About what so many elements would take."""
        shape = self.geometry.shape
        room = rooms(shape, 1 + int(scale_of(shape, count + shape.margin)))
        entries = int((room * (shape.entries << np.arange(shape.levels))).sum())
        blocks = entries * (12 if self.is_counted else 8) + 8 * (FACTS * int(room.sum()) + 5 * int(room.size))
        rising = sum(int(self._rise(bits).nbytes()) for bits in self._rising_sizes(count))
        return blocks + 16 * self.geometry.waiting + rising

    def _shrink(self, rising: R, bits: int) -> None:
        """A rising block may only have as many entries as it has now."""

    def _entries_of(self, bits: int) -> int:
        """Entries of a block of 2**bits elements when it is new."""
        shape = self.geometry.shape
        scale = (((1 << bits) + shape.margin - 1) // shape.reach).bit_length()
        return shape.entries << (bits - shape.unit_bits - scale)

    @abstractmethod
    def _rise(self, bits: int) -> R:
        """A rising block of that size."""

    def _block_levels(self) -> range:
        """Levels of the blocks that are cut from a run."""
        shape = self.geometry.shape
        highest = min(shape.levels, self.geometry.base_bits - shape.unit_bits + 1)
        return range(int(lowest_level(shape, 0)), highest, shape.radix_bits)

    @abstractmethod
    def _cut(self, first: int, code: Ints, valid: Bools, at: Ints) -> Any:
        """Make the blocks of all sizes up to `base`; returns the run that rising blocks are fed with."""

    def _outgrown(self, smaller: R, bits: int, sketched: int) -> R:
        """A rising block of that size which begins where the next smaller one did."""
        other: R = smaller.clone()
        return other

    @abstractmethod
    def _feed(self, rising: R, bits: int, run: Any) -> None:
        """More elements for a rising block."""

    @abstractmethod
    def _finish(self, rising: R, scale: int, level: int, number: int) -> None:
        """A rising block has all its elements."""

    # -- state -------------------------------------------------------------------------------------

    def entries(self) -> int:
        """Entries in blocks, finished or rising, and elements that wait."""
        return self._blocks.entries() + sum(self._rising_entries()) + len(self._fresh)

    def most_entries(self) -> int:
        """What `entries` can be until windows grow: there is room for no more."""
        rising = sum(each.room() for each in self._rising.values())
        waiting = self.geometry.waiting or max(self.geometry.window, len(self._fresh))
        return self._blocks.room() + rising + waiting

    @abstractmethod
    def _rising_entries(self) -> Iterator[int]: ...

    def nbytes(self) -> int:
        """Bytes of state."""
        rising = sum(each.nbytes() for each in self._rising.values())
        return self._blocks.nbytes() + self._fresh.nbytes() + rising

    def snapshot(self) -> Arrays:
        """State as named arrays."""
        arrays: Arrays = {
            "meta": np.array([self.end, self.sketched, self.needed_from], np.int64),
            "eps": np.array([self.eps]),
            "geometry": np.array([*self.geometry.shape, self.geometry.base, self.geometry.window], np.int64),
            **self._fresh.snapshot(),
            **self._blocks.snapshot(),
            "rising": np.array(
                [(bits, each.start, each.at, each.held) for bits, each in self._rising.items()], np.int64
            ).ravel(),
        }
        for bits, rising in self._rising.items():
            arrays |= {f"rising {bits} {name}": array for name, array in rising.arrays().items()}
        return arrays

    def restore(self, saved: Saved) -> None:
        """Go on from a snapshot."""
        self.geometry, self.eps = saved_geometry(saved, self.geometry), saved_eps(saved)
        self._fresh.most = self.geometry.waiting
        self.end, self.sketched, self.needed_from = saved.numbers("meta", COUNTS, COUNTS, COUNTS)
        self._fresh.restore(saved)
        if not max(self.sketched, self.needed_from, len(self._fresh)) <= self.end:
            raise saved.damaged("meta", "has more elements than have come")
        self._blocks = BlockStore(self.geometry.shape, 0, self.is_counted)
        self._blocks.restore(saved, self.sketched)
        self._rising = {}
        for bits, start, at, held in saved.array("rising", np.dtype(np.int64)).reshape(-1, 4).tolist():
            self._restore_rising(saved, bits, start, at, held)
        self.check()

    def _restore_rising(self, saved: Saved, bits: int, start: int, at: int, held: int) -> None:
        if not self.geometry.base_bits <= bits <= _LARGEST_BITS or not 0 <= held <= 1 << bits:
            raise saved.damaged("rising", "has blocks that cannot be")
        if start != WAITS and not (
            start % (1 << bits) == 0 and 0 <= start <= self.sketched <= start + (1 << bits)
        ):
            raise saved.damaged("rising", "has blocks that are not at their places")
        rising = self._rise(bits)
        rising.start, rising.at, rising.held = start, at, held
        self._revive(rising, saved.under(f"rising {bits} "))
        self._rising[bits] = rising

    @abstractmethod
    def _revive(self, rising: R, saved: Saved) -> None:
        """Give a rising block what it knew."""

    def copy(self) -> Any:
        """A sketch of its own in the same state."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._fresh = self._fresh.copy()
        other._blocks = self._blocks.copy()
        other._rising = {bits: rising.clone() for bits, rising in self._rising.items()}
        return other

    def check(self) -> None:
        """Assert every invariant."""
        self._fresh.check()
        if self.geometry.is_exact:
            return
        sketched = self.sketched
        # elements wait until there are enough to be blocks, and blocks end where those begin
        assert sketched % self.geometry.base == 0
        assert self.end - sketched < self.geometry.base + self.geometry.shape.margin
        assert sketched <= self._fresh_from <= max(sketched, self.kept_from)
        self._blocks.check(sketched)
        # rising blocks are at their places, and have come as far as the others
        for bits, rising in self._rising.items():
            assert rising.start == WAITS or rising.start % (1 << bits) == 0
        # any window that is needed can be covered
        for start in {self.kept_from, (self.kept_from + sketched) // 2, max(self.kept_from, sketched - 1)}:
            self.cover(start)
