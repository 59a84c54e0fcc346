"""range_tree: any band of an attribute over any window, from base intervals sorted by the attribute.

| | |
|---|---|
| Full name | range tree: B-INT by time, and within each base interval a tree by the attribute |
| Answers | every component, filtered by a band of an attribute (`price > 3`); un-keyed time windows |
| Insert | O(log n) amortised, however many bands there are |
| Lookup | O(log^2 W): two binary searches and O(log W) partials in each of up to 2 log W intervals |
| Space | O(n log n): some 12 bytes an event and level, and a quarter of a partial for each component |
| Shares | one tree for all bands of an attribute, windows and components of an argument, in WHERE or FILTER |
| Reference | Arasu & Widom, VLDB 2004, section 3.1.1 (base intervals); range trees: Bentley, CACM 1980 |

Every other synopsis keeps a structure per filter, and every batch is filtered by each of them. Here a
batch is sorted into place once; a filter is two numbers that come with the look-up:

    price          as they came   [ 7 3 9 1 | 4 8 2 6 | 5 … ]
                   by fours       [ 1 3 7 9 | 2 4 6 8 ]            SUM … WHERE price > 3 AND price <= 7
                   by eights      [ 1 2 3 4 6 7 8 9 ]              over the first 8: 4, then [6 7] of a tree,
    sum of shares  over eights    [ in that order, by 1, 2, 4, 8 ]   and never what lies outside

Prefix sums over the order would answer a sum in two reads, but by subtraction, and a 1e300 outside the
band would leave its trace: the partials of a tree are only ever combined. Counts are differences of
places, which leave none. Order within equal times, which FIRST and LAST go by, is lost by sorting; so
elements carry their number in place of their time. Intervals below 64 elements are not kept, nor partials
of fewer than 8 neighbours. Windows with SLIDE are served from single events too: no slice knows which of
its events lie in a band.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from muntin.aggregates.component import COMPONENTS, cells_of
from muntin.aggregates.contract import Array, Partial
from muntin.arrays import Bools, Ints
from muntin.band import sort_keys
from muntin.expression import Expression
from muntin.kernels import range_tree as kernels
from muntin.kernels.combine import ring_capacity
from muntin.kernels.range_tree import BLOCK_BITS, LEAF, LEAF_BITS
from muntin.query import Input
from muntin.store.needs import Need, Needs, band_of, dtype_of, ends_of, place_of
from muntin.store.ring import EventRing
from muntin.store.sequence import Sequence as Elements
from muntin.structure.intervals import check_rewind, known_runs
from muntin.structure.sorted_runs import Ordinals
from muntin.structure.track import Asked, Point, Track
from muntin.window import Window


class RangeTree:
    """Components of one argument over the elements of a sequence, numbered as in `Intervals`.

    An element comes with the sort key of its attribute (`muntin.band`) and the value of its argument;
    one where either is NULL is in no band.

    >>> tree = RangeTree(["count", "sum"], np.dtype(np.int64))
    >>> price, shares = np.array([7, 3, 9, 1]), np.array([10, 20, 30, 40])
    >>> tree.extend(price, shares, np.ones(4, np.bool_))
    >>> lo, hi = np.array([0, 1]), np.array([4, 4])
    >>> tree.query("sum", lo, hi, np.array([3, 3]), np.array([8, 8]))[0]  # 3 <= price <= 8
    array([30, 20])
    >>> tree.query("count", lo, hi, np.array([3, 3]), np.array([8, 8]))[0]
    array([2, 1])
    """

    name = "range_tree"
    components = COMPONENTS.keys()

    def __init__(self, components: Iterable[str], dtype: np.dtype[Any], first: int = 0):
        """Of arguments of `dtype` (float64 or int64); the first element to come has number `first`."""
        self.dtype = dtype
        self.first = first
        self.end = first
        self._ordinals = Ordinals(first)
        self._oldest = first  # ordinals of the elements that are in the tree
        self._next = first
        self._folded = sorted({*components} - {"count"})  # the count needs no partials
        self._make(LEAF)

    def extend(self, key: Ints, value: Array, valid: Bools) -> None:
        """Append elements; O(log n) amortised each."""
        number = np.arange(self.end, self.end + len(key))
        self._ordinals.extend(valid)
        self.end += len(key)
        if not bool(valid.all()):
            key, value, number = key[valid], value[valid], number[valid]
        start, self._next = self._next, self._next + len(key)
        self._fit(start)
        kernels.put_elements(self._keys[0], start, key)
        kernels.sort_intervals(self._keys, self._order, start, self._next, self._oldest)
        for name, cells in self._cells.items():
            lifted = COMPONENTS[name].lift(np.ascontiguousarray(value), np.ones(len(key), np.bool_), number)
            for array, elements in zip(cells, lifted, strict=True):
                kernels.put_elements(array[: self._keys.shape[1]], start, elements)
            kernels.fold_intervals(cells, self._order, start, self._next, self._oldest)

    def rewind(self, end: int) -> None:
        """Take back the elements numbered `end` and later; O(1). Intervals over `end` will be made anew."""
        check_rewind(self.first, self.end, end)
        self._next = self._ordinals.rewind(end)
        self.end = end

    def forget(self, first: int) -> None:
        """Elements numbered below `first` will not be asked for any more; O(1) amortised each."""
        self.first = min(max(first, self.first), self.end)
        self._oldest = self._ordinals.forget(self.first)
        self._fit(self._next)

    def query(self, component: str, lo: Ints, hi: Ints, low: Ints, high: Ints) -> Partial:
        """Partials of many runs `[lo, hi)`, each of the elements with a key from `low` to `high`.

        O(log^2 W) for a run of W elements.
        """
        lo, hi = known_runs(self.first, self.end, lo, hi)
        start, stop = self._ordinals.of(lo), self._ordinals.of(hi)
        if component == "count":
            count = np.zeros(len(lo), np.int64)
            kernels.count_bands(self._keys, start, stop, low, high, count)
            return (count,)
        out = COMPONENTS[component].start(self.dtype, len(lo))
        kernels.combine_bands(self._cells[component], self._keys, self._order, start, stop, low, high, out)
        return out

    def point(self, component: str, lo: int, hi: int, low: int, high: int) -> tuple[Any, ...]:
        """The partial of one run as plain numbers; for single look-ups, where arrays are the cost."""
        if lo >= hi:
            return tuple(value for _, value in COMPONENTS[component].identity(self.dtype))
        if lo < self.first or hi > self.end:
            known_runs(self.first, self.end, np.array([lo]), np.array([hi]))  # raises
        run = np.array([[self._ordinals.before(lo)], [self._ordinals.before(hi)], [low], [high]])
        if component == "count":
            count = np.zeros(1, np.int64)
            kernels.count_bands(self._keys, run[0], run[1], run[2], run[3], count)
            return (count.item(),)
        out = COMPONENTS[component].start(self.dtype, 1)
        kernels.combine_bands(
            self._cells[component], self._keys, self._order, run[0], run[1], run[2], run[3], out
        )
        return tuple(array.item() for array in out)

    def nbytes(self) -> int:
        """Bytes of state."""
        cells: int = sum(array.nbytes for cells in self._cells.values() for array in cells)
        return self._ordinals.nbytes() + int(self._keys.nbytes + self._order.nbytes) + cells

    def check(self) -> None:
        """Assert every invariant."""
        self._ordinals.check()
        # the tree holds exactly the valid elements from `first` to `end`
        both = self._ordinals.of(np.array([self.first, self.end]))
        assert both.tolist() == [self._oldest, self._next]
        # the ring is as wide as a power of two, holds all of them, and has a row per level up to its width
        height, width = self._keys.shape
        assert width == 1 << (width.bit_length() - 1)
        assert self._next - self._oldest <= width
        assert height == width.bit_length() - LEAF_BITS + 1
        again = {name: _copy_of(cells) for name, cells in self._cells.items()}
        for name, cells in again.items():
            for array, elements in zip(cells, self._cells[name], strict=True):
                array[:width] = elements[:width]
            kernels.fold_intervals(cells, self._order, self._oldest, self._next, self._oldest)
        for row in range(1, height):
            length = LEAF << (row - 1)
            for lo in range(-(-self._oldest // length) * length, self._next - length + 1, length):
                part = slice(lo % width, lo % width + length)
                # each interval is in order, ties as they came, and knows where its elements are
                order = np.argsort(self._keys[0, part], kind="stable")
                np.testing.assert_array_equal(self._order[row, part], order)
                np.testing.assert_array_equal(self._keys[row, part], self._keys[0, part][order])
                # its partials are what its elements combine to
                for name, cells in self._cells.items():
                    some = _cells_of_interval(row, lo % width, width)
                    for array, expected in zip(cells, again[name], strict=True):
                        np.testing.assert_array_equal(array[some], expected[some])

    def _make(self, width: int) -> None:
        height = width.bit_length() - LEAF_BITS + 1
        self._keys = np.empty((height, width), np.int64)
        self._order = np.empty((height, width), np.int32)
        count = width + (height - 1) * 2 * (width >> BLOCK_BITS)
        # nothing is read before it is written, so pages that are never used are never touched
        self._cells: dict[str, Any] = {}
        for name in self._folded:
            kinds = [kind for kind, _ in COMPONENTS[name].identity(self.dtype)]
            arrays = tuple(np.empty(count, kind) for kind in kinds)
            self._cells[name] = cells_of(name, self.dtype, arrays)

    def _fit(self, end: int) -> None:
        """Make room for all elements, those before `end` being here; O(n log n) when the width changes."""
        keys, cells, old = self._keys, self._cells, self._keys.shape[1]
        width = max(LEAF, ring_capacity(old, self._next - self._oldest))
        if width == old:
            return
        self._make(width)
        number = np.arange(self._oldest, end)
        source, place = number & (old - 1), number & (width - 1)
        self._keys[0, place] = keys[0, source]
        kernels.sort_intervals(self._keys, self._order, self._oldest, end, self._oldest)
        for name, moved in self._cells.items():
            for array, elements in zip(moved, cells[name], strict=True):
                array[place] = elements[source]
            kernels.fold_intervals(moved, self._order, self._oldest, end, self._oldest)


def _copy_of(cells: Any) -> Any:
    return type(cells)(*(array.copy() for array in cells))


def _cells_of_interval(row: int, lo: int, width: int) -> Ints:
    """Numbers of the cells of the interval of a row that begins at place `lo`."""
    blocks, bits = width >> BLOCK_BITS, LEAF_BITS + row - 1
    base = width + (row - 1) * 2 * blocks
    levels = []
    for level in range(bits - BLOCK_BITS + 1):
        begin = base + 2 * (blocks - (blocks >> level)) + (lo >> (BLOCK_BITS + level))
        levels.append(np.arange(begin, begin + (1 << (bits - BLOCK_BITS - level))))
    return np.concatenate(levels)


# A range track: the bands of one attribute, over the events of a ring, answered by a range tree.


class RangeTrack(Track):
    """All bands of one attribute, and all components of one argument."""

    store: EventRing

    def __init__(self, store: Elements, where: Expression | None, need: Need):
        super().__init__(store, where, need)
        self._attribute, self._argument = map(Input, place_of(need))
        self._components: list[str] = []
        self._make()

    def fit(self, needs: Needs, components: Collection[str]) -> None:
        """A tree for other components is made anew; O(n log n)."""
        if sorted(components) != self._components:
            self._components = sorted(components)
            self._make()
        super().fit(needs, components)

    def _make(self) -> None:
        self.structure = RangeTree(self._components, dtype_of(self.need), self.store.dropped)

    def _extend(self, lo: int, hi: int) -> None:
        value, valid = self.store.column(self._argument, self.where, slice(lo, hi))
        attribute, known = self.store.column(self._attribute, None, slice(lo, hi))
        self.structure.extend(sort_keys(attribute), value, valid & known)

    def query(self, wanted: Sequence[Need], lo: Ints, hi: Ints) -> dict[Need, Partial]:
        """All bands in one call per component."""
        by_component: dict[str, list[Need]] = {}
        for need in wanted:
            by_component.setdefault(need.component, []).append(need)
        found: dict[Need, Partial] = {}
        runs = len(lo)
        for component, needs in by_component.items():
            low, high = ends_of(needs)
            many_lo, many_hi = np.tile(lo, len(needs)), np.tile(hi, len(needs))
            partial = self.structure.query(
                component, many_lo, many_hi, np.repeat(low, runs), np.repeat(high, runs)
            )
            for number, need in enumerate(needs):
                found[need] = tuple(array[number * runs : (number + 1) * runs] for array in partial)
        return found

    def point_of(self, need: Need) -> Point:
        band = band_of(need)
        assert band is not None
        component, low, high, point = need.component, band.low, band.high, self.structure.point
        return lambda lo, hi: point(component, lo, hi, low, high)

    def asked_with(self, need: Need) -> Hashable:
        return need.component

    def asked(self, needs: Sequence[Need]) -> Asked:
        """Each need's own band over its own run."""
        component, (low, high) = needs[0].component, ends_of(needs)
        return lambda lo, hi: self.structure.query(component, lo, hi, low, high)

    def known_since(self, window: Window, wanted: Sequence[Need]) -> dict[Need, int]:
        both = [Need(input, "count") for input in (self._argument, self._attribute)]
        return dict.fromkeys(wanted, max(super().known_since(window, both).values()))
