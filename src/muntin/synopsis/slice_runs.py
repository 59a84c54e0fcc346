"""Runs: the slices of a batch whose time goes on, which is the common case; each is a run of its events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.arrays import Ints
from muntin.synopsis.grid import Grid


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
    edges = np.searchsorted(at, np.arange(start, start + (slices + 1) * step, step))
    held = np.flatnonzero(edges[1:] > edges[:-1])
    return Runs(start + held * step, edges[held], edges[held + 1], start == last)
