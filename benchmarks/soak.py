"""Soak: a hundred million events with infinities, NaN, 1e300 and 1e16 among them; answers and memory at the end.

`python -m benchmarks.soak --billion` runs a thousand million through the fastest way, slices without keys.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.machine import describe_commit
from benchmarks.measure import Column, Result
from benchmarks.report import write_page
from muntin import Engine

COLUMNS = [
    Column("what", "what"), Column("synopses", "synopses"), Column("events", "events", ",d"),
    Column("rate", "events per CPU s", ",.0f"), Column("checks", "answers checked", ",d"),
    Column("error", "greatest error", ".0e"), Column("first_half", "most MiB, first half", ",.0f"),
    Column("second_half", "second half", ",.0f"),
]  # fmt: skip
BATCH = 1_000_000
KEYS = 1_000
SAMPLES = 20  # of answers and memory over a run
# what is in the stream shortly before every tenth batch ends in a window of ones
POISONS = (math.inf, -math.inf, math.nan, 1e300, -1e300, math.inf, 1e16)
Answer = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Shape:
    """Queries over one window, and what they answer from the values in it."""

    what: str
    events: int
    calls: dict[str, Answer]
    slide: bool = False
    keyed: bool = False

    def sql(self, call: str, span: int) -> str:
        """A query over a tenth of a batch, which lasts `span` microseconds."""
        slide = f" SLIDE {span // 20} MICROSECONDS" if self.slide else ""
        key, group_by = ("k, ", " GROUP BY k") if self.keyed else ("", "")
        return f"SELECT {key}{call} AS v FROM s [RANGE {span // 10} MICROSECONDS{slide}]{group_by}"


def _variance(x: np.ndarray) -> float:
    mean = math.fsum(x) / len(x)
    return math.fsum((x - mean) ** 2) / len(x)


def _quantile(x: np.ndarray) -> float:
    return float(np.sort(x)[math.ceil(0.99 * len(x)) - 1])


_SUMS: dict[str, Answer] = {
    "SUM(x)": math.fsum,
    "AVG(x)": lambda x: math.fsum(x) / len(x),
    "VAR_POP(x)": _variance,
}
_WHOLE: dict[str, Answer] = {"SUM(n)": lambda n: int(n.sum()), "COUNT(n)": len}
SHAPES = (
    Shape("integers, no SLIDE", 100_000_000, _WHOLE),
    Shape("doubles, no SLIDE", 100_000_000, _SUMS),
    Shape("doubles, SLIDE", 100_000_000, _SUMS, slide=True),
    Shape(f"doubles, SLIDE, {KEYS:,} keys", 100_000_000, _SUMS, slide=True, keyed=True),
    Shape("quantiles, no SLIDE", 20_000_000, {"QUANTILE(x, 0.99)": _quantile}),
    Shape("distinct values, no SLIDE", 20_000_000, {"COUNT(DISTINCT n)": lambda n: len(np.unique(n))}),
)
BILLION = Shape("doubles, SLIDE", 1_000_000_000, {"SUM(x)": math.fsum}, slide=True)


def run(quick: bool) -> Result:
    """Every shape in turn, with an engine of its own."""
    size = 20_000 if quick else BATCH
    rows = []
    for shape in SHAPES:
        _soak(shape, 0, 2_000)  # so that compiled code is in memory before it is measured
        rows.append(_soak(shape, shape.events // (1_000 if quick else 1), size, is_flat=not quick))
    return _result("soak", "Soak", rows, size)


def _result(name: str, title: str, rows: list[dict[str, Any]], size: int) -> Result:
    return Result(
        name=name,
        title=title,
        notes=(
            f"Batches of {size:,} events; queries over the last tenth of a batch. Every tenth batch has infinities, "
            "NaN, 1e300 and 1e16, and then a window of ones; every seventh is out of order; no closed windows are "
            "kept back. At twenty points answers are compared with a fresh computation over the events in the "
            "window (`math.fsum`, exact to the last digit), with a tolerance of 1e-9, and the resident memory of "
            "the process is read."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"batch": size, "samples": SAMPLES},
    )


def _soak(shape: Shape, events: int, size: int, is_flat: bool = False) -> dict[str, Any]:
    """Run one shape; with `is_flat`, memory must not follow the stream."""
    gc.collect()
    source = Source(size, shape.keyed)
    engine = Engine(backlog_bytes=0)  # nobody asks for closed windows here
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND")
    engine.register_many({call: shape.sql(call, source.span) for call in shape.calls})
    batches = max(events // size, SAMPLES)
    every = batches // SAMPLES
    checks, error, memory, spent = 0, 0.0, [], 0.0
    for turn in range(batches):
        batch = source.batch(turn)
        before = time.process_time()
        engine.push("s", batch)
        spent += time.process_time() - before
        # batches that end in ones and such that do not, whatever `every` is
        if turn % every in (0, every - 1) or turn == batches - 1:
            some, worst = _check(engine, shape, source, turn)
            checks, error = checks + some, max(error, worst)
        if (turn + 1) % every == 0:
            memory.append(_resident_mib())
    engine.check()
    assert engine.stats()["streams"]["s"]["late"] == 0, "no event may be left out"
    # the first half has filled all state, so the second may need no more, but for some slack of the allocator
    first_half, second_half = max(memory[: SAMPLES // 2]), max(memory[SAMPLES // 2 :])
    assert not is_flat or second_half <= 1.05 * first_half + 16, (shape.what, memory)
    groups = engine._shards["s"].state.manager.groups.values()
    return {
        "what": f"{shape.what}: {', '.join(shape.calls)}",
        "synopses": ", ".join(sorted({group.synopsis for group in groups})),
        "events": batches * size,
        "rate": batches * size / spent,
        "checks": checks,
        "error": error,
        "first_half": first_half,
        "second_half": second_half,
        "memory_mib": [round(each, 1) for each in memory],
    }


class Source:
    """An endless stream made of a few batches again and again, at later times."""

    def __init__(self, size: int, keyed: bool):
        rng = np.random.default_rng(17)
        self.size = size
        self.span = size * 10  # microseconds that a batch lasts
        self._at = np.arange(size) * 10
        self._disorder = np.argsort(self._at + rng.integers(0, 500_000, size), kind="stable")
        self._k = rng.integers(0, KEYS, size) if keyed else np.zeros(size, np.int64)
        self._n = rng.integers(-1_000, 1_000, (3, size))
        self._x = rng.normal(50, 10, (3, size))
        self._poisoned = self._x[0].copy()
        ones = size // 10 + size // 20  # also if the slide stands back by its half
        self._poisoned[-ones - len(POISONS) : -ones] = POISONS
        self._poisoned[-ones:] = 1.0

    def columns(self, turn: int) -> dict[str, np.ndarray]:
        """Batch number `turn`, in order of time."""
        x = self._poisoned if turn % 10 == 9 else self._x[turn % 3]
        return {"ts": self._at + turn * self.span, "k": self._k, "n": self._n[turn % 3], "x": x}

    def batch(self, turn: int) -> pa.RecordBatch:
        """The same as it arrives: every seventh out of order."""
        columns = self.columns(turn)
        if turn % 7 == 3:
            columns = {name: column[self._disorder] for name, column in columns.items()}
        return pa.RecordBatch.from_pydict(columns)


def _check(engine: Engine, shape: Shape, source: Source, turn: int) -> tuple[int, float]:
    """How many answers were compared with a fresh computation, and the greatest relative error."""
    columns, checks, worst = source.columns(turn), 0, 0.0
    for call, compute in shape.calls.items():
        table = engine.lookup(call, key=[0, 1, KEYS - 1] if shape.keyed else None)
        values = columns["n" if "n" in call.partition("(")[2] else "x"]
        for row in table.to_pylist():
            start, end = (
                np.datetime64(row[side], "us").astype(np.int64) for side in ("window_start", "window_end")
            )
            assert start >= columns["ts"][0], "the window must lie in the last batch"
            inside = (columns["ts"] >= start) & (columns["ts"] < end)
            if shape.keyed:
                inside &= columns["k"] == row["k"]
            expected = compute(values[inside])
            apart = abs(row["v"] - expected) / (abs(expected) or 1.0)
            assert apart <= 1e-9, (shape.what, call, turn, row, expected)
            checks, worst = checks + 1, max(worst, apart)
    return checks, worst


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main(arguments: list[str] | None = None) -> int:
    """Run a thousand million events; the benchmark itself is run by `python -m benchmarks soak`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument(
        "--billion", action="store_true", required=True, help="slices without keys, 1e9 events"
    )
    parser.parse_args(arguments)
    commit = describe_commit()
    _soak(BILLION, 0, 2_000)
    row = _soak(BILLION, BILLION.events, BATCH, is_flat=True)
    result = _result("soak_billion", "Soak, a thousand million events", [row], BATCH)
    print(f"written: {result.save(commit)}")
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
