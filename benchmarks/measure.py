"""How things are measured: the median of several runs with their spread, after a warm-up."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine

RESULTS = Path(__file__).parent / "results"
RUNS = 5


@dataclass(frozen=True)
class Timing:
    """Seconds of each run, in the order they were made."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest minus fastest run, as a part of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


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

    def save(self, commit: str) -> Path:
        """Write `results/NAME.json`, with machine, commit (as it was when the run began) and date."""
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        record = {
            **asdict(self),
            "machine": describe_machine(),
            "commit": commit,
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        path.write_text(json.dumps(record, indent=2) + "\n")
        return path


def measure(action: Callable[[int], object], runs: int = RUNS, warm_ups: int = 1) -> Timing:
    """Time `action(run)` for `runs` runs after `warm_ups` untimed ones; runs are numbered from 0
    with the warm-ups, so that each can have input of its own."""
    seconds = []
    for run in range(warm_ups + runs):
        gc.collect()
        gc.disable()  # a collection would hit some runs and not others
        try:
            before = time.perf_counter()
            action(run)
            spent = time.perf_counter() - before
        finally:
            gc.enable()
        if run >= warm_ups:
            seconds.append(spent)
    return Timing(tuple(seconds))
