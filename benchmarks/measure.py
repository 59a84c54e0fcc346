"""How things are measured: the median of several runs with their spread, after a warm-up."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine

RESULTS = Path(__file__).parent / "results"
RUNS = 5


@dataclass(frozen=True)
class Timing:
    """Seconds of each run, in the order they were made: of the clock, and of this process's work."""

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest minus fastest run, as a part of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median

    @property
    def cpu_median(self) -> float:
        return statistics.median(self.cpu_seconds)

    def speed_against(self, other: Timing) -> float:
        """How many times as fast as `other`, round by round, in seconds of work; made for timings of
        one `measure_side_by_side`, where each round meets the same machine."""
        pairs = zip(self.cpu_seconds, other.cpu_seconds, strict=True)
        return statistics.median(theirs / ours for ours, theirs in pairs)


@dataclass(frozen=True)
class Column:
    """A column of a result's table: `format` is a Python format specification for its values."""

    key: str
    label: str
    format: str = ""


@dataclass
class Result:
    """What a benchmark found: rows of plain values, and all it takes to print them and to judge them."""

    name: str
    title: str
    notes: str  # what was measured and how, in a few sentences
    columns: list[Column]
    rows: list[dict[str, Any]]
    parameters: dict[str, Any] = field(default_factory=dict)
    why_wide: str = ""  # why runs lie far apart, if they do and it is known: a sentence

    def save(self, commit: str, peace: dict[str, object] | None = None) -> Path:
        """Write `results/NAME.json`, with machine, commit (as it was when the run began), date, and what else the
        machine did (peace.py)."""
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        record = {
            **asdict(self),
            "machine": describe_machine() | {"peace": peace},
            "commit": commit,
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        path.write_text(json.dumps(record, indent=2) + "\n")
        return path


def measure(action: Callable[[int], object], runs: int = RUNS, warm_ups: int = 1) -> Timing:
    """Time `action(run)` for `runs` runs after `warm_ups` untimed ones; runs are numbered from 0
    with the warm-ups, so that each can have input of its own."""
    return measure_side_by_side([action], runs, warm_ups)[0]


def measure_side_by_side(
    actions: Sequence[Callable[[int], object]], runs: int = RUNS, warm_ups: int = 1
) -> list[Timing]:
    """Time several actions in turns, so that what else the machine does meets all of them alike.

    Measured one after the other on a busy machine, 10,000 windows once came out three times as fast
    as one.
    """
    samples: list[list[tuple[float, float]]] = [[] for _ in actions]
    for run in range(warm_ups + runs):
        for action, sample in zip(actions, samples, strict=True):
            spent = spent_by(partial(action, run))
            if run >= warm_ups:
                sample.append(spent)
    return [Timing(*zip(*sample, strict=True)) for sample in samples]


def spent_by(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of this process's work."""
    gc.collect()
    gc.disable()  # a collection would hit some runs and not others
    try:
        before, cpu_before = time.perf_counter(), time.process_time()
        action()
        return time.perf_counter() - before, time.process_time() - cpu_before
    finally:
        gc.enable()
