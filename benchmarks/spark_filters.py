"""A thousand filters on Spark that differ in a constant: folded by lanes, and each by itself."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result

COLUMNS = [
    Column("what", "queries"), Column("queries", "how many", ",d"), Column("how", "folded"),
    Column("pack", "pack and fold, CPU ms", ",.0f"), Column("take", "take in, CPU ms", ",.0f"),
    Column("answer", "answer, CPU ms", ",.0f"), Column("bytes", "bytes that travel", ",.0f"),
    Column("ratio", "CPU beside lanes", ",.1f"), Column("rate", "events per second", ",.0f"),
    Column("cpu", "CPU seconds per million events", ".2f"),
]  # fmt: skip
SYMBOLS, ACCOUNTS, SHARDS, WARM = 5_000, 2_000, 2, 5
WINDOW = "[RANGE 5 MINUTES SLIDE 1 MINUTE]"
NOTES = """\
`SUM(n)` over {window} with a HAVING threshold; every query has a constant of its own. A micro-batch is a minute of
{rate:,} events over {symbols:,} symbols and {accounts:,} accounts; windows are full before anything is timed. One task
packs and folds, {shards} shards take cells in (one, without GROUP BY) and answer, in one process without a JVM; medians
of {turns} micro-batches, taken in turns. *By filters* is how it was before there were lanes on Spark: every WHERE and
FILTER is a predicate of its own. Both give the same rows. The last lines are streams in a session on two cores, from
Parquet files to Spark's Parquet sink, of {stream_events:,} events over 10,000 keys: the subscriptions, and beside them
one query for all keys."""


def run(quick: bool) -> Result:
    """Measure both ways in turns, then a stream."""
    rate, turns = (20_000, 2) if quick else (200_000, 5)
    rows = []
    for what, count, text in KINDS:
        count = min(count, 30) if quick else count
        queries = {f"q{i}": text(i, count) for i in range(count)}
        ways = {"by lanes": _Way(queries), "by filters": _Way(queries, has_lanes=False)}
        for turn in range(WARM + turns):
            events = _events(turn, rate)
            emitted = {how: way.take(events, turn, is_timed=turn >= WARM) for how, way in ways.items()}
            assert emitted["by lanes"] == emitted["by filters"], what
        lanes = ways["by lanes"].cpu
        rows += [
            {"what": what, "queries": count, "how": how, **way.row(), "ratio": way.cpu / lanes}
            for how, way in ways.items()
        ]
    files = 4 if quick else 16
    rows += _streams(files, 100_000 if quick else 1_000_000, 30 if quick else 1_000)
    notes = NOTES.format(
        window=WINDOW, rate=rate, symbols=SYMBOLS, accounts=ACCOUNTS, shards=SHARDS, turns=turns,
        stream_events=files * (100_000 if quick else 1_000_000),
    )  # fmt: skip
    return Result(
        "spark_filters", "Filters on Spark that differ in a constant", " ".join(notes.split()), COLUMNS, rows,
        {"events per micro-batch": rate},
    )  # fmt: skip


Text = Callable[[int, int], str]
_BY = "SELECT account, {} AS v FROM t {}{} GROUP BY account HAVING {} > {}"


def _above(number: int, count: int) -> str:
    return _BY.format("SUM(n)", WINDOW, f" WHERE x > {number / count}", "SUM(n)", 240_000)


KINDS: tuple[tuple[str, int, Text], ...] = (
    (
        "WHERE symbol = …", 1_000,
        lambda i, _: f"SELECT SUM(n) AS v FROM t {WINDOW} WHERE symbol = 'S{i}' HAVING SUM(n) > 100000",
    ),
    (
        "WHERE symbol = … GROUP BY account", 1_000,
        lambda i, _: _BY.format("SUM(n)", WINDOW, f" WHERE symbol = 'S{i}'", "SUM(n)", 1_500),
    ),
    ("WHERE x > … GROUP BY account", 100, _above),
    ("WHERE x > … GROUP BY account", 2, _above),
    (
        "FILTER (WHERE symbol = …) GROUP BY account", 100,
        lambda i, _: _BY.format(
            f"SUM(n) FILTER (WHERE symbol = 'S{i}')", WINDOW, "", f"SUM(n) FILTER (WHERE symbol = 'S{i}')", 1_500
        ),
    ),
)  # fmt: skip


class _Way:
    """A job in this process: a task that folds and the shards, and what each step has cost."""

    def __init__(self, queries: dict[str, str], has_lanes: bool = True):
        from muntin.spark.plan_job import plan_job
        from muntin.spark.shard import SparkShard
        from muntin.stream import Stream

        schema = pa.schema(
            [("ts", pa.timestamp("us")), ("symbol", pa.string()), ("account", pa.int64()), ("n", pa.int64()),
             ("x", pa.float64())]
        )  # fmt: skip
        self._has_lanes = has_lanes
        with self._folding():
            self._job = plan_job(Stream("t", schema, "ts", 0), queries, shards=SHARDS)
        (route,) = self._job.routes
        self._shards = {number: SparkShard(self._job, route) for number in route.ids}
        for shard in self._shards.values():
            shard.has_lanes = has_lanes
            shard.register(route.queries)
        self._spent: dict[str, list[float]] = {"pack": [], "take": [], "answer": []}
        self._bytes = 0

    @contextmanager
    def _folding(self) -> Iterator[None]:
        """What tasks fold, as planned and as parsed again where they run."""
        from muntin.plan.lanes import LanesOf

        if self._has_lanes:
            yield
            return
        with mock.patch("muntin.spark.job.lanes_of", return_value=LanesOf(None, ())):
            yield

    def take(self, events: pa.Table, turn: int, is_timed: bool) -> int:
        """A micro-batch; the sum of the rows that were emitted, and their number."""
        from muntin.spark.pack import pack_events

        spent, found = dict.fromkeys(self._spent, 0.0), 0
        with self._folding():
            began = time.process_time()
            packed = [
                row
                for each in pack_events(self._job, events.to_batches(65_536), 0)
                for row in each.to_pylist()
            ]
            spent["pack"] = time.process_time() - began
        self._bytes = sum(len(row["data"]) for row in packed if row["data"])
        for number, shard in self._shards.items():
            data = [(row["kind"], row["data"]) for row in packed if row["shard"] == number and row["data"]]
            began = time.process_time()
            shard.insert(data)
            spent["take"] += time.process_time() - began
            began = time.process_time()
            emitted = [
                table for portion in shard.advance((turn + 1) * 60_000_000) for table in portion.values()
            ]
            spent["answer"] += time.process_time() - began
            found += sum(table.num_rows + sum(table["v"].to_pylist()) for table in emitted)
        for step, seconds in spent.items():
            if is_timed:
                self._spent[step].append(seconds)
        return found

    @property
    def cpu(self) -> float:
        return sum(float(np.median(each)) for each in self._spent.values())

    def row(self) -> dict[str, Any]:
        return {step: float(np.median(each)) * 1e3 for step, each in self._spent.items()} | {
            "bytes": self._bytes
        }


def _events(turn: int, rate: int) -> pa.Table:
    random = np.random.default_rng(turn)
    names = pa.array([f"S{number}" for number in range(SYMBOLS)])
    return pa.table(
        {
            "ts": pa.array((turn * rate + np.arange(rate)) * (60_000_000 // rate), pa.timestamp("us")),
            "symbol": names.take(pa.array(random.integers(0, SYMBOLS, rate))),
            "account": random.integers(0, ACCOUNTS, rate),
            "n": random.integers(0, 1_000, rate),
            "x": random.random(rate),
        }
    )


def _streams(files: int, rows: int, count: int) -> list[dict[str, Any]]:
    """Subscriptions on keys of the streams that the other benchmarks on Spark have, and one query for all keys."""
    import muntin.spark
    from benchmarks.spark_runs import play, read
    from benchmarks.spark_workload import write_events

    window = "[RANGE 300 SECONDS SLIDE 60 SECONDS]"
    subscribed = {
        f"q{i}": f"SELECT SUM(x) AS v FROM t {window} WHERE k = 'SYM{i:05}' HAVING SUM(x) > 1600"
        for i in range(count)
    }
    one = {"all": f"SELECT k, SUM(x) AS v FROM t {window} GROUP BY k HAVING SUM(x) > 1600"}
    folder = Path(tempfile.mkdtemp(prefix="muntin-filters-"))
    session = muntin.spark.local_session(cores=2, memory="4g")
    found = []
    try:
        write_events(folder / "in", files, rows)
        for what, queries in (
            ("", one),
            ("WHERE k = …, a stream", subscribed),
            ("GROUP BY k, a stream", one),
        ):
            stream = muntin.spark.shared_windows(
                read(session, folder, 2), queries, stream="t", time="ts", shards=SHARDS
            )
            played = play(session, folder, [stream])
            if what:  # the first is not counted: the JVM compiles what it runs often
                found.append(
                    {"what": what, "queries": len(queries), "how": "by lanes" if len(queries) > 1 else "by key",
                     "rate": played.rate, "cpu": played.cpu_per_million}
                )  # fmt: skip
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return found
