"""From Kafka to Kafka by Spark's own connector: broker, driver and workers are killed while events flow, and answers
are those of DuckDB over what the topic holds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_events import BAD, PER_MESSAGE, answer_of, expected, table_of, to_message
from supervised import kill, machine, workers

from tests.kafka_broker import KafkaBroker, connector_jars

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("quick_workers")]
ROUNDS = int(os.environ.get("MUNTIN_ROUNDS", "2"))  # of kills of everything, in one test
EVENTS_PER_SECOND = 500
CLOSING = 20_000  # events: as long as the delay, and longer than all windows


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    connector_jars()  # a test without it is skipped before anything starts
    made = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    yield made
    made.close()


class Driver:
    """The streaming query, started again whenever it ends: as a supervisor would."""

    def __init__(self, folder: Path, *arguments: str):
        self._folder, self._arguments = folder, arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> None:
        script = Path(__file__).with_name("kafka_driver.py")
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(self._folder), *self._arguments], stdout=log, stderr=log
            )
        self.starts += 1

    def end(self) -> None:
        """kill -9 of all its processes."""
        if self._process is not None:
            kill(machine(self._process.pid) if self._process.poll() is None else [])
            self._process.wait()

    def kill_workers(self) -> int:
        assert self._process is not None
        return kill(workers(self._process.pid))

    def watch(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            assert self.starts < 20, self.log()
            self.start()

    def until(self, is_so: Callable[[], Any], every: float = 0.2, seconds: float = 1_200.0) -> None:
        """Wait, and start again what ends meanwhile."""
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, f"it did not come to be:\n{self.log()}"
            self.watch()
            time.sleep(every)

    def commits(self) -> int:
        """Micro-batches that are done; of their files Spark keeps the last hundred."""
        names = (each.name for each in self._folder.glob("checkpoint/commits/*"))
        return 1 + max((int(name) for name in names if name.isdigit()), default=-1)

    def after(self, commits: int) -> None:
        """Wait for so many more micro-batches."""
        enough = self.commits() + commits
        self.until(lambda: self.commits() >= enough)

    def log(self) -> str:
        return (self._folder / "log").read_text()[-5_000:]


class Feeder(threading.Thread):
    """Sends events one after the other to whatever partitions there are, through all that happens to the broker."""

    def __init__(self, address: str, kind: str):
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        settings |= {"message.timeout.ms": 300_000, "topic.metadata.refresh.interval.ms": 1_000}
        self._producer, self._kind, self._many = Producer(settings), kind, PER_MESSAGE[kind]
        self.partitions, self.sent, self.is_over = 2, 0, threading.Event()
        self.failed: list[Any] = []

    def send(self, value: bytes) -> None:
        self._producer.produce(
            self._kind, value, partition=self.sent // self._many % self.partitions,
            on_delivery=lambda error, _: self.failed.append(error) if error else None,
        )  # fmt: skip

    def feed(self, many: int) -> None:
        """Send so many events."""
        for _ in range(many // self._many):
            self.send(to_message(self._kind, range(self.sent, self.sent + self._many)))
            self.sent += self._many
            self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(120) == 0
        assert self.failed == []

    def run(self) -> None:
        while not self.is_over.is_set():
            self.feed(EVENTS_PER_SECOND // 20)
            time.sleep(0.05)


def consumer_of(address: str) -> Consumer:
    settings = {"bootstrap.servers": address, "group.id": "test", "isolation.level": "read_committed"}
    return Consumer(settings | {"log_level": 0})


def messages(address: str, topic: str) -> list[Any]:
    """All of a topic that is committed."""
    consumer = consumer_of(address)
    found = []
    for number in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
        consumer.assign([TopicPartition(topic, number, low)])
        seen = 0
        while seen < high - low:
            some = [each for each in consumer.consume(10_000, timeout=1) if each.error() is None]
            seen += len(some)
            found += some
    consumer.close()
    return found


class Length:
    """How many messages a topic of two partitions has, told at once."""

    def __init__(self, address: str, topic: str):
        self._consumer, self._parts = consumer_of(address), [TopicPartition(topic, each) for each in (0, 1)]

    def __call__(self) -> int:
        return sum(self._consumer.get_watermark_offsets(each, timeout=30)[1] for each in self._parts)


def kill_before_commits(driver: Driver, address: str, topic: str) -> int:
    """Kill the driver as soon as a micro-batch has written answers, before Spark has written down that it is done,
    until some have come again; how many times."""
    length = Length(address, topic)
    for kills in range(1, 11):
        before = length()
        driver.until(lambda before=before: length() > before, every=0.005)
        driver.end()
        driver.after(2)
        found = messages(address, topic)
        if len({each.key() for each in found}) < len(found):
            return kills
    raise AssertionError("no kill came between the answers of a micro-batch and its commit")


@pytest.mark.parametrize("kind", ["json", "arrow"])
def test_killed(tmp_path: Path, broker: KafkaBroker, kind: str) -> None:
    """Start from `latest` on an empty topic; then all die in turn, and partitions come."""
    chance = random.Random(int(os.environ.get("MUNTIN_SEED", "1")))
    broker.create(kind, 2)
    broker.create(f"{kind}-answers", 2)
    feeder, killed = Feeder(broker.address, kind), 0
    with Driver(tmp_path, broker.address, kind, "local[2,4]") as driver:
        driver.start()
        # from here on Spark knows where `latest` was; what came before would not be read
        driver.until(lambda: (tmp_path / "checkpoint/sources/0/0").exists())
        driver.end()
        feeder.feed(500)  # the first events come while nobody runs
        feeder.flush()
        driver.start()
        driver.until(lambda: driver.commits() >= 1)
        feeder.start()
        for _ in range(ROUNDS):
            driver.after(2)
            time.sleep(chance.uniform(0.0, 0.5))
            driver.until(driver.kill_workers)
            killed += 1
            driver.after(2)
            time.sleep(chance.uniform(0.0, 0.5))
            driver.end()
            driver.after(2)
            time.sleep(chance.uniform(0.0, 0.5))
            broker.kill()
            time.sleep(chance.uniform(0.0, 2.0))
            broker.start()
            driver.after(2)
            if feeder.partitions == 2:
                broker.grow(kind, 4)
                time.sleep(3.0)  # until the producer knows of them
                feeder.partitions = 4
        killed_between = kill_before_commits(driver, broker.address, f"{kind}-answers")
        feeder.is_over.set()
        feeder.join()
        feeder.send(BAD)
        feeder.feed(CLOSING)
        feeder.flush()
        produced = messages(broker.address, kind)
        assert {each.partition() for each in produced} == {0, 1, 2, 3}
        wanted = expected(table_of(kind, [each.value() for each in produced]))
        driver.until(
            lambda: len({each.key() for each in messages(broker.address, f"{kind}-answers")}) >= len(wanted),
            every=2.0,
        )
    answers = messages(broker.address, f"{kind}-answers")
    once = {each.key(): each.value() for each in answers}
    assert {(each.key(), each.value()) for each in answers} == set(once.items())
    assert {answer_of(value) for value in once.values()} == wanted
    assert len(once) == len(wanted) > 100
    print(
        f"{feeder.sent:,} events, {killed} kills of workers, of the driver and of the broker each, {killed_between} of "
        f"the driver before a commit, {driver.starts} starts; {len(answers):,} answers, {len(once):,} ids"
    )
