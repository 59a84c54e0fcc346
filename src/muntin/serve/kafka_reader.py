"""Messages of a topic by partition: fetched ahead, a bounded number of each, in the order of their offsets.

Partitions are assigned by hand, all of them, and no offset is committed: positions are in the log of the service. So
there is no consumer group, nothing to rebalance, and a second reader of the topic is not in the way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from muntin.errors import MuntinError
from muntin.serve.kafka_config import client_settings
from muntin.serve.options import Value
from muntin.serve.taken import Lost
from muntin.view.folders import Folders

_MOST = 10_000  # messages given at once
_HELD = 20_000  # messages of a partition, or
_HELD_BYTES = 16 * 2**20  # bytes, beyond which it is not asked for more
_PATIENCE = 10.0  # seconds for an answer about metadata


class Sent(NamedTuple):
    """A message as it came."""

    offset: int
    value: bytes
    key: bytes | None


class Partition:
    """One partition as far as it was fetched."""

    def __init__(self, offset: int):
        self.next = offset  # to be fetched
        self.messages: deque[Sent] = deque()
        self.bytes = 0
        self.is_paused = False
        self.is_at_end = False  # nothing more was there when it was last asked

    @property
    def has_more(self) -> bool:
        """Whether messages are held, or may be on their way."""
        return bool(self.messages) or not self.is_at_end

    @property
    def at(self) -> int:
        """The offset that it gives next."""
        return self.messages[0].offset if self.messages else self.next

    def put(self, message: Sent) -> None:
        """A message that has come."""
        if message.offset >= self.next:  # else one of before it was sent elsewhere
            self.messages.append(message)
            self.bytes += len(message.value)
            self.next, self.is_at_end = message.offset + 1, False

    def pop(self) -> Sent:
        """The next message."""
        message = self.messages.popleft()
        self.bytes -= len(message.value)
        return message


class KafkaReader:
    """A consumer of one topic, with what it has fetched of each partition."""

    def __init__(self, options: dict[str, Value | None], folders: Folders):
        self.topic = str(options["topic"])
        self.partitions: dict[int, Partition] = {}
        settings = {
            "group.id": "muntin", "enable.auto.commit": False, "enable.auto.offset.store": False,
            "auto.offset.reset": "error", "enable.partition.eof": True, "queued.max.messages.kbytes": 16_384,
            "fetch.wait.max.ms": 100, "fetch.error.backoff.ms": 100, "topic.metadata.refresh.interval.ms": 30_000,
        }  # fmt: skip
        self._consumer = Consumer(settings | client_settings(options, folders))

    def known(self) -> list[int]:
        """The partitions that the topic has now."""
        found = self._consumer.list_topics(self.topic, timeout=_PATIENCE).topics[self.topic]
        if found.error is not None:
            raise MuntinError(f"topic '{self.topic}' cannot be read: {found.error}")
        return sorted(found.partitions)

    def bounds(self, partition: int) -> tuple[int, int]:
        """The first offset that the broker has, and the one after the last."""
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(self.topic, partition), timeout=_PATIENCE
        )
        return int(low), int(high)

    def add(self, positions: Mapping[int, int]) -> None:
        """Read partitions from offsets on; one that is read already goes there."""
        places = [TopicPartition(self.topic, each, offset) for each, offset in positions.items()]
        known = [each for each in places if each.partition in self.partitions]
        if known:
            self._consumer.incremental_unassign(known)
        self._consumer.incremental_assign(places)
        for each, offset in positions.items():
            self.partitions[each] = Partition(offset)

    def fetch(self, seconds: float) -> None:
        """Wait at most so long for messages, and keep them by partition."""
        messages = self._consumer.consume(1, timeout=seconds)
        if messages:  # it would wait until there are so many; what is there already will do
            messages += self._consumer.consume(_MOST, timeout=0.0)
        faults = [fault for each in messages if (fault := self._keep(each)) is not None]
        self._pace()
        if faults:  # now: the other messages are kept
            raise faults[0]

    def _keep(self, message: Message) -> Exception | None:
        """Put a message to its partition; what is wrong with it if it is an error."""
        number, offset, error = message.partition(), message.offset(), message.error()
        partition = None if number is None else self.partitions.get(number)
        if error is None:
            if partition is not None and offset is not None:
                partition.put(Sent(offset, _bytes(message.value()) or b"", _bytes(message.key())))
            return None
        if partition is None or number is None:
            return KafkaException(error)
        if error.code() == KafkaError._PARTITION_EOF:
            partition.is_at_end = offset is None or offset >= partition.next
            return None
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return LostOffsets(self.topic, number, partition.next, *self.bounds(number))
        return KafkaException(error)

    def lag(self) -> int | None:
        """Messages that the broker has and this reader has not fetched, as it was last told; with those held."""
        total = 0
        for number, each in self.partitions.items():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(self.topic, number), cached=True)
            if high < 0:
                return None
            total += max(0, high - each.next) + len(each.messages)
        return total

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

    def _pace(self) -> None:
        """Ask for no more of partitions of which much is held, and for more of those of which little is left."""
        pause, resume = [], []
        for number, each in self.partitions.items():
            is_full = len(each.messages) > _HELD or each.bytes > _HELD_BYTES
            is_low = len(each.messages) < _HELD // 2 and each.bytes < _HELD_BYTES // 2
            if is_full and not each.is_paused:
                pause.append(TopicPartition(self.topic, number))
                each.is_paused = True
            elif is_low and each.is_paused:
                resume.append(TopicPartition(self.topic, number))
                each.is_paused = False
        if pause:
            self._consumer.pause(pause)
        if resume:
            self._consumer.resume(resume)


class LostOffsets(Lost):
    """Offsets that the broker has no more."""

    def __init__(self, topic: str, partition: int, offset: int, low: int, high: int):
        self.partition, self.offset, self.low, self.high = partition, offset, low, high
        super().__init__(
            f"topic '{topic}', partition {partition}: offset {offset:,} is gone, the broker has {low:,} to {high:,}"
        )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
