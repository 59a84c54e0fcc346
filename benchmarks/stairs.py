"""Windows per key of very different length and slide: stairs beside one grid, and beside a grid for each."""

from __future__ import annotations

from typing import Any

import numpy as np

import muntin
from benchmarks.measure import RUNS, Column, Result, measure_side_by_side
from muntin.store.slice_store import SliceStore

SECOND = 1_000_000
KEYS = 20
EVERY = 5  # seconds between two events of a key
BATCH = 600  # seconds
WINDOWS = {
    "day": ((60, 1), (3_600, 60), (86_400, 3_600)),
    "month": ((60, 1), (3_600, 60), (2_592_000, 3_600)),
}
COLUMNS = [
    Column("windows", "longest window"), Column("state", "state"), Column("granules", "granules a key", ",.0f"),
    Column("state_bytes", "bytes a key", ",.0f"), Column("push", "push, M events per CPU s", ".2f"),
    Column("lookup", "all keys, CPU us", ",.0f"), Column("one", "one key, CPU us", ",.0f"),
    Column("spread", "spread", ".0%"),
]  # fmt: skip
NOTES = f"""\
SUM, COUNT and MAX per key over 1 minute SLIDE 1 SECOND, 1 hour SLIDE 1 MINUTE, and a day or 30 days SLIDE 1 HOUR;
{KEYS} keys with an event every {EVERY} seconds each, in batches of {BATCH} seconds, after the longest window is full.
*Stairs* is what the planner chooses; *one grid* is the same queries with a hint for slices, where the longest window
has few enough of them; *a grid each* is an engine for each window, their costs added up. Pushes take turns.
Bytes are those of slices and cells. A look-up is of the longest window; its answers are compared with NumPy."""


def run(quick: bool) -> Result:
    """Measure both sets of windows."""
    rows = [row for name in WINDOWS for row in measure_windows(name, quick)]
    return Result("stairs", "Windows of very different length per key", " ".join(NOTES.split()), COLUMNS, rows,
                  {"batch_seconds": BATCH, "keys": KEYS, "runs": RUNS})  # fmt: skip


def measure_windows(name: str, quick: bool) -> list[dict[str, Any]]:
    """A row for each kind of state."""
    windows = WINDOWS[name]
    fill = windows[-1][0] // BATCH // (24 if quick else 1) + 12
    runs = 2 if quick else RUNS
    states = {"stairs": [engine_of(windows, "")], "a grid each": [engine_of((each,), "") for each in windows]}
    if name == "day":
        states["one grid"] = [engine_of(windows, "/*+ SYNOPSIS(slices) */")]
    for number in range(fill):
        for engine in (engine for engines in states.values() for engine in engines):
            engine.push("s", make_batch(number))
    actions = [lambda run, some=some: push(some, fill + run) for some in states.values()]
    rows = []
    for (state, engines), timing in zip(states.items(), measure_side_by_side(actions, runs), strict=True):
        for engine in engines:
            shard = engine._shards["s"].state
            shard.forget_before(shard.clock.watermark)  # as if all windows so far had been asked for
        longest, levels = engines[-1], [each for engine in engines for each in levels_of(engine)]
        check_answers(longest, windows[-1], fill + runs + 1)
        lookups = measure_side_by_side(
            [
                lambda run, longest=longest: longest.lookup(f"q{windows[-1][0]}"),
                lambda run, longest=longest: longest.lookup(f"q{windows[-1][0]}", key=3),
            ],
            10 * runs,
        )
        rows.append(
            {
                "windows": f"1 {name}",
                "state": state,
                "granules": sum(len(each.cell_key) for each in levels) / KEYS,
                "state_bytes": sum(each.nbytes() for each in levels) / KEYS,
                "push": BATCH // EVERY * KEYS / timing.cpu_median / 1e6,
                "lookup": lookups[0].cpu_median * 1e6,
                "one": lookups[1].cpu_median * 1e6,
                "spread": timing.spread,
            }
        )
    return rows


def engine_of(windows: tuple[tuple[int, int], ...], hint: str) -> muntin.Engine:
    engine = muntin.Engine(backlog_bytes=0)
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    for size, slide in windows:
        window = f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]"
        calls = "SUM(n) AS total, COUNT(*) AS events, MAX(n) AS greatest"
        engine.register(f"SELECT {hint} k, {calls} FROM s {window} GROUP BY k", f"q{size}")
    return engine


def make_batch(number: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(number)
    at = np.arange(number * BATCH, (number + 1) * BATCH, EVERY).repeat(KEYS) * SECOND
    key = np.tile(np.arange(KEYS), BATCH // EVERY)
    return {"ts": at, "k": key, "n": random.integers(0, 1000, len(at))}


def push(engines: list[muntin.Engine], number: int) -> None:
    for engine in engines:
        engine.push("s", make_batch(number))


def levels_of(engine: muntin.Engine) -> list[SliceStore]:
    stores = engine._shards["s"].state.stores.values()
    return [level for store in stores for level in getattr(store, "levels", [store])]


def check_answers(engine: muntin.Engine, window: tuple[int, int], batches: int) -> None:
    """Compare the longest window with NumPy."""
    size, slide = window
    end = ((batches * BATCH - EVERY) * SECOND + 1) // (slide * SECOND) * slide
    first = max(0, (end - size) // BATCH)
    columns = [make_batch(number) for number in range(first, batches)]
    at, key, value = (np.concatenate([batch[name] for batch in columns]) for name in ("ts", "k", "n"))
    held = (at >= (end - size) * SECOND) & (at < end * SECOND)
    found = engine.lookup(f"q{size}")
    assert found["k"].to_pylist() == list(range(KEYS))
    assert found["total"].to_pylist() == np.bincount(key[held], value[held]).astype(int).tolist()
