"""The oracle for joins with tables: every event with every row, at every instant anew, with the table as it was then.

A table keeps all its versions, each with the watermarks that the streams had when it came. Nothing is known here of
state by key, of merging, or of which rows have changed.

>>> from reference import ReferenceEngine
>>> reference = ReferenceEngine()
>>> reference.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts")
>>> reference.execute("CREATE TABLE t (k BIGINT, most BIGINT, PRIMARY KEY (k))")
>>> reference.load("t", {"k": [1, 2], "most": [10, 99]})
>>> text = "SELECT s.k, SUM(s.v) AS total, t.most FROM s [RANGE 9 SECONDS] JOIN t ON s.k = t.k GROUP BY s.k"
>>> reference.register(f"{text} HAVING SUM(s.v) > t.most", name="q")
>>> reference.push("s", {"ts": [1, 2, 3], "k": [1, 2, 1], "v": [7, 50, 8]})
>>> [(row["k"], row["total"], row["most"]) for row in reference.lookup("q").rows]
[(1, 15, 10)]
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from aggregates import Measured, answer_type
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.table import Table
from muntin.table_query import TableQuery, TableSide
from muntin.window import Window
from reference_join import _equal

if TYPE_CHECKING:
    from reference import Answer, Event, _Log

Key = tuple[Any, ...]
Values = dict[str, Any]  # one row of a table

_CREATE = re.compile(r"CREATE TABLE (\w+) \((.*), PRIMARY KEY \((.*)\)\)\s*;?\s*$", re.I)


@dataclass
class Version:
    """The rows of a table after a change, by primary key in the order of insertion."""

    rows: dict[Key, Values]
    after: dict[str, int | None]  # the watermark of each stream when the change was applied


@dataclass
class TableLog:
    """A table and all that it has ever been."""

    table: Table
    versions: list[Version] = field(default_factory=lambda: [Version({}, {})])

    def change(self, rows: dict[Key, Values], watermarks: Mapping[str, int | None]) -> None:
        self.versions.append(Version(rows, dict(watermarks)))

    def load(self, columns: Mapping[str, Sequence[Any]], watermarks: Mapping[str, int | None]) -> None:
        rows = dict(self.versions[-1].rows)
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            rows[tuple(row[name] for name in self.table.key)] = row
        self.change(rows, watermarks)

    def delete(self, goes: Callable[[Values], bool], watermarks: Mapping[str, int | None]) -> None:
        rows = {key: row for key, row in self.versions[-1].rows.items() if not goes(row)}
        self.change(rows, watermarks)

    def rewind(self, stream: str) -> None:
        """All instants of the stream see the table as it is."""
        for version in self.versions:
            version.after[stream] = None

    def at(self, stream: str, instant: int | None) -> list[Values]:
        """The rows that an instant of a stream sees: instants up to the watermark of a change use what was before."""
        seen = [
            version
            for version in self.versions
            if instant is None or (mark := version.after.get(stream)) is None or mark < instant
        ]
        return list(seen[-1].rows.values())


@dataclass
class Joined:
    """An event with one row of each table, None where a LEFT JOIN has none; the event is None in silence."""

    event: Event | None
    rows: tuple[Values | None, ...]


@dataclass
class _Group:
    """What GROUP BY puts together: its events in order, and its rows. Of a group that is gone, only the key."""

    key: Key
    events: list[Event]
    rows: tuple[Values | None, ...]


@dataclass
class _Made:
    """A group's row of the answer, before HAVING."""

    group: _Group
    calls: list[Measured]
    start: int | None
    end: int | None
    reach: int | None
    is_there: bool  # whether it has an answer, as far as HAVING lets it


@dataclass
class StandingTableQuery:
    """A registered join with tables, and where it is in emitting."""

    query: TableQuery
    log: _Log
    tables: Mapping[str, TableLog]
    reached: int | None  # it emitted all that closed up to here
    since: int | None  # greatest event time when it came; None if it saw the whole stream
    inside: dict[Key, None] = field(default_factory=dict)  # EMIT CHANGES: the keys that are in

    # The instants

    def nothing(self) -> Answer:
        """An answer without rows."""
        from reference import Answer

        return Answer(self.query, self.since is None)  # type: ignore[arg-type]

    def lookup(self, key: Any, at: int | None) -> Answer:
        """As of `at`, with the tables as they are now."""
        from reference import Answer

        instant = at if at is not None else None if self.log.greatest is None else self.log.greatest + 1
        answer = Answer(self.query, self.since is None)  # type: ignore[arg-type]
        made = self._made(instant, None)
        if key is not None:
            asked = {
                each if isinstance(each, tuple) else (each,)
                for each in (key if isinstance(key, list) else [key])
            }
            made = [each for each in made if each.group.key in asked]
        self._add(answer, [each for each in made if each.is_there])
        return answer

    def advance(self, until: int | None) -> Answer | None:
        """Everything that closed since the last call."""
        from reference import Answer, _instants, _Standing

        reached = self.log.watermark if until is None else until
        if reached is None or (self.reached is not None and reached <= self.reached):
            return None
        answer = Answer(self.query, self.since is None)  # type: ignore[arg-type]
        standing = _Standing(self.query.source, self.log, self.reached, self.since)
        has_begun = bool(self.log.events) or self.log.begun is not None
        for instant in _instants(standing, self.log, reached) if has_begun else []:
            made = self._made(instant, instant)
            if self.query.emits_changes:
                self._add_changes(answer, made, instant)
            else:
                self._add(answer, [each for each in made if each.is_there])
        self.reached = reached
        return answer

    # What is in a group at an instant

    def _made(self, instant: int | None, seen_at: int | None) -> list[_Made]:
        """All groups at an instant, in order; the tables are those that `seen_at` sees, None sees them as they are."""
        from reference import _floor, _slide

        query = self.query
        if instant is None and query.keys:  # before the first event
            return []
        if instant is not None:
            instant = _floor(instant, *_slide(query.source))
        tables = [self._rows(side, seen_at) for side in query.sides]
        return [self._measured(group, instant) for group in self._groups(self._joined(tables))]

    def _rows(self, side: TableSide, seen_at: int | None) -> list[Values]:
        return self.tables[side.table.name].at(self.log.stream.name, seen_at)

    def _joined(self, tables: list[list[Values]]) -> list[Joined]:
        """Every event that passes, in order, with every combination of rows that it is equal to."""
        from reference import _fill_in

        query = self.query
        for key in query.source.keys:
            _fill_in(key.expression, self.log)
        for call in query.source.calls:
            for each in (call.argument, call.filter):
                if each is not None:
                    _fill_in(each, self.log)
        if query.source.where is not None:
            _fill_in(query.source.where, self.log)
        some = [_passing(side, rows) for side, rows in zip(query.sides, tables, strict=True)]
        found = []
        for event in self.log.in_order:
            if query.source.where is not None and event.values[query.source.where.sql] is not True:
                continue
            choices = []
            for side, rows in zip(query.sides, some, strict=True):
                equal = [row for row in rows if self._is_equal(side, event, row)]
                choices.append(equal or ([None] if side.is_optional else []))
            found += [Joined(event, rows) for rows in itertools.product(*choices)]
        if query.is_table_first:
            found += [Joined(None, (row,)) for row in some[0]]
        if query.where is None or not found:
            return found
        kept = self._evaluate(query.where, found)
        return [each for each, is_kept in zip(found, kept, strict=True) if is_kept is True]

    def _is_equal(self, side: TableSide, event: Event, row: Values) -> bool:
        keys = self.query.source.keys
        return all(
            _equal(event.values[keys[number].expression.sql], row[column]) for number, column in side.on
        )

    def _groups(self, joined: list[Joined]) -> list[_Group]:
        """Joined rows by the values of GROUP BY; without GROUP BY there is one group, also of nothing."""
        query = self.query
        columns = [self._evaluate(key.expression, joined) for key in query.keys] if joined else []
        groups: dict[Key, _Group] = {} if query.keys else {(): _Group((), [], (None,) * len(query.sides))}
        for number, each in enumerate(joined):
            key = tuple(_one_nan(column[number]) for column in columns)
            group = groups.setdefault(key, _Group(key, [], each.rows))
            if each.event is not None:
                assert all(each.event is not other for other in group.events), "an event counts twice"
                group.events.append(each.event)
        return list(groups.values())

    def _window_of(self, window: Window, group: _Group) -> Window | None:
        """The window of a group; None if its row has none."""
        span = self.query.span
        if span is None or window is not self.query.source.window:
            return window
        row = group.rows[span.side]
        length = (
            None if row is None or row[span.column] is None else row[span.column] // timedelta(microseconds=1)
        )
        if length is None or not 0 < length <= span.most or length % span.step:
            return None
        return replace(window, size=length)

    def _measured(self, group: _Group, instant: int | None) -> _Made:
        from reference import _inside, _measure

        query = self.query.source
        windows = [query.window] if query.window is not None else [call.window for call in query.calls]
        own = [self._window_of(window, group) for window in windows]
        if instant is None or None in own:
            calls = [_measure(call, []) for call in query.calls]
            return _Made(group, calls, None, instant, None, instant is None and not self.query.keys)
        inside = [_inside(window, group.events, instant, None) for window in own if window is not None]
        calls = []
        for call in query.calls:
            window = self._window_of(call.window, group)
            calls.append(
                _measure(call, [] if window is None else _inside(window, group.events, instant, None))
            )
        is_there = not self.query.keys or self.query.is_table_first or any(inside)
        seen = replace(query, window=None if query.window is None else own[0])
        return _Made(group, calls, *_bounds(seen, inside[0], instant), _reach(seen, own, instant), is_there)

    # What is made of groups

    def _add(self, answer: Answer, made: list[_Made]) -> None:
        from reference import NO_VALUE

        for each, passes, values in self._selected(made):
            if passes is NO_VALUE or (passes is True and NO_VALUE in values.values()):
                answer.left_out += 1
            elif passes is True:
                self._add_row(answer, each, values)

    def _add_changes(self, answer: Answer, made: list[_Made], instant: int) -> None:
        """Who is in and was not, and who was in and is not, whatever the reason."""
        from reference import NO_VALUE

        known = {each.group.key for each in made}
        gone = [self._gone(key, instant) for key in self.inside if key not in known]
        for each, passes, values in self._selected([*made, *gone]):
            if each.is_there and passes is NO_VALUE:
                answer.left_out += 1
                continue
            is_in = each.is_there and passes is True
            if is_in == (each.group.key in self.inside):
                continue
            if NO_VALUE in values.values():
                answer.left_out += 1
                continue
            self._add_row(answer, each, values | {"change": "enter" if is_in else "leave"})
            if is_in:
                self.inside[each.group.key] = None
            else:
                del self.inside[each.group.key]

    def _gone(self, key: Key, instant: int) -> _Made:
        """A group that no joined row is in any more: nothing but its key, and its rows if they are still there."""
        rows = []
        for side in self.query.sides:
            some = [row for row in self._rows(side, instant) if self._may_be_of(side, row, key)]
            rows.append(some[0] if len(some) == 1 else None)
        made = self._measured(_Group(key, [], tuple(rows)), instant)
        made.is_there = False
        return made

    def _may_be_of(self, side: TableSide, row: Values, key: Key) -> bool:
        """Whether a row says nothing else than the key of a group."""
        values = dict(zip((each.expression.sql for each in self.query.keys), key, strict=True))
        names = {f'"{each.name}"': number for number, each in enumerate(self.query.source.keys)}
        told = [(side_column, values[sql]) for sql, number in names.items() if sql in values
                for on, side_column in side.on if on == number]  # fmt: skip
        told += [
            (column, values[f"{side.name}.{column}"])
            for column in side.table.schema.names
            if f"{side.name}.{column}" in values
        ]
        return bool(told) and all(_equal(row[column], value) for column, value in told)

    def _selected(self, made: list[_Made]) -> list[tuple[_Made, Any, Values]]:
        """Of each group, what HAVING says and the values of SELECT."""
        from reference import _of_each

        query = self.query
        if not made:
            return []
        parts = {
            key.name: pa.array([each.group.key[place] for each in made], key.expression.type)
            for place, key in enumerate(query.keys)
        }
        for place, call in enumerate(query.source.calls):
            kind = answer_type(call.function, call.argument.type if call.argument else None)
            parts[f"${place}"] = pa.array([each.calls[place].value for each in made], kind)
        parts |= self._columns([each.group.rows for each in made])
        passes = _of_each(query.having, parts, made) if query.having else [True] * len(made)  # type: ignore[arg-type]
        columns = [_of_each(output.expression, parts, made) for output in query.outputs]  # type: ignore[arg-type]
        names = [output.name for output in query.outputs]
        found = []
        for number, each in enumerate(made):
            keys = {key.name: each.group.key[place] for place, key in enumerate(query.keys)}
            values = {name: column[number] for name, column in zip(names, columns, strict=True)}
            found.append((each, passes[number], keys | values))
        return found

    def _add_row(self, answer: Answer, made: _Made, values: Values) -> None:
        from reference import _datetime, _slack

        is_complete = self.since is None or (made.reach is not None and made.reach > self.since)
        bounds = {"window_start": _datetime(made.start), "window_end": _datetime(made.end)}
        answer.rows.append({**values, **bounds, "complete": is_complete or None})
        answer.slack.append({each.name: _slack(each.expression, made.calls) for each in self.query.outputs})

    # Expressions over joined rows

    def _columns(self, rows: list[tuple[Values | None, ...]]) -> dict[str, pa.Array]:
        found = {}
        for place, side in enumerate(self.query.sides):
            for each in side.table.schema:
                values = [None if row[place] is None else row[place][each.name] for row in rows]  # type: ignore[index]
                found[f"{side.name}.{each.name}"] = pa.array(values, each.type)
        return found

    def _evaluate(self, expression: Expression, joined: list[Joined]) -> list[Any]:
        columns = self._columns([each.rows for each in joined])
        for key in self.query.source.keys:
            values = [
                None if each.event is None else each.event.values[key.expression.sql] for each in joined
            ]
            columns[key.name] = pa.array(values, key.expression.type)
        return list(expression.evaluate(columns).to_pylist())


def _passing(side: TableSide, rows: list[Values]) -> list[Values]:
    """The rows that take part: for which what ON and WHERE say of the table alone is true."""
    if side.where is None or not rows:
        return rows
    columns = {each.name: pa.array([row[each.name] for row in rows], each.type) for each in side.table.schema}
    kept = side.where.evaluate(columns).to_pylist()
    return [row for row, is_kept in zip(rows, kept, strict=True) if is_kept is True]


def _bounds(query: Any, inside: list[Event], instant: int) -> tuple[int | None, int | None]:
    from reference import _bounds

    return _bounds(query, inside, instant)


def _reach(query: Any, own: list[Window | None], instant: int) -> int | None:
    from reference import _start

    windows = [*(call.window for call in query.calls), *own]
    if not all(window is not None and window.is_time for window in windows):
        return None
    return min(_start(instant, window) for window in windows)


def _one_nan(value: Any) -> Any:
    return float("nan") if value != value else value


def declared_table(sql: str, types: Mapping[str, pa.DataType]) -> Table:
    """The table of a CREATE TABLE statement."""
    match = _CREATE.match(" ".join(sql.split()))
    if match is None:
        raise MuntinError(f"the reference cannot read: {sql}")
    name, columns, key = match.groups()
    fields = [column.split() for column in columns.split(",")]
    schema = pa.schema([(column, types[kind.upper()]) for column, kind in fields])
    return Table(name, schema, tuple(each.strip() for each in key.split(",")))
