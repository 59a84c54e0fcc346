"""Several structures doing the same in turns, and what comes of it: rates with their spread."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from benchmarks.figures.arasu_widom.drive import Driver
from benchmarks.measure import Timing, measure_side_by_side

RUNS = 7
QUICK_RUNS = 2


def race(
    drivers: list[Driver],
    action: Callable[[Driver], object],
    inputs: list[int],
    quick: bool,
    between: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Inputs per second of each structure, by its name, and `NAME_spread`; `between` is not timed.

    Seconds are CPU seconds: all of it is single-threaded work in memory, and what else the machine
    does disturbs them less than the clock.
    """
    actions = [lambda run: between(), *(lambda run, each=each: action(each) for each in drivers)]
    gc.freeze()  # or the collection before each run goes through all objects of Numba: 0.1 seconds each
    try:
        timings = measure_side_by_side(actions, QUICK_RUNS if quick else RUNS)[1:]
    finally:
        gc.unfreeze()
    row: dict[str, Any] = {}
    for driver, timing, count in zip(drivers, timings, inputs, strict=True):
        row |= {
            driver.name: count / timing.cpu_median,
            f"{driver.name}_spread": spread(timing),
            f"{driver.name}_inputs": count,
        }
    return row


def spread(timing: Timing) -> float:
    """Slowest minus fastest run, as a part of the median, in CPU seconds."""
    return (max(timing.cpu_seconds) - min(timing.cpu_seconds)) / timing.cpu_median
