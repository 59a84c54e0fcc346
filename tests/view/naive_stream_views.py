"""Views of one stream, queries that stand over views, and the oracle: all events in a list, each answer found by
looking at all of them. Nothing here comes from muntin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

SECOND = 1_000_000
EVERY = 2
STREAMS = """
CREATE STREAM a (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS;
CREATE STREAM b (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts
"""
KEYS = ("p", "q", "r", None)
VIEWS = {
    "sel": "SELECT k, n * 2 AS twice, n FROM a [RANGE 10 SECONDS] WHERE n <> 3",
    "selrows": "SELECT k, n FROM a [ROWS 5] WHERE n <> 3",
    "dis": "SELECT DISTINCT k, n > 2 AS high FROM a [RANGE 10 SECONDS] WHERE n <> 1",
    "agg": "SELECT k, COUNT(*) AS c, MAX(n) AS m FROM a [RANGE 10 SECONDS] GROUP BY k HAVING COUNT(*) > 1",
    "still": "SELECT k, MAX(n) - MAX(n) AS nought FROM a [RANGE 4 SECONDS] GROUP BY k",
    "lone": "SELECT COUNT(*) AS c, SUM(n) AS t FROM a [RANGE 6 SECONDS]",
    "pairs": "SELECT a.k, a.n, b.n AS m FROM a [RANGE 10 SECONDS] JOIN b [RANGE 6 SECONDS] ON a.k = b.k",
    "except": "SELECT k, n FROM a [RANGE 10 SECONDS] EXCEPT SELECT k FROM b [RANGE 4 SECONDS]",
}
Row = tuple[Any, ...]
Event = tuple[int, Any, int]


def statement(view: str) -> str:
    return f'CREATE MATERIALIZED VIEW "{view}" AS {VIEWS[view]} EVERY {EVERY} SECONDS'


class Standing(NamedTuple):
    """A query over a view; `answer` makes its rows of those of the view over windows of `size` seconds (or events)."""

    view: str
    sql: str
    answer: Callable[[list[Row]], Iterable[Row]]
    size: int | None = None
    slide: int = EVERY
    is_always: bool = False  # a row of nothing, too
    changes: bool = False
    waits: int = 0  # seconds until it knows its window, if it is registered late: it reads the stream


def by_key(rows: list[Row], value: Callable[[list[Row]], Row]) -> list[Row]:
    """A row for each value of the first column."""
    return [(key, *value([row for row in rows if row[0] == key])) for key in {row[0] for row in rows}]


def least(many: int) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [each for each in by_key(rows, lambda some: (len(some),)) if each[1] >= many]


QUERIES = {
    "written": Standing(
        "sel",
        "SELECT k, COUNT(*) AS c, SUM(twice) AS t FROM sel GROUP BY k",
        lambda rows: by_key(rows, lambda some: (len(some), sum(row[1] for row in some))),
        waits=10,
    ),
    "cut": Standing(
        "sel",
        "SELECT k, COUNT(*) AS c FROM sel [RANGE 4 SECONDS] WHERE twice > 3 GROUP BY k HAVING COUNT(*) >= 2",
        lambda rows: least(2)([row for row in rows if row[1] > 3]),
        4,
        waits=4,
    ),
    "slower": Standing(
        "sel",
        "SELECT COUNT(*) AS c FROM sel [RANGE 6 SECONDS SLIDE 4 SECONDS]",
        lambda rows: [(len(rows),)],
        6,
        4,
        is_always=True,
        waits=6,
    ),
    "events": Standing(
        "sel",
        "SELECT k, n FROM sel [RANGE 4 SECONDS] WHERE n > 1",
        lambda rows: [(row[0], row[2]) for row in rows if row[2] > 1],
        4,
    ),
    "counted": Standing(
        "selrows",
        "SELECT COUNT(*) AS c, MAX(n) AS m FROM selrows [ROWS 3]",
        lambda rows: [(len(rows), max((row[1] for row in rows), default=None))],
        3,
        is_always=True,
    ),
    "values": Standing("dis", "SELECT k, high FROM dis [RANGE 4 SECONDS]", lambda rows: rows, 4),
    "many": Standing("dis", "SELECT COUNT(*) AS c FROM dis", lambda rows: [(len(rows),)], is_always=True),
    "groups": Standing(
        "agg",
        "SELECT COUNT(*) AS c, SUM(m) AS t FROM agg WHERE c > 2",
        lambda rows: [
            (
                sum(row[1] > 2 for row in rows),
                sum(row[2] for row in rows if row[1] > 2) if any(row[1] > 2 for row in rows) else None,
            )
        ],
        is_always=True,
    ),
    "moves": Standing(
        "agg",
        "SELECT k, m FROM agg EMIT CHANGES",
        lambda rows: [(row[0], row[2]) for row in rows],
        changes=True,
    ),
    "alone": Standing(
        "lone", "SELECT c + 1 AS c, t FROM lone", lambda rows: [(row[0] + 1, row[1]) for row in rows]
    ),
    "paired": Standing(
        "pairs", "SELECT k, COUNT(*) AS c FROM pairs [RANGE 4 SECONDS] GROUP BY k", least(1), 4
    ),
    "unequal": Standing(
        "pairs",
        "SELECT k, n, m FROM pairs WHERE n > m",
        lambda rows: [row for row in rows if row[1] > row[2]],
    ),
    "pair moves": Standing(
        "pairs",
        "SELECT n, m FROM pairs [RANGE 4 SECONDS] EMIT CHANGES",
        lambda rows: [row[1:] for row in rows],
        4,
        changes=True,
    ),
    "unmatched": Standing("except", 'SELECT k, COUNT(*) AS c FROM "except" GROUP BY k', least(1)),
    "unmatched moves": Standing(
        "except", 'SELECT n FROM "except" EMIT CHANGES', lambda rows: [row[1:] for row in rows], changes=True
    ),
}


class Twin:
    """All events by stream, in the order they came."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = {"a": [], "b": []}
        self.promised: int | None = None  # the second that time has reached for sure

    def draw(self, random: Random, since: int, until: int) -> dict[str, dict[str, list[Any]]]:
        """Batches of events between two seconds, with ties, those of `a` in any order; one may be late, and is only
        pushed."""
        batches = {}
        for name in ("a", "b"):
            at = [random.randrange(since * 2, until * 2) * SECOND // 2 for _ in range(random.randrange(6))]
            latest = max((event[0] for event in self.events["a"]), default=0)
            at = sorted(at) if name == "b" else at
            kept: list[Event] = []
            for each in at:
                latest = max(latest, each)
                each = each if name == "b" else max(each, latest - 2 * SECOND)
                kept.append((each, random.choice(KEYS), random.randrange(6)))
            self.events[name] += kept
            if kept and self.promised is not None and random.random() < 0.3:
                kept = [*kept, (self.promised * SECOND - 1, "p", 5)]
            batches[name] = {
                column: [event[place] for event in kept] for place, column in enumerate(("ts", "k", "n"))
            }
        return batches

    def window(self, name: str, now: int, seconds: int) -> list[Event]:
        return [each for each in self.events[name] if (now - seconds) * SECOND <= each[0] < now * SECOND]

    def content(self, view: str, now: int, size: int | None = None) -> list[Row]:
        """The rows of a view at an instant, in seconds, perhaps over smaller windows."""
        ten = min(10, size or 10)
        if view == "sel":
            return [(k, n * 2, n) for _, k, n in self.window("a", now, ten) if n != 3]
        if view == "selrows":
            seen = sorted(
                (each for each in self.window("a", now, 10**6) if each[2] != 3), key=lambda each: each[0]
            )
            return [(k, n) for _, k, n in seen[-(size or 5):]]  # fmt: skip
        if view == "dis":
            return list({(k, n > 2) for _, k, n in self.window("a", now, ten) if n != 1})
        if view == "agg":
            rows = by_key(
                [each[1:] for each in self.window("a", now, 10)],
                lambda some: (len(some), max(row[1] for row in some)),
            )
            return [row for row in rows if row[1] > 1]
        if view == "still":
            return [(key, 0) for key in {each[1] for each in self.window("a", now, 4)}]
        if view == "lone":
            numbers = [each[2] for each in self.window("a", now, 6)]
            return [(len(numbers), sum(numbers) if numbers else None)]
        left, right = self.window("a", now, ten), self.window("b", now, min(6, size or 6))
        if view == "pairs":
            return [(x[1], x[2], y[2]) for x in left for y in right if x[1] is not None and x[1] == y[1]]
        blocked = {each[1] for each in self.window("b", now, 4)} - {None}
        return [(k, n) for _, k, n in left if k not in blocked]


class Followed:
    """What a standing query must have said, instant by instant, since it was registered at a second."""

    def __init__(self, query: Standing, registered: int | None, twin: Twin):
        self.query, self.twin = query, twin
        self.reached = registered
        self.knows_from = (registered or -(10**6)) + (query.waits if registered is not None else 0)
        self.before: Counter[Row] = Counter()

    def expected(self, until: int) -> dict[int, Counter[Row]]:
        """Rows by instant, up to one; of EMIT CHANGES, those that come and go with a word."""
        slide, found = self.query.slide, {}
        seen = [each for each in self.twin.events["a"] if self.query.view != "selrows" or each[2] != 3]
        first = min((each[0] for each in seen), default=until * SECOND) // SECOND
        begin = first if self.reached is None else max(first, self.reached)
        for now in range(begin // slide * slide + slide, until + 1, slide):
            rows = Counter(self.query.answer(self.twin.content(self.query.view, now, self.query.size)))
            told = rows
            if self.query.changes:
                come, gone = rows - self.before, self.before - rows
                told = Counter({(*row, "enter"): many for row, many in come.items()})
                told.update({(*row, "leave"): many for row, many in gone.items()})
                self.before = rows
            if told and now >= self.knows_from:
                found[now] = told
        self.reached = max(until, begin)
        return found
