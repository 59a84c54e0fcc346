"""Events in Parquet files and screening queries over them, for the benchmarks on Spark."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KEYS = 10_000
RATE = 50_000  # events per second of event time
SLIDE = 60  # seconds
SIZES = tuple(range(60, 660, 60))  # seconds
FUNCTIONS = ("SUM", "COUNT", "MIN", "MAX", "AVG")
SCHEMA = "ts TIMESTAMP, k STRING, x DOUBLE"
PART = 0.01  # of the keys pass a threshold


def write_events(folder: Path, files: int, rows: int, rate: int = RATE) -> None:
    """Files in order of time: keys drawn evenly, values exponential with mean 1; so many events a second."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    names = pa.array([f"SYM{number:05}" for number in range(KEYS)])
    step = 1_000_000 // rate
    for number in range(files):
        at = (number * rows + np.arange(rows)) * step
        keys = names.take(pa.array(random.integers(0, KEYS, rows)))
        values = random.exponential(size=rows)
        table = pa.table({"ts": pa.array(at, pa.timestamp("us", tz="UTC")), "k": keys, "x": values})
        path = folder / f"{number:05}.parquet"
        pq.write_table(table, path, row_group_size=rows // 4)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def queries(count: int) -> dict[str, str]:
    """Screening queries of five functions and ten window sizes; thresholds differ in all of them."""
    return {f"q{number}": _query(number) for number in range(count)}


def _query(number: int) -> str:
    function = FUNCTIONS[number % 5]
    size = SIZES[number // 5 % len(SIZES)]
    limit = threshold(function, size) * (1 + number * 1e-6)
    return (
        f"SELECT k, {function}(x) AS value FROM t [RANGE {size} SECONDS SLIDE {SLIDE} SECONDS] "
        f"GROUP BY k HAVING {function}(x) > {limit!r}"
    )


def threshold(function: str, size: int) -> float:
    """What about one key in a hundred exceeds, in a full window of `size` seconds."""
    events = size * RATE / KEYS
    above = 2.33  # standard deviations
    return {
        "COUNT": events + above * math.sqrt(events),
        "SUM": events + above * math.sqrt(2 * events),
        "AVG": 1 + above / math.sqrt(events),
        "MIN": -math.log(PART) / events,
        "MAX": math.log(events / PART),
    }[function]
