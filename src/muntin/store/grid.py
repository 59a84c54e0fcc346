"""A grid: where slices begin, which may become finer or coarser as time goes on.

The edges of every window on a grid fall on multiples of its step. When a new window needs a finer
step, slices so far stay as they are, the last of them cut short, and later ones are finer: windows on
the old grid notice nothing, the new one is complete once its range lies where the grid has its edges. When
that window goes, slices get wide again, from the next edge of those that are left.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Ints
from muntin.store.saved import Saved
from muntin.window import Window

_MANY = 16  # instants of a slice on average, for a search to be quicker than to divide each


class Grid:
    """
    >>> grid = Grid(10)
    >>> grid.fit(2, now=25)  # from 26 on, in steps of 2
    >>> grid.start_of(np.array([25, 33])).tolist(), grid.end_of(np.array([20, 32])).tolist()
    ([20, 32], [26, 34])
    >>> grid.fit(10, now=31)  # from 40 on, in steps of 10 again
    >>> grid.start_of(np.array([33, 45])).tolist(), grid.end_of(np.array([38, 40])).tolist()
    ([32, 40], [40, 50])
    """

    def __init__(self, step: int):
        self._have(np.array([LONG_AGO]), np.array([step]))

    def _have(self, since: Ints, step: Ints) -> None:
        self._from = since  # the step in force from each instant on, newest last; slices are cut short there
        self._step = step
        self.step = int(step[-1])  # in force now
        self.is_uniform = len(step) == 1  # whether all slices kept have one width

    def fit(self, step: int, now: int | None) -> None:
        """Have edges at multiples of `step` and no others, from the next one on; all events so far are before
        `now`. What was to come into force later is undone: nobody has met it."""
        if self.is_uniform and step == self.step:
            return  # nearly every query that comes or goes
        if now is None:
            self._have(self._from[:1], np.array([step]))  # nothing lies on the grid yet
            return
        met = max(1, int(np.searchsorted(self._from, now)))
        since, steps = self._from[:met], self._step[:met]
        if steps[-1] != step:
            since, steps = np.append(since, -(-now // step) * step), np.append(steps, step)
        if len(steps) != len(self._step) or steps[-1] != self.step:
            self._have(since, steps)

    def step_at(self, at: Ints) -> Ints:
        """Width of the slice that an instant falls in."""
        if len(self._step) == 1:
            return np.broadcast_to(self._step, at.shape)
        return self._step[np.searchsorted(self._from, at, side="right") - 1]

    def start_of(self, at: Ints) -> Ints:
        return at - at % (self._step if len(self._step) == 1 else self.step_at(at))

    def starts_of(self, at: Ints) -> Ints:
        """`start_of` ascending instants: nothing is divided where many of them lie in one slice."""
        first = int(self.start_of(at[:1])[0])
        slices = (int(at[-1]) - first) // self.step + 1
        if slices * _MANY > len(at) or not self.is_uniform_from(first):
            return self.start_of(at)
        starts = first + np.arange(slices) * self.step
        edges = np.searchsorted(at, starts[1:])
        return starts.repeat(np.diff(edges, prepend=0, append=len(at)))

    def end_of(self, start: Ints) -> Ints:
        ends = start + self.step_at(start)
        if len(self._step) == 1:
            return ends
        later = np.append(self._from[1:], 2**63 - 1)  # where the next step comes into force
        cut: Ints = np.minimum(ends, later[np.searchsorted(self._from, start, side="right") - 1])
        return cut

    def last_whole(self, end: Any) -> Any:
        """Slices are over by an instant, or by many, iff they begin before this."""
        current = np.searchsorted(self._from, end, side="right") - 1
        return np.maximum(self._from[current], end - self._step[current] + 1)

    def has_edges_from(self, window: Window) -> int:
        """The instant from which on the grid has all edges of `window`."""
        if len(self._step) == 1:
            return int(self._from[0])
        lacks = np.flatnonzero(window_step(window) % self._step)
        return int(self._from[lacks[-1] + 1 if len(lacks) else 0])

    def is_uniform_from(self, instant: int) -> bool:
        """Whether one step is in force from `instant` on."""
        return bool(instant >= self._from[-1])

    def superseded(self, before: int) -> list[tuple[int, int]]:
        """The steps that a finer one has followed by an instant, each with the instant it ended at."""
        ended = int(np.searchsorted(self._from, before, side="right")) - 1
        return list(zip(self._step[:ended].tolist(), self._from[1 : ended + 1].tolist(), strict=True))

    def forget(self, before: int) -> None:
        current = int(np.searchsorted(self._from, before, side="right")) - 1
        if (
            current
        ):  # nothing lies before any more: the oldest step left might as well have been there for ever
            self._have(np.append(LONG_AGO, self._from[current + 1 :]), self._step[current:])

    def snapshot(self) -> Arrays:
        return {"grid_from": self._from, "grid_step": self._step}

    def restore(self, saved: Saved) -> None:
        """The steps that were in force; the last of them has the edges of the one that the grid was fitted to."""
        since = saved.times("grid_from", order="strictly")
        step = saved.ints("grid_step", (1, 2**62), len(since))
        if not len(since) or since[0] != LONG_AGO:
            raise saved.damaged("grid_from", "does not begin with what was there for ever")
        if self.step % int(step[-1]):
            raise saved.damaged("grid_step", f"lacks edges at multiples of {self.step}")
        self._have(since.copy(), step.copy())


def window_step(window: Window) -> int:
    """The coarsest grid that has all edges of a window, and of those inside it that are asked for."""
    return gcd(window.size, window.start(0), window.to, window.slide, window.offset, window.step)


# Runs: the slices of a batch whose time goes on, which is the common case; each is a run of its events.


class Runs(NamedTuple):
    """Slices of a batch in order: where they start, and which events `[lo, hi)` they hold."""

    start: Ints
    lo: Ints
    hi: Ints
    continues: bool  # whether the first one is the last slice so far


def runs_in_order(at: Ints, grid: Grid, last: int | None) -> Runs | None:
    """The runs of events at ascending times, the first of which may continue the slice that starts at `last`, the
    latest so far; None if the batch is another case."""
    start, step = int(grid.start_of(at[:1])[0]), grid.step
    slices = (int(at[-1]) - start) // step + 1
    is_behind = last is not None and start < last
    if is_behind or not grid.is_uniform_from(start) or slices > 2 * len(at) + 16:
        return None
    if slices == 1:  # of small batches, nearly always
        return Runs(np.array([start]), np.array([0]), np.array([len(at)]), start == last)
    edges = np.searchsorted(at, np.arange(start, start + (slices + 1) * step, step))
    held = np.flatnonzero(edges[1:] > edges[:-1])
    return Runs(start + held * step, edges[held], edges[held + 1], start == last)
