"""Joins with tables against the reference: events late and out of order, rows that come, change and go between pushes,
answers asked for late, registration and removal, and a restart at any point."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from answers import assert_same_answer
from effort import some_of
from muntin import Engine
from reference import ReferenceEngine

SECOND = 1_000_000
STREAM = "CREATE STREAM p (ts BIGINT, k BIGINT, g VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
TABLES = {
    "t": "CREATE TABLE t (k BIGINT, most BIGINT, tier VARCHAR, PRIMARY KEY (k))",
    "r": "CREATE TABLE r (id BIGINT, k BIGINT, g VARCHAR, floor BIGINT, PRIMARY KEY (id))",
    "u": "CREATE TABLE u (id BIGINT, k BIGINT, span INTERVAL, floor BIGINT, PRIMARY KEY (id))",
}
W = "[RANGE 4 SECONDS SLIDE 1 SECOND]"
QUERIES = [
    f"SELECT p.k, SUM(p.v) AS s, t.most FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k HAVING SUM(p.v) > t.most",
    f"SELECT p.k, COUNT(*) AS n, t.tier FROM p {W} AS p JOIN t ON p.k = t.k WHERE tier = 'a' AND v > 1 GROUP BY p.k",
    f"SELECT p.k, p.g, MEDIAN(p.v) AS m, t.most FROM p {W} AS p LEFT JOIN t ON p.k = t.k AND t.tier <> 'b' "
    "WHERE t.tier IS NULL OR t.most > 1 GROUP BY p.k, p.g",
    f"SELECT r.id, SUM(p.v) AS s, COUNT(*) AS n FROM p {W} AS p JOIN r ON p.k = r.k AND p.g = r.g GROUP BY r.id "
    "HAVING SUM(p.v) > r.floor",
    f"SELECT r.id, t.most + r.floor AS x, LAST(p.v) AS l FROM p {W} AS p JOIN r ON p.k = r.k LEFT JOIN t ON p.k = t.k "
    "WHERE t.most IS NULL OR t.most < r.id + 3 GROUP BY r.id",
    "SELECT p.k, AVG(p.v) FILTER (WHERE p.g = 'a') OVER [RANGE 2 SECONDS SLIDE 1 SECOND] / t.most AS x "
    f"FROM p {W} AS p JOIN t USING (k) GROUP BY p.k",
    "SELECT p.k, COUNT(*) AS n, t.tier FROM p [RANGE 5 SECONDS TO 2 SECONDS SLIDE 2 SECONDS] AS p JOIN t ON p.k = t.k "
    "GROUP BY p.k HAVING COUNT(*) > t.most",
    # keys that are merged, and a query without any
    f"SELECT t.tier, COUNT(*) AS n, SUM(p.v) AS s, MAX(p.v) AS m FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY t.tier",
    f"SELECT t.tier, AVG(p.v) AS a FROM p {W} AS p LEFT JOIN t ON p.k = t.k GROUP BY t.tier HAVING COUNT(*) > 1",
    f"SELECT p.g, SUM(p.v) AS s FROM p {W} AS p JOIN t ON p.k = t.k WHERE t.most > 1 GROUP BY p.g",
    f"SELECT COUNT(*) AS n, SUM(p.v) AS s FROM p {W} AS p JOIN t ON p.k = t.k WHERE t.tier = 'a'",
    f"SELECT SUM(p.v) AS s FROM p {W} AS p JOIN t ON p.k = t.k HAVING COUNT(*) > 2",
    # every row of the table
    f"SELECT t.k, t.tier, COUNT(p.v) AS n, SUM(p.v) AS s FROM t LEFT JOIN p {W} AS p ON p.k = t.k GROUP BY t.k",
    f"SELECT t.k, COUNT(p.ts) AS n FROM t LEFT JOIN p {W} AS p ON p.k = t.k AND p.v > 0 WHERE t.tier = 'a' "
    "GROUP BY t.k HAVING COUNT(p.ts) = 0",
    f"SELECT t.tier, COUNT(p.ts) AS n FROM t LEFT JOIN p {W} AS p ON p.k = t.k GROUP BY t.tier",
    f"SELECT r.id, r.floor, MAX(p.v) AS m FROM r LEFT JOIN p {W} AS p ON p.k = r.k AND p.g = r.g GROUP BY r.id",
    # windows of rows
    "SELECT u.id, SUM(p.v) AS s, COUNT(*) AS n FROM p [RANGE u.span UP TO 4 SECONDS SLIDE 1 SECOND] AS p "
    "JOIN u ON p.k = u.k GROUP BY u.id HAVING COUNT(*) > u.floor",
    "SELECT u.id, MEDIAN(p.v) AS m, COUNT(*) OVER [RANGE 3 SECONDS SLIDE 1 SECOND] AS n "
    "FROM p [RANGE u.span UP TO 4 SECONDS STEP 2 SECONDS SLIDE 1 SECOND] AS p JOIN u ON p.k = u.k GROUP BY u.id",
    "SELECT u.id, u.span, COUNT(p.ts) AS n FROM u LEFT JOIN p [RANGE u.span UP TO 4 SECONDS SLIDE 2 SECONDS] AS p "
    "ON p.k = u.k GROUP BY u.id",
    # without SLIDE, and by rows
    "SELECT p.k, SUM(p.v) AS s, t.most FROM p [RANGE 3 SECONDS] AS p JOIN t ON p.k = t.k GROUP BY p.k",
    "SELECT p.k, SUM(p.v) AS s, t.most FROM p [ROWS 3] AS p JOIN t ON p.k = t.k GROUP BY p.k HAVING SUM(p.v) > t.most",
    "SELECT t.tier, COUNT(*) AS n FROM p [RANGE 3 SECONDS] AS p JOIN t ON p.k = t.k GROUP BY t.tier",
]  # fmt: skip
SPANS = [None, *(timedelta(milliseconds=each) for each in (-1000, 0, 500, 1000, 2000, 4000, 5000))]
TIERS, KEYS = ["a", "b", None], [1, 2, 3, None]
VALUES: dict[str, tuple[list[Any], ...]] = {  # of each column of a row
    "t": ([1, 2, 4], [0, 2, 5, None], TIERS),
    "r": ([1, 2, 3], KEYS, TIERS, [0, 4, None]),
    "u": ([1, 2, 3], KEYS, SPANS, [0, 1, None]),
}
EVENT: tuple[Any, ...] = (range(9), KEYS, TIERS, [0, 1, 5, None])
COLUMNS = {"t": ("k", "most", "tier"), "r": ("id", "k", "g", "floor"), "u": ("id", "k", "span", "floor")}


class Both:
    """An engine and the reference, told the same."""

    def __init__(self, folder: Path):
        self.engine, self.reference = Engine(), ReferenceEngine()
        self.path = folder / "state"
        for create in (STREAM, *TABLES.values()):
            self.engine.execute(create)
            self.reference.execute(create)
        self.now = 0  # greatest time of an event
        self.names: list[str] = []

    def register(self, text: str, with_changes: bool) -> None:
        name = f"q{len(self.names)}"
        self.names.append(name)
        text += " EMIT CHANGES" if with_changes else ""
        self.engine.register(text, name)
        self.reference.register(text, name=name)

    def push(self, events: list[tuple[Any, ...]]) -> None:
        times = [self.now + (event[0] - 2) * SECOND // 2 for event in events]
        self.now = max(self.now, *times)
        columns = dict(zip("kgv", zip(*(event[1:] for event in events), strict=True), strict=True))
        batch = {"ts": times, **{name: list(values) for name, values in columns.items()}}
        self.engine.push("p", batch)
        self.reference.push("p", batch)

    def load(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        columns = dict(zip(COLUMNS[table], map(list, zip(*rows, strict=True)), strict=True))
        self.engine.load(table, columns)
        self.reference.load(table, columns)

    def delete(self, table: str, key: int) -> None:
        column = COLUMNS[table][0]
        self.engine.execute(f"DELETE FROM {table} WHERE {column} = {key}")
        self.reference.delete(table, lambda row: row[column] == key)

    def restart(self) -> None:
        self.engine.checkpoint(self.path)
        self.engine = Engine.restore(self.path)

    def advance(self, until: int | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            told, wanted = self.engine.advance(until), self.reference.advance(until)
        for name in self.names:
            expected = wanted.get(name) or self.reference.table_joins[name].nothing()
            assert_same_answer(expected, told.get(name), f"advance({until})")

    def look(self) -> None:
        for name in self.names:
            assert_same_answer(self.reference.lookup(name), self.engine.lookup(name), "lookup")
        self.engine.check()


def drawn(random: Random, table: str, least: int) -> list[tuple[Any, ...]]:
    """Rows with different keys."""
    rows = [tuple(map(random.choice, VALUES[table])) for _ in range(random.randint(least, 4))]
    return list({row[0]: row for row in rows}.values())


def register(both: Both, random: Random, text: str) -> None:
    # of events before it came a query knows nothing, so that somebody may leave who never was in
    may_change = not both.now and ("GROUP BY" in text or "HAVING" in text)
    both.register(text, may_change and random.random() < 0.5)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
@pytest.mark.parametrize("seed", range(some_of(40, 25)))
def test_agreement(tmp_path: Path, query: str, seed: int) -> None:
    random = Random(1000 * QUERIES.index(query) + seed)
    both = Both(tmp_path)
    for table in TABLES:
        if rows := drawn(random, table, 0):
            both.load(table, rows)
    register(both, random, query)
    for _ in range(random.randint(1, 14)):
        match random.choice(
            ["push", "push", "push", "load", "delete", "advance", "look", "restart", "register"]
        ):
            case "push":
                both.push([tuple(map(random.choice, EVENT)) for _ in range(random.randint(1, 5))])
            case "load":
                table = random.choice(list(TABLES))
                both.load(table, drawn(random, table, 1))
            case "delete":
                both.delete(random.choice(list(TABLES)), random.randint(1, 4))
            case "advance":
                until = random.choice([None, None, None, -3, -1, 2])
                both.advance(None if until is None else max(0, both.now + until * SECOND))
            case "look":
                both.look()
            case "restart":
                both.restart()
            case "register" if len(both.names) < 3:
                register(both, random, random.choice(QUERIES))
    both.advance(None)
    both.advance(both.now + 9 * SECOND)
    both.look()


@pytest.mark.parametrize("gap", [1, 1_000_000])
def test_silence_costs_nothing(gap: int) -> None:
    """Everyone leaves in the first window of a silence, however long it is; a change of the table meanwhile is seen."""
    engine = Engine()
    engine.execute(f"{STREAM}; {TABLES['t']}")
    engine.load("t", {"k": [1, 2], "most": [0, 0], "tier": ["a", "b"]})
    engine.register(f"{QUERIES[0]} EMIT CHANGES", "q")
    engine.push("p", {"ts": [1, 2], "k": [1, 2], "g": ["a", "a"], "v": [5, 5]})
    assert engine.advance(SECOND)["q"]["change"].to_pylist() == ["enter", "enter"]
    engine.execute("DELETE FROM t WHERE k = 1")
    told = engine.advance((10 + gap) * SECOND)["q"]
    assert told["k"].to_pylist() == [1, 2]
    assert told["change"].to_pylist() == ["leave", "leave"]
    ends = [end.timestamp() for end in told["window_end"].to_pylist()]
    assert (timedelta(seconds=ends[1] - ends[0])) == timedelta(seconds=3)
