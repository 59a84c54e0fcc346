"""The stream, the queries and the views whose state is kept for later versions, and how their answers are taken."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import muntin

HERE = Path(__file__).parent
SECOND = 1_000_000
FILES = 6  # of the stream `t`; the checkpoint is taken after MIDDLE of them
MIDDLE = 4
STREAMS = """
CREATE STREAM t (ts TIMESTAMP, k VARCHAR, n INTEGER, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS;
CREATE STREAM b (ts TIMESTAMP, k VARCHAR, y BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS;
"""
# One query or more for each kind of store, structure, key index and sketch.
QUERIES = {
    "slices": "SELECT k, SUM(v) AS total, AVG(x) AS mean, MAX(x) AS top, FIRST(v) AS f, STDDEV(x) AS s "
    "FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "stairs": "SELECT /*+ SYNOPSIS(stairs) */ k, SUM(v) AS total FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "having": "SELECT k, SUM(v) AS total FROM t [RANGE 20 SECONDS SLIDE 4 SECONDS] WHERE v > 20 GROUP BY k "
    "HAVING SUM(v) > 900",
    "changes": "SELECT k, n, COUNT(*) AS many FROM t [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k, n "
    "HAVING COUNT(*) > 30 EMIT CHANGES",
    "all": "SELECT COUNT(*) AS n, MIN(x) AS low, LAST(v) AS latest FROM t [RANGE 30 SECONDS SLIDE 10 SECONDS]",
    "ring": "SELECT SUM(x) AS total, MAX(v) AS top FROM t [RANGE 7 SECONDS]",
    "bands": "SELECT COUNT(*) AS many, SUM(v) AS total FROM t [RANGE 9 SECONDS] WHERE v > 40",
    "median": "SELECT MEDIAN(v) AS middle, QUANTILE(x, 0.9) AS high FROM t [RANGE 10 SECONDS]",
    "per_key": "SELECT k, MEDIAN(v) AS middle, COUNT(DISTINCT n) AS kinds FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS] "
    "GROUP BY k",
    "distinct": "SELECT COUNT(DISTINCT n) AS kinds FROM t [RANGE 15 SECONDS]",
    "rows": "SELECT SUM(v) AS total, MAX(x) AS top FROM t [ROWS 50]",
    "rows_per_key": "SELECT k, SUM(v) AS total, MAX(ts) AS latest FROM t [ROWS 50 SLIDE 25] GROUP BY k",
    "own": "SELECT k, SUM(v) FILTER (WHERE n = 1) OVER [RANGE 3 SECONDS] AS recent, "
    "SUM(v) OVER [RANGE 12 SECONDS TO 3 SECONDS] AS before FROM t [RANGE 12 SECONDS SLIDE 3 SECONDS] GROUP BY k",
    "sketch": "SELECT APPROX_QUANTILE(v, 0.9, 0.05) AS p90, APPROX_COUNT(k = 'a', 0.05) AS many FROM t "
    "[RANGE 20 SECONDS SLIDE 10 SECONDS]",
    "sketch_per_key": "SELECT k, APPROX_QUANTILE(x, 0.5, 0.1) AS middle FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS] "
    "GROUP BY k",
    "join": "SELECT t.k, COUNT(*) AS pairs, MAX(y) AS top FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] "
    "JOIN b [RANGE 1 SECOND] ON t.k = b.k AND t.n = b.y GROUP BY t.k",
    "by b_int": "SELECT /*+ SYNOPSIS(b_int) */ SUM(v) AS total, MAX(v) AS top FROM t [RANGE 5 SECONDS]",
    "by l_int": "SELECT /*+ SYNOPSIS(l_int) */ MAX(v) AS top FROM t [ROWS 60]",
    "by r_int": "SELECT /*+ SYNOPSIS(r_int) */ SUM(v) AS total FROM t [RANGE 5 SECONDS]",
}
VIEWS = {
    "pairs": "CREATE MATERIALIZED VIEW pairs AS SELECT t.k, v, y FROM t [RANGE 4 SECONDS] JOIN b [RANGE 2 SECONDS] "
    "ON t.k = b.k AND t.n = b.y EVERY 1 SECOND INDEX 'rebuild 2x2'",
    "alone": "CREATE MATERIALIZED VIEW alone KEY (n) AS SELECT n, v FROM t [RANGE 2 SECONDS] EXCEPT "
    "SELECT CAST(y AS INTEGER) AS n FROM b [RANGE 120 MILLISECONDS] EVERY 1 SECOND",
    "counted": "CREATE MATERIALIZED VIEW counted AS SELECT t.k, v, y FROM t [ROWS 40] JOIN b [ROWS 20] ON t.k = b.k "
    "AND t.n = b.y EVERY 1 SECOND",
    "wide": "CREATE MATERIALIZED VIEW wide AS SELECT t.k, t.v, b.y FROM t [RANGE 2 SECONDS] JOIN b [RANGE 1 SECOND] "
    "ON t.k = b.k AND t.n = b.y JOIN b [RANGE 1 SECOND] AS c ON b.y = c.y AND b.k = c.k EVERY 1 SECOND",
}
COLUMNS = {"pairs": "k, v, y", "alone": "n, v", "counted": "k, v, y", "wide": "k, v, y"}
# What 0.2.0 added. Names of version 0.1.0 stay as they are: its state is asked for these alone.
STREAMS_SINCE_0_2 = """
CREATE STREAM large AS SELECT ts, k, v FROM t WHERE v > 60;
CREATE TABLE limits (k VARCHAR, most BIGINT, tier VARCHAR, PRIMARY KEY (k));
INSERT INTO limits VALUES ('a', 700, 'gold'), ('b', 900, NULL), ('é', 500, 'tin');
"""
QUERIES_SINCE_0_2 = {
    "sessions": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t [SESSION 50 MILLISECONDS] GROUP BY k",
    "hour": "SELECT k, SUM(v) AS total FROM t [SINCE HOUR SLIDE 5 SECONDS] GROUP BY k",
    "top": "SELECT k, SUM(v) AS total FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k ORDER BY total DESC LIMIT 2",
    "mode": "SELECT k, MODE(n) AS usual, ARG_MAX(n, x) AS at_top FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "different": "SELECT k, APPROX_COUNT_DISTINCT(v, 0.05) AS n FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "money": "SELECT k, SUM(CAST(x AS DECIMAL(12, 3))) AS total FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "weighed": "SELECT APPROX_FREQUENT(k, 0.1, 0.05, weight => n) AS most FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS]",
    "over_limit": "SELECT l.k, l.tier, SUM(t.v) AS total FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] AS t "
    "JOIN limits AS l ON t.k = l.k GROUP BY l.k, l.tier HAVING SUM(t.v) > 700",
    "of_large": "SELECT k, COUNT(*) AS many FROM large [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    **{
        f"lane {key} {least}": f"SELECT SUM(v) AS total, COUNT(*) AS many FROM t [RANGE 8 SECONDS SLIDE 2 SECONDS] "
        f"WHERE k = '{key}' AND n = {least} HAVING COUNT(*) > {30 + least}"
        for key in ("a", "b", "c", "é") for least in range(3)
    },
}  # fmt: skip
VIEWS_SINCE_0_2 = {
    "seen": "CREATE MATERIALIZED VIEW seen AS SELECT DISTINCT k, n FROM t [RANGE 2 SECONDS] EVERY 1 SECOND",
    "sums": "CREATE MATERIALIZED VIEW sums AS SELECT k, SUM(v) AS total, COUNT(*) AS many FROM t [RANGE 4 SECONDS] "
    "GROUP BY k EVERY 1 SECOND",
}
# What stands over queries and views: a stream of closed windows, and a query over a view.
STANDING_SINCE_0_2 = """
CREATE STREAM closed FROM QUERY slices;
REGISTER QUERY of_closed AS SELECT k, MAX(total) AS most FROM closed [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY k;
REGISTER QUERY of_seen AS SELECT k, COUNT(*) AS kinds FROM seen [RANGE 1 SECOND] GROUP BY k;
"""
COLUMNS_SINCE_0_2 = {"seen": "k, n", "sums": "k, total, many"}
ON_SPARK = ("slices", "having", "changes", "all", "per_key", "rows_per_key", "sketch")


def write_events(folder: Path) -> None:
    """A hundred events a second of `t` and ten of `b`, some up to a second out of order, in FILES files each."""
    random = np.random.default_rng(11)
    for name, rows, step in (("t", 2400, 10_000), ("b", 240, 100_000)):
        at = np.arange(rows) * step + SECOND - random.integers(0, 2, rows) * random.integers(0, SECOND, rows)
        columns: dict[str, Any] = {
            "ts": pa.array(at, pa.timestamp("us")),
            "k": pa.array(
                np.array(["a", "b", "c", "é", None], object)[random.integers(0, 5, rows)], pa.string()
            ),
        }
        if name == "t":
            columns["n"] = pa.array(random.integers(0, 3, rows), pa.int32())
            columns["v"] = pa.array(random.integers(-20, 100, rows), mask=random.random(rows) < 0.05)
            columns["x"] = pa.array(np.round(random.normal(size=rows), 3))
        else:
            columns["y"] = pa.array(random.integers(0, 3, rows))
        (folder / name).mkdir(parents=True)
        for number in range(FILES):
            part = pa.table(columns).slice(number * rows // FILES, rows // FILES)
            pq.write_table(part, folder / name / f"{number}.parquet")


def push(engine: muntin.Engine, events: Path, files: range) -> None:
    for number in files:
        for name in ("t", "b"):
            engine.push(name, pq.read_table(events / name / f"{number}.parquet"))


def answers(engine: muntin.Engine) -> dict[str, Any]:
    """What the engine says of every query and view, and then what `advance` emits, as plain rows."""
    views = COLUMNS | COLUMNS_SINCE_0_2
    looked_up = {name: rows_of(engine.lookup(name)) for name in sorted(engine.queries) if name not in views}
    emitted = {name: rows_of(table) for name, table in sorted(engine.advance().items())}
    held = {
        name: sorted(rows_of(engine.execute(f"SELECT {columns} FROM {name}")), key=repr)
        for name, columns in views.items()
        if name in engine.sources or name in COLUMNS
    }
    return {"lookup": looked_up, "advance": emitted, "views": held}


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as JSON can hold them: times as text, NaN by name."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, list):
        return [{name: _plain(each) for name, each in item.items()} for item in value]
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    return str(value) if isinstance(value, Decimal) else value


def move_spark(folder: Path, old: str, new: str) -> None:
    """Tell a copied checkpoint where it is: Spark writes its folder into the description of its state."""
    for described in folder.glob("checkpoint/state/*/_metadata/v2/*"):
        described.write_text(described.read_text().replace(old, new))


def run_on_spark(session: Any, events: Path, folder: Path) -> dict[str, Any]:
    """Go on with the checkpoint in `folder`, to the end of what is in `events`; the answers that came out."""
    import muntin.spark

    queries = {name: QUERIES[name] for name in ON_SPARK}
    source = muntin.spark.EventFolder(session, str(events / "t"), timedelta(seconds=2), files_per_batch=2)
    emitted = muntin.spark.shared_windows(source, queries, stream="t", time="ts", shards=2)
    write = emitted.writeStream.foreachBatch(muntin.spark.overwrite_batches(str(folder / "answers")))
    write = write.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    write.start().awaitTermination()
    written = session.read.parquet(str(folder / "answers"))
    return {
        name: sorted(rows_of(muntin.spark.answers_of(written, name).toArrow()), key=repr) for name in queries
    }
