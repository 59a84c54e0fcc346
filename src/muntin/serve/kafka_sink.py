"""Answers to a topic of Kafka: a message for each, JSON, with its id as key and in the header `muntin-id`."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from muntin.errors import MuntinError
from muntin.serve.kafka_config import client_settings
from muntin.serve.options import Given, filled
from muntin.serve.portion import Part, PortionPlace
from muntin.serve.told_answers import chunks
from muntin.view.folders import Folders

_ROWS = 1_000


class KafkaOutlet:
    """A topic that answers are produced to, in their order; the broker drops what the client sends it twice."""

    most_bytes = 2**20
    most_seconds = 0.0

    def __init__(self, given: Given, folders: Folders):
        options = filled(given, "sink")
        self._topic, self._key = str(options["topic"]), options["key"]
        settings = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 30_000}
        self._producer = Producer(settings | client_settings(options, folders))

    def send(self, parts: Sequence[tuple[PortionPlace, Part]], stopping: threading.Event) -> None:
        """Produce all of them, and wait until the broker has them."""
        failed: list[str] = []

        def told(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(str(error))

        try:
            for rows in chunks(parts, _ROWS):
                for row in rows:
                    self._produce(row, told, stopping)
            while self._producer.flush(0.2):
                if stopping.is_set() or failed:
                    break
        except KafkaException as error:
            failed.append(str(error))
        left = len(self._producer)
        if failed or left:
            self._producer.purge()
            raise MuntinError(
                f"topic '{self._topic}' has not taken all answers: {(failed or ['stopped'])[0]}"
            )

    def close(self) -> None:
        """Forget what was not taken: it is sent again."""
        self._producer.purge()

    def _produce(self, row: dict[str, Any], told: Any, stopping: threading.Event) -> None:
        id = str(row.get("muntin_id", row["id"]))
        key = id if self._key is None else self._key_of(row)
        while True:
            try:
                self._producer.produce(
                    self._topic, json.dumps(row).encode(), key.encode(), headers={"muntin-id": id}, on_delivery=told
                )  # fmt: skip
                return
            except BufferError:  # as many as it holds wait for the broker
                self._producer.poll(0.1)
                if stopping.is_set():
                    raise MuntinError("stopped") from None

    def _key_of(self, row: dict[str, Any]) -> str:
        if self._key not in row:
            raise MuntinError(f"answers have no column '{self._key}' to be the key of a message")
        value = row[str(self._key)]
        return value if isinstance(value, str) else json.dumps(value)
