"""The oracle for joins: every pair of events, tried one by one, at every instant anew.

>>> from reference import ReferenceEngine
>>> reference = ReferenceEngine()
>>> reference.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts")
>>> reference.execute("CREATE STREAM b (ts TIMESTAMP, k BIGINT, y BIGINT) TIMESTAMP BY ts")
>>> reference.register("SELECT y FROM a [RANGE 9 SECONDS] JOIN b [RANGE 9 SECONDS] ON a.k = b.k", name="j")
>>> reference.push("a", {"ts": [1, 2], "k": [7, 8]})
>>> reference.push("b", {"ts": [3, 4], "k": [8, 8], "y": [30, 40]})
>>> [row["y"] for row in reference.lookup("j").rows]
[30, 40]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.join_query import JoinQuery

if TYPE_CHECKING:
    from reference import Answer, Event, _Log

    Pair = tuple[Event, Event]


@dataclass
class StandingJoin:
    """A registered join, and where it is in emitting. Times are None where there was no event yet."""

    query: JoinQuery
    left: _Log
    right: _Log
    reached: int | None  # it emitted all that closed up to here
    since: tuple[int | None, int | None]  # greatest event time of each stream when it came
    began: int | None  # `reached` when it came

    @property
    def watermark(self) -> int | None:
        marks = [self.left.watermark, self.right.watermark]
        return None if None in marks else min(marks)  # type: ignore[type-var]

    @property
    def saw_all(self) -> bool:
        return self.since == (None, None)

    def lookup(self, at: int | None) -> Answer:
        from reference import Answer

        greatest = [log.greatest for log in (self.left, self.right) if log.greatest is not None]
        instant = at if at is not None else max(greatest) + 1 if greatest else None
        answer = Answer(self.query, self.saw_all)  # type: ignore[arg-type]
        if instant is not None:
            instant = instant // self.query.slide * self.query.slide if self.query.slide else instant
            self._add(answer, instant, self.visible(self.pairs(), instant))
        elif self.query.fold is not None and not self.query.keys:
            self._add(answer, 0, [])
            answer.rows[0] |= {"window_start": None, "window_end": None}
        return answer

    def advance(self, until: int | None) -> Answer | None:
        """Everything that closed since the last call."""
        from reference import Answer

        reached = self.watermark if until is None else until
        if reached is None or (self.reached is not None and reached <= self.reached):
            return None
        firsts = [event.at for log in (self.left, self.right) for event in log.events]
        if not firsts or reached <= min(firsts):
            return None
        answer = Answer(self.query, self.saw_all)  # type: ignore[arg-type]
        begin = min(firsts) if self.reached is None else max(min(firsts), self.reached)
        slide = self.query.slide
        instants = range((begin // slide + 1) * slide, reached + 1, slide) if slide else [reached]
        pairs = self.pairs()
        for instant in instants:
            if self.query.emits_changes:
                self._add_changes(answer, pairs, instant)
            else:
                self._add(answer, instant, self.visible(pairs, instant))
        self.reached = reached
        return answer

    def _leaves_at(self, pair: Pair) -> int:
        """The first instant, of all or of the slides, at which the pair is no longer seen."""
        instant = max(event.at for event in pair) + 1
        step = self.query.slide or 1
        instant = -(-instant // step) * step
        while not self.visible([pair], instant):  # TO: not in the windows yet
            instant += step
        if step == 1:
            sizes = [side.window.size for side in self.query.sides]
            return min(event.at + size for event, size in zip(pair, sizes, strict=True)) + 1
        while self.visible([pair], instant):
            instant += step
        return instant

    def _add_changes(self, answer: Answer, pairs: list[Pair], instant: int) -> None:
        from reference import _datetime

        before = instant - self.query.slide if self.query.slide else self.reached
        is_first = (
            before is None or before == self.began
            if not self.query.slide
            else (
                self.began is not None and before <= self.began  # type: ignore[operator]
            )
        )
        then = [] if is_first or before is None else self.visible(pairs, before)
        now = self.visible(pairs, instant)
        changed = [(pair, "enter") for pair in now if not _is_in(pair, then)]
        changed += [(pair, "leave") for pair in then if not _is_in(pair, now)]
        changed = [(pair, change) for pair, change in changed if self._plain([pair])[0]]
        changed.sort(key=lambda each: (each[1] != "leave", self._place(each[0])))
        many = len(answer.rows)
        self._add(answer, instant, [pair for pair, _ in changed])
        for row, (pair, change) in zip(answer.rows[many:], changed, strict=True):
            row["change"], row["leaves_at"] = change, _datetime(self._leaves_at(pair))

    def pairs(self) -> list[Pair]:
        """All pairs that there ever were, in order."""
        return sorted(self._passing(list(self._matching())), key=self._place)

    def _place(self, pair: Pair) -> tuple[Any, ...]:
        """What a pair's row is ordered by: with SLIDE, the slide that sees it first, then how long it is seen."""
        if not self.query.slide or self.query.fold is not None:
            return _order(pair)
        windows = [side.window for side in self.query.sides]
        enters = max(event.at + window.to for event, window in zip(pair, windows, strict=True))
        leaves = min(event.at + window.size for event, window in zip(pair, windows, strict=True))
        return enters // self.query.slide, -leaves, *_order(pair)

    def visible(self, pairs: list[Pair], instant: int) -> list[Pair]:
        """Those with both events in their windows."""
        windows = self.query.left.window, self.query.right.window
        return [
            pair
            for pair in pairs
            if all(_holds(window, event.at, instant) for window, event in zip(windows, pair, strict=True))
        ]

    def _matching(self) -> Iterator[Pair]:
        from reference import _fill_in

        for left, right in self.query.on:
            _fill_in(left, self.left)
            _fill_in(right, self.right)
        for one in self.left.events:
            for other in self.right.events:
                if all(
                    _equal(one.values[left.sql], other.values[right.sql]) for left, right in self.query.on
                ):
                    yield one, other

    def _passing(self, pairs: list[Pair]) -> list[Pair]:
        if self.query.where is None:
            return pairs
        kept = self._evaluate(self.query.where, pairs)
        return [pair for pair, is_kept in zip(pairs, kept, strict=True) if is_kept is True]

    def _evaluate(self, expression: Expression, pairs: list[Pair]) -> list[Any]:
        """Of each pair; NO_VALUE where there is none."""
        from reference import NO_VALUE

        columns = {"#": pa.array(range(len(pairs)), pa.int64())}
        for number, side in enumerate(self.query.sides):
            for name in side.stream.schema.names:
                values = [pair[number].values[name] for pair in pairs]
                kind = side.stream.schema.field(name).type
                columns[f"{side.name}.{name}"] = pa.array(values, kind)
        try:
            return list(expression.evaluate(columns).to_pylist())
        except MuntinError:
            if len(pairs) == 1:
                return [NO_VALUE]
            return [value for pair in pairs for value in self._evaluate(expression, [pair])]

    def _add(self, answer: Answer, instant: int, pairs: list[Pair]) -> None:
        """The rows of one instant."""
        from reference import _datetime

        left, right = self.query.left.window, self.query.right.window
        tail = {
            "window_start": _datetime(instant - max(left.size, right.size)),
            "window_end": _datetime(instant - min(left.to, right.to)),
            "complete": self._is_complete(instant) or None,
        }
        if not pairs and (self.query.fold is None or self.query.keys):
            return
        rows, slack = self._folded(pairs) if self.query.fold is not None else self._plain(pairs)
        answer.rows += [{**row, **tail} for row in rows]
        answer.slack += slack

    def _plain(self, pairs: list[Pair]) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
        from reference import NO_VALUE

        columns = {each.name: self._evaluate(each.expression, pairs) for each in self.query.outputs}
        rows = [{name: column[at] for name, column in columns.items()} for at in range(len(pairs))]
        rows = [row for row in rows if NO_VALUE not in row.values()]
        return rows, [{} for _ in rows]

    def _folded(self, pairs: list[Pair]) -> tuple[list[dict[str, Any]], list[dict[str, float]]]:
        """GROUP BY and aggregates: pairs as events that are all in the window."""
        from reference import NO_VALUE, Event, ReferenceEngine, _by_key, _Log, _measure, _Row, _Standing

        assert self.query.fold is not None
        fold = replace(
            self.query.fold, calls=self.query.fold.calls[:-1], outputs=self.query.fold.outputs[:-1]
        )
        wanted = [key.expression for key in fold.keys]
        wanted += [each for call in fold.calls for each in (call.argument, call.filter) if each is not None]
        values = {each.sql: self._evaluate(each, pairs) for each in wanted}
        events = [
            Event(0, number, {sql: column[number] for sql, column in values.items()})
            for number in range(len(pairs))
        ]
        keys, inputs = (
            [each.sql for each in wanted[: len(fold.keys)]],
            [each.sql for each in wanted[len(fold.keys) :]],
        )
        events = [event for event in events if all(event.values[sql] is not NO_VALUE for sql in keys)]
        rows = [
            _Row(key, [_measure(call, own) for call in fold.calls], 0, 0, 0)
            for key, own in _by_key(fold, events).items()
            if all(event.values[sql] is not NO_VALUE for event in own for sql in inputs)
        ]
        answer = ReferenceEngine()._answer(_Standing(fold, _Log(fold.stream), None, None), rows)
        for row in answer.rows:
            del row["window_start"], row["window_end"], row["complete"]
        return answer.rows, answer.slack

    def _is_complete(self, instant: int) -> bool:
        """Whether all that is looked at came after the query."""
        starts = [instant - side.window.size for side in self.query.sides]
        return all(since is None or start > since for start, since in zip(starts, self.since, strict=True))


def _holds(window: Any, at: int, instant: int) -> bool:
    return bool(instant - window.size <= at < instant - window.to)


def _equal(one: Any, other: Any) -> bool:
    """SQL's =, where NaN equals NaN; NULL equals nothing."""
    if one is None or other is None:
        return False
    return one == other or (one != one and other != other)


def _order(pair: Pair) -> tuple[int, ...]:
    left, right = pair
    return max(left.at, right.at), left.at, left.arrival, right.at, right.arrival


def _is_in(pair: Pair, pairs: list[Pair]) -> bool:
    return any(pair[0] is left and pair[1] is right for left, right in pairs)
