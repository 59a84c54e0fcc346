"""Debt: the instants at which windows close by one change. There are so many at most, and the rest is refused.

Without keys a query has a row for each instant of its SLIDE, in silence too. So a single event may owe billions of
rows: an hour later under SLIDE 1 MICROSECOND, a century later under SLIDE 1 SECOND. Once it were in the log, they would
have to be given out, whatever the disk says. So the writer asks here before. A query with keys counts while its windows
may hold events, for one key; EMIT CHANGES does not count, since its rows come with events, however long the silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from muntin.arrays import Ints
from muntin.derived import WindowStream, carrier_of
from muntin.engine import Engine
from muntin.errors import MuntinError
from muntin.join_query import AnyQuery, JoinQuery
from muntin.query import Query
from muntin.serve.applied import REPEATED
from muntin.serve.settings import TooMuchOwed
from muntin.serve.waiting import Change
from muntin.shard.clock import Clock
from muntin.shard.record_batch import to_times
from muntin.stream import Stream
from muntin.table_query import TableQuery
from muntin.view_select import StandingQuery
from muntin.window import span

_NOTHING = np.zeros(0, np.int64)
_STATEMENTS = ("execute", "script")
_MOVING = ("push", "take", "advance")  # what lets time go on


@dataclass(frozen=True)
class _Owing:
    """What one query owes as time goes on."""

    name: str
    query: Query | JoinQuery | TableQuery
    slide: int
    bases: tuple[str, ...]  # streams with events, whose time it follows
    holds: float  # how long after an event it may have rows, in microseconds


class _Lengths:
    """How long windows hold events from one instant to another, events being there at these times too."""

    def __init__(self, times: Ints):
        self._times = np.sort(times)
        self._known: dict[tuple[int, int, float], int] = {}  # most queries ask for the same

    def of(self, begin: int, end: int, holds: float) -> int:
        """In microseconds; O(times) for those that have not been asked for."""
        if end - begin <= holds:
            return max(0, end - begin)
        if (begin, end, holds) not in self._known:
            lo, hi = np.searchsorted(self._times, [begin, end])
            seen = np.concatenate([[begin], self._times[lo:hi], [end]])
            self._known[begin, end, holds] = int(np.minimum(np.diff(seen), holds).sum())
        return self._known[begin, end, holds]


class Debt:
    """For the writer: it knows how far time has come in each stream, as far as changes went that it let pass."""

    def __init__(self, engine: Engine, most: int):
        self._engine, self._most = engine, most  # 0: any number
        self._owing: dict[str, _Owing] = {}
        self._reading: dict[str, list[_Owing]] = {}  # by base
        self._rates: dict[str, float] = {}  # instants in a microsecond of all that read a base
        self._reached: dict[str, int] = {}  # watermarks of those that have events
        self._first: dict[str, int] = {}  # when they began, as far as that was seen: joins owe from there
        self.refused = 0  # changes
        self._streams: Mapping[str, Stream] = {}
        self._is_known = self._is_settled = False

    def bounded(self, group: Iterable[Change]) -> list[Change]:
        """Those that owe no more than they may. The others are answered with an error, and are not to be made."""
        passed = []
        self._is_known &= self._is_settled  # else the log could not be written
        self._is_settled = False
        for change in group:
            try:
                self._check(change)
            except MuntinError as error:
                change.done.set_exception(error)
            else:
                passed.append(change)
        return passed

    def settle(self, passed: Iterable[Change], found: Iterable[Any]) -> None:
        """They have been made, and gave this. After statements, errors, and what had been made before, what is known
        holds no more."""
        self._is_settled = True
        has_stated = any(each.record.do in _STATEMENTS for each in passed)
        if has_stated or any(given is REPEATED or isinstance(given, MuntinError) for given in found):
            self._is_known = False

    def _check(self, change: Change) -> None:
        if not self._most or change.record.do not in _MOVING:
            return
        if not self._is_known:
            self._look()
        told = change.record.told
        if change.record.do == "advance":
            self._let(dict.fromkeys(self._reached, told["until"]), _NOTHING, self._reached)
            return
        rows = change.record.events if change.rows is None else change.rows
        stream = self._streams.get(told["stream"])
        if rows is None or stream is None:
            return
        times = self._believed(stream, to_times(stream, rows))
        if len(times):
            first = int(times.min())  # before it nothing is owed
            self._let(
                {stream.name: int(times.max()) - stream.delay}, times, {stream.name: first} | self._reached
            )
            self._first.setdefault(stream.name, first)

    def _believed(self, stream: Stream, times: Ints) -> Ints:
        """Those that do not lie too far ahead."""
        if stream.ahead is None:
            return times
        clock = Clock(stream.delay, stream.ahead)
        clock.promise(self._reached.get(stream.name, clock.promised))
        kept = clock.judge(times).kept
        return times if kept is None else times[kept]

    def _let(self, reached: dict[str, int], times: Ints, before: dict[str, int]) -> None:
        """Let time come so far in some streams. They stood there before, or begin there."""
        after = before | {base: max(before[base], instant) for base, instant in reached.items()}
        most = sum((after[base] - before[base]) * self._rates.get(base, 0.0) for base in reached)
        if most > self._most or len(before) > len(self._reached):
            readers = {id(each): each for base in reached for each in self._reading.get(base, ())}
            self._require(readers.values(), before, after, _Lengths(times))
        self._reached = after

    def _require(
        self, owing: Iterable[_Owing], before: dict[str, int], after: dict[str, int], lengths: _Lengths
    ) -> None:
        """A `TooMuchOwed` if that is what they are."""
        counts = []
        for each in owing:
            if all(base in after for base in each.bases):
                # a join owes from the first event of either stream on, once both have begun
                is_new = any(base not in self._reached for base in each.bases)
                since = before | self._first if is_new else before
                begin, end = (min(of[base] for base in each.bases) for of in (since, after))
                counts.append((lengths.of(begin, end, each.holds) // each.slide, each))
        if (owed := sum(count for count, _ in counts)) > self._most:
            most, each = max(counts, key=lambda pair: pair[0])
            self.refused += 1
            raise TooMuchOwed(
                f"windows would close at {owed:,} instants, {most:,} of them of query '{each.name}' (SLIDE "
                f"{span(each.slide)}), and by one change they close at {self._most:,} at most: the limit is "
                "'instants'. Send less at once, drop the query and register it behind the gap, or start with a higher "
                "--limit instants"
            )

    def _look(self) -> None:
        """At queries, and at how far time has come."""
        queries, known = self._engine.queries, self._owing
        self._streams = self._engine.streams
        self._owing = {
            name: known[name]
            if name in known and known[name].query is query
            else _owing(name, query, queries)
            for name, query in queries.items()
            if query.slide and not query.emits_changes and not isinstance(query, StandingQuery)
        }
        self._reading, self._rates = {}, {}
        for each in self._owing.values():
            for base in each.bases:
                self._reading.setdefault(base, []).append(each)
                self._rates[base] = self._rates.get(base, 0.0) + 1 / each.slide
        streams = self._engine.stats(queries=False)["streams"]
        self._reached = {
            name: int(of["watermark"].astype("datetime64[us]").astype(np.int64))
            for name, of in streams.items()
            if of["events"] and of["watermark"] is not None
        }
        self._first = {name: self._first.get(name, instant) for name, instant in self._reached.items()}
        self._is_known = True


def _owing(name: str, query: Query | JoinQuery | TableQuery, queries: Mapping[str, AnyQuery]) -> _Owing:
    bases = {base for stream in query.streams for base in _bases(stream, queries)}
    return _Owing(name, query, query.slide, tuple(bases), _holds(query))


def _bases(stream: Stream, queries: Mapping[str, AnyQuery]) -> list[str]:
    """A stream of windows goes on with the streams of its query."""
    if isinstance(stream, WindowStream):
        return [base for each in queries[stream.query].streams for base in _bases(each, queries)]
    return [carrier_of(stream)]


def _holds(query: Query | JoinQuery | TableQuery) -> float:
    if not query.keys or (isinstance(query, TableQuery) and query.is_table_first):
        return inf
    if isinstance(query, JoinQuery):
        return max(side.window.size for side in query.sides)
    source = query.source if isinstance(query, TableQuery) else query
    windows = [source.window] if source.window else [call.window for call in source.calls]
    return max((window.size + window.slide if window.is_time else inf for window in windows), default=inf)


def apart(group: Sequence[Change]) -> Iterable[Sequence[Change]]:
    """The same changes in parts, so that statements are done before time goes on: what that owes depends on them."""
    begin, has_stated = 0, False
    for number, each in enumerate(group):
        if each.record.do in _STATEMENTS:
            has_stated = True
        elif has_stated and each.record.do in _MOVING:
            yield group[begin:number]
            begin, has_stated = number, False
    yield group[begin:]
