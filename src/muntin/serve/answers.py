"""Answers that were given out: kept on disk for a time, and handed to those who follow them."""

from __future__ import annotations

import socket
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.serve.crier import Crier
from muntin.serve.log import Log, LogReader
from muntin.serve.portion import Cursor, Part, Portion, PortionPlace, place_and_time, unpack

_SEGMENT_BYTES = 8 * 2**20
_BEGINNING = (1, 0)  # the place of nothing: the first record closes no window
_PORTIONS = 200  # that are searched for the latest answers


class Gone(MuntinError):
    """Answers that were kept once and are not any more; or that never were."""


class Follower:
    """Someone who is handed answers as they come, and is dropped if more of them wait than it may leave behind."""

    def __init__(self, waiting: int, wake: Callable[[], None]):
        self._most = waiting
        self._wake = wake  # told that something has come
        self._waiting: deque[Portion] = deque()
        self.is_dropped = False
        self.is_over = False  # nothing more will come

    def end(self) -> None:
        """Nothing more will come."""
        self.is_over = True
        self._wake()

    def offer(self, portion: Portion) -> None:
        """Never waits."""
        if len(self._waiting) < self._most:
            self._waiting.append(portion)
        else:
            self.is_dropped = True
        self._wake()

    @property
    def is_behind(self) -> bool:
        """Whether some portions wait, or have been left out."""
        return bool(self._waiting) or self.is_dropped or self.is_over

    def next(self) -> Portion | None:
        """The next portion; None if there is none yet."""
        return self._waiting.popleft() if self._waiting else None


class KeptAnswers:
    """The answers of the last hour, say, on disk, and who follows them."""

    def __init__(self, folder: Path, seconds: float):
        self._log = Log(folder, _SEGMENT_BYTES)
        self._seconds = seconds
        self._index: list[tuple[PortionPlace, int, int]] = []  # place, when, number in the log
        self.crier: Crier | None = (
            None  # who sends them to most of those who follow, if there is a process for that
        )
        self._followers: set[Follower] = set()
        self._watchers: set[Callable[[], None]] = set()
        self._lock = threading.Lock()
        self.numbers: dict[int, int] = {}  # the last number of each incarnation
        self._dropped = 0
        self._owed: deque[Portion] = deque()  # that the disk has not taken yet
        self.rows = 0  # given out since the start
        for number, data in self._log.read(self._log.first):
            self._index.append((*place_and_time(data), number))

    @property
    def first(self) -> tuple[int, int] | None:
        """The place of the oldest portion that is kept."""
        return self._index[0][0] if self._index else None

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._log.nbytes

    @property
    def followers(self) -> int:
        """How many follow."""
        with self._lock:
            return len(self._followers) + (self.crier.followers if self.crier else 0)

    @property
    def dropped(self) -> int:
        """Followers that were too slow, since the start."""
        with self._lock:
            return self._dropped + (self.crier.dropped if self.crier else 0)

    def take(
        self, place: tuple[int, int], at: int, given: Mapping[str, pa.Table], incarnations: Mapping[str, int]
    ) -> None:
        """Number what was given out, keep it, and hand it to those who follow. What is given again after a crash is
        numbered, and not kept twice. A LogError if it cannot be kept now: `keep_owed` tries again."""
        parts = []
        for name, table in given.items():
            incarnation = incarnations[name]
            first = self.numbers.get(incarnation, 0) + 1
            self.numbers[incarnation] = first + table.num_rows - 1
            if table.num_rows:
                parts.append(Part(name, incarnation, first, table))
        if parts and not (self._index and place <= self._index[-1][0]):
            self._owed.append(Portion(place, at, tuple(parts)))
        self.keep_owed()

    @property
    def owes(self) -> bool:
        """Whether answers wait to be kept: the disk did not take them."""
        return bool(self._owed)

    def keep_owed(self) -> None:
        """Keep what was given out, and hand it to those who follow; a LogError if the disk does not take it now."""
        while self._owed:
            self._keep(self._owed[0])
            self._owed.popleft()

    def _keep(self, portion: Portion) -> None:
        data = portion.pack()
        number = self._log.append([data], is_synced=False)
        self.rows += sum(part.table.num_rows for part in portion.parts)
        if self._followers:
            _ = portion.events  # made here: the event loop, which sends them, has look-ups to answer
        with self._lock:
            self._index.append((portion.place, portion.at, number))
            if self.crier is not None:
                self.crier.tell(*self._log.end, len(data))
            for each in list(self._followers):
                each.offer(portion)
                if each.is_dropped:
                    self._followers.discard(each)
                    self._dropped += 1
        for wake in list(self._watchers):
            wake()

    def follow(
        self, cursor: Cursor | None, wake: Callable[[], None], waiting: int = 256
    ) -> tuple[list[int], Follower]:
        """What is kept from a cursor's portion on (None: nothing), as numbers to `read`, and who is handed the rest.
        `Gone` if that is not kept, or if no answer has stood there yet."""
        follower = Follower(waiting, wake)
        with self._lock:
            if cursor is None:
                missed = []
            else:
                place = (cursor.record, cursor.portion)
                start = bisect_left(self._index, place, key=lambda each: each[0])
                is_known = start < len(self._index) and self._index[start][0] == place
                if not is_known and start == 0 and self._log.first > 1:  # some have been let go of
                    raise Gone(
                        f"answers behind {cursor} are not kept any more: they are for {self._seconds:,.0f} seconds"
                    )
                last = self._index[-1][0] if self._index else _BEGINNING
                if place > last:  # an id of another server, or of a folder that was replaced
                    raise Gone(
                        f"no answer has had the id {cursor}: the last ones have {last[0]}.{last[1]}; "
                        "begin without Last-Event-ID"
                    )
                missed = [number for _, _, number in self._index[start:]]
            self._followers.add(follower)
        return missed, follower

    def leave(self, follower: Follower) -> None:
        """Follow no more."""
        with self._lock:
            self._followers.discard(follower)

    def hand_over(
        self, follower: Follower, connection: socket.socket, queries: frozenset[str] | None
    ) -> bool:
        """Let the crier send to a connection what this follower has not been handed; False if there is no crier, or
        some portions still wait."""
        with self._lock:
            if self.crier is None or follower.is_behind or not self.crier.give(connection, queries):
                return False
            self._followers.discard(follower)
        return True

    def between(self, first: int, last: int) -> Iterator[Portion]:
        """Portions as they were given out, by their numbers; those that have gone meanwhile are left out. One pass."""
        for number, data in self._log.read(max(first, self._log.first)):
            if number > last:
                return
            yield unpack(data)

    def dismiss(self) -> None:
        """The server stops: all who follow are told that nothing more will come."""
        with self._lock:
            for each in self._followers:
                each.end()
            if self.crier is not None:
                self.crier.end()

    def latest(self, rows: int, query: str | None = None) -> list[str]:
        """JSON of the last rows that are kept, the oldest first; of one query, as far as the last portions have any."""
        with self._lock:
            first = self._index[-_PORTIONS:][0][2] if self._index else None
        portions = [] if first is None else list(self._log.read(max(first, self._log.first)))
        found: list[str] = []
        for _, data in reversed(portions):
            parts = unpack(data, query).parts
            some = [told for part in parts for told in part.rows]
            found = some[max(0, len(some) + len(found) - rows) :] + found
            if len(found) >= rows:
                break
        return found

    def behind(self, place: tuple[int, int]) -> AnswersReader:
        """For who reads all that comes behind a place."""
        with self._lock:
            start = bisect_right(self._index, place, key=lambda each: each[0])
            number = self._index[start][2] if start < len(self._index) else self._log.last + 1
        return AnswersReader(LogReader(self._log, number))

    def watch(self, wake: Callable[[], None]) -> None:
        """Have someone told whenever something has come."""
        self._watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Tell it no more."""
        self._watchers.discard(wake)

    def forget(self, now: int, undelivered: tuple[int, int] | None = None) -> None:
        """Let go of what is older than it is kept for, and not behind the place `undelivered`. Segments go as a
        whole."""
        limit = now - int(self._seconds * 1_000_000)
        with self._lock:
            old = next(
                (place for place, (_, at, _) in enumerate(self._index) if at >= limit), len(self._index)
            )
            if undelivered is not None:
                old = min(old, bisect_right(self._index, undelivered, key=lambda each: each[0]))
            before = self._index[old][2] if old < len(self._index) else self._log.last + 1
            self._log.forget(before)
            del self._index[: bisect_left(self._index, self._log.first, key=lambda each: each[2])]

    def sync(self) -> None:
        """Force what was kept to disk: a checkpoint is about to leave it behind."""
        self._log.sync()

    def close(self) -> None:
        """Let another process open it."""
        if self.crier is not None:
            self.crier.end()
            self.crier.join()
        self._log.close()


class AnswersReader:
    """Who reads answers one after the other, as they come."""

    def __init__(self, log: LogReader):
        self._log = log

    def next(self, query: str) -> Iterator[tuple[tuple[int, int], Part | None]]:
        """The place of each portion that has come since, with the answers of a query in it."""
        for _, data in self._log.next():
            portion = unpack(data, query)
            yield portion.place, portion.parts[0] if portion.parts else None
