"""Structures at the same work in turns, and what comes of it: rates with their spread."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Timing, measure_side_by_side

RUNS = 11
QUICK_RUNS = 2


@dataclass(frozen=True)
class Entrant:
    """One structure at one point of a figure: what it does in a run, and how many inputs that is."""

    name: str
    action: Callable[[], object]
    inputs: int


def race(
    points: list[list[Entrant]], quick: bool, between: Callable[[], object] = lambda: None
) -> list[dict[str, Any]]:
    """For each point, inputs per second by name, and `NAME_spread`. `between` is not timed.

    A round is a run of every entrant of every point, so that a slow minute of the machine bends no line.
    Seconds are CPU seconds: all is single-threaded work in memory, and what else the machine does disturbs
    them less than the clock.
    """
    entrants = [entrant for point in points for entrant in point]
    actions = [lambda run: between(), *(lambda run, each=each: each.action() for each in entrants)]
    gc.freeze()  # or the collection before each run goes through all objects of Numba: 0.1 seconds each
    try:
        timings = iter(measure_side_by_side(actions, QUICK_RUNS if quick else RUNS)[1:])
    finally:
        gc.unfreeze()
    return [_row(point, [next(timings) for _ in point]) for point in points]


def _row(point: list[Entrant], timings: list[Timing]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for entrant, timing in zip(point, timings, strict=True):
        row[entrant.name] = entrant.inputs / timing.cpu_median
        row[f"{entrant.name}_spread"] = spread(timing)
        row[f"{entrant.name}_inputs"] = entrant.inputs
    return row


def spread(timing: Timing) -> float:
    """Slowest minus fastest run, as a part of the median, in CPU seconds."""
    return (max(timing.cpu_seconds) - min(timing.cpu_seconds)) / timing.cpu_median
