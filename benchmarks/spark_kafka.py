"""From Kafka on Spark, JSON in messages of a hundred bytes: a thousand queries beside the reading alone."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Column, Result
from benchmarks.spark_runs import Played, play
from benchmarks.spark_workload import KEYS, RATE, SCHEMA, queries

TOPIC = "events"
PARTITIONS = 2
BYTES = 100  # of a message
COUNT = 1_000
TURNS = 3
COLUMNS = [
    Column("what", "what"), Column("events", "events a run", ",d"), Column("batches", "micro-batches", ",d"),
    Column("rate", "events per second", ",.0f"), Column("cpu", "CPU seconds per million events", ".2f"),
    Column("ratio", "rate beside the reading alone", ".2f"),
    Column("cpu_ratio", "CPU of the reading alone, as a part", ".2f"), Column("answers", "answers", ",d"),
]  # fmt: skip
NOTES = """{events:,} messages of {bytes} bytes of JSON in {partitions} partitions of a real broker on the same
machine, read by Spark's connector, {each:,} a micro-batch, and decoded by `from_json`; {keys:,} keys, {rate:,} events a
second of event time. *Reading alone* hands the columns to Spark's `noop` sink. The queries are those of the benchmark
of Spark, with HAVING thresholds that one key in a hundred passes; their answers go to `noop`, too. Local mode on two
cores with two shards. Medians of {turns} runs of each, in turns, after one of each that is not counted: the JVM
compiles what it runs. Nor are the first two micro-batches of a run; of the rates beside each other each pair is of one
turn."""


def run(quick: bool, events: int | None = None) -> Result:
    """Fill a topic, and read it in turns, alone and with queries."""
    import muntin.spark
    from tests.kafka_broker import KafkaBroker, connector_jars

    many = events or (200_000 if quick else 8_000_000)
    each, turns, count = many // (4 if quick else 8), 1 if quick else TURNS, 100 if quick else COUNT
    folder = Path(tempfile.mkdtemp(prefix="muntin-kafka-"))
    broker = KafkaBroker(folder / "broker")
    session = None
    try:
        broker.create(TOPIC, PARTITIONS)
        produce(broker.address, many)
        session = muntin.spark.local_session(cores=2, memory="2g", settings={"spark.jars": connector_jars()})
        ways: dict[str, Callable[[Any], Any]] = {
            "reading alone": lambda trades: trades,
            f"{count:,} queries": lambda trades: muntin.spark.shared_windows(
                trades, queries(count), stream="t", time="ts", shards=2
            ),
        }
        played: dict[str, list[Played]] = {what: [] for what in ways}
        for turn in range(turns + 1):
            for what, way in ways.items():
                stream = way(_events(session, broker.address, each))
                seen = play(session, folder, [stream], sink="noop")
                print(f"{what}: {seen.rate:,.0f} events per second", flush=True)
                if turn:
                    played[what].append(seen)
    finally:
        if session is not None:
            session.stop()
        broker.close()
        shutil.rmtree(folder, ignore_errors=True)
    alone = next(iter(played.values()))
    notes = NOTES.format(
        events=many, bytes=BYTES, partitions=PARTITIONS, each=each, keys=KEYS, rate=RATE, turns=turns
    )
    return Result(
        "spark_kafka", "From Kafka on Spark", " ".join(notes.split()), COLUMNS,
        [_row(what, runs, alone) for what, runs in played.items()], {"events": many, "queries": count},
    )  # fmt: skip


def produce(address: str, many: int) -> None:
    """Messages in order of time, dealt out to the partitions; each is filled up to a hundred bytes."""
    from confluent_kafka import Producer

    random = np.random.default_rng(1)
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 500_000}
    )
    step = 1_000_000 // RATE
    for lo in range(0, many, 100_000):
        at = np.arange(lo, min(many, lo + 100_000)) * step
        texts = np.datetime_as_string(at.view("datetime64[us]"))
        keys, values = random.integers(0, KEYS, len(at)), random.exponential(size=len(at))
        for number, (text, key, value) in enumerate(zip(texts, keys, values, strict=True)):
            told = f'{{"ts":"{text}Z","k":"SYM{key:05}","x":{value:.6f},"note":"'
            producer.produce(
                TOPIC, f'{told}{"." * (BYTES - len(told) - 2)}"}}', partition=number % PARTITIONS
            )
            producer.poll(0)
        producer.flush()


def _events(session: Any, address: str, each: int) -> Any:
    from pyspark.sql import functions as F

    read = session.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    read = (
        read.option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", each)
    )
    decoded = F.from_json(F.col("value").cast("string"), SCHEMA)
    return read.load().select(decoded.alias("event")).select("event.*").withWatermark("ts", "1 second")


def _row(what: str, runs: list[Played], alone: list[Played]) -> dict[str, Any]:
    pairs = list(zip(runs, alone, strict=True))
    return {
        "what": what, "events": runs[0].events, "batches": runs[0].batches,
        "rate": statistics.median(each.rate for each in runs),
        "cpu": statistics.median(each.cpu_per_million for each in runs),
        "ratio": statistics.median(each.rate / other.rate for each, other in pairs),
        "cpu_ratio": statistics.median(other.cpu_per_million / each.cpu_per_million for each, other in pairs),
        "answers": runs[0].answers,
    }  # fmt: skip
