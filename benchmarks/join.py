"""Joins with nested windows: one to a thousand over one pair of streams, beside DuckDB joining anew at every slide."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import muntin
from benchmarks.measure import Column, Result

WINDOWS = (1, 10, 100, 1_000)
PEER_WINDOWS = 10  # more of them would take DuckDB minutes a slide
LONGEST = 60  # seconds
SECONDS = 90
RATE = 2_000  # events a second of each stream
KEYS = 20_000
TIMED = 20  # the last seconds, when windows are full
SECOND = 1_000_000
COLUMNS = [
    Column("windows", "windows", ",d"), Column("found", "matches found", ",d"),
    Column("kept", "matches kept", ",d"), Column("state", "state, MB", ",.1f"),
    Column("push", "pushed, events/CPU s", ",.0f"), Column("ratio", "of one window's", ".2f"),
    Column("changes_ms", "changes, CPU ms a slide", ",.1f"), Column("changes_rows", "rows", ",d"),
    Column("changes_us", "us a row", ".3f"),
    Column("answers_ms", "answers, CPU ms a slide", ",.1f"), Column("answers_rows", "rows", ",d"),
    Column("peer_ms", "DuckDB, CPU ms a slide", ",.0f"), Column("peer_ratio", "times as fast", ",.1f"),
]  # fmt: skip
NOTES = f"""\
Two streams of {RATE:,} events a second each, {KEYS:,} keys, joined on the key; windows of up to {LONGEST} seconds on
either side, no two alike, sliding by 1 second; {SECONDS} seconds, pushed second by second. *Pushed* is insertion with
all matches found, at full windows; its ratio to one window is what {WINDOWS[-1]:,} windows cost beyond one. *Changes*
is `advance` with EMIT CHANGES, which gives each pair twice to each window; *answers* is `advance` with whole answers at
every slide, up to {PEER_WINDOWS} windows; *rows* are those of the last slide. DuckDB holds both streams in memory and
joins the two windows at every slide, one query for each window; its rows are compared with muntin's. *Times as fast*
compares that with pushing and answering together, as measured in one go. CPU time of one process, all in the last
{TIMED} seconds of the stream."""


def run(quick: bool) -> Result:
    """Measure each number of windows."""
    seconds, timed = (12, 3) if quick else (SECONDS, TIMED)
    counts = WINDOWS[:3] if quick else WINDOWS
    streams = {"a": make_stream(1, seconds, "x"), "b": make_stream(2, seconds, "y")}
    rows: list[dict[str, Any]] = []
    for windows in counts:
        row = measure_windows(windows, streams, seconds, timed, 4 if quick else LONGEST)
        row["ratio"] = row["push"] / rows[0]["push"] if rows else 1.0
        rows.append(row)
    return Result(
        "join", "Joins with nested windows", " ".join(NOTES.split()), COLUMNS, rows, {"timed_slides": timed}
    )


def measure_windows(
    windows: int, streams: dict[str, list[pa.Table]], seconds: int, timed: int, longest: int
) -> dict[str, Any]:
    """Push, changes and whole answers of one number of windows; engines of their own."""
    sizes = [longest * 1000 * (windows - n) // windows for n in range(windows)]  # milliseconds
    push, _, engine = drive(sizes, "EMIT CHANGES", streams, seconds, timed, advances=False)
    (kept,) = engine.stats()["joins"]
    _, changes, _ = drive(sizes, "EMIT CHANGES", streams, seconds, timed)
    row = {
        "windows": windows,
        "found": kept["found"],
        "kept": kept["matches"],
        "state": kept["bytes"] / 1e6,
        "push": 2 * RATE * timed / push,
        "changes_ms": changes["seconds"] * 1000 / timed,
        "changes_rows": changes["rows"],
        "changes_us": changes["seconds"] * 1e6 / (timed * changes["rows"]),
    }
    if windows <= PEER_WINDOWS:
        pushed, answers, _ = drive(sizes, "", streams, seconds, timed)
        peer = join_anew(sizes, streams, seconds, timed, answers["by_slide"])
        row |= {
            "answers_ms": answers["seconds"] * 1000 / timed,
            "answers_rows": answers["rows"],
            "peer_ms": peer * 1000 / timed,
            "peer_ratio": peer / (answers["seconds"] + pushed),
        }
    return row


def drive(
    sizes: list[int],
    emit: str,
    streams: dict[str, list[pa.Table]],
    seconds: int,
    timed: int,
    advances: bool = True,
) -> tuple[float, dict[str, Any], muntin.Engine]:
    """CPU seconds of pushing and of `advance` in the timed part, and what came out."""
    engine = muntin.Engine(backlog_bytes=0)
    engine.execute(
        "CREATE STREAM a (ts TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY ts;"
        "CREATE STREAM b (ts TIMESTAMP, k BIGINT, y BIGINT) TIMESTAMP BY ts"
    )
    queries = {
        f"q{n}": f"SELECT x, y FROM a [RANGE {size} MILLISECONDS SLIDE 1 SECOND] "
        f"JOIN b [RANGE {size} MILLISECONDS] ON a.k = b.k {emit}"
        for n, size in enumerate(sizes)
    }
    engine.register(queries.pop("q0"), name="q0")  # the widest; others come when windows are full
    pushing = 0.0
    advancing: dict[str, Any] = {"seconds": 0.0, "rows": 0, "by_slide": {}}
    for second in range(seconds):
        is_timed = second >= seconds - timed
        if second == seconds - timed:
            engine.register_many(queries)
        spent, _ = cpu(lambda second=second: push_second(engine, streams, second))
        pushing += spent if is_timed else 0
        if not advances:
            continue
        spent, answers = cpu(lambda second=second: engine.advance((second + 1) * SECOND))
        if is_timed:
            advancing["seconds"] += spent
            advancing["rows"] = sum(table.num_rows for table in answers.values())
            advancing["by_slide"][second + 1] = {name: summed(table) for name, table in answers.items()}
    return pushing, advancing, engine


def join_anew(
    sizes: list[int],
    streams: dict[str, list[pa.Table]],
    seconds: int,
    timed: int,
    expected: dict[int, dict[str, tuple[int, int, int]]],
) -> float:
    """CPU seconds that DuckDB takes for the same answers, which must be the same."""
    database = duckdb.connect()
    database.execute("SET threads = 1")
    for name, batches in streams.items():
        database.register("all_events", pa.concat_tables(batches[:seconds]))
        database.execute(f"CREATE TABLE {name} AS SELECT * EXCLUDE ts, epoch_us(ts) AS ts FROM all_events")
    total = 0.0
    for second in range(seconds - timed + 1, seconds + 1):
        for n, size in enumerate(sizes):
            start, end = second * SECOND - size * 1000, second * SECOND
            text = (
                f"SELECT x, y FROM a JOIN b ON a.k = b.k AND a.ts >= {start} AND a.ts < {end} "
                f"AND b.ts >= {start} AND b.ts < {end}"
            )
            spent, table = cpu(lambda text=text: database.sql(text).to_arrow_table())
            total += spent
            wanted = expected[second].get(f"q{n}", (0, 0, 0))
            assert summed(table) == wanted, f"DuckDB has {summed(table)}, muntin {wanted} at {second}"
    return total


def summed(table: pa.Table) -> tuple[int, int, int]:
    """What tells two multisets of rows apart well enough."""
    x, y = (np.asarray(table[name]) for name in ("x", "y"))
    return table.num_rows, int(x.sum() + 7 * y.sum()), int((x * y).sum())


def push_second(engine: muntin.Engine, streams: dict[str, list[pa.Table]], second: int) -> None:
    for name, batches in streams.items():
        engine.push(name, batches[second])


def make_stream(seed: int, seconds: int, value: str) -> list[pa.Table]:
    """A batch a second."""
    random = np.random.default_rng(seed)
    tables = []
    for second in range(seconds):
        at = second * SECOND + np.sort(random.integers(0, SECOND, RATE))
        columns = {"k": random.integers(0, KEYS, RATE), value: random.integers(0, 1000, RATE)}
        tables.append(pa.table({"ts": pa.array(at).cast(pa.timestamp("us")), **columns}))
    return tables


def cpu(action: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    result = action()
    return time.process_time() - before, result
