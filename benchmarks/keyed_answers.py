"""Every answer of every query, per key, beside the best that polars and DuckDB do with slices."""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # one core each; polars reads it when it is imported

from collections import deque
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import muntin
from benchmarks.measure import Column, Result, measure_side_by_side

KEYS = 10_000
RATE = 50_000  # events per second of event time
FILL = 600  # seconds, the longest window
COUNTS = (1, 8, 64, 1_000)
MOST = 400  # queries times seconds: polars and DuckDB take seconds for a second of a thousand queries
COLUMNS = [
    Column("queries", "queries", ",d"), Column("muntin", "muntin, events per CPU s", ",.0f"),
    Column("polars", "polars", ",.0f"), Column("duckdb", "DuckDB", ",.0f"),
    Column("ratio", "muntin / the best of them", ".1f"), Column("rows", "answers per event", ".1f"),
    Column("spread", "spread", ".0%"),
]  # fmt: skip
NOTES = f"""\
SUM, COUNT and MAX per key of {KEYS:,} keys, {RATE:,} events a second of event time; each query has a window of 6 to 60
slides of 1 to 10 seconds, drawn at random. All windows that close are answered for every key, second by second; the
longest window is full before anything is timed. polars and DuckDB fold events into slices of a second, and these into
slices of every slide there is, once for all queries; each query that is due combines the 6 to 60 slices of its window;
on one core each. They take turns
with muntin over the same seconds, ten or fewer; rates are in CPU seconds. The answers of the last second are
compared."""


class Spec(NamedTuple):
    """A query: its window and slide in seconds."""

    size: int
    slide: int

    @property
    def sql(self) -> str:
        window = f"[RANGE {self.size} SECONDS SLIDE {self.slide} SECONDS]"
        return f"SELECT k, SUM(n) AS total, COUNT(*) AS events, MAX(n) AS greatest FROM s {window} GROUP BY k"


def run(quick: bool) -> Result:
    """Measure each number of queries."""
    seconds, fill = (2, 20) if quick else (10, FILL)
    batches = [make_batch(second) for second in range(fill + 3 * seconds)]
    counts = COUNTS[:2] if quick else COUNTS
    rows = [measure_count(count, batches, fill, min(seconds, MOST // count + 4)) for count in counts]
    versions = {"polars": pl.__version__, "duckdb": duckdb.__version__}
    return Result(
        "keyed_answers",
        "Every answer per key, beside polars and DuckDB",
        " ".join(NOTES.split()),
        COLUMNS,
        rows,
        {"keys": KEYS, "seconds": seconds, **versions},
    )


def measure_count(count: int, batches: list[pa.Table], fill: int, seconds: int) -> dict[str, Any]:
    """One row: all three over the same seconds, in turns."""
    specs = specs_of(count)
    runners = [Muntin(specs), Polars(specs), DuckDB(specs)]
    for runner in runners:
        runner.fill(batches[:fill])
    actions = [
        lambda run, runner=runner: play(runner, batches, fill + run * seconds, seconds) for runner in runners
    ]
    timings = measure_side_by_side(actions, runs=2)
    assert_same(runners)
    ours, *theirs = (seconds * RATE / timing.cpu_median for timing in timings)
    return {
        "queries": count,
        "muntin": ours,
        "polars": theirs[0],
        "duckdb": theirs[1],
        "ratio": ours / max(theirs),
        "rows": runners[0].rows / (3 * seconds * RATE),
        "spread": timings[0].spread,
    }


def specs_of(count: int) -> list[Spec]:
    """So many queries, drawn at random."""
    random = np.random.default_rng(count)
    slides, factors = random.integers(1, 11, count), random.integers(6, 61, count)
    return [Spec(int(s * f), int(s)) for s, f in zip(slides, factors, strict=True)]


def play(runner: Any, batches: list[pa.Table], first: int, seconds: int) -> None:
    for second in range(first, first + seconds):
        runner.take(second, batches[second])


def make_batch(second: int) -> pa.Table:
    random = np.random.default_rng(second)
    at = second * 1_000_000 + np.arange(RATE) * (1_000_000 // RATE)
    values = {"k": random.integers(0, KEYS, RATE), "n": random.integers(0, 1000, RATE)}
    return pa.table({"ts": pa.array(at).cast(pa.timestamp("us")), **values})


class Muntin:
    """All queries in one engine."""

    def __init__(self, specs: list[Spec], threads: int = 1):
        self.specs = specs
        self.engine = muntin.Engine(threads=threads)
        self.engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY ts")
        self.rows, self.answers = 0, {}

    def fill(self, batches: list[pa.Table]) -> None:
        """A query of the longest window keeps what those that come after it will look at."""
        self.engine.register(Spec(FILL, 1).sql, "longest")
        for second, batch in enumerate(batches):
            self.take(second, batch)
        self.engine.register_many({f"q{number}": spec.sql for number, spec in enumerate(self.specs)})
        self.engine.drop("longest")
        self.rows = 0

    def take(self, second: int, batch: pa.Table) -> None:
        self.engine.push("s", batch)
        answers = self.engine.advance(until=(second + 1) * 1_000_000)
        self.rows += sum(table.num_rows for table in answers.values())
        self.answers = answers


class Polars:
    """Frames of slices: one per second, and of these one per slide that any query has; each query combines
    those of its window."""

    def __init__(self, specs: list[Spec]):
        self.specs = specs
        self.seconds: deque[pl.DataFrame] = deque(maxlen=10)
        self.slides: dict[int, deque[pl.DataFrame]] = {spec.slide: deque(maxlen=60) for spec in specs}
        self.answers: dict[int, pl.DataFrame] = {}

    def fill(self, batches: list[pa.Table]) -> None:
        for second, batch in enumerate(batches):
            self.fold(second, batch)

    def fold(self, second: int, batch: pa.Table) -> None:
        events = pl.from_arrow(batch)
        assert isinstance(events, pl.DataFrame)
        values = {
            "total": pl.col("n").sum(),
            "events": pl.len().cast(pl.Int64),
            "greatest": pl.col("n").max(),
        }
        self.seconds.append(events.group_by("k").agg(**values))
        for slide, slices in self.slides.items():
            if (second + 1) % slide == 0:
                slices.append(combined(list(self.seconds)[-slide:]))

    def take(self, second: int, batch: pa.Table) -> None:
        self.fold(second, batch)
        self.answers = {
            number: combined(list(self.slides[slide])[-(size // slide) :])
            for number, (size, slide) in enumerate(self.specs)
            if (second + 1) % slide == 0
        }


def combined(slices: list[pl.DataFrame]) -> pl.DataFrame:
    values = pl.col("total").sum(), pl.col("events").sum(), pl.col("greatest").max()
    return pl.concat(slices).group_by("k").agg(values)


class DuckDB:
    """A table of slices per second, and one per slide; each query combines those of its window."""

    def __init__(self, specs: list[Spec]):
        self.specs = specs
        self.slides = sorted({spec.slide for spec in specs})
        self.connection = duckdb.connect(config={"threads": 1})
        for slide in {1, *self.slides}:
            columns = "second BIGINT, k BIGINT, total HUGEINT, events BIGINT, greatest BIGINT"
            self.connection.execute(f"CREATE TABLE slices_{slide} ({columns})")
        self.answers: dict[int, pa.Table] = {}

    def fill(self, batches: list[pa.Table]) -> None:
        for second, batch in enumerate(batches):
            self.fold(second, batch)

    def fold(self, second: int, batch: pa.Table) -> None:
        run = self.connection.execute
        run(f"INSERT INTO slices_1 SELECT {second}, k, SUM(n), COUNT(*), MAX(n) FROM batch GROUP BY k")
        for slide in self.slides:
            if slide > 1 and (second + 1) % slide == 0:
                run(f"INSERT INTO slices_{slide} {_COMBINED.format(f'{second}, k', 1, second - slide)}")
                run(f"DELETE FROM slices_{slide} WHERE second <= {second - 60 * slide}")
        run(f"DELETE FROM slices_1 WHERE second <= {second - 60}")

    def take(self, second: int, batch: pa.Table) -> None:
        self.fold(second, batch)
        self.answers = {
            number: self.connection.sql(_COMBINED.format("k", slide, second - size)).to_arrow_table()
            for number, (size, slide) in enumerate(self.specs)
            if (second + 1) % slide == 0
        }


_COMBINED = (
    "SELECT {}, SUM(total)::BIGINT AS total, SUM(events)::BIGINT AS events, MAX(greatest) AS greatest "
    "FROM slices_{} WHERE second > {} GROUP BY k"
)


def assert_same(runners: list[Any]) -> None:
    """The last answers of all three."""
    ours = {int(name[1:]): table for name, table in runners[0].answers.items()}
    for other in runners[1:]:
        assert ours.keys() == other.answers.keys()
        for number in list(ours)[:20]:
            frames = [
                (frame if isinstance(frame, pl.DataFrame) else pl.from_arrow(frame))
                .select("k", "total", "events", "greatest")
                .sort("k")
                for frame in (ours[number], other.answers[number])
            ]
            assert frames[0].equals(frames[1]), f"query {number} differs from {type(other).__name__}"
