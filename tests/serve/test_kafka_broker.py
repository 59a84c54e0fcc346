"""A server on a real broker of Kafka, both killed while events flow: every event counts once, and answers are those of
a run that nobody has interrupted."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from muntin import Engine
from muntin.serve.answers import KeptAnswers
from muntin.serve.taken import in_order
from muntin.stream import Stream
from tests.kafka_broker import KafkaBroker
from tests.serve.test_kills import Client, copied, uninterrupted

pytestmark = pytest.mark.kafka
KILLS = int(os.environ.get("MUNTIN_KILLS", "10"))  # of the server, in one test
EVENTS_PER_SECOND = 800
QUERIES = """
REGISTER QUERY sums AS SELECT k, SUM(n) AS n, COUNT(*) AS c FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY high AS SELECT k, SUM(n) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k
HAVING SUM(n) > 600 EMIT CHANGES;
REGISTER QUERY total AS SELECT COUNT(*) AS n, SUM(id) AS ids FROM s [RANGE 1000 DAYS]"""
TABLE = "CREATE TABLE limits (k VARCHAR, most BIGINT, PRIMARY KEY (k))"
OVER = """REGISTER QUERY over AS SELECT s.k, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS] AS s
JOIN limits AS l ON s.k = l.k GROUP BY s.k HAVING COUNT(*) > l.most EMIT CHANGES"""
STREAM = "CREATE STREAM s (ts BIGINT, id BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 20 SECONDS"


def event(id: int) -> dict[str, Any]:
    """The events that everybody agrees on: each tells its own time, a hundredth of a second apart."""
    return {"ts": id * 10_000, "id": id, "k": "abcde"[id * 7 % 5], "n": id * 31 % 20 + id // 1_000 % 2 * 15}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    made = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    yield made
    made.close()


class Server:
    """`muntin serve` as a process that is killed and started again."""

    def __init__(self, folder: Path, script: str, *options: str):
        self.folder, self._options = folder, options
        (folder / "script.sql").write_text(script)
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def launch(self, *more: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "muntin",
            "serve",
            str(self.folder / "script.sql"),
            "--listen",
            "127.0.0.1:0",
        ]
        command += ["--data", str(self.folder / "data"), "--folder", str(self.folder), *self._options, *more]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with open(self.folder / "server.log", "a") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self._process

    def start(self, *more: str) -> None:
        process = self.launch(*more)
        assert process.stdout is not None
        told = process.stdout.readline()
        found = re.match(r"muntin listens at (http://127\.0\.0\.1:\d+);", told)
        assert found, (self.folder / "server.log").read_text()[-3_000:]
        self.address = found[1]

    def end(self, how: int = signal.SIGKILL) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(60)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2] or 1)  # nobody listens before the first start

    def taken(self) -> int:
        """Messages that were taken from the source."""
        return sum(self.ready()["sources"]["s"]["position"].values())

    def total(self) -> dict[str, Any]:
        answer = httpx.get(f"{self.address}/queries/total/answer", timeout=30).json()
        return dict(answer[0]) if answer else {"n": 0, "ids": 0}

    def ready(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.address}/ready", timeout=30).json())


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(*args: Any) -> Server:
        made.append(Server(*args))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Feeder(threading.Thread):
    """Sends events one after the other to whatever partitions there are, through all that happens to the broker."""

    def __init__(self, address: str, topic: str):
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        settings |= {"message.timeout.ms": 300_000, "topic.metadata.refresh.interval.ms": 1_000}
        self._producer, self._topic = Producer(settings), topic
        self.partitions, self.sent, self.is_over = 3, 0, threading.Event()
        self.failed: list[Any] = []

    def run(self) -> None:
        while not self.is_over.is_set():
            for _ in range(EVENTS_PER_SECOND // 20):
                value = json.dumps(event(self.sent)).encode()
                self._producer.produce(
                    self._topic, value, partition=self.sent % self.partitions,
                    on_delivery=lambda error, _: self.failed.append(error) if error else None,
                )  # fmt: skip
                self.sent += 1
            self._producer.poll(0)
            time.sleep(0.05)
        assert self._producer.flush(120) == 0


class Changer(Client):
    """Changes a table, and registers, replaces and drops queries; events come from elsewhere."""

    def __init__(self, server: Server):
        super().__init__(0, server, iter(()))

    def _push(self) -> tuple[str, str, bytes, str]:
        time.sleep(0.05)
        rows = [{"k": self._chance.choice("abcde"), "most": self._chance.randrange(150, 250)}]
        return "POST", "/tables/limits", json.dumps(rows).encode(), "application/json"


def until(is_so: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.1)


def expected(many: int) -> dict[str, set[tuple[Any, ...]]]:
    """The answers of an engine that got all events at once."""
    engine = Engine()
    engine.execute(f"{STREAM};{QUERIES}")
    engine.push("s", pa.Table.from_pylist([event(id) for id in range(many)]))
    return {name: {_row(each) for each in table.to_pylist()} for name, table in engine.advance().items()}


def _row(answer: dict[str, Any]) -> tuple[Any, ...]:
    shown = {name: str(value).replace("T", " ").removesuffix("Z") for name, value in answer.items()}
    return tuple(sorted((name, value) for name, value in shown.items() if name not in ("id", "query")))


def messages(address: str, topic: str) -> list[Any]:
    """All of a topic."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "log_level": 0})
    found = []
    for number in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
        consumer.assign([TopicPartition(topic, number, low)])
        seen = 0
        while seen < high - low:
            some = [each for each in consumer.consume(1_000, timeout=1) if each.error() is None]
            seen += len(some)
            found += some
    consumer.close()
    return found


def by_id(answers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each answer once; what came twice came the same."""
    found: dict[str, dict[str, Any]] = {}
    for each in answers:
        assert found.setdefault(each["id"], each) == each
    return found


def check_answers(answers: list[dict[str, Any]], wanted: set[tuple[Any, ...]]) -> None:
    once = by_id(answers)
    assert {_row(each) for each in once.values()} == wanted
    numbers = defaultdict(list)
    for id in once:
        incarnation, _, number = id.partition("-")
        numbers[incarnation].append(int(number))
    assert [sorted(each) for each in numbers.values()] == [list(range(1, len(once) + 1))]


def check_all_answers(folder: Path, sent: list[Any]) -> int:
    """Compare what was given out with what an engine gives that does by itself what the log says; how many rows."""
    by_place = {(each.partition(), each.offset()): json.loads(each.value()) for each in sent}

    def taken(told: dict[str, Any]) -> pa.RecordBatch:
        parts = [[by_place[int(part), place] for place in range(*span)] for part, *span, _ in told["ranges"]]
        schema = pa.schema([("ts", pa.int64()), ("id", pa.int64()), ("k", pa.string()), ("n", pa.int64())])
        batches = [pa.RecordBatch.from_pylist(each, schema=schema) for each in parts if each]
        return in_order(parse_stream(), batches)

    _, wanted = uninterrupted(copied(folder), taken)
    kept = KeptAnswers(folder / "data" / "answers", 1e9)
    portions = kept.between(1, sys.maxsize)
    told = {json.loads(row)["id"]: row for each in portions for part in each.parts for row in part.rows}
    kept.close()
    assert told == wanted
    assert len({json.loads(row)["query"] for row in told.values()}) > 4  # those that came over HTTP, too
    return len(told)


def parse_stream() -> Stream:
    engine = Engine()
    engine.execute(STREAM)
    return engine.streams["s"]


@pytest.mark.parametrize("seed", [int(os.environ.get("MUNTIN_SEED", "1"))])
def test_killed(tmp_path: Path, broker: KafkaBroker, make_server: Callable[..., Server], seed: int) -> None:
    """The server in random places; the broker while the server runs, and while it starts; partitions come meanwhile,
    and so do statements and changes of a table over HTTP."""
    chance, topic, alerts = random.Random(seed), f"events-{seed}", f"alerts-{seed}"
    broker.create(topic, 3)
    broker.create(alerts, 2)
    where = f"brokers = '{broker.address}'"
    script = f"{STREAM} WITH (source = 'kafka', {where}, topic = '{topic}');{TABLE};{QUERIES};{OVER};"
    script += f"CREATE SINK a FROM sums WITH (sink = 'kafka', {where}, topic = '{alerts}');"
    out = tmp_path / "out"
    script += f"CREATE SINK b FROM high WITH (sink = 'files', path = '{out}', format = 'json', seconds = 1)"
    server = make_server(tmp_path, script, "--checkpoint-seconds", "3")
    feeder, changer = Feeder(broker.address, topic), Changer(server)
    feeder.start()
    server.start()
    changer.start()
    for kill in range(KILLS):
        if chance.random() < 0.8:  # so that there is something to do again
            before = server.taken()
            until(lambda: server.taken() > before)  # noqa: B023
        time.sleep(chance.uniform(0.0, 1.5))
        if kill == KILLS // 4:
            broker.kill()
            time.sleep(chance.uniform(0.0, 2.0))
            broker.start()
        if kill == KILLS // 2:
            broker.grow(topic, 5)
            time.sleep(3.0)
            feeder.partitions = 5
        server.end()
        if kill == 3 * KILLS // 4:  # the broker is not there when the server wants its messages again
            broker.kill()
            process = server.launch()
            time.sleep(3.0)
            broker.start()
            assert process.stdout is not None
            server.address = process.stdout.readline().split()[3].rstrip(";")
            continue
        server.start()
    feeder.is_over.set()
    changer.is_done.set()
    feeder.join()
    changer.join(120)
    assert feeder.failed == []
    assert (changer.problem, changer.is_alive()) == (None, False)
    many = feeder.sent
    until(lambda: server.total()["n"] >= many)
    told = server.ready()
    assert server.total() | {"n": many, "ids": sum(range(many))} == server.total()
    assert sum(told["sources"]["s"]["position"].values()) == many
    assert told["sources"]["s"]["bad"] == 0
    assert set(told["sources"]["s"]["position"]) == {"0", "1", "2", "3", "4"}
    late = httpx.get(f"{server.address}/streams").json()[0]["late"]
    assert late == 0
    until(lambda: server.ready()["sinks"]["a"]["waiting"] == 0)
    assert server.end(signal.SIGTERM) == 0
    wanted = expected(many)
    assert len(wanted["sums"]) > 100
    assert wanted["high"]
    found = [json.loads(each.value()) for each in messages(broker.address, alerts)]
    check_answers(found, wanted["sums"])
    lines = [line for each in sorted(out.iterdir()) for line in each.read_text().splitlines()]
    check_answers([json.loads(line) for line in lines], wanted["high"])
    given = check_all_answers(tmp_path, messages(broker.address, topic))
    print(
        f"{many:,} events, {KILLS} kills, {len(found):,} answers of which {len(by_id(found)):,} are different; "
        f"{given:,} of all queries; changes sent again {changer.again} times, {changer.repeated} of them made before"
    )


def test_messages_that_are_gone(
    tmp_path: Path, broker: KafkaBroker, make_server: Callable[..., Server]
) -> None:
    """What a start must read again and the broker has deleted is named; with --skip-lost it goes on."""
    broker.create("gone", 1)
    script = f"{STREAM} WITH (source = 'kafka', brokers = '{broker.address}', topic = 'gone');{QUERIES}"
    server = make_server(tmp_path, script, "--checkpoint-seconds", "1000")
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for id in range(100):
        producer.produce("gone", json.dumps(event(id)).encode())
    assert producer.flush(30) == 0
    server.start()
    until(lambda: server.total()["n"] == 100)
    server.end()
    admin = broker.admin()
    [deleted] = admin.delete_records([TopicPartition("gone", 0, 60)]).values()
    deleted.result(30)
    process = server.launch()
    assert process.wait(60) != 0
    told = (tmp_path / "server.log").read_text()
    assert re.search(r"topic 'gone', partition 0: offset 0 is gone, the broker has 60 to 100", told), told[
        -2_000:
    ]
    server.start("--skip-lost")
    for id in range(100, 110):
        producer.produce("gone", json.dumps(event(id)).encode())
    assert producer.flush(30) == 0
    until(lambda: server.ready()["sources"]["s"]["position"] == {"0": 110})
    assert server.total()["n"] >= 10
    assert server.end(signal.SIGTERM) == 0
