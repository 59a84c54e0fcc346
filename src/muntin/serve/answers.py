"""Answers that were given out: numbered, kept on disk for a time, and handed to those who follow them.

The id of an answer is the *incarnation* of its query and a number, from 1 on: `7-120` is the 120th row that the query
gave out which was the seventh to be registered. A query that is replaced goes on with both; one that is dropped and
registered again is another incarnation. Ids follow from the log of changes alone: changes that are done again after a
crash give the same answers with the same ids.

A *cursor* is a place among all answers: the record of the log of changes that closed their windows, the portion of what
it gave, and the row. Whoever was cut off goes on behind the last cursor that it saw.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from muntin.arrow_bytes import stream_bytes
from muntin.described import WHOLE, check_shape
from muntin.errors import MuntinError
from muntin.serve.log import Log, LogReader
from muntin.serve.record import read_table
from muntin.serve.wire import json_rows

# The number of the record that closed windows, and that of the portion of answers that it gave.
PortionPlace = tuple[int, int]
_SEGMENT_BYTES = 8 * 2**20
_PORTIONS = 200  # that are searched for the latest answers
_SHAPE = {
    "place": (WHOLE, WHOLE),
    "at": WHOLE,
    "parts": [{"query": str, "incarnation": WHOLE, "first": WHOLE, "rows": WHOLE, "bytes": WHOLE}],
}


class Gone(MuntinError):
    """Answers that were kept once and are not any more."""


class Cursor(NamedTuple):
    """A place among all answers.

    >>> Cursor.read("17.0.3")
    Cursor(record=17, portion=0, row=3)
    """

    record: int
    portion: int
    row: int

    @staticmethod
    def read(text: str) -> Cursor:
        """What `str` wrote."""
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
            raise MuntinError(
                f"'{text[:40]}' is no place among answers: give an id as it came, such as 17.0.3"
            )
        return Cursor(*map(int, parts))

    def __str__(self) -> str:
        return f"{self.record}.{self.portion}.{self.row}"


@dataclass(frozen=True)
class Part:
    """The answers of one query."""

    query: str
    incarnation: int
    first: int  # the number of the first row
    table: pa.Table

    @property
    def rows(self) -> list[str]:
        """JSON of each row."""
        return [
            json.dumps({"query": self.query, "id": f"{self.incarnation}-{number}", **row})
            for number, row in enumerate(json_rows(self.table), self.first)
        ]


@dataclass(frozen=True)
class Portion:
    """Answers that were given out together."""

    place: tuple[int, int]  # the record that closed their windows, and the number of the portion
    at: int  # when, by the clock on the wall, in microseconds
    parts: tuple[Part, ...]

    @cached_property
    def rows(self) -> list[tuple[Cursor, str, str]]:
        """Cursor, query and JSON of each row; made once for all who follow."""
        found: list[tuple[Cursor, str, str]] = []
        for part in self.parts:
            for told in part.rows:
                found.append((Cursor(*self.place, len(found)), part.query, told))
        return found

    @cached_property
    def events(self) -> bytes:
        """All rows as server-sent events; made once for all who follow all queries."""
        return b"".join(event(*row) for row in self.rows)


def event(here: Cursor, query: str, told: str) -> bytes:
    """A row as a server-sent event."""
    return f"id: {here}\nevent: answer\ndata: {told}\n\n".encode()


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

    def next(self) -> Portion | None:
        """The next portion; None if there is none yet."""
        return self._waiting.popleft() if self._waiting else None


class KeptAnswers:
    """The answers of the last hour, say, on disk, and who follows them."""

    def __init__(self, folder: Path, seconds: float):
        self._log = Log(folder, _SEGMENT_BYTES)
        self._seconds = seconds
        self._index: list[tuple[tuple[int, int], int, int]] = []  # place, when, number in the log
        self._followers: set[Follower] = set()
        self._watchers: set[Callable[[], None]] = set()
        self._lock = threading.Lock()
        self.numbers: dict[int, int] = {}  # the last number of each incarnation
        self.dropped = 0  # followers that were too slow
        self.rows = 0  # given out since the start
        for number, data in self._log.read(self._log.first):
            told = _description(data)[0]
            self._index.append((tuple(told["place"]), told["at"], number))

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
        return len(self._followers)

    def take(
        self, place: tuple[int, int], at: int, given: Mapping[str, pa.Table], incarnations: Mapping[str, int]
    ) -> None:
        """Number what was given out, keep it, and hand it to those who follow. What is given again after a crash is
        numbered, and not kept twice."""
        parts = []
        for name, table in given.items():
            incarnation = incarnations[name]
            first = self.numbers.get(incarnation, 0) + 1
            self.numbers[incarnation] = first + table.num_rows - 1
            if table.num_rows:
                parts.append(Part(name, incarnation, first, table))
        if not parts or (self._index and place <= self._index[-1][0]):
            return
        portion = Portion(place, at, tuple(parts))
        number = self._log.append([_packed(portion)], is_synced=False)
        self.rows += sum(part.table.num_rows for part in parts)
        if self._followers:
            _ = portion.events  # made here: the event loop, which sends them, has look-ups to answer
        with self._lock:
            self._index.append((place, at, number))
            for each in list(self._followers):
                each.offer(portion)
                if each.is_dropped:
                    self._followers.discard(each)
                    self.dropped += 1
        for wake in list(self._watchers):
            wake()

    def follow(
        self, cursor: Cursor | None, wake: Callable[[], None], waiting: int = 256
    ) -> tuple[list[int], Follower]:
        """What is kept from a cursor's portion on (None: nothing), as numbers to `read`, and who is handed the rest."""
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
                missed = [number for _, _, number in self._index[start:]]
            self._followers.add(follower)
        return missed, follower

    def leave(self, follower: Follower) -> None:
        """Follow no more."""
        with self._lock:
            self._followers.discard(follower)

    def between(self, first: int, last: int) -> Iterator[Portion]:
        """Portions as they were given out, by their numbers; those that have gone meanwhile are left out. One pass."""
        for number, data in self._log.read(max(first, self._log.first)):
            if number > last:
                return
            yield _unpacked(data)

    def dismiss(self) -> None:
        """The server stops: all who follow are told that nothing more will come."""
        with self._lock:
            for each in self._followers:
                each.end()

    def latest(self, rows: int, query: str | None = None) -> list[str]:
        """JSON of the last rows that are kept, the oldest first; of one query, as far as the last portions have any."""
        with self._lock:
            first = self._index[-_PORTIONS:][0][2] if self._index else None
        portions = [] if first is None else list(self._log.read(max(first, self._log.first)))
        found: list[str] = []
        for _, data in reversed(portions):
            parts = _unpacked(data, query).parts
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
        self._log.close()


class AnswersReader:
    """Who reads answers one after the other, as they come."""

    def __init__(self, log: LogReader):
        self._log = log

    def next(self, query: str) -> Iterator[tuple[tuple[int, int], Part | None]]:
        """The place of each portion that has come since, with the answers of a query in it."""
        for _, data in self._log.next():
            told, start = _description(data)
            found = None
            for each in told["parts"]:
                if each["query"] == query:
                    table = read_table(data[start : start + each["bytes"]])
                    found = Part(query, each["incarnation"], each["first"], table)
                start += each["bytes"]
            yield tuple(told["place"]), found


def _packed(portion: Portion) -> bytes:
    bodies = [stream_bytes(part.table) for part in portion.parts]
    told: dict[str, Any] = {
        "place": portion.place,
        "at": portion.at,
        "parts": [
            {
                "query": part.query,
                "incarnation": part.incarnation,
                "first": part.first,
                "rows": part.table.num_rows,
                "bytes": len(body),
            }
            for part, body in zip(portion.parts, bodies, strict=True)
        ],
    }
    head = json.dumps(told).encode()
    return len(head).to_bytes(4, "little") + head + b"".join(bodies)


def _description(data: bytes) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(data[:4], "little")
    told = json.loads(data[4 : 4 + length])
    check_shape(told, _SHAPE, "the answers")
    return told, 4 + length


def _unpacked(data: bytes, query: str | None = None) -> Portion:
    """A portion, or what one query has of it."""
    told, start = _description(data)
    parts = []
    for each in told["parts"]:
        if query is None or each["query"] == query:
            table = read_table(data[start : start + each["bytes"]])
            parts.append(Part(each["query"], each["incarnation"], each["first"], table))
        start += each["bytes"]
    return Portion(tuple(told["place"]), told["at"], tuple(parts))
