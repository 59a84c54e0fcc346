"""sliding_quantiles: quantiles of any recent window in memory that does not grow with it.

| | |
|---|---|
| Full name | Q, deterministic quantiles over sliding windows: Greenwald-Khanna per block, on a midpoint grid |
| Answers | APPROX_QUANTILE, any phi, suffix windows of any length |
| Insert | O(log 1/eps + log n) per element, in runs |
| Lookup | O(log^2 1/eps + log n): 64 steps of a bisection in each block of a cover |
| Space | O(1/eps log^2 1/eps log eps n) values; for windows of at most W, O(1/eps log^2 1/eps) |
| Shares | one sketch for all windows and all phi over an input |
| Reference | Arasu & Manku, PODS 2004, sections 4 and 5 |

Guarantee, for a window of n values:

* the answer's rank differs from ceil(phi * n) by at most `error`, which comes with it;
* `error` is at most eps * n; or eps * W for a sketch made for windows of up to W elements;
* a window that lies within the newest elements, which are kept as they came, is answered exactly.

A block keeps its values at the *midpoints* of equal shares. The paper keeps them at the ends, and claims
without proof an error that this exceeds by half: the first value kept may have one and a half times the
rank that stands for it. Halving a block for a coarser scale (Property P) takes every second value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from muntin.aggregates.contract import Array
from muntin.arrays import Arrays, Bools, Ints, scratch, unchanged
from muntin.kernels.sliding_quantiles import cut_row, feed, finish
from muntin.sketch.blocks import Rising
from muntin.sketch.geometry import bounded, unbounded
from muntin.sketch.ladder import Covered, Ladder
from muntin.sketch.quantile_summary import QuantileSummary
from muntin.store.codes import OrderCode, coded_parts
from muntin.store.saved import Saved

_ANY, _SHORT = (-(2**63), 2**63 - 1), np.dtype(np.int32)


class RisingQuantiles(Rising):
    """Tuples of Greenwald and Khanna: value, gap and spread, see the kernel."""

    def __init__(self, room: int):
        self.value = np.empty(room, np.int64)
        self.gap = np.empty(room, np.int32)
        self.spread = np.empty(room, np.int32)
        self.used = 0

    def begin(self, start: int, at: int) -> None:
        self.start, self.at, self.held, self.used = start, at, 0, 0

    def clone(self) -> RisingQuantiles:
        other = RisingQuantiles(0)
        other.__dict__.update(self.__dict__)
        other.value, other.gap, other.spread = self.value.copy(), self.gap.copy(), self.spread.copy()
        return other

    def arrays(self) -> Arrays:
        used = self.used
        return {"value": self.value[:used], "gap": self.gap[:used], "spread": self.spread[:used]}

    def trim(self) -> None:
        """Have no room for more."""
        for name, array in self.arrays().items():
            setattr(self, name, array.copy())

    def room(self) -> int:
        return len(self.value)

    def nbytes(self) -> int:
        return self.value.nbytes + self.gap.nbytes + self.spread.nbytes


class SlidingQuantiles(Ladder[RisingQuantiles]):
    """Quantiles of the last n elements, or of all since an instant.

    >>> sketch = SlidingQuantiles(np.dtype(np.float64), eps=0.1)
    >>> sketch.extend(np.random.default_rng(1).random(100_000))
    >>> summary = sketch.summary(rows=50_000)
    >>> abs(summary.quantile(0.25) - 0.25) < 0.1, summary.error <= 5_000
    (True, True)
    """

    name = "sliding_quantiles"
    is_counted = False

    def __init__(self, dtype: np.dtype[Any], eps: float, window: int | None = None, is_auto: bool = True):
        """Of values of `dtype` (float64 or int64), for windows of any length, or up to `window` elements."""
        self.eps = eps
        self.codes = OrderCode("max", dtype)
        super().__init__(
            unbounded(eps, self.is_counted, is_auto) if window is None else bounded(window, eps, is_auto)
        )
        self._sorted: tuple[tuple[int, int], Ints] | None = None  # the newest elements, of these numbers

    def extend(self, value: Array, valid: Bools | None = None, at: Ints | None = None) -> None:
        """Take in elements, with their times if windows in time are to be asked for. NULL and NaN do not
        count, but have a place."""
        for part in coded_parts(self.codes, value, valid, at):
            self.extend_codes(*part)

    def summary(self, rows: int | None = None, since: int | None = None) -> QuantileSummary:
        """What is known of the last `rows` elements, or of all `since` an instant; by default all that are
        kept. O(newest elements) after an insertion, O(blocks of the cover) again."""
        if since is not None:
            return self._summary(self.cover_since(since))
        return self._summary(self.cover(self.kept_from if rows is None else self.end - rows))

    def error_bound(self, count: int) -> float:
        """By how much the rank of an answer over `count` elements may be wrong, at most."""
        if self.geometry.is_exact:
            return 0.0
        return self.eps * (self.geometry.window or count)

    def _summary(self, covered: Covered) -> QuantileSummary:
        shape, about = self.geometry.shape, self._blocks.arrays.about
        block, entry, level = covered.pieces.T
        held = about[block, 0]
        stop = entry + about[block, 1]
        weight = held << (shape.levels - level)
        fresh = self._sorted_fresh(covered.fresh)
        share = 2 * self.geometry.finest
        parts = [
            self._blocks.arrays.item[lo:hi] for lo, hi in zip(entry.tolist(), stop.tolist(), strict=True)
        ]
        return QuantileSummary.of(
            self.codes,
            [*parts, fresh],
            np.append(weight, share),
            share,
            count=int(held.sum()) + len(fresh),
            slack=int(about[block, 2].sum()),
            left_out=covered.left_out,
        )

    def newest(self) -> tuple[Array, Ints] | None:
        """Values and times of all elements that are needed, if all of them are as they came; else None."""
        if self.needed_from < self.sketched:
            return None
        return self.codes.values(self._fresh.counted(0)), self._fresh.counted_at()

    def _sorted_fresh(self, first: int) -> Ints:
        """The newest elements from an index on, sorted."""
        newest = (self._fresh_from, self.end)
        if first or self._sorted is None or self._sorted[0] != newest:
            run = np.sort(self._fresh.counted(first))
            if first:
                return run
            self._sorted = (newest, run)
        return self._sorted[1]

    def _rise(self, bits: int) -> RisingQuantiles:
        # more tuples than Greenwald and Khanna had of any stream here; else it grows
        return RisingQuantiles(3 * self._entries_of(bits) + 16)

    def _cut(self, first: int, code: Ints, valid: Bools, at: Ints) -> Ints:
        """Small blocks are sorted before those that they are parts of, each time by NumPy, which has the widest
        instructions that the processor knows."""
        shape, base, blocks = self.geometry.shape, self.geometry.base, self._blocks.arrays
        source, is_whole = scratch("source", len(code)), bool(valid.all())
        source[:] = code
        if not is_whole:
            source[~valid] = np.iinfo(np.int64).max  # behind all that count
        for level in self._block_levels():
            size = 1 << (shape.unit_bits + level)
            source.reshape(-1, size).sort(axis=1)
            held = unchanged(base // size, size) if is_whole else valid.reshape(-1, size).sum(axis=1)
            cut_row(shape, blocks, level, first, size, source, held, at)
        source.sort()  # as it is already, unless it is less than a block
        return source[: int(valid.sum())]

    def _feed(self, rising: RisingQuantiles, bits: int, run: Ints) -> None:
        rising.held += len(run)
        # What every step-th value of a run hides adds up to a quarter of the error at most.
        entries = self._entries_of(bits)
        step = max(1, self.geometry.base // (4 * entries))
        threshold = max(1, (rising.held if step == 1 else 3 * rising.held // 4) // entries)
        room = rising.used + len(run)
        value = scratch("value", room)
        gap, spread = scratch("gap", room, np.int32), scratch("spread", room, np.int32)
        used, start = feed(
            rising.value, rising.gap, rising.spread, rising.used, run, step, threshold, value, gap, spread
        )
        if used > len(rising.value):
            rising.value, rising.gap, rising.spread = (
                value[start:].copy(),
                gap[start:].copy(),
                spread[start:].copy(),
            )
        rising.used = used

    def _shrink(self, rising: RisingQuantiles, bits: int) -> None:
        self._feed(rising, bits, np.zeros(0, np.int64))  # with a larger threshold
        rising.trim()

    def _finish(self, rising: RisingQuantiles, scale: int, level: int, number: int) -> None:
        tolerance = max(1, rising.held // (self.geometry.shape.entries << level))
        finish(self.geometry.shape, self._blocks.arrays, scale, level, number, rising.value, rising.gap,
               rising.spread, rising.used, rising.held, tolerance, rising.at)  # fmt: skip

    def _rising_entries(self) -> Iterator[int]:
        return (each.used for each in self._rising.values())

    def _revive(self, rising: RisingQuantiles, saved: Saved) -> None:
        rising.value = saved.ints("value", _ANY, order="ascending").copy()
        rising.used = len(rising.value)
        some = (0, rising.held)
        rising.gap = saved.ints("gap", some, rising.used, dtype=_SHORT).astype(np.int32)  # copies
        rising.spread = saved.ints("spread", some, rising.used, dtype=_SHORT).astype(np.int32)

    def check(self) -> None:
        super().check()
        for bits, rising in self._rising.items():
            gap, spread = rising.gap[: rising.used], rising.spread[: rising.used]
            # values ascend, their gaps add up to all elements, and no rank is less known than promised
            value = rising.value[: rising.used]
            assert bool((value[1:] >= value[:-1]).all())  # the difference of two codes may not fit
            assert int(gap.sum()) == rising.held
            threshold = max(1, rising.held // self._entries_of(bits))
            assert not rising.used or int((gap + spread).max()) <= threshold
