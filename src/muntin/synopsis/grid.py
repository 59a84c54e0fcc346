"""A grid: where slices begin, which may become finer as time goes on.

The edges of every window on a grid fall on multiples of its step. When a new window needs a finer
step, slices so far stay as they are, the last of them cut short, and later ones are finer: windows on
the old grid notice nothing, the new one is complete once its range lies where the grid has its edges.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from muntin.synopsis.contract import LONG_AGO, Arrays, Ints
from muntin.window import Window


class Grid:
    """
    >>> grid = Grid(10)
    >>> grid.refine(4, now=25)  # from 26 on, in steps of 2
    >>> grid.start_of(np.array([25, 33])).tolist(), grid.end_of(np.array([20, 32])).tolist()
    ([20, 32], [26, 34])
    """

    def __init__(self, step: int):
        self._have(np.array([LONG_AGO]), np.array([step]))

    def _have(self, since: Ints, step: Ints) -> None:
        self._from = since  # the step in force from each instant on, newest last …
        self._step = step  # … every one divides the one before
        self.step = int(step[-1])  # in force now
        self.is_uniform = len(step) == 1  # whether all slices kept have one width

    def refine(self, step: int, now: int | None) -> None:
        """Have edges at multiples of `step` too, from the next one on; all events so far are before `now`."""
        if now is None:
            self._have(self._from, np.append(self._step[:-1], step))  # nothing lies on the grid yet
        elif step % self.step:
            finer = gcd(step, self.step)
            self._have(np.append(self._from, -(-now // finer) * finer), np.append(self._step, finer))

    def step_at(self, at: Ints) -> Ints:
        """Width of the slice that an instant falls in."""
        if len(self._step) == 1:
            return np.broadcast_to(self._step, at.shape)
        return self._step[np.searchsorted(self._from, at, side="right") - 1]

    def start_of(self, at: Ints) -> Ints:
        return at - at % self.step_at(at)

    def end_of(self, start: Ints) -> Ints:
        ends = start + self.step_at(start)
        if len(self._step) == 1:
            return ends
        later = np.append(self._from[1:], 2**63 - 1)  # where the next step comes into force
        cut: Ints = np.minimum(ends, later[np.searchsorted(self._from, start, side="right") - 1])
        return cut

    def has_edges_from(self, window: Window) -> int:
        """The instant from which on the grid has all edges of `window`."""
        if self.is_uniform:
            return int(self._from[0])
        return int(self._from[np.argmax(window_step(window) % self._step == 0)])

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
        ):  # nothing lies before any more, so the oldest step left might as well have been there for ever
            self._have(np.append(LONG_AGO, self._from[current + 1 :]), self._step[current:])

    def snapshot(self) -> Arrays:
        return {"grid_from": self._from, "grid_step": self._step}

    def restore(self, arrays: Arrays) -> None:
        self._have(arrays["grid_from"].copy(), arrays["grid_step"].copy())


def window_step(window: Window) -> int:
    """The coarsest grid that has all edges of a window."""
    return gcd(window.size, window.to, window.slide)
