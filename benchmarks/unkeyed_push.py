"""Pushing (time, value) batches without keys under many windows, beside the bare kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.measure import RUNS, Column, Result, Timing, measure_side_by_side
from muntin import Engine
from muntin.component.count import Counts
from muntin.component.sum import FloatSums
from muntin.kernels.fold import fold_runs
from muntin.kernels.times import scan_times

COLUMNS = [
    Column("what", "what"), Column("windows", "windows", ",d"), Column("rate", "events/s", ",.0f"),
    Column("cpu_rate", "events per CPU s", ",.0f"), Column("ratio", "of 1 window, or in order", ".2f"),
    Column("spread", "spread", ".0%"),
]  # fmt: skip
SHAPES = {
    "SUM, SLIDE 1 SECOND": "SELECT SUM(x) AS v FROM s [RANGE {} SECONDS SLIDE 1 SECOND]",
    "MAX, SLIDE 1 SECOND": "SELECT MAX(x) AS v FROM s [RANGE {} SECONDS SLIDE 1 SECOND]",
    "SUM, no SLIDE": "SELECT SUM(x) AS v FROM s [RANGE {} MICROSECONDS]",
    "MAX, no SLIDE": "SELECT MAX(x) AS v FROM s [RANGE {} MICROSECONDS]",
}
SECONDS = 2  # of event time in a batch


def run(quick: bool) -> Result:
    """Engines with 1, 1,000 and 10,000 windows take turns, once the state has its full size."""
    size = 10_000 if quick else 1_000_000
    counts = (1, 20) if quick else (1, 1_000, 10_000)
    rng = np.random.default_rng(7)
    at, x = np.sort(rng.integers(0, SECONDS * 1_000_000, size)), rng.random(size)
    batches = [_batch(at + turn * SECONDS * 1_000_000, x) for turn in range(3 + 2 * RUNS)]
    rows: list[dict[str, object]] = []
    for label, sql in SHAPES.items():
        engines = [_engine(sql, count) for count in counts]
        timings = measure_side_by_side(
            [_pushing(engine, batches) for engine in engines], runs=2 * RUNS, warm_ups=3
        )
        for count, timing in zip(counts, timings, strict=True):
            rows.append(_row(label, count, size, timing, timing.speed_against(timings[0])))
        _check(engines[-1], x)
    for kind in ("BIGINT", "DOUBLE"):
        rows += _out_of_order(kind, at, x, 3 + 2 * RUNS)
    kernel = measure_side_by_side([lambda run: _kernels(at, x)], warm_ups=2)[0]
    rows.append(_row("kernels alone: order, lateness, COUNT and SUM by slices", 1, size, kernel, None))
    return Result(
        name="unkeyed_push",
        title="Pushing without keys",
        notes=(
            f"Arrow batches of {size:,} (timestamp, double) events, {SECONDS} s of event time each, through "
            "`Engine.push`; windows of different lengths, on events up to 4 s; none is emitted. "
            "Engines take turns, and the ratio is the median over the rounds, in CPU seconds. Afterwards the widest "
            "window is compared with a computation in NumPy. *In no order* are the same batches shuffled, beside those "
            "in order: integers are folded as they stand, of floats the bits of a sum depend on the order, so they are "
            "sorted. The last row is what the compiled loops alone take for "
            "the first shape."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": 2 * RUNS, "batch_rows": size},
    )


def _out_of_order(kind: str, at: np.ndarray, x: np.ndarray, turns: int) -> list[dict[str, object]]:
    """Batches in order and the same batches shuffled, in turns; the answers are equal."""
    values = x if kind == "DOUBLE" else (x * 1_000).astype(np.int64)
    shuffled = np.random.default_rng(8).permutation(len(at))
    engines, batches = [], []
    for order in (np.arange(len(at)), shuffled):
        engine = Engine()
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP, x {kind}) TIMESTAMP BY ts DELAY {SECONDS} SECONDS")
        engine.register("SELECT SUM(x) AS v, MAX(x) AS m FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]", "q")
        engines.append(engine)
        batches.append(
            [_batch((at + turn * SECONDS * 1_000_000)[order], values[order]) for turn in range(turns)]
        )
    timings = measure_side_by_side(
        [_pushing(*each) for each in zip(engines, batches, strict=True)], runs=2 * RUNS, warm_ups=3
    )
    assert engines[0].lookup("q").equals(engines[1].lookup("q"))
    names = (f"SUM and MAX of {kind}, in order", f"SUM and MAX of {kind}, in no order")
    return [
        _row(name, 1, len(at), timing, timing.speed_against(timings[0]))
        for name, timing in zip(names, timings, strict=True)
    ]


def _engine(sql: str, count: int) -> Engine:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, x DOUBLE) TIMESTAMP BY ts")
    # all different: up to hours by seconds on slices, up to 4 s by 400 us on events
    lengths = [1 + i if "SLIDE" in sql else 400 * (1 + i) for i in range(count)]
    lengths[-1] = 10 if "SLIDE" in sql else 4_000_000
    engine.register_many({f"q{i}": sql.format(length) for i, length in enumerate(lengths)})
    return engine


def _batch(at: np.ndarray, x: np.ndarray) -> pa.Table:
    return pa.table({"ts": pa.array(at).cast(pa.timestamp("us")), "x": x})


def _pushing(engine: Engine, batches: list[pa.Table]) -> Callable[[int], object]:
    # emission is another benchmark's matter: nobody owes anything here
    state = engine._shards["s"].state
    for registration in state.registrations.values():
        registration.emitted_to = 2**62
    state.note_emitted()
    return lambda run: engine.push("s", batches[run])


def _check(engine: Engine, x: np.ndarray) -> None:
    name = list(engine.queries)[-1]
    found = engine.value(name)
    assert found is not None
    if "MAX" in engine.queries[name].text:
        assert found <= x.max()
        assert found >= np.quantile(x, 0.999)
    elif "SLIDE" in engine.queries[name].text:
        assert abs(found - x.sum() * 10 / SECONDS) < 0.2 * x.sum()


def _kernels(at: np.ndarray, x: np.ndarray) -> None:
    scan_times(at, 0, 0, -(2**62))
    edges = np.searchsorted(at, np.arange(0, SECONDS + 1) * 1_000_000)
    valid = np.ones(len(x), np.bool_)
    lo, hi = edges[:-1], edges[1:]
    fold_runs(FloatSums)(lo, hi, at, x, valid, np.zeros(SECONDS), np.zeros(SECONDS))
    fold_runs(Counts)(lo, hi, at, x, valid, np.zeros(SECONDS, np.int64))


def _row(what: str, windows: int, size: int, timing: Timing, ratio: float | None) -> dict[str, object]:
    return {
        "what": what, "windows": windows, "rate": size / timing.median, "cpu_rate": size / timing.cpu_median,
        "ratio": ratio, "spread": timing.spread,
    }  # fmt: skip
