"""Events per second pushed while 1 to 10,000 different windows are registered.

Sharing means that the number of windows should hardly matter: the ratio column is what to look at.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import pyarrow as pa

import muntin
from benchmarks.measure import RUNS, Column, Result, measure_side_by_side
from benchmarks.workloads import LONGEST, TRADES, Events, WindowSet

SECOND = 1_000_000
COUNTS = (1, 100, 1_000, 10_000)
BATCH_ROWS = 65_536
REGISTER_AT_ONCE = 500
PATIENCE = 120.0  # seconds for registering; beyond that the row stays empty rather than being left out
COLUMNS = [
    Column("keys", "keys"), Column("slide", "slide"), Column("windows", "windows", ",d"),
    Column("registered", "registered", ",d"), Column("register_seconds", "registering, s", ".1f"),
    Column("events_per_second", "events/s", ",.0f"), Column("spread", "spread", ".0%"),
    Column("events_per_cpu_second", "events per CPU s", ",.0f"), Column("ratio", "of 1 window", ".2f"),
    Column("state_bytes", "state, bytes", ",d"),
]  # fmt: skip
NOTES = f"""\
SUM and MAX over distinct windows inside the last {LONGEST} seconds of a trade stream. The state is filled
first; then batches are pushed, and time moves by the pushes alone. Engines with 1, 100, … windows take turns,
and the ratio is the median over the rounds, in CPU seconds: a busy machine meets all alike. After the runs a
sample of the windows is looked up and compared with a computation in NumPy. If registering takes more than
{PATIENCE:.0f} seconds it is given up: the row says how many were registered by then, and nothing is pushed."""


def run(quick: bool) -> Result:
    """Measure every combination of keys, slide and number of windows."""
    fill = round(LONGEST * TRADES.rate * (0.1 if quick else 1.1)) // BATCH_ROWS + 1
    timed = 2 if quick else 16  # batches a run
    runs = 2 if quick else RUNS
    batches = list(islice(TRADES.batches(None, BATCH_ROWS), fill + timed * (runs + 1)))
    events = Events.of(batches)
    counts = COUNTS[:2] if quick else COUNTS
    rows = [
        row
        for keyed in (False, True)
        for slide in (True, False)
        for row in measure_kind(
            [WindowSet(count, keyed, slide) for count in counts], batches, events, fill, timed, runs
        )
    ]
    return Result(
        name="push_throughput",
        title="Pushing events under many windows",
        notes=" ".join(NOTES.split()),
        columns=COLUMNS,
        rows=rows,
        parameters={
            "batch_rows": BATCH_ROWS,
            "batches_a_run": timed,
            "runs": runs,
            "symbols": TRADES.symbols,
        },
    )


def measure_kind(
    sets: list[WindowSet], batches: list[pa.RecordBatch], events: Events, fill: int, timed: int, runs: int
) -> list[dict[str, Any]]:
    """The rows of one kind of window: fill an engine per set, push to them in turns, check a sample."""
    filled = [FilledEngine(windows, batches, fill, timed) for windows in sets]
    whole = [each for each in filled if each.is_whole]
    timings = measure_side_by_side([each.push for each in whole], runs)
    for each, timing in zip(whole, timings, strict=True):
        check_answers(each.engine, each.windows, events)
        each.row |= {
            "events_per_second": timed * BATCH_ROWS / timing.median,
            "spread": timing.spread,
            "events_per_cpu_second": timed * BATCH_ROWS / timing.cpu_median,
            "ratio": timing.speed_against(timings[0]),
            "state_bytes": each.engine.stats()["streams"]["trades"]["bytes"],
        }
    return [each.row for each in filled]


class FilledEngine:
    """An engine with a set of windows, whose longest window is full; and its row of the result."""

    def __init__(self, windows: WindowSet, batches: list[pa.RecordBatch], fill: int, timed: int):
        self.windows, self.batches, self.fill, self.timed = windows, batches, fill, timed
        self.engine = muntin.Engine()
        self.engine.execute(TRADES.create_statement)
        registered, seconds = register_patiently(self.engine, windows)
        self.is_whole = registered == windows.count
        self.row: dict[str, Any] = {
            "keys": f"{TRADES.symbols:,} symbols" if windows.keyed else "none",
            "slide": "1 second" if windows.slide else "none",
            "windows": windows.count,
            "registered": registered,
            "register_seconds": seconds,
        }
        for batch in batches[:fill] if self.is_whole else []:
            self.engine.push("trades", batch)

    def push(self, run: int) -> None:
        """The batches of one run."""
        start = self.fill + run * self.timed
        for batch in self.batches[start : start + self.timed]:
            self.engine.push("trades", batch)


def register_patiently(engine: muntin.Engine, windows: WindowSet) -> tuple[int, float]:
    """Register the windows, or as many as `PATIENCE` allows: how many, in how many seconds."""
    queries = iter(windows.queries().items())
    registered, before = 0, time.perf_counter()
    while some := dict(islice(queries, REGISTER_AT_ONCE)):
        engine.register_many(some)
        registered += len(some)
        if time.perf_counter() - before > PATIENCE:
            break
    return registered, time.perf_counter() - before


def check_answers(engine: muntin.Engine, windows: WindowSet, events: Events) -> None:
    """Compare some windows, first and last among them, with NumPy."""
    instant = int(events.ts.max()) + 1
    if windows.slide:
        instant -= instant % SECOND
    bounds = windows.bounds()
    for number in sorted({0, len(bounds) - 1, len(bounds) // 2, len(bounds) // 3}):
        size, to = bounds[number]
        inside = events.between(instant - size * SECOND, instant - to * SECOND)
        rows = engine.lookup(f"window_{number}").to_pylist()
        if windows.keyed:
            found: object = {row["symbol"]: (row["volume"], row["high"]) for row in rows}
            expected: object = inside.volume_and_high()
        else:
            found = rows[0]["volume"], rows[0]["high"]
            expected = (inside.shares.sum(), inside.price.max()) if len(inside.ts) else (None, None)
        assert found == expected, f"window_{number} differs from NumPy"
