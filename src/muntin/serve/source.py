"""Sources at work: a thread for each stream that has one, which takes what it finds and hands it to the service.

    source --next--> messages, decoded --take--> writer: ranges to the log, events to the engine

A thread has at most two portions of messages in hand: one that the writer works on, and the next. So a source that is
faster than the writer waits. Whatever goes wrong is shown as the source's error. What time may mend, such as a broker
that is gone, is tried again, ever more slowly; what it cannot mend stops this source, and no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from muntin.errors import MissingPackage, MuntinError, NoValue, SchemaError
from muntin.serve.feed import Feed, Stale
from muntin.serve.folder_source import FolderAgain, FolderSource
from muntin.serve.options import Given
from muntin.serve.settings import Busy, TooMuchOwed
from muntin.serve.taken import Bad, Lost, Piece, Range, SourceFailed, Taken, in_order
from muntin.stream import Stream
from muntin.view.folders import Folders

if TYPE_CHECKING:
    from muntin.serve.service import Service

_log = logging.getLogger("muntin.serve")
_LOOK = 0.2  # seconds that a source waits for messages at a time
_WAITS = (0.5, 1.0, 2.0, 5.0, 10.0)  # seconds before a source is opened again, one after the other


class Source(Protocol):
    """What gives messages, from a position on."""

    def next(self, seconds: float) -> Taken | None:
        """Messages that are there within some time."""

    @property
    def lag(self) -> int | None:
        """Messages, or files, that wait; None if that is not known."""

    def set_aside(self, piece: Piece, why: str) -> None:
        """One message that is no event: by the policy, that is to count it, or to fail."""

    def close(self) -> None:
        """Let go of it."""


class Again(Protocol):
    """What gives messages again that were taken before."""

    def read(self, ranges: Sequence[Range], bad: Sequence[Bad]) -> list[pa.RecordBatch]:
        """The events of each range; `Lost` if they are not there any more."""

    def close(self) -> None:
        """Let go of it."""


def open_source(
    stream: Stream, feed: Feed, folders: Folders, is_lost_skipped: bool, count_bad: Callable[[int, str], None]
) -> Source:
    """The source of a stream, where its feed stands."""
    if feed.options["source"] == "folder":
        return FolderSource(stream, feed.options, dict(feed.position), folders, count_bad)
    kafka = _kafka()
    return kafka.KafkaSource(stream, feed.options, dict(feed.position), folders, is_lost_skipped, count_bad)  # type: ignore[no-any-return]


def open_again(stream: Stream, given: Given, folders: Folders) -> Again:
    """What a stream's source has given before."""
    if given["source"] == "folder":
        return FolderAgain(stream, given, folders)
    return _kafka().KafkaAgain(stream, given, folders)  # type: ignore[no-any-return]


def _kafka() -> Any:
    try:
        from muntin.serve import kafka_source
    except ImportError:
        raise MissingPackage("a Kafka source needs confluent-kafka: pip install 'muntin[serve]'") from None
    return kafka_source


class Intake:
    """The thread of one source."""

    def __init__(self, service: Service, name: str, feed: Feed):
        self.name, self.feed = name, feed
        self.events = 0  # taken since the start
        self.bad = 0  # messages since the start
        self.error: str | None = None  # what is wrong now
        self.lag: int | None = None
        self.is_running = True
        self._service = service
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"muntin source {name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end, and do not wait."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def told(self) -> dict[str, Any]:
        """How it fares, as JSON."""
        return {
            "source": self.feed.options["source"], "running": self.is_running, "position": dict(self.feed.position),
            "lag": self.lag, "events": self.events, "bad": self.bad, "error": self.error,
        }  # fmt: skip

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            before = self.events
            try:
                self._follow()
            except (SourceFailed, Lost, Stale) as error:
                self._fail(error)
                break
            except Exception as error:  # also of the client library
                tries = 1 if self.events > before else tries + 1
                self.error = str(error)
                wait = _WAITS[min(tries, len(_WAITS)) - 1]
                _log.warning("source of stream '%s': %s; again in %.1f s", self.name, error, wait)
                self._stopping.wait(wait)
        self.is_running = False

    def _fail(self, error: MuntinError) -> None:
        self.error = str(error)
        if not self._stopping.is_set():
            _log.error("source of stream '%s' has stopped: %s", self.name, error)

    def _follow(self) -> None:
        stream = self._service.engine.streams.get(self.name)
        if stream is None:
            raise SourceFailed(f"there is no stream '{self.name}'")
        source = open_source(
            stream, self.feed, self._service.folders, self._service.settings.skips_lost, self._count_bad
        )
        waiting: tuple[Taken, Future[Any]] | None = None
        try:
            while not self._stopping.is_set():
                taken = source.next(_LOOK)
                self.error = None  # it is there again
                if waiting is not None:
                    self._settle(source, stream, *waiting)
                    waiting = None
                if taken is not None:
                    waiting = taken, self._hand_over(stream, taken)
                self.lag = source.lag
            if waiting is not None:
                self._settle(source, stream, *waiting)
                waiting = None
        finally:
            source.close()
            if waiting is not None and waiting[1].exception() is None:  # it waits: the next one begins behind
                self.events += waiting[1].result()

    def _hand_over(self, stream: Stream, taken: Taken) -> Future[Any]:
        events = in_order(stream, [each.events for each in taken.pieces])
        while True:
            try:
                return self._service.take(self.name, taken, events)
            except Busy:
                if self._stopping.wait(0.05):
                    raise

    def _settle(self, source: Source, stream: Stream, taken: Taken, done: Future[Any]) -> None:
        """Wait until messages are in the engine. What the engine refuses is found by halves and set aside."""
        try:
            self.events += done.result()
            return
        except (SchemaError, NoValue, TooMuchOwed) as refused:
            error = refused
        halves = taken.halves()
        if halves is None:
            [piece] = taken.pieces
            if isinstance(error, TooMuchOwed):  # so would all that comes behind it
                why = f"{error}. The source stops before this message, and a start goes on there"
                raise SourceFailed(why) from None
            source.set_aside(piece, str(error))
            halves = (Taken((piece.without_events(),)),)  # type: ignore[assignment]
        for half in halves or ():
            self._settle(source, stream, half, self._hand_over(stream, half))

    def _count_bad(self, messages: int, why: str) -> None:
        self.bad += messages
        _log.warning("source of stream '%s' left out %s", self.name, why)
