"""The stair store: slices that get coarser with age, so that short fine and long coarse windows share one state.

    level     step       holds slices
    0         1 second   [ ............ now)       events are folded here, and nowhere else
    1         1 minute   [ ....... )
    2         1 hour     [ ... )

The youngest level is an ordinary slice store. When no window can have an edge any more that only a finer level
has, the next coarser one absorbs its slices (`stair_level.py`); the oldest level forgets. Which levels there
are follows from the windows (`stair_levels.py`). As these come and go, new levels begin empty, and levels that
nobody needs any more drain into the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from muntin.aggregate.contract import Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.synopsis.batch import Batch
from muntin.synopsis.grid import window_step
from muntin.synopsis.key_rows import KeyRows
from muntin.synopsis.need import Need
from muntin.synopsis.needs import Shape
from muntin.synopsis.saved import INSTANTS, Saved
from muntin.synopsis.sequence import Sequence
from muntin.synopsis.slice_store import SliceStore
from muntin.synopsis.stair_level import StairLevel
from muntin.synopsis.stair_levels import Level, levels_for
from muntin.window import Window


class Reader(NamedTuple):
    """Windows that will be looked up at `kept_from` or later: the longest of each shape."""

    kept_from: int
    longest: Mapping[Shape, int]


class StairStore(Sequence):
    """Cells of one filtered stream and one set of keys, in levels."""

    def __init__(
        self, where: Expression | None, keys: tuple[Expression, ...], youngest: SliceStore | None = None
    ):
        self.where = where
        self.keys = keys
        self._youngest = SliceStore(where, keys) if youngest is None else youngest
        self._older: list[StairLevel] = []  # by step, which is also by age
        self.plan: tuple[Level, ...] = ()
        self._longest: dict[Shape, int] = {}  # what the plan is for
        self.version = 0  # changes whenever cells come, go or move
        self._coarse: dict[int, int] = {}  # by step: until when slices may have only the edges of that step
        self.settled = LONG_AGO  # no event before this instant is expected any more
        self._rows: dict[tuple[SliceStore, Need], KeyRows] = {}
        self.forgotten_before = self._youngest.forgotten_before

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
            self._older.append(StairLevel(self.where, self.keys, set(self._youngest.needs), step))
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
            if level in levels and level.keeps(need)
        }

    def insert(self, batch: Batch) -> None:
        """Fold a batch into the youngest level."""
        batch = self.placeable(batch)
        # what has been absorbed lies behind the watermark, so no event can belong there; nor can a cell, whose slice
        # has not ended at the watermark, though it may begin before
        assert not len(batch) or int(self._youngest.grid.start_of(batch.at[:1])[0]) >= self._absorbed_to()
        self.version += 1
        self._youngest.insert(batch)
        self.changed_from = self._youngest.changed_from + len(self) - len(self._youngest)
        for (level, _), rows in self._rows.items():
            if level is self._youngest:
                rows.follow()

    def _absorbed_to(self) -> int:
        """Where the slices of older levels end."""
        return max(
            (int(level.slice_bounds()[1][-1]) for level in self._older if len(level)), default=LONG_AGO
        )

    def forget(self, readers: Many[Reader], settled: int) -> None:
        """Drop what no reader's window can reach, and make coarser what none can have a finer edge in, where no
        event is expected any more: before `settled`. O(shapes * levels), and O(levels) amortised per cell."""
        starts = [
            (step, kept_from - kept_from % slide - size)
            for kept_from, longest in readers
            for (slide, step), size in longest.items()
        ]
        self._drop(min(start for _, start in starts))
        self.version += 1
        for younger, level in pairwise(self.levels):  # so that each granule comes whole to the next level
            assert isinstance(level, StairLevel)
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
        self._older = [StairLevel(self.where, self.keys, wanted, step) for step in steps]
        for number, level in enumerate(self.levels):
            level.restore(saved.under(f"level {number} "))
        self._check_order(saved)

    def _check_order(self, saved: Saved) -> None:
        """All that a level holds is older than what the level before it holds, and can get no event any more."""
        bounds = [level.slice_bounds() for level in self.levels if len(level)]
        if any(older[1][-1] > younger[0][0] for younger, older in pairwise(bounds)):
            raise saved.damaged("level_step", "has levels that are not in order of time")
        if any(len(level) and level.slice_bounds()[1][-1] > self.settled for level in self._older):
            raise saved.damaged("level_step", "has levels that are not settled")

    def check(self) -> None:
        for level in self.levels:
            level.check()
        # levels get coarser with age, and every step divides those of the plan after it
        assert [level.step for level in self._older] == sorted({level.step for level in self._older})
        assert all(older.step % younger.step == 0 for younger, older in pairwise(self.plan))
        # all that a level holds is older than what the level before it holds
        for younger, older in pairwise(filter(len, self.levels)):
            assert older.slice_bounds()[1][-1] <= younger.slice_bounds()[0][0]
        # what has been absorbed can get no event any more
        for older in self._older:
            assert not len(older) or older.slice_bounds()[1][-1] <= self.settled
        for rows in self._rows.values():
            rows.check()
