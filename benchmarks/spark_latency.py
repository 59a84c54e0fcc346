"""A slow stream on Spark with a thousand queries: how soon windows are answered, and what stays on disk.

`python -m benchmarks.spark_latency --seconds 1800 --kafka` plays it for half an hour, as JSON through a real broker;
otherwise it takes ten minutes, and the events are those of Spark's `rate` source.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe_commit
from benchmarks.measure import Column, Result
from benchmarks.report import write_page
from benchmarks.spark_runs import events_of

RATE = 1_000  # events per second, of the clock and of event time
KEYS = 1_000
SLIDE = 5  # seconds
SIZES = tuple(range(SLIDE, 60 * SLIDE + SLIDE, SLIDE))  # seconds, up to five minutes
COUNT = 1_000
COLUMNS = [
    Column("part", "part of the run"), Column("batches", "micro-batches", ",d"), Column("events", "events", ",d"),
    Column("answers", "answers", ",d"), Column("median", "latency, median, s", ".2f"),
    Column("p99", "99th percentile, s", ".2f"),
    Column("batch", "micro-batch, median, s", ".2f"), Column("batch_p99", "99th percentile, s", ".2f"),
    Column("state_mb", "state, MiB", ",.1f"), Column("folder_mb", "checkpoint folder, MiB", ",.1f"),
    Column("files", "files there", ",d"),
]  # fmt: skip
PART = 300  # seconds: a run that is longer than two of them is told of in such parts
PARTITIONS = 2
SCHEMA = "ts TIMESTAMP, k BIGINT, x DOUBLE"
FROM_RATE = "Spark's `rate` source"
FROM_KAFKA = f"""JSON in messages of Kafka, {PARTITIONS} partitions of a real broker on the same machine, decoded by
`from_json`, with a delay of a second that is part of the latency"""
NOTES = f"""{{source}}: {RATE:,} events a second of {KEYS:,} keys, a trigger every second, and {COUNT:,}
queries per key over windows of {SIZES[0]} seconds to {SIZES[-1] // 60} minutes that move by {SLIDE} seconds, with
HAVING thresholds of their own. The latency of a window is the time on the clock from its end to the moment at which
`foreachBatch` has its answers; up to a second of it is the wait for the next trigger. Local mode on two cores with two
shards. The first minute is not counted. State and folder are the largest of each part: Spark keeps the files of the
last hundred micro-batches."""


def run(quick: bool, seconds: int = 600, is_kafka: bool = False) -> Result:
    """Play the stream in real time, and compare the parts of the run."""
    seconds, warm_up = (60, 25) if quick else (seconds, 60)
    folder = Path(tempfile.mkdtemp(prefix="muntin-spark-"))
    try:
        with (_from_kafka if is_kafka else _from_rate)(folder) as (session, events):
            seen = _play(session, events, folder, seconds, warm_up)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    notes = NOTES.format(source=FROM_KAFKA if is_kafka else FROM_RATE)
    return Result(
        "spark_latency", "A slow stream on Spark", " ".join(notes.split()), COLUMNS, seen,
        {"seconds": seconds, "warm_up_seconds": warm_up},
    )  # fmt: skip


@contextmanager
def _from_rate(_: Path) -> Iterator[tuple[Any, Any]]:
    """A session, and events that Spark makes up."""
    import muntin.spark

    session = muntin.spark.local_session(cores=2, memory="4g")
    source = session.readStream.format("rate").option("rowsPerSecond", RATE).load()
    # keys and values that look drawn, and are the same when a micro-batch is made again
    events = source.selectExpr(
        "timestamp AS ts", f"pmod(xxhash64(value), {KEYS}) AS k",
        "-ln((pmod(xxhash64(value, 1), 1000000) + 0.5) / 1000000) AS x",
    )  # fmt: skip
    try:
        yield session, events.withWatermark("ts", "0 seconds")
    finally:
        session.stop()


@contextmanager
def _from_kafka(folder: Path) -> Iterator[tuple[Any, Any]]:
    """A session, and events that come through a broker as they happen."""
    from pyspark.sql import functions as F

    import muntin.spark
    from tests.kafka_broker import KafkaBroker, connector_jars

    session = muntin.spark.local_session(cores=2, memory="4g", settings={"spark.jars": connector_jars()})
    broker = KafkaBroker(folder / "broker")
    is_over = threading.Event()
    feeding = threading.Thread(target=_feed, args=(broker.address, is_over), daemon=True)
    try:
        broker.create("events", PARTITIONS)
        feeding.start()
        read = session.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
        messages = read.option("subscribe", "events").option("startingOffsets", "latest").load()
        decoded = F.from_json(F.col("value").cast("string"), SCHEMA)
        events = messages.select(decoded.alias("event")).select("event.*")
        yield session, events.withWatermark("ts", "1 second")
    finally:
        is_over.set()
        session.stop()
        broker.close()


def _feed(address: str, is_over: threading.Event) -> None:
    """Send the events of each hundredth of a second, as of now."""
    from confluent_kafka import Producer

    producer, random = Producer({"bootstrap.servers": address, "linger.ms": 5}), np.random.default_rng(1)
    sent, began = 0, time.time()
    while not is_over.wait(0.01):
        due = int((time.time() - began) * RATE) - sent
        values = zip(
            random.integers(0, KEYS, due).tolist(), random.exponential(size=due).tolist(), strict=True
        )
        for k, x in values:
            at = datetime.fromtimestamp(began + sent / RATE, UTC).isoformat(timespec="microseconds")
            told = f'{{"ts":"{at}","k":{k},"x":{x:.6f}}}'
            producer.produce("events", told, partition=sent % PARTITIONS)
            sent += 1
        producer.poll(0)


def queries() -> dict[str, str]:
    """No two alike: the sum of a key's window above what it is on average, by one standard deviation and more."""
    texts = {}
    for number in range(COUNT):
        size = SIZES[number % len(SIZES)]
        events = size * RATE / KEYS
        limit = events + (2 + number / COUNT) * (2 * events) ** 0.5
        texts[f"q{number}"] = (
            f"SELECT k, SUM(x) AS value FROM t [RANGE {size} SECONDS SLIDE {SLIDE} SECONDS] GROUP BY k "
            f"HAVING SUM(x) > {limit!r}"
        )
    return texts


def _play(session: Any, events: Any, folder: Path, seconds: int, warm_up: int) -> list[dict[str, Any]]:
    import muntin.spark

    answers = muntin.spark.shared_windows(events, queries(), stream="t", time="ts", shards=2)
    arrived: list[tuple[float, datetime, int]] = []  # clock, end of a window, answers

    def take(found: Any, _: int) -> None:
        table = found.select("window_end").toArrow()
        now = time.time()
        for counted in table.group_by("window_end").aggregate([([], "count_all")]).to_pylist():
            arrived.append((now, counted["window_end"].replace(tzinfo=UTC), counted["count_all"]))

    checkpoint = folder / "checkpoint"
    writing = answers.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = writing.trigger(processingTime="1 second").start()
    began, sizes, batches = time.time(), [], {}
    try:
        while time.time() < began + seconds:
            time.sleep(5)
            if query.exception():
                raise query.exception()
            sizes.append((time.time(), *_size_of(checkpoint)))
            batches |= {each.batchId: each for each in query.recentProgress}
    finally:
        query.stop()
    first, last = began + warm_up, began + seconds
    count = max(2, round((last - first) / PART))
    edges = np.linspace(first, last, count + 1).tolist()
    parts = {f"{number} of {count}": span for number, span in enumerate(itertools.pairwise(edges), 1)}
    parts["all"] = (first, last)
    return [_row(part, *span, arrived, sizes, list(batches.values())) for part, span in parts.items()]


def _row(
    part: str, lo: float, hi: float, arrived: list[tuple[float, datetime, int]],
    sizes: list[tuple[float, int, int]], batches: list[Any],
) -> dict[str, Any]:  # fmt: skip
    waited = {
        end: now - end.timestamp() for now, end, _ in arrived if lo <= now < hi
    }  # all answers of a window arrive together, in one micro-batch
    some = [each for each in batches if lo <= _began(each) < hi]
    assert waited, "no window was answered"
    assert some, "no micro-batch was seen"
    busy = [each.durationMs["triggerExecution"] / 1000 for each in some if each.numInputRows]
    state = [
        int(told["state_bytes"] or 0)
        for each in some
        for name, told in (each.observedMetrics or {}).items()
        if name.startswith("muntin")
    ]
    disk = [(size, files) for at, size, files in sizes if lo <= at < hi]
    return {
        "part": part, "batches": len(some), "events": sum(map(events_of, some)),
        "answers": sum(count for now, _, count in arrived if lo <= now < hi),
        "median": statistics.median(waited.values()), "p99": float(np.quantile(list(waited.values()), 0.99)),
        "batch": statistics.median(busy), "batch_p99": float(np.quantile(busy, 0.99)),
        "state_mb": max(state, default=0) / 2**20, "folder_mb": max(size for size, _ in disk) / 2**20,
        "files": max(files for _, files in disk),
    }  # fmt: skip


def _began(progress: Any) -> float:
    """When a micro-batch began, by the clock."""
    return datetime.fromisoformat(progress.timestamp).timestamp()


def _size_of(folder: Path) -> tuple[int, int]:
    """Bytes and files below a folder, some of which may go meanwhile."""
    total, files = 0, 0
    for each in folder.rglob("*"):
        try:
            if each.is_file():
                total, files = total + each.stat().st_size, files + 1
        except OSError:
            continue
    return total, files


def main(arguments: list[str] | None = None) -> int:
    """Play the stream for longer; the benchmark itself is run by `python -m benchmarks spark_latency`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_latency", description=__doc__)
    parser.add_argument(
        "--seconds", type=int, required=True, help="how long, with a minute that is not counted"
    )
    parser.add_argument("--kafka", action="store_true", help="send the events through a broker")
    parser.add_argument("--note", default="", help="what else is to be said of the run")
    options = parser.parse_args(arguments)
    commit = describe_commit()
    result = run(False, options.seconds, options.kafka)
    result.notes = f"{result.notes} {options.note}".strip()
    print(f"written: {result.save(commit)}")
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main())
