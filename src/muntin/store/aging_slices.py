"""Aging slices: slice stores that get coarser with age, so that short fine and long coarse windows share one state.

    level     step       holds slices
    0         1 second   [ ............ now)       events are folded here, and nowhere else
    1         1 minute   [ ....... )
    2         1 hour     [ ... )

The youngest level is an ordinary slice store. When no window can have an edge any more that only a finer level
has, the next coarser one absorbs its slices (`AgedSlices`); the oldest level forgets. Which levels there
are follows from the windows (`granularity.py`). As these come and go, new levels begin empty, and levels that
nobody needs any more drain into the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from itertools import pairwise
from typing import Any

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.kernels.slices import append_cells
from muntin.store.batch import Batch
from muntin.store.cells import Cells, identities_of, saved_ends, saved_slices
from muntin.store.granularity import Level, granules_within, levels_for
from muntin.store.grid import window_step
from muntin.store.key_rows import KeyRows
from muntin.store.needs import Need, Shape
from muntin.store.saved import INSTANTS, Saved
from muntin.store.sequence import Reader, Sequence, Wanted
from muntin.store.slice_store import SliceStore
from muntin.store.together import Appended
from muntin.window import Pace, Window

# A level of stairs: slices that were folded from those of a younger level.
#
# Events never reach it. What the younger level needs no longer at its resolution is *absorbed*: all slices
# that lie in one granule become one slice, cell by cell of each key.
#
# younger  [ 57s  58s  59s | 60s  61s ... 119s | 120s        absorbed until 120s, in granules of 60s
# level    [ ......... 57-60s | 60-120s                      slices keep the bounds of what they are made of
# A slice that does not lie in one granule, because the windows were others when it was made, stays.


def _bounds(level: SliceStore) -> tuple[Ints, Ints]:
    """Where all slices of a level begin and end."""
    return level.edges(0, len(level))


class AgedSlices(SliceStore):
    """Slices of one step, each with its own end."""

    def __init__(self, where: Expression | None, keys: tuple[Expression, ...], wanted: set[Need], step: int):
        super().__init__(where, keys)
        self._slices.add("end", np.dtype(np.int64), 0)
        self.fit(dict.fromkeys(wanted, True), step, None)

    @property
    def step(self) -> int:
        """Width of a granule."""
        return self.grid.step

    def absorb(self, younger: SliceStore, until: int) -> bool:
        """Take over the slices of a younger level that end by `until`, a multiple of the step; O(their cells).
        Whether there were any."""
        start, end = _bounds(younger)
        count = int(end.searchsorted(until, side="right"))
        if not count:
            return False
        first = _first_of_granules(start[:count], end[:count], self.step)
        edges = younger.first_cells(0)
        lo, hi = edges[first], edges[[*first[1:], count]]
        bounds = {"start": start[first], "end": end[[*(first[1:] - 1), count - 1]]}
        first_cell = self._merge(younger, int(edges[count]), lo, hi)
        self._slices.extend({**bounds, "cell": first_cell})
        younger.hand_over(count)
        return True

    def _merge(self, younger: SliceStore, count: int, lo: Ints, hi: Ints) -> Ints:
        """Merge runs of the first `count` cells by key, into new cells; where the run of each begins."""
        following = self.dropped_cells + len(self._cells)
        if self._together is None or not self.keys:
            return self._merge_by_component(younger, count, lo, hi, following)
        place = Appended.to(self._cells, self.chains, lo, hi, younger.cell_key[:count], following)
        self._cells.count_in(self._together.merge(younger.columns_of_cells(), place))
        return place.first_cell

    def _merge_by_component(
        self, younger: SliceStore, count: int, lo: Ints, hi: Ints, following: int
    ) -> Ints:
        key, last = younger.cell_key[:count], np.full(1, -1)
        if self.keys:
            self.chains.reserve(int(key.max()) + 1)
            last = self.chains.last
        cell, new_key, prior = (np.empty(count, np.int64) for _ in range(3))
        first_cell = np.empty(len(lo), np.int64)
        made = append_cells(lo, hi, key, last, following, following, cell, new_key, prior, first_cell)
        fresh = {"key": new_key[:made]} | ({"prior": prior[:made]} if self.keys else {})
        self._cells.extend_with(fresh, identities_of(self._names))
        part = slice(following - self.dropped_cells, None)
        for need in self._names:
            COMPONENTS[need.component].merge(
                np.zeros(1, np.int64), np.full(1, count), 0, cell - following,
                younger.cells(need, slice(0, count)), self.cells(need, part),
            )  # fmt: skip
        return first_cell

    def forget(self, before: int) -> None:
        """Drop slices that begin before an instant."""
        start, end = _bounds(self)
        gone = int(start.searchsorted(before))
        if gone:
            self.forgotten_before = int(end[gone - 1])
            self.hand_over(gone)

    def runs(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        starts, ends = _bounds(self)
        lo = starts.searchsorted(start)
        return lo, np.maximum(lo, ends.searchsorted(end, side="right"))

    def edges(self, lo: int, hi: int) -> tuple[Ints, Ints]:
        return self._slices["start"][lo:hi], self._slices["end"][lo:hi]

    def run(self, start: int, end: int) -> tuple[int, int]:
        lo = self._slices.find_run("start", start, start)[0]
        return lo, self._slices.find_run("end", end + 1, end + 1)[0]

    def _check_bounds(self) -> None:
        start, end = _bounds(self)
        # slices do not overlap
        assert bool(np.all(start < end))
        assert bool(np.all(end[:-1] <= start[1:]))

    def _saved_slices(self, saved: Saved, first: int, cells: int) -> Arrays:
        slices = saved_slices(saved, first, cells)
        return {**slices, "end": saved_ends(saved, slices["start"])}

    def insert(self, batch: Any) -> None:
        raise NotImplementedError("events go to the youngest level")


def _first_of_granules(start: Ints, end: Ints, step: int) -> Ints:
    """Index of the first slice in each granule; slices that lie in none have one of their own.

    >>> _first_of_granules(np.array([0, 4, 8, 16, 20]), np.array([4, 8, 14, 18, 24]), 12).tolist()
    [0, 2, 3]
    """
    granule = start // step
    is_alone = end > (granule + 1) * step
    is_first = np.ones(len(start), np.bool_)
    is_first[1:] = (granule[1:] != granule[:-1]) | is_alone[1:] | is_alone[:-1]
    return np.flatnonzero(is_first)


class AgingSlices(Sequence):
    """Cells of one filtered stream and one set of keys, in levels."""

    def __init__(
        self, where: Expression | None, keys: tuple[Expression, ...], youngest: SliceStore | None = None
    ):
        self.where = where
        self.keys = keys
        self._youngest = SliceStore(where, keys) if youngest is None else youngest
        self._older: list[AgedSlices] = []  # by step, which is also by age
        self.plan: tuple[Level, ...] = ()
        self._longest: dict[Shape, int] = {}  # what the plan is for
        self.version = 0  # changes whenever cells come, go or move
        self._coarse: dict[int, int] = {}  # by step: until when slices may have only the edges of that step
        self.settled = LONG_AGO  # no event before this instant is expected any more
        self._rows: dict[tuple[SliceStore, Need], KeyRows] = {}
        self.forgotten_before = self._youngest.forgotten_before

    @property
    def youngest(self) -> SliceStore:
        return self._youngest

    @property
    def levels(self) -> list[SliceStore]:
        """From the youngest and finest to the oldest and coarsest."""
        return [self._youngest, *self._older]

    @property
    def dropped(self) -> int:
        return self._youngest.dropped

    def __len__(self) -> int:
        return sum(map(len, self.levels))

    def rows(self, level: SliceStore, need: Need) -> KeyRows:
        """What is kept of a component in rows, in a level; all readers share it."""
        if (level, need) not in self._rows:
            self._rows[level, need] = KeyRows(level, need)
        return self._rows[level, need]

    def elements_in(self, span: int) -> float:
        return float(min(granules_within(self.plan, span), len(self)))

    def can_place(self, instant: int) -> bool:
        return instant >= self.settled

    def serve(self, wanted: Wanted, changed: Mapping[Need, bool], now: int | None) -> None:
        self.fit(changed, wanted.longest, now)

    def fit(self, changed: Mapping[Need, bool], longest: Mapping[Shape, int], now: int | None) -> None:
        """Have the levels for these windows from now on; keep the components that are True in `changed`, and no
        longer those that are False. O(cells) for each that is new."""
        self.version += 1
        if longest != self._longest:
            self.plan, self._longest = levels_for(longest), dict(longest)
        self._youngest.fit(changed, self.plan[0].step, now)
        for level in self._older:
            level.fit(changed, level.step, now)
        for step in {level.step for level in self.plan[1:]} - {level.step for level in self._older}:
            self._older.append(AgedSlices(self.where, self.keys, set(self._youngest.needs), step))
        self._older.sort(key=lambda level: level.step)
        self._retire()

    def _retire(self) -> None:
        """Give up levels that nobody needs, once they are empty."""
        steps = {level.step for level in self.plan[1:]}
        self._older = [level for level in self._older if len(level) or level.step in steps]
        levels = set(self.levels)
        self._rows = {
            (level, need): rows
            for (level, need), rows in self._rows.items()
            if level in levels and need in level.needs
        }

    def insert(self, batch: Batch) -> None:
        """Fold a batch into the youngest level."""
        batch = self.placeable(batch)
        # what has been absorbed lies behind the watermark, so no event can belong there; nor can a cell, whose slice
        # has not ended at the watermark, though it may begin before
        absorbed = self._absorbed_to()
        if len(batch) and int(self._youngest.grid.start_of(np.array([batch.earliest]))[0]) < absorbed:
            assert isinstance(batch, Cells)
            batch = batch.since(absorbed)
        self.version, self._youngest.crew = self.version + 1, self.crew
        self._youngest.insert(batch)
        self.changed_from = self._youngest.changed_from + len(self) - len(self._youngest)
        for (level, _), rows in self._rows.items():
            if level is self._youngest:
                rows.follow()

    def _absorbed_to(self) -> int:
        """Where the slices of older levels end."""
        return max((int(_bounds(level)[1][-1]) for level in self._older if len(level)), default=LONG_AGO)

    def release(self, readers: Many[Reader], settled: int) -> None:
        """Drop what no reader's window can reach, and make coarser what none can have a finer edge in, where no
        event is expected any more: before `settled`. O(shapes * levels), and O(levels) amortised per cell."""
        starts = [
            (step, Pace(slide, offset).floor(each.kept_from) - size)
            for each in readers
            for (slide, step, offset), size in each.needs.longest().items()
        ]
        self._drop(min(start for _, start in starts))
        self.version += 1
        for younger, level in pairwise(self.levels):  # so that each granule comes whole to the next level
            assert isinstance(level, AgedSlices)
            until = min([settled, *(start for step, start in starts if step % level.step)])
            until -= until % level.step
            if level.absorb(younger, until):
                self._coarse[level.step] = until
                self.settled = max(self.settled, until)
                self._forget_grid(until)
        self._retire()

    def _forget_grid(self, until: int) -> None:
        """Where the youngest level had coarser slices that are gone from it now, remember that."""
        grid = self._youngest.grid
        for step, ended in grid.superseded(until):
            self._coarse[step] = max(ended, self._coarse.get(step, LONG_AGO))
        grid.forget(until)

    def _drop(self, before: int) -> None:
        for level in reversed(self.levels):
            level.forget(before)
            self.forgotten_before = max(self.forgotten_before, level.forgotten_before)
        kept = self._coarse.items()
        self._coarse = {step: until for step, until in kept if until > self.forgotten_before}

    def sharp_from(self, window: Window) -> int:
        """The instant from which on nothing that a window needs has been dropped or made too coarse."""
        step = window_step(window)
        coarse = [until for each, until in self._coarse.items() if step % each]
        return max(self.forgotten_before, *coarse) if coarse else self.forgotten_before

    def known_since(
        self, window: Window, need: Need, where: Expression | None, keys: tuple[Expression, ...]
    ) -> int:
        youngest = self._youngest.known_since(window, need, where, keys)
        return max(self.began_at, youngest, self.sharp_from(window))

    def runs(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Slices of all levels, counted from the oldest."""
        found = [level.runs(start, end) for level in self.levels]
        lo, hi = (np.add.reduce(side) for side in zip(*found, strict=True))
        return lo, hi

    def edges(self, lo: int, hi: int) -> tuple[Ints, Ints]:
        bounds = [level.edges(0, len(level)) for level in self.levels]
        start, end = (np.concatenate(side) for side in zip(*bounds, strict=True))
        order = np.argsort(start, kind="stable")[lo:hi]
        return start[order], end[order]

    def run(self, start: int, end: int) -> tuple[int, int]:
        lo, hi = self.runs(np.array([start]), np.array([end]))
        return int(lo[0]) + self.dropped, int(hi[0]) + self.dropped

    def lifted(self, need: Need, where: Expression | None, lo: int, hi: int) -> Partial:
        raise NotImplementedError("slices of different levels are no elements of one structure")

    def mark_keys(self, keys: tuple[Expression, ...], used: Bools) -> None:
        for level in self.levels:
            level.mark_keys(keys, used)

    def renumber_keys(self, keys: tuple[Expression, ...], new_id: Ints) -> None:
        self.version += 1
        for level in self.levels:
            level.renumber_keys(keys, new_id)
        if keys == self.keys:
            self._begin_rows_again()

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        for level in self.levels:
            level.mark_texts(argument, used)

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        for level in self.levels:
            level.renumber_texts(argument, new_code)
        self._begin_rows_again()

    def _begin_rows_again(self) -> None:
        for rows in self._rows.values():
            rows.begin_again()

    def nbytes(self) -> int:
        return sum(level.nbytes() for level in self.levels) + sum(r.nbytes() for r in self._rows.values())

    def held_bytes(self) -> int:
        return sum(level.held_bytes() for level in self.levels)

    def __str__(self) -> str:
        return "; ".join(map(str, self.levels))

    def snapshot(self) -> Arrays:
        arrays: Arrays = {
            "meta": np.array([self.began_at, self.forgotten_before, self.settled], np.int64),
            "level_step": np.array([level.step for level in self._older], np.int64),
            "coarse_step": np.array([*self._coarse], np.int64),
            "coarse_until": np.array([*self._coarse.values()], np.int64),
        }
        for number, level in enumerate(self.levels):
            arrays |= {f"level {number} {name}": array for name, array in level.snapshot().items()}
        return arrays

    def restore(self, saved: Saved) -> None:
        self.version += 1
        settled = INSTANTS[0], max(INSTANTS[0], saved.settled)
        self.began_at, self.forgotten_before, self.settled = saved.numbers(
            "meta", INSTANTS, INSTANTS, settled
        )
        coarse = saved.ints("coarse_step", (1, 2**62))
        until = saved.times("coarse_until", len(coarse), order="any")
        self._coarse = dict(zip(coarse.tolist(), until.tolist(), strict=True))
        steps = saved.ints("level_step", (1, 2**62), order="strictly").tolist()
        wanted = set(self._youngest.needs)
        self._older = [AgedSlices(self.where, self.keys, wanted, step) for step in steps]
        for number, level in enumerate(self.levels):
            level.restore(saved.under(f"level {number} "))
        self._check_order(saved)

    def _check_order(self, saved: Saved) -> None:
        """All that a level holds is older than what the level before it holds, and can get no event any more."""
        bounds = [_bounds(level) for level in self.levels if len(level)]
        if any(older[1][-1] > younger[0][0] for younger, older in pairwise(bounds)):
            raise saved.damaged("level_step", "has levels that are not in order of time")
        if any(len(level) and _bounds(level)[1][-1] > self.settled for level in self._older):
            raise saved.damaged("level_step", "has levels that are not settled")

    def check(self) -> None:
        for level in self.levels:
            level.check()
        # levels get coarser with age, and every step divides those of the plan after it
        assert [level.step for level in self._older] == sorted({level.step for level in self._older})
        assert all(older.step % younger.step == 0 for younger, older in pairwise(self.plan))
        # all that a level holds is older than what the level before it holds
        for younger, older in pairwise(filter(len, self.levels)):
            assert _bounds(older)[1][-1] <= _bounds(younger)[0][0]
        # what has been absorbed can get no event any more
        for older in self._older:
            assert not len(older) or _bounds(older)[1][-1] <= self.settled
        for rows in self._rows.values():
            rows.check()
