"""From a fresh process to the first answer, with an empty and with a filled cache of compiled kernels."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT
from benchmarks.measure import RUNS, Column, Result

PHASES = ("import", "engine", "register", "push", "lookup", "advance")
COLUMNS = [
    Column("cache", "kernel cache"), Column("queries", "queries", ",d"),
    *(Column(phase, f"{phase}, CPU s", ".2f") for phase in PHASES),
    Column("cpu", "first answer, CPU s", ".2f"), Column("spread", "spread", ".0%"),
    Column("total", "first answer, s", ".2f"),
]  # fmt: skip
QUERY_COUNTS = (1, 1_000)


def run(quick: bool) -> Result:
    """Start processes with a cache directory of their own, empty at first, then full."""
    rows = []
    for count in QUERY_COUNTS[:1] if quick else QUERY_COUNTS:
        runs = 1 if quick else RUNS
        cold, warm = [], []
        for _ in range(runs):
            with tempfile.TemporaryDirectory(prefix="muntin-cold-") as directory:
                cold.append(start_process(directory, count))
                warm.append(start_process(directory, count))
        rows += [summarise("empty", count, cold), summarise("filled", count, warm)]
    return Result(
        name="cold_start",
        title="From start to the first answer",
        notes=(
            "A fresh process imports muntin, registers queries of the demo, pushes one batch of 20,000 "
            "trades, looks one query up (the first answer) and advances. Each phase is the median of the "
            "processes, in CPU time; the last column is of the clock, which runs on while a busy machine does "
            "something else. Drawing the trades is not counted. The answer is compared with a computation in NumPy."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": 1 if quick else RUNS, "events": 20_000},
    )


def start_process(cache: str, queries: int) -> dict[str, float]:
    """The CPU seconds each phase took in a child process, and the seconds up to the answer."""
    environment = {**os.environ, "MUNTIN_CACHE_DIR": cache}
    command = [sys.executable, str(Path(__file__).with_name("first_answer.py")), str(queries)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the child process failed:\n{done.stderr}")
    phases: dict[str, float] = json.loads(done.stdout)
    return phases


def summarise(cache: str, queries: int, processes: list[dict[str, float]]) -> dict[str, Any]:
    """One row: medians by phase; the first answer comes with the look-up."""
    work = [sum(phases[phase] for phase in PHASES[:-1]) for phases in processes]
    row: dict[str, Any] = {"cache": cache, "queries": queries}
    row |= {phase: statistics.median(phases[phase] for phases in processes) for phase in (*PHASES, "total")}
    row["cpu"] = statistics.median(work)
    row["spread"] = (max(work) - min(work)) / row["cpu"]
    return row
