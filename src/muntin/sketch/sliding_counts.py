"""sliding_counts: how often items occur in any recent window, in memory that does not grow with it.

| | |
|---|---|
| Full name | C, deterministic counts over sliding windows: Misra-Gries per block |
| Answers | APPROX_FREQUENT at any support, APPROX_COUNT of any item, suffix windows of any length |
| Insert | O(log 1/eps + log n) per element, in runs |
| Lookup | O(entries of the cover), some thousand; one item as fast |
| Space | O(1/eps log^2 1/eps log eps n) pairs; for windows of at most W, O(1/eps log^2 1/eps) |
| Shares | one sketch for all windows, all supports and all items over an input |
| Reference | Arasu & Manku, PODS 2004, sections 3 and 5; Misra & Gries, 1982 |

Guarantee, for a window of n elements:

* no count is too high;
* a count is too low by at most `error`, which comes with it: at most eps * n, or eps * W for a sketch made
  for windows of up to W elements;
* so, if s * n is at least `error`, every item that occurs more than s * n times is among the frequent ones at
  support s, and none that occurs less than s * `count` - `error` times, where `count` is n but for what is left out.
  For windows of any length none occurs less than (s - eps) * n times; a sketch made for windows of up to W elements
  may miss items of windows shorter than W * eps / s;
* a window that lies within the newest elements, which are kept as they came, is answered exactly.

A block keeps the pairs with the greatest counts, from the greatest down, so halving it for a coarser scale
(Property P) is to keep the first half. Counters of a block of N elements: k, at least N over the error that
is allowed, since those of k - 1 miss an item that occurs exactly that often.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from muntin.arrays import Arrays, Bools, Ints, scratch, slots, unchanged
from muntin.kernels.sliding_counts import BUCKETS, count_items, count_of, cut_rows, feed, prune, put_pairs
from muntin.sketch.blocks import Rising
from muntin.sketch.count_summary import CountSummary
from muntin.sketch.geometry import bounded, unbounded
from muntin.sketch.ladder import Covered, Ladder
from muntin.store.saved import Saved

_ANY = -(2**63), 2**63 - 1


class Pairs(NamedTuple):
    """Items and counts of so many elements; counts may be too low by `slack`."""

    item: Ints
    often: Ints
    held: int
    slack: int


class RisingCounts(Rising):
    """Pairs sorted by item, and by how much their counts may be too low."""

    def __init__(self, room: int):
        self.item = np.empty(room, np.int64)
        self.count = np.empty(room, np.int64)
        self.used = 0
        self.slack = 0

    def begin(self, start: int, at: int) -> None:
        self.start, self.at, self.held, self.used, self.slack = start, at, 0, 0, 0

    def clone(self) -> RisingCounts:
        other = RisingCounts(0)
        other.__dict__.update(self.__dict__)
        other.item, other.count = self.item.copy(), self.count.copy()
        return other

    def arrays(self) -> Arrays:
        slack = np.array([self.slack], np.int64)
        return {"item": self.item[: self.used], "count": self.count[: self.used], "slack": slack}

    def room(self) -> int:
        return len(self.item)

    def nbytes(self) -> int:
        return self.item.nbytes + self.count.nbytes


class SlidingCounts(Ladder[RisingCounts]):
    """Counts of items in the last n elements, or in all since an instant. Items are integers: codes of a
    dictionary for any other kind.

    >>> sketch = SlidingCounts(eps=0.01)
    >>> sketch.extend(np.random.default_rng(1).geometric(0.5, 100_000))
    >>> summary = sketch.summary(rows=50_000)
    >>> [frequent.item for frequent in summary.frequent(0.1)], summary.error <= 500
    ([1, 2, 3], True)
    """

    name = "sliding_counts"
    is_counted = True

    def __init__(self, eps: float, window: int | None = None, is_auto: bool = True):
        """For windows of any length, or up to `window` elements."""
        self.eps = eps
        super().__init__(
            unbounded(eps, self.is_counted, is_auto) if window is None else bounded(window, eps, is_auto)
        )
        self._tally = np.zeros(BUCKETS, np.int64)
        self._counted: tuple[tuple[int, int], Pairs] | None = None  # the newest elements, of these numbers

    def extend(self, item: Ints, valid: Bools | None = None, at: Ints | None = None) -> None:
        """Take in elements, with their times if windows in time are to be asked for. NULL does not count,
        but has a place."""
        kept = np.ones(len(item), np.bool_) if valid is None else np.asarray(valid, np.bool_)
        self.extend_codes(np.ascontiguousarray(item, np.int64), kept, at)

    def summary(self, rows: int | None = None, since: int | None = None) -> CountSummary:
        """What is known of the last `rows` elements, or of all `since` an instant; by default of all that are
        kept."""
        return self._summary(self._covered(rows, since))

    def count(self, item: int, rows: int | None = None, since: int | None = None) -> tuple[int, int]:
        """How often an item occurs, at least and at most; cheaper than a summary."""
        covered = self._covered(rows, since)
        block, entry, _ = covered.pieces.T
        used, slack, lost = self._blocks.arrays.about[block, 1:4].T
        least, most = count_of(
            self._blocks.arrays.item, self._blocks.arrays.count, entry, used, slack, lost, item
        )
        newest = int((self._fresh.counted(covered.fresh) == item).sum())
        return least + newest, most + newest + covered.left_out

    def error_bound(self, count: int) -> float:
        """By how much a count of `count` elements may be too low, at most."""
        if self.geometry.is_exact:
            return 0.0
        return self.eps * (self.geometry.window or count)

    def _covered(self, rows: int | None, since: int | None) -> Covered:
        if since is not None:
            return self.cover_since(since)
        return self.cover(self.kept_from if rows is None else self.end - rows)

    def _summary(self, covered: Covered) -> CountSummary:
        block, entry, _ = covered.pieces.T
        held, used, slack, lost = self._blocks.arrays.about[block, :4].T
        newest = self._newest(covered.fresh)
        parts = list(zip(entry.tolist(), (entry + used).tolist(), strict=True))
        return CountSummary.of(
            np.concatenate([*(self._blocks.arrays.item[lo:hi] for lo, hi in parts), newest.item]),
            np.concatenate([*(self._blocks.arrays.count[lo:hi] for lo, hi in parts), newest.often]).astype(
                np.int64
            ),
            # an item that a block has is missing less there
            np.concatenate([np.repeat(lost - slack, used), np.zeros(len(newest.item), np.int64)]),
            count=int(held.sum()) + newest.held,
            slack=int(lost.sum()),
            left_out=covered.left_out,
        )

    def newest(self) -> tuple[Ints, Ints] | None:
        """Items and times of all elements that are needed, if all of them are as they came; else None."""
        if self.needed_from < self.sketched:
            return None
        return self._fresh.counted(0).copy(), self._fresh.counted_at()

    def _newest(self, first: int) -> Pairs:
        """The newest elements from an index on, counted."""
        newest = (self._fresh_from, self.end)
        if first or self._counted is None or self._counted[0] != newest:
            code = self._fresh.counted(first)
            item, count = np.empty(len(code), np.int64), np.empty(len(code), np.int64)
            items = count_items(code, slots(len(code)), item, count)
            pairs = Pairs(item[:items], count[:items], len(code), 0)
            if first:
                return pairs
            self._counted = (newest, pairs)
        return self._counted[1]

    def _rise(self, bits: int) -> RisingCounts:
        return RisingCounts(self._entries_of(bits))

    def _cut(self, first: int, code: Ints, valid: Bools, at: Ints) -> dict[int, Pairs]:
        """Elements are sorted for each size of blocks anew, by NumPy, which has the widest instructions that the
        processor knows; as they came, since what is sorted in parts already takes it half as long again. The run
        is of pairs, sorted by item, by the most that there may be."""
        shape, levels, is_whole = self.geometry.shape, self._block_levels(), bool(valid.all())
        sizes = [1 << (shape.unit_bits + level) for level in levels]
        source = self._sortable(code, len({*sizes, len(code)}))
        if not is_whole:
            source[-1, ~valid] = np.iinfo(source.dtype).max  # behind all that count
        for row, size in enumerate(sizes):
            if size < len(code):
                source[row] = source[-1]
                source[row].reshape(-1, size).sort(axis=1)
        source[-1].sort()
        size = sizes[0] if sizes else len(code)
        held = unchanged(len(code) // size, size) if is_whole else valid.reshape(-1, size).sum(axis=1)
        most, *fewer = sorted({self._entries_of(bits) for bits in self._rising}, reverse=True) or [0]
        item, count = scratch("item", len(code)), scratch("count", len(code))
        counted = len(code) if is_whole else int(valid.sum())
        pairs, taken = cut_rows(
            shape, self._blocks.arrays, levels.start, len(levels), first, source, _same(source), held.copy(), at,
            counted, most, item, count, self._tally,
        )  # fmt: skip
        run = {most: Pairs(item[:pairs], count[:pairs], counted, taken)}
        for more, less in itertools.pairwise([most, *fewer]):
            run[less] = _pruned(run[more], less)
        return run

    def _sortable(self, code: Ints, rows: int) -> Ints:
        """Room for so many copies of codes, of which the last is there; of half as many bytes if they fit, which are
        sorted in half the time."""
        is_short = int(code.min()) >= -(2**31) and int(code.max()) < 2**31 - 1
        room = scratch("short source", rows * len(code), np.int32) if is_short else None
        source = (scratch("source", rows * len(code)) if room is None else room).reshape(rows, -1)
        source[-1] = code
        return source

    def _outgrown(self, smaller: RisingCounts, bits: int, sketched: int) -> RisingCounts:
        below = bits - self.geometry.shape.radix_bits
        if not self._is_fed_by(below, bits) or sketched & ((1 << below) - 1) == 0:
            return smaller.clone()
        other = self._rise(bits)
        other.begin(smaller.start, smaller.at)
        return other

    def _is_fed_by(self, below: int, bits: int) -> bool:
        """Whether a rising block is fed with those of the next smaller size when they are finished: if they are as
        exact as it must be."""
        return below in self._rising and self._entries_of(below) >= self._entries_of(bits)

    def _feed(self, rising: RisingCounts, bits: int, run: dict[int, Pairs]) -> None:
        most, below = self._entries_of(bits), bits - self.geometry.shape.radix_bits
        if self._is_fed_by(below, bits):
            if self.sketched & ((1 << below) - 1):
                return
            smaller = self._rising[below]
            pairs = Pairs(
                smaller.item[: smaller.used], smaller.count[: smaller.used], smaller.held, smaller.slack
            )
        else:
            pairs = run[most]
        room = rising.used + len(pairs.item)
        both = scratch("merged item", room), scratch("merged count", room)
        used, taken = feed(rising.item, rising.count, rising.used, pairs.item, pairs.often, len(pairs.item),
                           most, *both)  # fmt: skip
        rising.used = used
        rising.slack += taken + pairs.slack
        rising.held += pairs.held

    def _shrink(self, rising: RisingCounts, bits: int) -> None:
        rising.used, taken = prune(rising.item, rising.count, rising.used, self._entries_of(bits))
        rising.slack += taken

    def _finish(self, rising: RisingCounts, scale: int, level: int, number: int) -> None:
        put_pairs(self.geometry.shape, self._blocks.arrays, scale, level, number, rising.item, rising.count,
                  rising.used, rising.held, rising.slack, rising.at, self._tally)  # fmt: skip

    def item_bounds(self) -> tuple[int, int]:
        """The least and the greatest item that is there."""
        parts = [self._fresh.code, *(each.item[: each.used] for each in self._rising.values())]
        parts += [self._blocks.arrays.item[place] for place in self._blocks.entry_slices()]
        items = np.concatenate(parts)
        return int(items.min(initial=0)), int(items.max(initial=0))

    def mark_items(self, used: Bools) -> None:
        """Set `used` for every item that is there; items are codes of a dictionary."""
        used[self._fresh.code] = True
        for place in self._blocks.entry_slices():
            used[self._blocks.arrays.item[place]] = True
        for rising in self._rising.values():
            used[rising.item[: rising.used]] = True

    def renumber_items(self, new_code: Ints) -> None:
        """Items have other codes from now on, in the same order."""
        self._counted = None
        self._fresh.code[:] = new_code[self._fresh.code]
        for place in self._blocks.entry_slices():
            self._blocks.arrays.item[place] = new_code[self._blocks.arrays.item[place]]
        for rising in self._rising.values():
            rising.item[: rising.used] = new_code[rising.item[: rising.used]]

    def _rising_entries(self) -> Iterator[int]:
        return (each.used for each in self._rising.values())

    def _revive(self, rising: RisingCounts, saved: Saved) -> None:
        item = saved.ints("item", _ANY, order="strictly")
        (rising.slack,) = saved.numbers("slack", (0, rising.held))
        count = saved.ints("count", (0, rising.held), len(item))
        if len(item) > len(rising.item) or int(count.sum()) > rising.held:
            raise saved.damaged("item", "has more than there is room for")
        rising.used = len(item)
        rising.item[: rising.used], rising.count[: rising.used] = item, count

    def check(self) -> None:
        super().check()
        for bits, rising in self._rising.items():
            item, count = rising.item[: rising.used], rising.count[: rising.used]
            # items ascend; what was taken from the counters was taken from one more than there may be
            assert bool((item[1:] > item[:-1]).all())  # the difference of two codes may not fit
            assert (self._entries_of(bits) + 1) * rising.slack <= rising.held - int(count.sum())
        held, _used, slack, lost = self._blocks.arrays.about[self._blocks.live(), :4].T
        assert bool(((slack >= 0) & (slack <= lost) & (lost <= held)).all())


def _same(source: Ints) -> Ints:
    """Which elements are like those before them: bits, 64 to a word, one row after the other."""
    code = source.ravel()
    flags = scratch("flags", -(-len(code) // 64) * 64, np.bool_)
    flags[:1] = flags[len(code) :] = False
    np.equal(code[1:], code[:-1], out=flags[1 : len(code)])
    same: Ints = np.packbits(flags, bitorder="little").view(np.int64)
    return same


def _pruned(pairs: Pairs, most: int) -> Pairs:
    """At most so many of them, as Misra and Gries would have kept them."""
    if len(pairs.item) <= most:
        return pairs
    item, count = pairs.item.copy(), pairs.often.copy()
    left, taken = prune(item, count, len(item), most)
    return Pairs(item[:left], count[:left], pairs.held, pairs.slack + taken)
