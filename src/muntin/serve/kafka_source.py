"""A topic of Kafka as a source: messages by batches, with offsets that only the service keeps.

    broker --consumer--> messages of each partition --decoded--> pieces --in order of time--> the service

Partitions are read evenly: while one has more to come, others do not go beyond the times that it has reached. Without
that, a start after a long stop would find most of a partition late, for no other reason than that another one was
read first. A partition of which nothing comes, since its broker is gone, is waited for a while, then the others go on.

A message has one event or several: JSON (an object, a list of them, lines), CSV with a header, or Arrow's stream
format.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from muntin.errors import MuntinError, SchemaError
from muntin.serve.kafka_config import client_settings
from muntin.serve.kafka_reader import KafkaReader, LostOffsets, Sent
from muntin.serve.options import FORMATS, Given, filled
from muntin.serve.taken import Bad, Lost, Piece, Range, SourceFailed, Taken, no_events
from muntin.serve.wire import JSON, LINES, read_rows
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.stream import Stream
from muntin.view.folders import Folders

_log = logging.getLogger("muntin.serve")
_ROWS = 65_536  # taken at once, or a little more
_MESSAGES = 10_000  # of a partition, decoded at once
_DISCOVERY = 5.0  # seconds between two looks for new partitions
_ALIGNMENT = 10.0  # seconds that other partitions wait for one that gives nothing
_BROKER = 120.0  # seconds that a start waits for a broker whose messages it must read again
_SILENCE = 30.0  # seconds without a message after which they are taken for lost


class _Decoded:
    """What was decoded of a partition and not given out."""

    def __init__(self) -> None:
        self.piece: Piece | None = None
        self.reach = np.empty(0, np.int64)  # the latest time up to each message
        self.failure: SourceFailed | None = None  # behind the piece
        self.since = time.monotonic()  # when it last had something, or was at its end

    def add(self, stream: Stream, piece: Piece) -> None:
        """Put a piece behind what is there. O(what is there)."""
        self.piece = piece if self.piece is None else _joined(self.piece, piece)
        self.reach = np.maximum.accumulate(to_times(stream, self.piece.events))[self.piece.row_ends - 1]

    def take(self, limit: int | None, rows: int) -> Piece | None:
        """Messages up to a time, and about so many rows."""
        piece = self.piece
        if piece is None:
            return None
        many = len(piece.offsets) if limit is None else int(np.searchsorted(self.reach, limit, "right"))
        many = min(many, int(np.searchsorted(piece.row_ends, rows, "left")) + 1)
        if many < len(piece.offsets):
            if many == 0:
                return None
            head, self.piece = piece.cut(many)
            self.reach = self.reach[many:]
            return head
        self.piece, self.reach = None, self.reach[:0]
        return piece


class KafkaSource:
    """Gives messages of all partitions, from a position on."""

    def __init__(
        self,
        stream: Stream,
        given: Given,
        position: dict[str, int],
        folders: Folders,
        skips_lost: bool,
        count_bad: Callable[[int, str], None],
    ):
        self._options = filled(given, "source")
        self._stream, self._skips_lost, self._count_bad = stream, skips_lost, count_bad
        self._topic, self._policy = str(self._options["topic"]), str(self._options["bad"])
        self._kind = FORMATS[str(self._options["format"])]
        self._known = {int(each): offset for each, offset in position.items()}
        self._is_first = not position
        self._decoded: dict[int, _Decoded] = {}
        self._new: list[Piece] = []  # where new partitions begin, for the log
        self._producer: Producer | None = None
        self._settings = client_settings(self._options, folders)
        self._reader = KafkaReader(self._options, folders)
        self._looked = 0.0
        self._is_busy = False  # something was given out at the last turn
        try:
            self._discover()
        except BaseException:
            self._reader.close()
            raise

    def next(self, seconds: float) -> Taken | None:
        """Messages that may be given out; None if there are none within this time."""
        if time.monotonic() - self._looked > _DISCOVERY:
            self._discover()
        if self._new:
            begun, self._new = self._new, []
            return Taken(tuple(begun))
        self._fetch(0.0 if self._is_busy else seconds)
        for number, partition in self._reader.partitions.items():
            piece = self._decoded[number].piece
            if piece is None or len(piece.offsets) < _MESSAGES:
                many = min(_MESSAGES, len(partition.messages))
                self._decode(number, [partition.pop() for _ in range(many)])
        taken = self._given_out()
        self._is_busy = taken is not None
        return taken

    @property
    def lag(self) -> int | None:
        """Messages that wait."""
        lag = self._reader.lag()
        held = sum(len(each.piece.offsets) for each in self._decoded.values() if each.piece)
        return None if lag is None else lag + held

    def set_aside(self, piece: Piece, why: str) -> None:
        """A message that is no event, or that the engine refuses."""
        self._set_aside(int(piece.part), piece.raw[0], why)

    def close(self) -> None:
        """Let go of the broker."""
        self._reader.close()

    # -- partitions --------------------------------------------------------------------------------

    def _discover(self) -> None:
        """Read partitions that are new. The log is told where they begin, before anything of them is taken."""
        self._looked = time.monotonic()
        numbers = [each for each in self._reader.known() if each not in self._decoded]
        if not numbers:
            return
        never = [each for each in numbers if each not in self._known]
        is_latest = self._is_first and self._options["start"] == "latest"
        begin = {each: self._reader.bounds(each)[is_latest] for each in never}
        self._is_first = False
        for number, offset in begin.items():
            none = np.empty(0, np.int64)
            self._new.append(Piece(str(number), offset, offset, none, none, no_events(self._stream)))
        self._known |= begin
        self._reader.add({each: self._known[each] for each in numbers})
        for each in numbers:
            self._decoded[each] = _Decoded()

    def _fetch(self, seconds: float) -> None:
        try:
            self._reader.fetch(seconds)
        except LostOffsets as lost:
            if not self._skips_lost or lost.offset > lost.high:
                raise
            _log.warning("stream '%s' goes on without messages that are lost: %s", self._stream.name, lost)
            number, partition = lost.partition, self._reader.partitions[lost.partition]
            self._decode(number, [partition.pop() for _ in range(len(partition.messages))])
            if self._decoded[number].failure is None:
                none = np.empty(0, np.int64)
                gap = Piece(str(number), lost.offset, lost.low, none, none, no_events(self._stream))
                self._decoded[number].add(self._stream, gap)
                self._known[number] = lost.low
                self._reader.add({number: lost.low})

    # -- messages ----------------------------------------------------------------------------------

    def _decode(self, number: int, messages: list[Sent]) -> None:
        held = self._decoded[number]
        if not messages or held.failure:
            return
        good: list[tuple[Sent, int]] = []
        batches, bad = list[pa.RecordBatch](), list[int]()
        end = self._known[number]
        for some, batch, why in decoded(self._stream, self._kind, messages):
            if batch is not None:
                batches.append(batch)
                good += (
                    [(each, 1) for each in some]
                    if batch.num_rows == len(some)
                    else [(some[0], batch.num_rows)]
                )
            elif self._policy == "fail":
                held.failure = SourceFailed(f"{self._place(number, some[0].offset)} is no event: {why}")
                break
            else:
                self._set_aside(number, some[0], why)
                bad.append(some[0].offset)
            end = some[-1].offset + 1
        if end == self._known[number]:
            return
        offsets = np.array([each.offset for each, _ in good], np.int64)
        row_ends = np.cumsum([rows for _, rows in good], dtype=np.int64)
        events = pa.concat_batches(batches) if batches else no_events(self._stream)
        raw = [each for each, _ in good]
        piece = Piece(str(number), self._known[number], end, offsets, row_ends, events, tuple(bad), raw)
        self._known[number] = end
        held.add(self._stream, piece)

    def _given_out(self) -> Taken | None:
        """What no partition has to wait for."""
        now, limit = time.monotonic(), None
        for number, held in self._decoded.items():
            if held.piece is None and held.failure is not None:
                raise held.failure
            has_more = self._reader.partitions[number].has_more and len(self._decoded) > 1
            if not has_more:
                held.since = now
            if has_more and held.piece is not None and len(held.reach):
                held.since = now
                limit = int(held.reach[-1]) if limit is None else min(limit, int(held.reach[-1]))
            elif has_more and now - held.since < _ALIGNMENT:
                return None  # its messages are on their way
        rows = _ROWS // max(1, len(self._decoded))
        pieces = tuple(each for held in self._decoded.values() if (each := held.take(limit, rows)))
        return Taken(pieces) if pieces else None

    # -- bad messages ------------------------------------------------------------------------------

    def _place(self, number: int, offset: int) -> str:
        return f"topic '{self._topic}', partition {number}, offset {offset:,}"

    def _set_aside(self, number: int, message: Sent, why: str) -> None:
        place = self._place(number, message.offset)
        if self._policy == "fail":
            raise SourceFailed(f"{place} is no event: {why}")
        if self._policy.startswith("topic:"):
            self._forward(message, place, why)
        self._count_bad(1, f"{place}: {why}")

    def _forward(self, message: Sent, place: str, why: str) -> None:
        """Send a message to the topic of bad ones, and wait until it is there."""
        if self._producer is None:
            self._producer = Producer({"enable.idempotence": True} | self._settings)
        failed: list[str] = []
        self._producer.produce(
            self._policy.removeprefix("topic:"), message.value, message.key,
            headers={"muntin-from": place, "muntin-why": why},
            on_delivery=lambda error, _: failed.append(str(error)) if error else None,
        )  # fmt: skip
        if self._producer.flush(30) or failed:
            raise MuntinError(f"{place} cannot be sent to '{self._policy}': {(failed or ['no answer'])[0]}")


class KafkaAgain:
    """Gives messages that were taken once more."""

    def __init__(self, stream: Stream, given: Given, folders: Folders):
        options = filled(given, "source")
        self._stream, self._kind = stream, FORMATS[str(options["format"])]
        self._reader = KafkaReader(options, folders)
        until = time.monotonic() + _BROKER
        while True:
            try:
                self._reader.known()
                return
            except (KafkaException, MuntinError) as error:
                if time.monotonic() > until:
                    raise MuntinError(
                        f"messages of topic '{self._reader.topic}' must be read again: {error}"
                    ) from None
                _log.warning("a start waits for topic '%s': %s", self._reader.topic, error)
                time.sleep(1.0)

    def read(self, ranges: Sequence[Range], bad: Sequence[Bad]) -> list[pa.RecordBatch]:
        """The events of ranges."""
        moved = {}
        for each in ranges:
            partition = self._reader.partitions.get(int(each.part))
            if partition is None or partition.at != each.start:
                moved[int(each.part)] = each.start
        if moved:
            self._reader.add(moved)
        return [self._events(each, {offset for part, offset in bad if part == each.part}) for each in ranges]

    def close(self) -> None:
        """Let go of the broker."""
        self._reader.close()

    def _events(self, wanted: Range, bad: set[int]) -> pa.RecordBatch:
        messages = self._messages(wanted)
        if len(messages) != wanted.messages:
            raise Lost(
                f"topic '{self._reader.topic}', partition {wanted.part}: of {wanted.messages:,} messages with offsets "
                f"{wanted.start:,} to {wanted.end - 1:,} the broker has {len(messages):,}"
            )
        good = [each for each in messages if each.offset not in bad]
        batches = []
        for some, batch, why in decoded(self._stream, self._kind, good):
            if batch is None:
                raise Lost(
                    f"topic '{self._reader.topic}', offset {some[0].offset:,} was an event, and is none: {why}"
                )
            batches.append(batch)
        return pa.concat_batches(batches) if batches else no_events(self._stream)

    def _messages(self, wanted: Range) -> list[Sent]:
        partition = self._reader.partitions[int(wanted.part)]
        heard, found = time.monotonic(), list[Sent]()
        while True:
            while partition.messages and partition.messages[0].offset < wanted.end:
                found.append(partition.pop())
                heard = time.monotonic()
            if partition.messages or partition.next >= wanted.end or partition.is_at_end:
                return found
            if time.monotonic() - heard > _SILENCE:
                raise Lost(
                    f"topic '{self._reader.topic}', partition {wanted.part}: the broker gives no messages"
                )
            try:
                self._reader.fetch(0.1)
            except KafkaException as error:  # of a broker that goes away and comes back
                _log.warning("topic '%s' is read again: %s", self._reader.topic, error)
                time.sleep(0.5)


def decoded(
    stream: Stream, kind: str, messages: Sequence[Sent]
) -> list[tuple[Sequence[Sent], pa.RecordBatch | None, str]]:
    """The events of messages, in runs: messages with their events, or one message and what is wrong with it.

    A run has one event for each message, or is a single message. Neighbours do not change what a message gives.
    """
    if not messages:
        return []
    if len(messages) == 1:
        try:
            return [(messages, _checked(stream, _rows_of(stream, messages[0].value, kind)), "")]
        except MuntinError as error:
            return [(messages, None, str(error).partition("\n")[0])]
    if kind == JSON and all(_is_plain(each.value) for each in messages):
        try:
            lines = b"\n".join(each.value for each in messages)
            batch = _checked(stream, read_rows(stream, lines, LINES))
            if batch.num_rows == len(messages):
                return [(messages, batch, "")]
        except MuntinError:
            pass
    middle = len(messages) // 2
    return [*decoded(stream, kind, messages[:middle]), *decoded(stream, kind, messages[middle:])]


def _rows_of(stream: Stream, value: bytes, kind: str) -> pa.Table:
    """The events of one message."""
    if kind != JSON or value.lstrip()[:1] == b"[":
        return read_rows(stream, value, kind)
    try:
        return read_rows(stream, value, LINES)
    except SchemaError:
        if b"\n" not in value:
            raise
        return read_rows(stream, b"[" + value + b"]", JSON)  # an object on several lines


def _is_plain(value: bytes) -> bool:
    """Whether a value stands for one object at most when it is a line among others."""
    return value[:1] == b"{" and value[-1:] == b"}" and b"\n" not in value


def _checked(stream: Stream, table: pa.Table) -> pa.RecordBatch:
    batch = to_record_batch(stream, table)
    to_times(stream, batch)
    if not batch.num_rows:
        raise SchemaError("the message has no event")
    return batch


def _joined(first: Piece, second: Piece) -> Piece:
    events = pa.concat_batches([first.events, second.events])
    ends = np.concatenate([first.row_ends, second.row_ends + first.events.num_rows])
    return Piece(
        first.part, first.start, second.end, np.concatenate([first.offsets, second.offsets]), ends, events,
        first.bad + second.bad, [*first.raw, *second.raw],
    )  # fmt: skip
