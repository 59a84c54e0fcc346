"""A broker inside this process: librdkafka's mock, which a client hosts. It has no transactions and no retention."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition


class MockBroker:
    """Lives as long as it is held."""

    def __init__(self) -> None:
        self._host = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
        found = self._host.list_topics(timeout=60).brokers.values()
        self.address = ",".join(f"{each.host}:{each.port}" for each in found)
        self._producer = Producer({"bootstrap.servers": self.address, "log_level": 0})

    def make(self, topic: str) -> list[int]:
        """A topic with the mock's number of partitions, which are given."""
        return sorted(self._producer.list_topics(topic, timeout=60).topics[topic].partitions)

    def send(self, topic: str, values: list[Any], partition: int | None = None) -> None:
        """Messages; what is no bytes goes as JSON."""
        many = len(self.make(topic))
        for number, value in enumerate(values):
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            where = number % many if partition is None else partition
            self._producer.produce(topic, data, partition=where)
        assert self._producer.flush(60) == 0

    def messages(self, topic: str, many: int) -> list[Any]:
        """The first messages of a topic, from all partitions."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "test", "log_level": 0})
        consumer.assign([TopicPartition(topic, each, 0) for each in self.make(topic)])
        found: list[Any] = []
        for _ in range(1_200):
            found += [each for each in consumer.consume(many, timeout=0.1) if each.error() is None]
            if len(found) >= many:
                break
        consumer.close()
        return found
