"""The oracle for joins with tables has a second opinion: DuckDB, which joins the window with the table at each instant.

Which rows a table had at which instant is noted here again, by hand: a change counts for instants after the watermark
at which it was applied.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import duckdb
import pytest

from answers import is_close
from effort import every_second
from reference import EPOCH, ReferenceEngine

SECOND = 1_000_000
STREAM = (
    "CREATE STREAM p (ts BIGINT, k BIGINT, g VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
)
TABLES = {
    "t": "CREATE TABLE t (k BIGINT, most BIGINT, tier VARCHAR, PRIMARY KEY (k))",
    "r": "CREATE TABLE r (id BIGINT, k BIGINT, span INTERVAL, floor BIGINT, PRIMARY KEY (id))",
    "g": "CREATE TABLE g (name VARCHAR, factor DOUBLE, PRIMARY KEY (name))",
}
COLUMNS = {"t": "k BIGINT, most BIGINT, tier VARCHAR", "r": "id BIGINT, k BIGINT, span BIGINT, floor BIGINT",
           "g": "name VARCHAR, factor DOUBLE"}  # fmt: skip
W = "[RANGE 4 SECONDS SLIDE 1 SECOND]"
IN = "(SELECT * FROM p WHERE ts >= $t - 4000000 AND ts < $t)"

# What muntin is asked, and DuckDB at the instant $t; the keys come first.
QUERIES: dict[str, tuple[str, str]] = {
    "threshold": (
        f"SELECT p.k, SUM(p.v) AS s, t.most FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k HAVING SUM(p.v) > t.most",
        f"SELECT p.k, SUM(p.v), most FROM {IN} AS p JOIN t ON p.k = t.k GROUP BY p.k, most HAVING SUM(p.v) > t.most",
    ),
    "where": (
        f"SELECT p.k, p.g, COUNT(*) AS n, t.tier FROM p {W} AS p JOIN t USING (k) WHERE tier = 'a' AND v > 3 "
        "GROUP BY p.k, p.g",
        f"SELECT p.k, p.g, COUNT(*), t.tier FROM {IN} AS p JOIN t ON p.k = t.k WHERE tier = 'a' AND v > 3 "
        "GROUP BY p.k, p.g, t.tier",
    ),
    "merged": (
        f"SELECT t.tier, SUM(p.v) AS s, MIN(p.x) AS least, MAX(p.v) AS most FROM p {W} AS p JOIN t ON p.k = t.k "
        "AND t.most < 40 GROUP BY t.tier",
        f"SELECT t.tier, SUM(p.v), MIN(p.x), MAX(p.v) FROM {IN} AS p "
        "JOIN t ON p.k = t.k AND t.most < 40 GROUP BY t.tier",
    ),
    "all": (
        f"SELECT COUNT(*) AS n, SUM(p.v) AS s FROM p {W} AS p JOIN t ON p.k = t.k",
        f"SELECT COUNT(*), SUM(p.v) FROM {IN} AS p JOIN t ON p.k = t.k",
    ),
    "left": (
        f"SELECT p.k, COUNT(*) AS n, t.most + 1 AS more FROM p {W} AS p LEFT JOIN t ON p.k = t.k AND t.tier <> 'b' "
        "WHERE t.tier IS NULL OR t.most > 10 GROUP BY p.k",
        f"SELECT p.k, COUNT(*), t.most + 1 FROM {IN} AS p LEFT JOIN t ON p.k = t.k AND t.tier <> 'b' "
        "WHERE t.tier IS NULL OR t.most > 10 GROUP BY p.k, t.most",
    ),
    "without a row": (
        f"SELECT t.k, COUNT(*) AS n FROM p {W} AS p LEFT JOIN t ON p.k = t.k GROUP BY t.k",
        f"SELECT t.k, COUNT(*) FROM {IN} AS p LEFT JOIN t ON p.k = t.k GROUP BY t.k",
    ),
    "silence": (
        f"SELECT t.k, COUNT(p.ts) AS n, SUM(p.v) AS s, t.tier FROM t LEFT JOIN p {W} AS p ON p.k = t.k AND p.v > 2 "
        "WHERE t.most > 5 GROUP BY t.k HAVING COUNT(p.ts) < 2",
        f"SELECT t.k, COUNT(p.ts), SUM(p.v), t.tier FROM t LEFT JOIN {IN} AS p ON p.k = t.k AND p.v > 2 "
        "WHERE t.most > 5 GROUP BY t.k, t.tier HAVING COUNT(p.ts) < 2",
    ),
    "silence of tiers": (
        f"SELECT t.tier, COUNT(p.ts) AS n FROM t LEFT JOIN p {W} AS p ON p.k = t.k GROUP BY t.tier",
        f"SELECT t.tier, COUNT(p.ts) FROM t LEFT JOIN {IN} AS p ON p.k = t.k GROUP BY t.tier",
    ),
    "rules": (
        f"SELECT r.id, SUM(p.v) AS s FROM p {W} AS p JOIN r ON p.k = r.k GROUP BY r.id HAVING SUM(p.v) > r.floor",
        f"SELECT r.id, SUM(p.v) FROM {IN} AS p JOIN r ON p.k = r.k GROUP BY r.id, r.floor HAVING SUM(p.v) > r.floor",
    ),
    "spans": (
        "SELECT r.id, COUNT(*) AS n, SUM(p.v) AS s FROM p [RANGE r.span UP TO 6 SECONDS STEP 500 MILLISECONDS "
        "SLIDE 1 SECOND] AS p JOIN r ON r.k = p.k GROUP BY r.id",
        "SELECT r.id, COUNT(*), SUM(p.v) FROM p JOIN r ON p.k = r.k WHERE p.ts < $t AND p.ts >= $t - r.span "
        "AND r.span BETWEEN 1 AND 6000000 AND r.span % 500000 = 0 GROUP BY r.id",
    ),
    "several": (
        f"SELECT r.id, p.g, SUM(p.v) AS s, MAX(p.v) * g.factor AS x FROM p {W} AS p JOIN r ON p.k = r.k "
        "LEFT JOIN g ON p.g = g.name GROUP BY r.id, p.g HAVING SUM(p.v) > r.floor OR g.factor IS NULL",
        f"SELECT r.id, p.g, SUM(p.v), MAX(p.v) * g.factor FROM {IN} AS p JOIN r ON p.k = r.k "
        "LEFT JOIN g ON p.g = g.name GROUP BY r.id, p.g, r.floor, g.factor "
        "HAVING SUM(p.v) > r.floor OR g.factor IS NULL",
    ),
    "own windows": (
        "SELECT p.k, SUM(p.v) FILTER (WHERE p.x > 0) OVER [RANGE 2 SECONDS SLIDE 1 SECOND] AS s, COUNT(*) AS n, t.most "
        f"FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k",
        f"SELECT p.k, SUM(p.v) FILTER (WHERE p.x > 0 AND ts >= $t - 2000000), COUNT(*), t.most FROM {IN} AS p "
        "JOIN t ON p.k = t.k GROUP BY p.k, t.most",
    ),
}  # fmt: skip
NUMBER_OF_KEYS = {"all": 0, "where": 2, "several": 2}


class Story:
    """Events and rows that come, change and go; told to the reference, and noted for DuckDB."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.reference = ReferenceEngine()
        self.reference.execute(STREAM)
        self.events: list[tuple[Any, ...]] = []
        self.rows: dict[str, dict[Any, tuple[Any, ...]]] = {name: {} for name in TABLES}
        self.versions: dict[str, list[tuple[int | None, list[tuple[Any, ...]]]]] = {}
        for name, create in TABLES.items():
            self.reference.execute(create)
            self.versions[name] = [(None, [])]
        self.greatest: int | None = None

    @property
    def watermark(self) -> int | None:
        return None if self.greatest is None else self.greatest - 2 * SECOND

    def push(self) -> None:
        chance, batch = self.chance, []
        now = 0 if self.greatest is None else self.greatest
        for _ in range(chance.randrange(1, 5)):
            now += chance.choice([0, 0, 500_000, 700_000, SECOND])
            at = max(now - chance.choice([0, 0, SECOND]), self.watermark or 0)
            values = chance.choice([1, 2, 3, None]), chance.choice("ab"), chance.choice([1, 5, 9, None])
            batch.append((at, *values, chance.choice([-1.5, 2.0, None])))
            self.greatest = at if self.greatest is None else max(self.greatest, at)
        self.events += [(len(self.events) + place, *each) for place, each in enumerate(batch)]
        columns = list(zip(*batch, strict=True))
        self.reference.push("p", dict(zip(("ts", "k", "g", "v", "x"), columns, strict=True)))

    def change(self) -> None:
        chance, name = self.chance, self.chance.choice(list(TABLES))
        rows = self.rows[name]
        if rows and chance.random() < 0.3:
            key = chance.choice(list(rows))
            del rows[key]
            column = self.reference.tables[name].table.key[0]
            self.reference.delete(name, lambda row: row[column] == key)
        else:
            row = self._row(name)
            rows[row[0]] = row
            names = self.reference.tables[name].table.schema.names
            told = [timedelta(microseconds=value) if column == "span" and value is not None else value
                    for column, value in zip(names, row, strict=True)]  # fmt: skip
            self.reference.load(name, {column: [value] for column, value in zip(names, told, strict=True)})
        self.versions[name].append((self.watermark, list(rows.values())))

    def _row(self, name: str) -> tuple[Any, ...]:
        pick = self.chance.choice
        if name == "t":
            return pick([1, 2, 4]), pick([3, 8, 20, None]), pick(["a", "b", None])
        if name == "r":
            spans = [500_000, SECOND, 2 * SECOND, 6 * SECOND, 7 * SECOND, 700_000, 0, None]
            return pick([1, 2, 3]), pick([1, 2, None]), pick(spans), pick([2, 9, None])
        return pick("abc"), pick([0.5, 2.0, None])

    def at(self, name: str, instant: int) -> list[tuple[Any, ...]]:
        """The rows of a table that an instant sees."""
        return [rows for after, rows in self.versions[name] if after is None or after < instant][-1]

    def tell_duckdb(self) -> duckdb.DuckDBPyConnection:
        """All events, when there are no more to come."""
        connection = duckdb.connect()
        connection.execute("CREATE TABLE p (seq BIGINT, ts BIGINT, k BIGINT, g VARCHAR, v BIGINT, x DOUBLE)")
        connection.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?)", self.events)
        return connection

    def ask(self, connection: duckdb.DuckDBPyConnection, sql: str, instant: int) -> list[tuple[Any, ...]]:
        for name in TABLES:
            connection.execute(f"CREATE OR REPLACE TABLE {name} ({COLUMNS[name]})")
            if rows := self.at(name, instant):
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return connection.execute(sql.replace("$t", f"{instant}::BIGINT")).fetchall()


def sortable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        (value is not None, value) if not isinstance(value, float) or value == value else (True, 0)
        for value in row
    )


def assert_same(told: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> None:
    told, wanted = sorted(told, key=sortable), sorted(wanted, key=sortable)
    assert len(told) == len(wanted), f"{told} instead of {wanted}"
    for ours, theirs in zip(told, wanted, strict=True):
        assert all(is_close(one, other) for one, other in zip(ours, theirs, strict=True)), (
            f"{ours} instead of {theirs}"
        )


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", every_second(range(6)))
def test_every_instant(name: str, seed: int) -> None:
    """What the reference emits, also long after, and which changes: all as DuckDB joins them at the instant."""
    text, sql = QUERIES[name]
    story = Story(seed)
    for _ in range(story.chance.randrange(12)):
        story.change()
    story.reference.register(text, name="q")
    keys = NUMBER_OF_KEYS.get(name, 1)
    if keys:
        story.reference.register(f"{text} EMIT CHANGES", name="changes")
    emitted: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for _ in range(30):
        story.chance.choice([story.push, story.push, story.change])()
        if story.chance.random() < 0.4:
            answers = story.reference.advance()
            emitted += answers["q"].rows if "q" in answers else []
            changed += answers["changes"].rows if "changes" in answers else []
    if story.watermark is None:
        return
    answers = story.reference.advance()
    emitted += answers["q"].rows if "q" in answers else []
    changed += answers["changes"].rows if "changes" in answers else []
    first = min(event[1] for event in story.events)
    before: set[tuple[Any, ...]] = set()
    connection = story.tell_duckdb()
    for instant in range((first // SECOND + 1) * SECOND, story.watermark + 1, SECOND):
        end = EPOCH + timedelta(microseconds=instant)
        wanted = story.ask(connection, sql, instant)
        rows = [tuple(row.values())[:-3] for row in emitted if row["window_end"] == end]
        assert_same(rows, wanted)
        now = {row[:keys] for row in wanted}
        told = {(*list(row.values())[:keys], row["change"]) for row in changed if row["window_end"] == end}
        if keys:
            assert told == {(*key, "enter") for key in now - before} | {
                (*key, "leave") for key in before - now
            }
        before = now


def test_the_values_of_those_that_leave() -> None:
    """Of a row that is gone NULL, of one that no longer qualifies its own; aggregates are those of the instant."""
    reference = ReferenceEngine()
    reference.execute("CREATE STREAM p (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts")
    reference.execute(TABLES["t"])
    reference.load("t", {"k": [1, 2, 3], "most": [0, 0, 0], "tier": ["a", "b", "c"]})
    text = f"SELECT p.k, SUM(p.v) AS s, t.most, t.tier FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k"
    reference.register(f"{text} HAVING SUM(p.v) > t.most EMIT CHANGES", name="q")
    reference.push("p", {"ts": [1, 2, 3, SECOND], "k": [1, 2, 3, 9], "v": [5, 6, 7, 1]})
    assert len(reference.advance()["q"].rows) == 3
    reference.delete("t", lambda row: row["k"] == 1)
    reference.load("t", {"k": [2], "most": [50], "tier": ["z"]})
    reference.push("p", {"ts": [2 * SECOND], "k": [9], "v": [1]})
    left = [
        (row["k"], row["s"], row["most"], row["tier"], row["change"]) for row in reference.advance()["q"].rows
    ]
    assert sorted(left) == [(1, None, None, None, "leave"), (2, 6, 50, "z", "leave")]
    reference.push("p", {"ts": [9 * SECOND], "k": [9], "v": [1]})
    left = [
        (row["k"], row["s"], row["most"], row["tier"], row["change"]) for row in reference.advance()["q"].rows
    ]
    assert left == [(3, None, 0, "c", "leave")]


def test_lookup_uses_the_table_as_it_is_now() -> None:
    reference = ReferenceEngine()
    reference.execute("CREATE STREAM p (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts")
    reference.execute(TABLES["t"])
    reference.register(f"SELECT p.k, t.most FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k", name="q")
    reference.push("p", {"ts": [1, 3 * SECOND], "k": [1, 2], "v": [5, 6]})
    assert reference.lookup("q", at=SECOND).rows == []
    reference.load("t", {"k": [1], "most": [7], "tier": ["a"]})
    assert [row["most"] for row in reference.lookup("q", at=SECOND).rows] == [7]
    assert reference.advance() == {}  # the instants up to the watermark see the table before
