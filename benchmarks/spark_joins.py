"""Windows over two streams on Spark, a query each with EMIT CHANGES, beside a stream-stream join of Spark for each."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Column, Result
from benchmarks.spark_runs import Played, play

COLUMNS = [
    Column("windows", "windows", ",d"), Column("how", "by"), Column("pairs", "pairs", ",d"),
    Column("rate", "events per second", ",.0f"), Column("cpu", "CPU seconds per million events", ",.1f"),
    Column("ratio", "CPU beside muntin", ",.2f"),
]  # fmt: skip
WINDOWS = (1, 8)
RATE = 10_000  # events a second of each stream, by event time
KEYS = 100_000
LONGEST = 60  # seconds
SECOND = 1_000_000
SCHEMA = "ts TIMESTAMP, k BIGINT, v BIGINT"
NOTES = """\
Two streams of {rate:,} events a second each, {events:,} events in all, over {keys:,} keys, joined on it; windows of
up to {longest} seconds on either side, no two alike, sliding by 1 second. From Parquet files, {each:,} events of each
stream a micro-batch, to Spark's Parquet sink, on two cores. *muntin* is one streaming query with all windows; of EMIT
CHANGES the rows that enter are kept. *Spark* is one stream-stream join for each window, side by side in one session,
with bounds on both times and a filter for pairs that are seen at a slide. Both have the same number of pairs up to the
last watermark. The first two micro-batches are not counted. CPU time is that of the driver, the JVM and all Python
workers."""


def run(quick: bool) -> Result:
    """Measure each number of windows, both ways."""
    from muntin.spark import local_session

    files, each = (5, 20_000) if quick else (5, 50_000)
    folder = Path(tempfile.mkdtemp(prefix="muntin-joins-"))
    session = local_session(cores=2)
    rows: list[dict[str, Any]] = []
    try:
        for seed, name in enumerate("ab"):
            write(folder / name, seed, files, each)
        for windows in WINDOWS:
            sizes = [LONGEST * (number + 1) // windows for number in range(windows)]
            ours = play(session, folder, [_shared(session, folder, sizes)])
            end = (files * each // RATE - 3) * SECOND  # all up to there has closed
            found = _count(session, folder, f"window_end <= timestamp_micros({end})")
            spark = play(session, folder, [_joined(session, folder, size) for size in sizes])
            assert _count(session, folder, f"comes <= {end}") == found, windows
            rows += [_row(windows, "muntin", ours, ours, found), _row(windows, "Spark", spark, ours, found)]
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    notes = NOTES.format(rate=RATE, events=2 * files * each, keys=KEYS, longest=LONGEST, each=each)
    return Result(
        "spark_joins",
        "Joins of two streams on Spark",
        " ".join(notes.split()),
        COLUMNS,
        rows,
        {"files": files},
    )


def _row(windows: int, how: str, played: Played, ours: Played, pairs: int) -> dict[str, Any]:
    cpu = played.cpu_per_million
    return {"windows": windows, "how": how, "pairs": pairs, "rate": played.rate, "cpu": cpu,
            "ratio": cpu / ours.cpu_per_million}  # fmt: skip


def write(folder: Path, seed: int, files: int, each: int) -> None:
    """One of the streams, in order of time."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for number in range(files):
        at, k, v = columns_of(random, each)
        at += number * (each * SECOND // RATE)
        table = pa.table({"ts": pa.array(at, pa.timestamp("us", "UTC")), "k": k, "v": v})
        pq.write_table(table, folder / f"{number:04}.parquet")


def columns_of(random: np.random.Generator, count: int) -> tuple[Any, Any, Any]:
    """Times, keys and values of a part of a stream."""
    at = np.sort(random.integers(0, count * SECOND // RATE, count))
    return at, random.integers(0, KEYS, count), random.integers(0, 1_000, count)


def _read(session: Any, folder: Path, name: str) -> Any:
    source = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return source.parquet(str(folder / name)).withWatermark("ts", "1 second")


def queries(sizes: list[int]) -> dict[str, str]:
    """A join for each size of windows."""
    return {
        f"q{size}": f"SELECT a.k, a.v AS x, b.v AS y FROM a [RANGE {size} SECONDS SLIDE 1 SECOND] "
        f"JOIN b [RANGE {size} SECONDS] ON a.k = b.k EMIT CHANGES"
        for size in sizes
    }


def _shared(session: Any, folder: Path, sizes: list[int]) -> Any:
    from muntin.spark import shared_windows

    frames = {name: _read(session, folder, name) for name in "ab"}
    return shared_windows(frames, queries(sizes), time="ts", shards=2).where("change = 'enter'")


def _joined(session: Any, folder: Path, size: int) -> Any:
    """Pairs that are ever seen at a whole second."""
    from pyspark.sql import functions as F

    left, right = (_read(session, folder, name).alias(name) for name in "ab")
    bounds = (
        f"a.k = b.k AND b.ts <= a.ts + INTERVAL {size} SECONDS AND a.ts <= b.ts + INTERVAL {size} SECONDS"
    )
    comes = f"(greatest(unix_micros(a.ts), unix_micros(b.ts)) DIV {SECOND} + 1) * {SECOND}"
    pairs = left.join(right, F.expr(bounds)).selectExpr(
        "a.k", "a.v AS x", "b.v AS y", f"{comes} AS comes",
        f"least(unix_micros(a.ts), unix_micros(b.ts)) + {size * SECOND} AS until",
    )  # fmt: skip
    return pairs.where("comes <= until").drop("until")


def _count(session: Any, folder: Path, condition: str) -> int:
    outs = [str(out / "answers") for out in (folder / "out").iterdir()]
    return int(session.read.parquet(*outs).where(condition).count())
