"""APPROX_COUNT_DISTINCT per key and without: room, error and CPU beside DataSketches' HLL by slices, and DuckDB."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result
from muntin import Engine

MINUTE = 60_000_000
SLICES = 60  # of a minute, in the longest window
WINDOWS = (60, 20, 5)  # minutes
LG_K = 12  # of the rival: registers as of eps = 0.02

COLUMNS = [
    Column("keys", "keys", ",d"), Column("different", "different a key", ",.0f"), Column("method", "method"),
    Column("bytes", "bytes", ",d"), Column("per_key", "bytes a key", ",.0f"), Column("error", "error (RMS)", ".4f"),
    Column("largest", "largest bias", ".4f"), Column("push", "CPU ns an event", ",.0f"),
    Column("look_up", "CPU ms, 3 windows of all keys", ",.1f"),
]  # fmt: skip


def run(quick: bool) -> Result:
    """The same events by both; windows of 60, 20 and 5 minutes are compared with exact counts."""
    events = 60_000 if quick else 200_000
    shapes = ((1, events // 2), (20, events // 40), (events // 20, 12))
    rows = [row for keys, values in shapes for row in _measure(events, keys, values)]
    return Result(
        name="approx_distinct",
        title="Approximate numbers of different values",
        notes=(
            f"{events:,} events in an hour, of so many keys, each with values drawn alike from so many; then the last "
            "60, 20 and 5 minutes of all keys. Error: root of the mean square of (estimate / exact - 1) over keys and "
            "windows; bias: the mean of it, of the window where that is largest. muntin: APPROX_COUNT_DISTINCT(x), "
            "whose standard error is 0.016; bytes are those of a checkpoint, and CPU an event includes the answers of "
            "all windows at every minute. DataSketches: a hll_sketch of "
            f"2**{LG_K} registers for each minute and key (HLL_4, the smallest, and HLL_8), updated value by value "
            "from Python, merged by hll_union at the look-up; bytes are those of all sketches in compact form, without "
            "Python's objects. DuckDB: approx_count_distinct(x) over the events of each window, with one thread; bytes "
            "are those of the events, 24 each, and to take them in is to copy them. CPU seconds."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"events": events, "lg_k": LG_K},
    )


def _measure(events: int, keys: int, values: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(keys)
    at = np.sort(random.integers(0, SLICES * MINUTE, events))
    key, value = random.integers(0, keys, events), random.integers(0, values, events)
    exact = {}
    for minutes in WINDOWS:
        late = at >= (SLICES - minutes) * MINUTE
        exact[minutes] = _exact(key[late], value[late], keys)
    given = (at, key, value, keys)
    return [
        _row("muntin", _muntin(*given), exact, keys, events),
        _row("DataSketches, HLL_4", _datasketches("HLL_4", *given), exact, keys, events),
        _row("DataSketches, HLL_8", _datasketches("HLL_8", *given), exact, keys, events),
        _row("DuckDB, a scan of each window", _duckdb(*given), exact, keys, events),
    ]


def _exact(key: np.ndarray, value: np.ndarray, keys: int) -> np.ndarray:
    pairs = np.unique(key * 2**32 + value)
    return np.bincount(pairs // 2**32, minlength=keys)


# bytes, CPU seconds of taking in and of look-ups, estimates by window
Measured = tuple[int, float, float, dict[int, np.ndarray]]


def _row(
    method: str, measured: Measured, exact: dict[int, np.ndarray], keys: int, events: int
) -> dict[str, Any]:
    size, push, look_up, answers = measured
    wrong = {}
    for minutes, counts in exact.items():
        there = counts > 0
        wrong[minutes] = answers[minutes][there] / counts[there] - 1
    together = np.concatenate(list(wrong.values()))
    return {
        "keys": keys, "different": float(exact[WINDOWS[0]].mean()), "method": method, "bytes": size,
        "per_key": size / keys, "error": float(np.sqrt(np.mean(together**2))),
        "largest": float(max((np.mean(each) for each in wrong.values()), key=abs)), "push": push / events * 1e9,
        "look_up": look_up * 1e3,
    }  # fmt: skip


def _muntin(at: np.ndarray, key: np.ndarray, value: np.ndarray, keys: int) -> Measured:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, x BIGINT) TIMESTAMP BY ts")
    for minutes in WINDOWS:
        window = f"[RANGE {minutes} MINUTES SLIDE 1 MINUTE]"
        engine.register(f"SELECT k, APPROX_COUNT_DISTINCT(x) AS n FROM s {window} GROUP BY k", f"q{minutes}")
    _take_in(engine, at[:2], key[:2], value[:2])  # compiles
    engine.lookup(f"q{WINDOWS[0]}", at=SLICES * MINUTE)
    before = process_time()
    _take_in(engine, at[2:], key[2:], value[2:])
    took = process_time() - before
    (synopsis,) = engine._shards["s"].state.synopses.values()
    for track in synopsis._all():
        track.compact()
    held = sum(array.nbytes for array in synopsis.snapshot().values())
    held += sum(store.held_bytes() for store in engine._shards["s"].state.stores.values())
    before = process_time()
    answers = {minutes: engine.lookup(f"q{minutes}", at=SLICES * MINUTE) for minutes in WINDOWS}
    looked = process_time() - before
    estimates = {}
    for minutes, answer in answers.items():
        estimates[minutes] = np.zeros(keys)
        estimates[minutes][answer["k"].to_numpy()] = answer["n"].to_numpy()
    return held, took, looked, estimates


def _take_in(engine: Engine, at: np.ndarray, key: np.ndarray, value: np.ndarray) -> None:
    for part in np.array_split(np.arange(len(at)), SLICES):
        engine.push("s", {"ts": at[part], "k": key[part], "x": value[part]})
        engine.advance()


def _datasketches(kind: str, at: np.ndarray, key: np.ndarray, value: np.ndarray, keys: int) -> Measured:
    from datasketches import hll_sketch, hll_union, tgt_hll_type

    sketches: list[dict[int, Any]] = [{} for _ in range(SLICES)]
    before = process_time()
    for minute, k, x in zip((at // MINUTE).tolist(), key.tolist(), value.tolist(), strict=True):
        mine = sketches[minute]
        if k not in mine:
            mine[k] = hll_sketch(LG_K, getattr(tgt_hll_type, kind))
        mine[k].update(x)
    took = process_time() - before
    size = sum(len(each.serialize_compact()) for mine in sketches for each in mine.values())
    before = process_time()
    estimates = {}
    for minutes in WINDOWS:
        unions: dict[int, Any] = {}
        for mine in sketches[SLICES - minutes :]:
            for k, each in mine.items():
                if k not in unions:
                    unions[k] = hll_union(LG_K)
                unions[k].update(each)
        estimates[minutes] = np.zeros(keys)
        for k, union in unions.items():
            estimates[minutes][k] = union.get_estimate()
    return size, took, process_time() - before, estimates


def _duckdb(at: np.ndarray, key: np.ndarray, value: np.ndarray, keys: int) -> Measured:
    import duckdb

    events = pa.table({"ts": at, "k": key, "x": value})
    with duckdb.connect(config={"threads": 1}) as database:
        before = process_time()
        database.register("given", events)
        database.execute("CREATE TABLE s AS SELECT * FROM given")
        took = process_time() - before
        before = process_time()
        estimates = {}
        for minutes in WINDOWS:
            since = (SLICES - minutes) * MINUTE
            asked = f"SELECT k, approx_count_distinct(x) AS n FROM s WHERE ts >= {since} GROUP BY k"
            answer = database.sql(asked).to_arrow_table()
            estimates[minutes] = np.zeros(keys)
            estimates[minutes][answer["k"].to_numpy()] = answer["n"].to_numpy()
        looked = process_time() - before
    return events.nbytes, took, looked, estimates
