"""Changes that wait for the writer, in the order they came; bounded in number and in bytes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from muntin.serve.record import Record
from muntin.serve.settings import Busy, Settings


@dataclass
class Change:
    """Something to be done, and what comes of it."""

    record: Record
    rows: pa.RecordBatch | None = None  # the body, read already
    done: Future[Any] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.done.set_running_or_notify_cancel()  # whoever waits may go; the change is made all the same


class Waiting:
    """Filled by any thread, emptied by the writer.

    >>> waiting = Waiting(Settings(waiting=1))
    >>> waiting.put(Change(Record("checkpoint")))
    >>> waiting.put(Change(Record("checkpoint")))
    Traceback (most recent call last):
    muntin.serve.settings.Busy: 1 changes (0 bytes) wait already: try again
    """

    def __init__(self, settings: Settings):
        self._most, self._most_bytes = settings.waiting, settings.waiting_bytes
        self._changes: queue.Queue[Change | None] = queue.Queue()  # None: stop
        self._held = 0  # bytes
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._changes.qsize()

    def put(self, change: Change) -> None:
        """One more, unless there are too many."""
        size = len(change.record.body)
        with self._lock:
            is_full = self._held > 0 and self._held + size > self._most_bytes
            if is_full or len(self) >= self._most:
                raise Busy(f"{len(self):,} changes ({self._held:,} bytes) wait already: try again")
            self._held += size
            self._changes.put(change)

    def stop(self) -> None:
        """Nothing comes any more."""
        self._changes.put(None)

    def gather(self, seconds: float) -> list[Change] | None:
        """All that waits; an empty list if nothing has come within this time, None if nothing will."""
        try:
            group = [self._changes.get(timeout=seconds)]
        except queue.Empty:
            return []
        group += self._at_once()
        found = [each for each in group if each is not None]
        with self._lock:
            self._held -= sum(len(each.record.body) for each in found)
        if None in group:
            self.stop()  # once what came before it has been done
            return found or None
        return found

    def drain(self) -> list[Change]:
        """All that is left, for who has to tell that it will not be done."""
        return [each for each in self._at_once() if each is not None]

    def _at_once(self) -> Iterator[Change | None]:
        while True:
            try:
                yield self._changes.get_nowait()
            except queue.Empty:
                return
