"""Events per second pushed while 1, 100 or 10,000 different windows are registered.

Sharing means that the number of windows should hardly matter: the ratio column is what to look at.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa

import muntin
from benchmarks.measure import RUNS, Column, Result, measure
from benchmarks.workloads import LONGEST, TRADES, Events, WindowSet

SECOND = 1_000_000
COUNTS = (1, 100, 10_000)
BATCH_ROWS = 65_536
COLUMNS = [
    Column("keys", "keys"), Column("slide", "slide"), Column("windows", "windows", ",d"),
    Column("events_per_second", "events/s", ",.0f"), Column("spread", "spread", ".0%"),
    Column("ratio", "of 1 window", ".2f"), Column("state_bytes", "state, bytes", ",d"),
]  # fmt: skip


def run(quick: bool) -> Result:
    """Measure every combination of keys, slide and number of windows."""
    fill = round(LONGEST * TRADES.rate * (0.1 if quick else 1.1)) // BATCH_ROWS + 1
    timed = 2 if quick else 16  # batches a run
    runs = 2 if quick else RUNS
    batches = list(islice(TRADES.batches(None, BATCH_ROWS), fill + timed * (runs + 1)))
    events = Events.of(batches)
    rows: list[dict[str, Any]] = []
    for keyed in (False, True):
        for slide in (True, False):
            for count in COUNTS[:2] if quick else COUNTS:
                windows = WindowSet(count, keyed, slide)
                rows.append(measure_pushes(windows, batches, events, fill, timed, runs))
                single = next(
                    row
                    for row in rows
                    if row["keys"] == rows[-1]["keys"] and row["slide"] == rows[-1]["slide"]
                )
                rows[-1]["ratio"] = rows[-1]["events_per_second"] / single["events_per_second"]
    return Result(
        name="push_throughput",
        title="Pushing events under many windows",
        notes=(
            f"SUM and MAX over distinct windows inside the last {LONGEST} seconds of a trade stream. The "
            "state is filled first; then batches are pushed, and time moves by the pushes alone. After the "
            "runs a sample of the windows is looked up and compared with a computation in NumPy."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={
            "batch_rows": BATCH_ROWS,
            "batches_a_run": timed,
            "runs": runs,
            "symbols": TRADES.symbols,
        },
    )


def measure_pushes(
    windows: WindowSet, batches: list[pa.RecordBatch], events: Events, fill: int, timed: int, runs: int
) -> dict[str, Any]:
    """One row of the result: fill an engine, time the pushes that follow, check a sample of answers."""
    engine = muntin.Engine()
    engine.execute(TRADES.create_statement)
    engine.register_many(windows.queries())
    for batch in batches[:fill]:
        engine.push("trades", batch)

    def push(run: int) -> None:
        start = fill + run * timed
        for batch in batches[start : start + timed]:
            engine.push("trades", batch)

    timing = measure(push, runs)
    check_answers(engine, windows, events)
    return {
        "keys": f"{TRADES.symbols:,} symbols" if windows.keyed else "none",
        "slide": "1 second" if windows.slide else "none",
        "windows": windows.count,
        "events_per_second": timed * BATCH_ROWS / timing.median,
        "spread": timing.spread,
        "state_bytes": engine.stats()["streams"]["trades"]["bytes"],
    }


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
            found = {row["symbol"]: (row["volume"], row["high"]) for row in rows}
            expected = inside.volume_and_high()
        else:
            found = rows[0]["volume"], rows[0]["high"]
            expected = (inside.shares.sum(), inside.price.max()) if len(inside.ts) else (None, None)
        assert found == expected, f"window_{number} differs from NumPy"
