"""A topic as a source, against librdkafka's mock: each message once, in an order that makes none late."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin.arrow_bytes import stream_bytes
from muntin.serve import kafka_reader, kafka_source
from muntin.serve.kafka_reader import KafkaReader, Sent
from muntin.serve.kafka_source import KafkaAgain, decoded
from muntin.serve.service import Service
from muntin.serve.taken import Lost, Range
from muntin.serve.wire import ARROW, CSV, JSON
from muntin.stream import Stream
from muntin.view.folders import Folders
from tests.serve.kafka_mock import MockBroker
from tests.serve.test_sources import STEP, leave_a_copy, rows, script, settings, settle, sums, until, wait_for

STREAM = Stream("s", pa.schema([("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64())]), "ts")


@pytest.fixture(scope="module")
def broker() -> MockBroker:
    return MockBroker()


def source(broker: MockBroker, topic: str, more: str = "") -> str:
    return script(f"source = 'kafka', brokers = '{broker.address}', topic = '{topic}'{more}")


def sent(*values: bytes) -> list[Sent]:
    return [Sent(offset, value, None) for offset, value in enumerate(values)]


def test_messages_of_all_formats() -> None:
    """One event or several in each; what is none says why, and harms no neighbour."""
    good, bad = b'{"ts": 1, "k": "a", "n": 2}', b'{"ts": 1, "n": "x"}'
    runs = decoded(STREAM, JSON, sent(good, good, bad, good, b"[" + good + b", " + good + b"]", b"", good))
    found = [
        (each.offset, None if batch is None else batch.num_rows)
        for some, batch, _ in runs
        for each in (some if batch is not None and batch.num_rows == len(some) else some[:1])
    ]
    events = dict(found)
    assert [offset for offset, _ in found] == list(range(7))
    assert [offset for offset, many in events.items() if many is None] == [2, 5]
    assert events[4] == 2
    assert all(why for _, batch, why in runs if batch is None)
    pretty = b'{\n "ts": 1,\n "k": "a", "n": 2}'
    for value, kind in (
        (pretty, JSON), (good + b"\n" + good, JSON), (b"ts,k,n\n1,a,2\n", CSV),
        (stream_bytes(pa.table({"ts": [1], "k": ["a"], "n": [2]})), ARROW),
    ):  # fmt: skip
        for _, batch, why in decoded(STREAM, kind, sent(value, value)):
            assert batch is not None, why
            assert batch.to_pylist()[0] == {"ts": 1, "k": "a", "n": 2}


def test_neighbours_do_not_change_a_message() -> None:
    """Messages that only together would be JSON are bad, each by itself."""
    parts = [b'{"ts": 1, "k": ', b'"a", "n": 1}', b'{"ts": 1}{"ts": 2}', b'{"ts": 1, "k": {}', b"}"]
    for several in ([*parts], [*parts, b'{"ts": 5, "k": "a", "n": 2}'] * 3):
        alone = [decoded(STREAM, JSON, sent(value))[0][1] for value in several]
        for some, batch, _ in decoded(STREAM, JSON, sent(*several)):
            each = alone[some[0].offset]
            assert (batch is None) == (each is None)


@pytest.mark.parametrize("seed", range(2))
def test_through_crashes(tmp_path: Path, broker: MockBroker, seed: int) -> None:
    """A copy of the data folder is what a killed process leaves. Every message counts once; answers are those of a
    service that got all events at once."""
    chance = random.Random(seed)
    topic = f"crashes-{seed}"
    told = source(broker, topic)
    broker.make(topic)
    service, folder, total = Service(tmp_path / "0", told, settings(tmp_path)), tmp_path / "0", 0
    for number in range(10):
        many = chance.randrange(1, 60)
        broker.send(topic, rows(total, many, STEP))
        total += many
        if chance.random() < 0.5:
            wait_for(service, total)
        if chance.random() < 0.3:
            service.checkpoint().result(120)
        if chance.random() < 0.5:
            copy = tmp_path / str(number + 1)
            leave_a_copy(service, folder, copy)
            service.stop(is_kept=False)
            service, folder = Service(copy, told, settings(tmp_path)), copy
    wait_for(service, total)
    settle(service)
    assert service.engine.lookup("total")["sum"][0].as_py() == sum(range(total))
    position = service.connections.told()["sources"]["s"]["position"]
    assert sum(position.values()) == total
    until(lambda: service.connections.sources["s"].lag == 0)
    found = sums(service)
    assert len(found) > 50
    service.stop()
    whole = Service(tmp_path / "whole", script("source = 'http'"), settings(tmp_path))
    whole.push("s", pa.Table.from_pylist(rows(0, total, STEP), STREAM.schema)).result(120)
    assert found == sums(whole)
    whole.stop()


def test_partitions_wait_for_one_another(tmp_path: Path, broker: MockBroker, monkeypatch: Any) -> None:
    """What was sent long ago is read in the order of its times, however partitions are fetched: nothing is late."""
    monkeypatch.setattr(kafka_source, "_MESSAGES", 50)
    monkeypatch.setattr(kafka_source, "_ROWS", 400)
    for partition in range(4):
        events = [{"ts": at * 1_000_000, "k": "a", "n": 1} for at in range(2_000)]
        broker.send("aligned", events, partition)
    told = source(broker, "aligned").replace("DELAY 1 MINUTE", "DELAY 3 MINUTES")
    service = Service(tmp_path / "data", told, settings(tmp_path))
    wait_for(service, 8_000)
    assert service.engine.stats()["streams"]["s"]["late"] == 0
    assert service._log.last > 10
    service.stop()


def test_a_source_waits_for_the_writer(tmp_path: Path, broker: MockBroker, monkeypatch: Any) -> None:
    """While the writer stands still, one portion waits for it and little more is fetched; then all is taken."""
    readers = []

    class Watched(KafkaReader):
        def __init__(self, *args: Any):
            super().__init__(*args)
            readers.append(self)

    monkeypatch.setattr(kafka_source, "KafkaReader", Watched)
    monkeypatch.setattr(kafka_source, "_MESSAGES", 20)
    monkeypatch.setattr(kafka_source, "_ROWS", 100)
    monkeypatch.setattr(kafka_reader, "_MOST", 40)
    monkeypatch.setattr(kafka_reader, "_HELD", 60)
    broker.make("much")
    service = Service(tmp_path / "data", source(broker, "much"), settings(tmp_path))
    until(lambda: readers and len(readers[-1].partitions) == 4)
    with service.engine._lock:
        broker.send("much", rows(0, 4_000))
        time.sleep(1.0)
        held = [len(each.messages) for each in readers[-1].partitions.values()]
        assert max(held) <= 60 + 41
        assert service.waiting <= 1
    wait_for(service, 4_000)
    service.stop()


def test_bad_messages(tmp_path: Path, broker: MockBroker) -> None:
    """By the policy: the source stops at one, and says where; it is counted; or it is sent to another topic."""
    good = rows(0, 3)
    broker.send("bad", [*good, b"nothing", *rows(3, 2)], 1)
    service = Service(tmp_path / "data", source(broker, "bad"), settings(tmp_path))
    until(lambda: not service.connections.sources["s"].is_running)
    told = service.connections.told()["sources"]["s"]
    assert "topic 'bad', partition 1, offset 3 is no event: the rows cannot be read" in told["error"]
    assert (told["position"]["1"], told["events"]) == (3, 3)
    service.stop()
    service = Service(tmp_path / "data", source(broker, "bad", ", bad = 'topic:letters'"), settings(tmp_path))
    wait_for(service, 5)
    assert service.connections.sources["s"].bad == 1
    [letter] = broker.messages("letters", 1)
    assert letter.value() == b"nothing"
    assert dict(letter.headers())["muntin-from"] == b"topic 'bad', partition 1, offset 3"
    service.stop(is_kept=False)
    service = Service(tmp_path / "data", source(broker, "bad", ", bad = 'skip'"), settings(tmp_path))
    broker.send("bad", [b"{}", *rows(5, 1)], 1)
    wait_for(service, 6)
    assert service.connections.sources["s"].bad == 1
    service.stop()


def test_from_the_end(tmp_path: Path, broker: MockBroker) -> None:
    """What was there before the first start is left alone; the place is kept although nothing has come."""
    broker.send("late", rows(0, 8))
    told = source(broker, "late", ", start = 'latest'")
    service = Service(tmp_path / "data", told, settings(tmp_path))
    until(lambda: sum(service.connections.told()["sources"]["s"]["position"].values()) == 8)
    service.stop(is_kept=False)
    broker.send("late", rows(8, 4))
    service = Service(tmp_path / "data", told, settings(tmp_path))
    wait_for(service, 4)
    service.stop()


def test_what_the_broker_has_no_more(broker: MockBroker) -> None:
    """A range that cannot be read again is an error that names topic, partition and offsets."""
    broker.send("short", rows(0, 4), 2)
    given = {"source": "kafka", "brokers": broker.address, "topic": "short"}
    again = KafkaAgain(STREAM, given, Folders())
    [batch] = again.read([Range("2", 1, 4, 3)], [("2", 2)])
    assert batch["n"].to_pylist() == [1, 3]
    [batch] = again.read([Range("2", 0, 2, 2)], [])  # back
    assert batch["n"].to_pylist() == [0, 1]
    with pytest.raises(
        Lost, match=r"topic 'short', partition 2: of 9 messages with offsets 0 to 8 the broker has 4"
    ):
        again.read([Range("2", 0, 9, 9)], [])
    with pytest.raises(Lost, match=r"topic 'short', partition 2: offset 50 is gone, the broker has 0 to 4"):
        again.read([Range("2", 50, 60, 10)], [])
    again.close()
