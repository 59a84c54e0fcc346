"""The oracle: docs/concepts/semantics.md, word for word, with lists and loops.

It keeps every accepted event and recomputes everything at every look-up, so nothing in it can go
stale, and it is slow in the square of its input. It shares no code with the engine but the parsed
`Query` and its row expressions (which have a second opinion of their own), and reads every text cold;
windows, watermark, lateness, emission and aggregates are written again here, to be read beside semantics.md.

>>> reference = ReferenceEngine()
>>> reference.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts")
>>> reference.register("SELECT SUM(v) AS total FROM s [ROWS 2]", name="pair")
>>> reference.push("s", {"ts": [1, 2, 3], "v": [10, 20, 30]})
>>> reference.lookup("pair").rows[0]["total"]
50
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from aggregates import NOTHING, Measured, aggregate, answer_type
from cold import read_cold
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.join_query import AnyQuery, JoinQuery
from muntin.query import Call, Query
from muntin.stream import Stream
from muntin.table_query import TableQuery
from muntin.window import Window
from reference_cascade import Fed, Selected, begin, derived, flow
from reference_join import StandingJoin
from reference_session import closed_between, open_at
from reference_table import StandingTableQuery, TableLog, declared_table

EPOCH = datetime(1970, 1, 1)
Key = tuple[Any, ...]
NO_VALUE = object()  # what does not exist; NULL is None

_TYPES = {
    "TIMESTAMP": pa.timestamp("us"), "BIGINT": pa.int64(), "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(), "BOOLEAN": pa.bool_(), "INTERVAL": pa.duration("us"),
}  # fmt: skip
_UNITS = {
    "MICROSECOND": 1, "MILLISECOND": 10**3, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6,
    "DAY": 86_400 * 10**6,
}  # fmt: skip
_CREATE = re.compile(
    r"CREATE STREAM (\w+) \((.*)\) TIMESTAMP BY (\w+)(?: DELAY (\d+) ([A-Z]+?)S?)?"
    r"(?: AHEAD (\d+) ([A-Z]+?)S?)?\s*;?\s*$",
    re.S | re.I,
)


@dataclass
class Event:
    """One accepted event. `values` are its columns and, by their text, expressions over them."""

    at: int
    arrival: int
    values: dict[str, Any]


@dataclass
class Answer:
    """Rows of an answer, and how far each number may lie from the exact one (`aggregates.Measured`).

    `complete` of a row is True where it must be, and None where it depends on what an engine
    happened to keep: the query came while the stream ran, and the window may reach back further.
    """

    query: Query
    saw_all: bool  # whether the query was there before the first event
    rows: list[dict[str, Any]] = field(default_factory=list)
    slack: list[dict[str, float]] = field(default_factory=list)
    left_out: int = 0  # rows of which a value does not exist

    @property
    def keys(self) -> list[str]:
        return [key.name for key in self.query.keys]


@dataclass
class AtInstant:
    """What a request is answered with; `complete` as in `Answer`, False where events may still come."""

    found: bool
    values: dict[str, Any]
    slack: dict[str, float]
    complete: bool | None


@dataclass
class _Row:
    """An answer before its SELECT list: one key at one instant."""

    key: Key
    calls: list[Measured]
    start: int | None
    end: int | None
    reach: int | None  # where the earliest of its windows starts; None if one of them counts events


@dataclass
class _Log:
    """A stream and all it accepted. `greatest` and `watermark` are None before the first event."""

    stream: Stream
    events: list[Event] = field(default_factory=list)
    arrived: int = 0
    late: int = 0
    ahead: int = 0
    greatest: int | None = None
    watermark: int | None = None
    begun: int | None = None  # where it was rewound to
    gone: int = 0  # events that were accepted before
    unknown: int | None = None  # of a derived stream: something may be missing before this instant

    @property
    def in_order(self) -> list[Event]:
        return sorted(self.events, key=lambda event: (event.at, event.arrival))


@dataclass
class _Standing:
    """A registered query, and where it is in emitting."""

    query: Query
    log: _Log  # of its stream
    reached: int | None  # it emitted all that closed up to here
    since: int | None  # greatest event time when it came; None if it saw the whole stream
    inside: set[Key] = field(default_factory=set)  # EMIT CHANGES: the keys that are in
    base: int = 0  # events that were forgotten when its stream was rewound

    @property
    def saw_all(self) -> bool:
        """Whether it was there before the first event, and nothing of its stream is missing."""
        return self.since is None and self.log.unknown is None

    @property
    def counted(self) -> int:
        """Of these, those that its ROWS windows have counted."""
        return 0 if self.query.keys or self.query.where else self.base


class ReferenceEngine:
    """The public face of `muntin.Engine`, as far as answers go; times as `microseconds` reads them."""

    def __init__(self, clock: Callable[[], Any] = lambda: 0) -> None:
        self.clock = clock
        self.logs: dict[str, _Log] = {}
        self.standing: dict[str, _Standing] = {}
        self.joins: dict[str, StandingJoin] = {}
        self.tables: dict[str, TableLog] = {}
        self.table_joins: dict[str, StandingTableQuery] = {}
        self.derived: dict[str, Selected | Fed] = {}

    def execute(self, sql: str) -> None:
        """CREATE STREAM and CREATE TABLE, the statements a reference needs."""
        if sql.split()[1].upper() == "TABLE":
            table = declared_table(sql, _TYPES)
            self.tables[table.name] = TableLog(table)
            return
        streams = {name: log.stream for name, log in self.logs.items()}
        if made := derived(sql, streams, {name: each.query for name, each in self.standing.items()}):
            begin(self, made)
            return
        stream = declared(sql)
        self.logs[stream.name] = _Log(stream)

    def register(self, sql: str | AnyQuery, *, name: str) -> None:
        sources = {log.stream.name: log.stream for log in self.logs.values()}
        sources |= {log.table.name: log.table for log in self.tables.values()}
        query = read_cold(sql, sources) if isinstance(sql, str) else sql
        if isinstance(query, TableQuery):
            log = self.logs[query.source.stream.name]
            self.table_joins[name] = StandingTableQuery(query, log, self.tables, log.watermark, log.greatest)
            return
        if isinstance(query, JoinQuery):
            left, right = (self.logs[side.stream.name] for side in query.sides)
            join = StandingJoin(query, left, right, None, (left.greatest, right.greatest), None)
            join.reached = join.began = join.watermark
            self.joins[name] = join
            return
        log = self.logs[query.stream.name]
        self.standing[name] = _Standing(query, log, log.watermark, log.greatest)

    def drop(self, name: str) -> None:
        for queries in (self.joins, self.table_joins, self.standing):
            queries.pop(name, None)  # type: ignore[attr-defined]

    def load(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Rows that are inserted, or replace those with the same keys."""
        self.tables[table].load(columns, {name: log.watermark for name, log in self.logs.items()})

    def delete(self, table: str, goes: Callable[[dict[str, Any]], bool]) -> None:
        """Remove the rows of which `goes` is true."""
        self.tables[table].delete(goes, {name: log.watermark for name, log in self.logs.items()})

    def push(self, stream: str, batch: Mapping[str, Sequence[Any]]) -> None:
        """Accept the events that are not late, one by one."""
        log = self.logs[stream]
        for values in zip(*batch.values(), strict=True):
            row = dict(zip(batch, values, strict=True))
            row[log.stream.time] = at = microseconds(row[log.stream.time])
            log.arrived += 1
            if log.stream.ahead is not None:
                known = [microseconds(self.clock()), log.greatest, log.watermark]
                if at > max(each for each in known if each is not None) + log.stream.ahead:
                    log.ahead += 1
                    continue
            if log.watermark is not None and at < log.watermark:
                log.late += 1
                continue
            log.events.append(Event(at, log.arrived, row))
            log.greatest = _later(log.greatest, at)
            log.watermark = _later(log.watermark, log.greatest - log.stream.delay)
        flow(self)

    def rewind(self, stream: str, to: Any) -> None:
        """All is forgotten but how many events there were; every query is as if it came now."""
        log, instant = self.logs[stream], microseconds(to)
        log.gone += len(log.events)
        log.events = []
        log.begun, log.greatest, log.watermark = instant, instant - 1, instant
        for each in self.standing.values():
            if each.query.stream.name == stream:
                each.reached, each.since, each.base = instant, instant - 1, log.gone
        for table in self.tables.values():
            table.rewind(stream)
        for join in self.table_joins.values():
            if join.log is log:
                join.reached, join.since, join.inside = instant, instant - 1, {}

    def nothing(self, name: str) -> Answer:
        """An answer of the query without rows."""
        return self._answer(self.standing[name], [])

    def late(self, stream: str) -> int:
        return self.logs[stream].late

    def lookup(self, name: str, key: Any = None, at: Any = None) -> Answer:
        """The answer as of `at`: one row, or one per key."""
        if name in self.joins:
            return self.joins[name].lookup(None if at is None else microseconds(at))
        if name in self.table_joins:
            return self.table_joins[name].lookup(key, None if at is None else microseconds(at))
        standing = self.standing[name]
        query, log = standing.query, self.logs[standing.query.stream.name]
        instant = microseconds(at) if at is not None else None if log.greatest is None else log.greatest + 1
        events = self._passing(query, log)
        by_key = _by_key(query, events)
        asked = by_key if key is None else _only(key, by_key)
        some = asked if query.top is None else by_key  # who is among the first depends on all
        rows = [row for each, own in some.items() if (row := self._row(standing, each, own, instant))]
        return self._answer(standing, [row for row in _first(query, rows) if row.key in asked])

    def lookup_at(self, name: str, requests: Sequence[tuple[Any, int]]) -> list[AtInstant]:
        """What `lookup(key, at)` gives for each request, once the watermark has passed its instant."""
        return [self._at_instant(name, key, at) for key, at in requests]

    def _at_instant(self, name: str, key: Any, at: int) -> AtInstant:
        standing = self.standing[name]
        query, log = standing.query, self.logs[standing.query.stream.name]
        nothing = dict.fromkeys(each.name for each in query.outputs)
        if not _is_final(query, at, log.watermark):
            return AtInstant(False, nothing, {}, False)
        answer = self.lookup(name, key, at)
        key = () if key is None and not query.keys else key if isinstance(key, tuple) else (key,)
        own = _by_key(query, self._passing(query, log)).get(key, [])
        row = self._row(standing, key, own, at, is_needed=True)
        assert row is not None
        complete = _is_complete(standing, row) or None
        if answer.rows:
            values = {name: answer.rows[0][name] for name in nothing}
            return AtInstant(True, values, answer.slack[0], complete)
        if self._row(standing, key, own, at) is None:  # no event in the window
            (values,) = _selected(query, [row])[1]
            return AtInstant(False, {name: values[name] for name in nothing}, {}, complete)
        return AtInstant(False, nothing, {}, complete)

    def advance(self, until: Any = None) -> dict[str, Answer]:
        """Every window that closed since the last call; a query without rows is left out."""
        for log in self.logs.values():
            if until is not None and log.stream.name not in self.derived:
                log.watermark = _later(log.watermark, microseconds(until))
        flow(self)
        answers = {}
        for name, standing in self.standing.items():
            log = self.logs[standing.query.stream.name]
            reached = log.watermark if until is None else microseconds(until)
            if isinstance(self.derived.get(log.stream.name), Fed) and reached is not None:
                reached = None if log.watermark is None else min(reached, log.watermark)
            if reached is None or (standing.reached is not None and reached <= standing.reached):
                continue
            if standing.query.emits_changes:
                answers[name] = self._changes(standing, log, reached)
            elif rows := self._closed(standing, log, reached):
                answers[name] = self._answer(standing, rows)
            standing.reached = reached
        for name, join in self.joins.items():
            if found := join.advance(None if until is None else microseconds(until)):
                answers[name] = found
        for name, table_join in self.table_joins.items():
            if found := table_join.advance(None if until is None else microseconds(until)):
                answers[name] = found
        return {name: answer for name, answer in answers.items() if answer.rows or answer.left_out}

    def _closed(self, standing: _Standing, log: _Log, reached: int) -> list[_Row]:
        """The rows of the windows that closed after `standing.reached` and up to `reached`."""
        query = standing.query
        if not log.events and log.begun is None:
            return []
        events = self._passing(query, log)
        by_key = _by_key(query, events)
        if query.window is not None and query.window.is_session:
            return self._closed_sessions(standing, by_key, reached)
        if _count_slide(query):
            return self._closed_counts(standing, by_key, reached)
        by_instant = (
            [row for key, own in by_key.items() if (row := self._row(standing, key, own, instant))]
            for instant in _instants(standing, log, reached)
        )
        return [row for rows in by_instant for row in _first(query, rows)]

    def _changes(self, standing: _Standing, log: _Log, reached: int) -> Answer:
        """EMIT CHANGES: who enters and who leaves, instant by instant and key by key."""
        query, answer = standing.query, Answer(standing.query, standing.saw_all)
        by_key = _by_key(query, self._passing(query, log))
        for instant in _instants(standing, log, reached) if log.events or log.begun is not None else []:
            rows = [row for key, own in by_key.items() if (row := self._row(standing, key, own, instant))]
            first = {row.key for row in _first(query, rows)}
            for key, own in by_key.items():
                is_there = self._row(standing, key, own, instant) is not None
                row = self._row(standing, key, own, instant, is_needed=True)
                assert row is not None
                (passes,), (values,) = _selected(query, [row])
                is_ranked = passes is not True or NO_VALUE not in _ranked(query, [row])[0]
                if is_there and (passes is NO_VALUE or not is_ranked):
                    answer.left_out += 1
                    continue
                is_in = is_there and passes is True and key in first
                if is_in == (key in standing.inside):
                    continue
                if NO_VALUE in values.values():
                    answer.left_out += 1
                    continue
                _add(answer, standing, row, values | {"change": "enter" if is_in else "leave"})
                standing.inside ^= {key}
        return answer

    def _closed_counts(self, standing: _Standing, by_key: dict[Key, list[Event]], reached: int) -> list[_Row]:
        """[ROWS … SLIDE s]: a row for each event that made its key's count a multiple of s."""
        slide = _count_slide(standing.query)
        found = []
        for key, events in by_key.items():
            base = standing.counted
            for count in range((base // slide + 1) * slide, base + len(events) + 1, slide):
                last = events[count - base - 1]
                is_new = standing.reached is None or last.at >= standing.reached
                if is_new and last.at < reached:
                    row = self._row(standing, key, events, last.at + 1, count)
                    if row:
                        found.append((last.at, last.arrival, row))
        return [row for _at, _arrival, row in sorted(found, key=lambda each: each[:2])]

    def _closed_sessions(
        self, standing: _Standing, by_key: dict[Key, list[Event]], reached: int
    ) -> list[_Row]:
        """[SESSION gap]: a row for each session that ended, in the order in which they did."""
        query, found = standing.query, []
        assert query.window is not None
        gap = query.window.size
        for key, events in by_key.items():
            for end, session in closed_between(events, gap, standing.reached, reached):
                calls = [_measure(call, session) for call in query.calls]
                start = session[0].at
                found.append((end, _Row(key, calls, start, end, start - gap + 1)))
        return [row for _end, row in sorted(found, key=lambda each: each[0])]

    def _row(
        self, standing: _Standing, key: Key, events: list[Event], instant: int | None, count: int | None = None,
        is_needed: bool = False,
    ) -> _Row | None:  # fmt: skip
        """The answer of one key at one instant; None if it has no event in the window, unless it is needed.

        `count` is how many of its events a [ROWS … SLIDE] query stands at.
        """
        query, base = standing.query, standing.counted
        if instant is None:  # before the first event
            return (
                None
                if query.keys
                else _Row(key, [_measure(call, []) for call in query.calls], None, None, None)
            )
        instant = _floor(instant, *_slide(query))
        if count is None and _count_slide(query):
            count = _floor(base + sum(event.at < instant for event in events), _count_slide(query))
        own = dict.fromkeys(call.window for call in query.calls)
        windows = own if query.window is None else {query.window: None}
        inside = {window: _inside(window, events, instant, count, base) for window in windows | own}
        if query.keys and not any(inside[window] for window in windows) and not is_needed:
            return None
        calls = [_measure(call, inside[call.window]) for call in query.calls]
        if query.window is not None and query.window.is_session:
            start, end = _bounds(query, inside[query.window], instant)
            return _Row(key, calls, start, end, (instant if start is None else start) - query.window.size + 1)
        return _Row(key, calls, *_bounds(query, inside[next(iter(windows))], instant), _reach(query, instant))

    def _passing(self, query: Query, log: _Log) -> list[Event]:
        """The stream's events that WHERE lets into windows, in order, with all the query reads of them."""
        expressions = [key.expression for key in query.keys]
        expressions += [each for call in query.calls for each in (call.argument, call.filter) if each]
        expressions += [query.where] if query.where else []
        for expression in expressions:
            _fill_in(expression, log)
        return [e for e in log.in_order if query.where is None or e.values[query.where.sql] is True]

    def _answer(self, standing: _Standing, rows: list[_Row]) -> Answer:
        """SELECT and HAVING over the keys and the calls' answers."""
        query = standing.query
        answer = Answer(query, standing.saw_all)
        if not rows:
            return answer
        for row, passes, values in zip(rows, *_selected(query, rows), strict=True):
            if passes is NO_VALUE or (passes is True and NO_VALUE in values.values()):
                answer.left_out += 1
            elif passes is True:
                _add(answer, standing, row, values)
        return answer


def declared(sql: str) -> Stream:
    """The stream of a CREATE STREAM statement."""
    match = _CREATE.match(" ".join(sql.split()))
    assert match, f"the reference cannot read: {sql}"
    name, columns, time, many, unit, most, unit_ahead = match.groups()
    fields = [column.split(None, 1) for column in re.split(r",(?![^(]*\))", columns)]
    schema = pa.schema([(column, _type_of(kind.strip())) for column, kind in fields])
    ahead = int(most) * _UNITS[unit_ahead.upper()] if most else None
    return Stream(name, schema, time, int(many) * _UNITS[unit.upper()] if many else 0, ahead)


def _type_of(kind: str) -> pa.DataType:
    sizes = re.fullmatch(r"DECIMAL ?\((\d+), ?(\d+)\)", kind, re.I)
    return pa.decimal128(int(sizes[1]), int(sizes[2])) if sizes else _TYPES[kind.upper()]


def microseconds(instant: Any) -> int:
    """Microseconds since the epoch of an int, a datetime (naive is UTC) or an ISO string."""
    if isinstance(instant, str):
        instant = datetime.fromisoformat(instant)
    if isinstance(instant, datetime):
        if instant.tzinfo is not None:
            instant = instant.astimezone(UTC).replace(tzinfo=None)
        since: timedelta = instant - EPOCH
        return since // timedelta(microseconds=1)
    return int(instant)


def _datetime(instant: int | None) -> datetime | None:
    return None if instant is None else EPOCH + timedelta(microseconds=instant)


def _later(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)


def _floor(number: int, step: int, offset: int = 0) -> int:
    """The greatest multiple of `step`, plus the offset, up to `number`; the number itself if there is no step."""
    return (number - offset) // step * step + offset if step else number


def _settled(instant: int, window: Window) -> int:
    """Where a time window stands."""
    return _floor(instant, window.slide, window.offset)


def _count_slide(query: Query) -> int:
    """Events between the answers of a [ROWS … SLIDE] query; 0 for all others."""
    return 0 if query.window is None or query.window.is_time else query.window.slide


def _start(instant: int, window: Window) -> int:
    """Where a time window begins that is looked up at an instant: some time before, or with the hour, day or week."""
    t = _settled(instant, window)
    if not window.since:
        return t - window.size
    just_before = EPOCH + timedelta(microseconds=t - 1)
    begin = just_before.replace(minute=0, second=0, microsecond=0)
    if window.size > _UNITS["HOUR"]:
        begin = begin.replace(hour=0)
    if window.size > _UNITS["DAY"]:
        begin -= timedelta(days=begin.weekday())
    return (begin - EPOCH) // timedelta(microseconds=1)


def _slide(query: Query) -> tuple[int, int]:
    """Microseconds between the query's instants, 0 if it has any instant, or moves by events; and their offset."""
    windows = [query.window] if query.window is not None else [call.window for call in query.calls]
    slides = [(window.slide, window.offset) for window in windows if window.is_time and window.slide]
    return min(slides, default=(0, 0))


def _instants(standing: _Standing, log: _Log, reached: int) -> list[int]:
    """The instants after `standing.reached` and up to `reached` at which a query by time answers."""
    first = min(event.at for event in log.events) if log.begun is None else log.begun
    slide, offset = _slide(standing.query)
    if not slide:
        return [reached] if reached > first else []
    begin = first if standing.reached is None else max(first, standing.reached)
    return list(range(_floor(begin, slide, offset) + slide, reached + 1, slide))


def _by_key(query: Query, events: list[Event]) -> dict[Key, list[Event]]:
    """Events by key, in the order in which the keys first arrived; () is the key of an un-keyed query."""
    if not query.keys:
        return {(): events}
    found: dict[Key, list[Event]] = {}
    for event in sorted(events, key=lambda event: event.arrival):
        found.setdefault(tuple(event.values[key.expression.sql] for key in query.keys), [])
    for event in events:
        found[tuple(event.values[key.expression.sql] for key in query.keys)].append(event)
    return found


def _only(key: Any, by_key: dict[Key, list[Event]]) -> dict[Key, list[Event]]:
    """What `key=` asks for: one key or a list of them, a tuple for several GROUP BY columns."""
    asked = key if isinstance(key, list) else [key]
    keys = {each if isinstance(each, tuple) else (each,) for each in asked}
    return {key: events for key, events in by_key.items() if key in keys}


def _inside(
    window: Window, events: list[Event], instant: int, count: int | None, base: int = 0
) -> list[Event]:
    """The events of one key that a window holds at `instant`; `base` others came before all of them."""
    if window.is_session:
        return open_at(events, window.size, instant)
    if window.is_time:
        start, end = _start(instant, window), _settled(instant, window) - window.to
        return [event for event in events if start <= event.at < end]
    before = base + sum(event.at < instant for event in events)
    m = _floor(before if count is None else count, window.slide)
    return [e for number, e in enumerate(events, base + 1) if m - window.size + 1 <= number <= m - window.to]


def _bounds(query: Query, inside: list[Event], instant: int) -> tuple[int | None, int | None]:
    """window_start and window_end; `inside` are the events of the window after FROM."""
    window = query.window
    if window is None:
        windows = [call.window for call in query.calls]
        if not all(window.is_time for window in windows):
            return None, instant
        return min(_start(instant, window) for window in windows), instant
    if window.is_time:
        return _start(instant, window), instant - window.to
    past = window.size if window.is_session else 1
    return (inside[0].at, inside[-1].at + past) if inside else (None, None)


def _reach(query: Query, instant: int) -> int | None:
    windows = [call.window for call in query.calls] + ([query.window] if query.window else [])
    if not all(window.is_time for window in windows):
        return None
    return min(_start(instant, window) for window in windows)


def _is_final(query: Query, at: int, watermark: int | None) -> bool:
    """Whether no event can enter the windows any more that a query has at an instant."""
    if watermark is None:
        return False
    instant = _floor(at, *_slide(query))
    windows = [call.window for call in query.calls] + ([query.window] if query.window else [])
    ends = [
        _settled(instant, window) - window.to if window.is_time else instant
        for window in windows
        if window.to < window.size
    ]
    return all(end <= watermark for end in ends)


def _is_complete(standing: _Standing, row: _Row) -> bool:
    """Whether all the row looks at came after its query, and nothing of it is missing."""
    return is_known(standing, row.reach)


def is_known(standing: _Standing, reach: int | None) -> bool:
    """The same of windows that start at `reach`; None if one of them counts events."""
    since, unknown = standing.since, standing.log.unknown
    if since is None and unknown is None:
        return True
    return reach is not None and (since is None or reach > since) and (unknown is None or reach >= unknown)


def _measure(call: Call, events: list[Event]) -> Measured:
    """One aggregate over the events in its window."""
    if call.filter is not None:
        events = [event for event in events if event.values[call.filter.sql] is True]
    if call.argument is None:
        return Measured(len(events))
    values = [event.values[call.argument.sql] for event in events]
    kind = call.argument.type
    return aggregate(call.function, [value for value in values if value is not None], kind, call.parameters)


def _fill_in(expression: Expression, log: _Log) -> None:
    """Evaluate a row expression for the events that do not have its value yet, as one batch."""
    missing = [event for event in log.events if expression.sql not in event.values]
    if missing:
        batch = {
            each.name: pa.array([event.values[each.name] for event in missing], each.type)
            for each in log.stream.schema
        }
        for event, value in zip(missing, _listed(expression.evaluate(batch)), strict=True):
            event.values[expression.sql] = value


def _parts(query: Query, rows: list[_Row]) -> dict[str, Any]:
    """The keys and the answers of the calls, by the names that expressions over answers have for them."""
    parts = {
        key.name: pa.array([row.key[place] for row in rows], key.expression.type)
        for place, key in enumerate(query.keys)
    }
    for place, call in enumerate(query.calls):
        kind = answer_type(call.function, call.argument.type if call.argument else None)
        parts[f"${place}"] = pa.array([row.calls[place].value for row in rows], kind)
    return parts


def _selected(query: Query, rows: list[_Row]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Of each row, what HAVING says and the values of SELECT; `NO_VALUE` for what does not exist."""
    parts = _parts(query, rows)
    passes = _of_each(query.having, parts, rows) if query.having else [True] * len(rows)
    columns = [_of_each(output.expression, parts, rows) for output in query.outputs]
    names = [each.name for each in (*query.outputs, *query.keys)]
    columns += [_listed(parts[key.name]) for key in query.keys]
    found = zip(*columns, strict=True)
    return passes, [dict(zip(names, values, strict=True)) for values in found]


def _first(query: Query, rows: list[_Row]) -> list[_Row]:
    """ORDER BY and LIMIT at one instant, if there are any: of the rows that pass HAVING and have all their values the
    first, in order; with those that lack a value and stand before the last of them, or of which HAVING has none."""
    if query.top is None or not rows:
        return rows
    there = [
        (row, values, passes is NO_VALUE or NO_VALUE in shown.values())
        for row, values, passes, shown in zip(
            rows, _ranked(query, rows), *_selected(query, rows), strict=True
        )
        if passes is NO_VALUE or (passes is True and NO_VALUE not in values)
    ]
    for place in reversed(range(len(query.keys))):  # the last that is sorted by counts most
        there.sort(key=lambda each, place=place: _rank(each[0].key[place], False))
    for place, (_, descends) in reversed(list(enumerate(query.top.by))):
        there.sort(key=lambda each, place=place, descends=descends: _rank(each[1][place], descends))
    found, many = [], 0
    for row, _, is_lost in there:
        if many < query.top.limit:
            found.append(row)
            many += not is_lost
    return found


def _ranked(query: Query, rows: list[_Row]) -> list[tuple[Any, ...]]:
    """Of each row, what ORDER BY names."""
    if query.top is None:
        return [()] * len(rows)
    parts = _parts(query, rows)
    return list(zip(*(_of_each(expression, parts, rows) for expression, _ in query.top.by), strict=True))


def _rank(value: Any, descends: bool) -> tuple[Any, ...]:
    """What a value is sorted by: NULL last either way, NaN above all numbers."""
    if value is None or value is NO_VALUE:
        return (1,)
    if isinstance(value, str):
        return (0, _Reversed(value) if descends else value)
    if isinstance(value, datetime):
        value = microseconds(value)
    is_nan = isinstance(value, float) and math.isnan(value)
    return (0, -is_nan, 0 if is_nan else -value) if descends else (0, is_nan, 0 if is_nan else value)


class _Reversed(str):
    """A text that comes after those it comes before."""

    def __lt__(self, other: str) -> bool:
        return str(other) < str(self)


def _add(answer: Answer, standing: _Standing, row: _Row, values: dict[str, Any]) -> None:
    """A row of an answer, with its keys first."""
    keys = {key.name: values[key.name] for key in standing.query.keys}
    bounds = {"window_start": _datetime(row.start), "window_end": _datetime(row.end)}
    answer.rows.append({**keys, **values, **bounds, "complete": _is_complete(standing, row) or None})
    answer.slack.append({o.name: _slack(o.expression, row.calls) for o in standing.query.outputs})


def _of_each(expression: Expression, parts: dict[str, Any], rows: list[_Row]) -> list[Any]:
    """An expression over the answers of each row; row by row, if it does not exist for all of them."""
    try:
        values = _listed(expression.evaluate(parts))
    except MuntinError:
        if len(rows) == 1:
            return [NO_VALUE]
        values = []
        for number, row in enumerate(rows):
            values += _of_each(
                expression, {name: part.slice(number, 1) for name, part in parts.items()}, [row]
            )
    read = [int(name[1:]) for name in expression.columns if name.startswith("$")]
    return [
        value if all(row.calls[number].exists for number in read) else NO_VALUE
        for value, row in zip(values, rows, strict=True)
    ]


def _listed(column: Any) -> list[Any]:
    return list(column.to_pylist())


def _slack(output: Expression, calls: list[Measured]) -> float:
    """What the calls in an output allow it; exact for a bare call, which is what wild numbers are used in."""
    used = [calls[int(name[1:])] for name in output.columns if name.startswith("$")]
    return math.fsum(call.slack for call in used) if used else NOTHING.slack
