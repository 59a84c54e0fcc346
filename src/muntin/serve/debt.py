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

    def instants(self, before: int, after: int, times: Ints) -> int:
        """How many close from one instant to another, events being there at these times."""
        if after - before > self.holds:
            seen = np.concatenate([[before], np.sort(times[(times > before) & (times < after)]), [after]])
            return int(np.minimum(np.diff(seen), self.holds).sum()) // self.slide
        return (after - before) // self.slide


class Debt:
    """For the writer: it knows how far time has come in each stream, as far as changes went that it let pass."""

    def __init__(self, engine: Engine, most: int):
        self._engine, self._most = engine, most  # 0: any number
        self._owing: dict[str, _Owing] = {}
        self._reading: dict[str, list[_Owing]] = {}  # by base
        self._rates: dict[str, float] = {}  # instants in a microsecond of all that read a base
        self._reached: dict[str, int] = {}  # watermarks of those that have events
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
        """They have been made, and gave this. After statements, and errors, what is known holds no more."""
        self._is_settled = True
        has_stated = any(each.record.do in _STATEMENTS for each in passed)
        if has_stated or any(isinstance(given, MuntinError) for given in found):
            self._is_known = False

    def _check(self, change: Change) -> None:
        if not self._most or change.record.do not in _MOVING:
            return
        if not self._is_known:
            self._look()
        told = change.record.told
        if change.record.do == "advance":
            self._let(dict.fromkeys(self._reached, told["until"]), _NOTHING)
            return
        rows = change.record.events if change.rows is None else change.rows
        stream = self._streams.get(told["stream"])
        if rows is None or stream is None:
            return
        times = self._believed(stream, to_times(stream, rows))
        if len(times):
            self._reached.setdefault(stream.name, int(times.min()))  # before the first event nothing is owed
            self._let({stream.name: int(times.max()) - stream.delay}, times)

    def _believed(self, stream: Stream, times: Ints) -> Ints:
        """Those that do not lie too far ahead."""
        if stream.ahead is None:
            return times
        clock = Clock(stream.delay, stream.ahead)
        clock.promise(self._reached.get(stream.name, clock.promised))
        kept = clock.judge(times).kept
        return times if kept is None else times[kept]

    def _let(self, reached: dict[str, int], times: Ints) -> None:
        """Let time come so far in some streams."""
        after = self._reached | {base: max(self._reached[base], instant) for base, instant in reached.items()}
        if (
            sum((after[base] - self._reached[base]) * self._rates.get(base, 0.0) for base in reached)
            > self._most
        ):
            self._refuse({id(each): each for base in reached for each in self._reading.get(base, ())}.values(),
                         after, times)  # fmt: skip
        self._reached = after

    def _refuse(self, owing: Iterable[_Owing], after: dict[str, int], times: Ints) -> None:
        counts = []
        for each in owing:
            if all(base in after for base in each.bases):
                begin, end = (min(map(of.__getitem__, each.bases)) for of in (self._reached, after))
                counts.append((each.instants(begin, end, times), each))
        if (owed := sum(count for count, _ in counts)) > self._most:
            most, each = max(counts, key=lambda pair: pair[0])
            self._is_known = False
            raise TooMuchOwed(
                f"windows would close at {owed:,} instants, {most:,} of them of query '{each.name}' (SLIDE "
                f"{span(each.slide)}), and by one change they close at {self._most:,} at most: the limit is 'instants'"
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
    begin = 0
    for number in range(1, len(group)):
        if group[number].record.do in _MOVING and group[number - 1].record.do in _STATEMENTS:
            yield group[begin:number]
            begin = number
    yield group[begin:]
