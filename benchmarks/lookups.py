"""Look-ups from Python: one as a table, one as a number, thousands in one call; and the kernel alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benchmarks.measure import RUNS, Column, Result, measure
from muntin import Engine
from muntin.aggregates.component import COMPONENTS
from muntin.structure.r_int import RInt

COLUMNS = [
    Column("what", "look-up"), Column("query", "of"), Column("microseconds", "us each", ",.3f"),
    Column("cpu_microseconds", "CPU us each", ",.3f"),
    Column("rate", "look-ups/s", ",.0f"), Column("spread", "spread", ".0%"),
]  # fmt: skip
QUERIES = {
    f"{function} of {kind}, {slide or 'no SLIDE'}": (
        f"SELECT {function}({column}) AS v FROM s [RANGE {{}} SECONDS {slide and 'SLIDE 1 SECOND'}]"
    )
    for slide in ("SLIDE", "")
    for function in ("SUM", "MAX")
    for column, kind in (("n", "integers"), ("x", "doubles"))
}
MANY = ("SUM of integers, SLIDE", "MAX of doubles, no SLIDE")  # also asked for in one call


def run(quick: bool) -> Result:
    """Fill an engine, check a sample of answers, then time each way to look up."""
    events, few, many = (20_000, 25, 200) if quick else (1_000_000, 125, 5_000)
    at, n, x = _events(events)
    engine, names = _engine(at, n, x, few, tuple(QUERIES))
    _check(engine, names, at, n, x)
    rows = []
    for label in QUERIES:
        middle = names[label][few // 2]
        rows.append(_row("lookup", label, 200, lambda name=middle: engine.lookup(name)))
        rows.append(_row("value", label, 1_000, lambda name=middle: engine.value(name)))
    engine, names = _engine(at, n, x, many, MANY)
    _check(engine, names, at, n, x)
    for label, chosen in names.items():
        rows.append(_row("lookup_many", label, 1, lambda chosen=chosen: engine.lookup_many(chosen), many))
    runs = 1_000 if quick else 1_000_000
    rows.append(_row("R-INT kernel", "SUM of integers, 50,000 events", 1, _kernel(runs), runs))
    return Result(
        name="lookups",
        title="Look-ups",
        notes=(
            f"{events:,} events over 1,000 seconds. `lookup` makes an Arrow table, `value` a plain number, with "
            f"{few * len(QUERIES):,} un-keyed queries registered; `lookup_many` makes one table for {many:,} "
            "queries. The kernel answers a million random runs in one call. A sample of the answers is compared "
            "with a computation in NumPy. On a busy machine CPU time says more than the clock."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": RUNS, "events": events, "queries": few * len(QUERIES)},
    )


def _events(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return np.sort(rng.integers(0, 1_000_000_000, count)), rng.integers(0, 100, count), rng.random(count)


def _engine(
    at: np.ndarray, n: np.ndarray, x: np.ndarray, many: int, labels: tuple[str, ...]
) -> tuple[Engine, dict[str, list[str]]]:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
    names = {label: [f"{label} {size}" for size in range(1, many + 1)] for label in labels}
    for label, some in names.items():
        sizes = range(1, many + 1)
        engine.register_many(
            {name: QUERIES[label].format(1 + 7 * size % 900) for name, size in zip(some, sizes, strict=True)}
        )
    engine.push("s", {"ts": at, "n": n, "x": x})
    return engine, names


def _check(engine: Engine, names: dict[str, list[str]], at: np.ndarray, n: np.ndarray, x: np.ndarray) -> None:
    for label, some in names.items():
        found = engine.lookup_many(some[::37])
        for row in found.to_pylist():
            start, end = (
                np.datetime64(row[side], "us").astype(np.int64) for side in ("window_start", "window_end")
            )
            inside = (at >= start) & (at < end)
            values = n[inside] if "integers" in label else x[inside]
            expected = math.fsum(values) if label.startswith("SUM") else values.max()
            assert row["value"] == expected == engine.value(row["query"]), (row, expected)


def _row(what: str, query: str, calls: int, call: Callable[[], object], in_one: int = 1) -> dict[str, object]:
    def action(run: int) -> None:
        for _ in range(calls):
            call()

    timing = measure(action, warm_ups=2)
    each = timing.median / calls / in_one
    return {
        "what": what,
        "query": query,
        "microseconds": each * 1e6,
        "cpu_microseconds": timing.cpu_median / calls / in_one * 1e6,
        "rate": 1 / each,
        "spread": timing.spread,
    }


def _kernel(runs: int) -> Callable[[], object]:
    rng = np.random.default_rng(5)
    value = rng.integers(0, 100, 50_000)
    sums = RInt(COMPONENTS["sum"], np.dtype(np.int64))
    sums.extend((value, value.astype(np.float64)))
    lo = rng.integers(0, 49_000, runs)
    hi = lo + 1_000
    out = COMPONENTS["sum"].start(np.dtype(np.int64), len(lo))
    assert sums.query(lo[:1], hi[:1])[0][0] == value[lo[0] : hi[0]].sum()
    return lambda: sums._query(sums._prefix, sums.first, sums.end, lo, hi, *out)
