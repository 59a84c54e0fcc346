"""Joins on Spark's shards give the answers of the reference: random micro-batches and tasks, late events, restarts from
log and base, attempts that are lost, queries that come and go, and the same events as a table.

On Spark time moves between micro-batches. So the reference is given the events of each in order of time: then one is
late by the micro-batches before, or not at all.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from join_shards import JoinShards

from effort import some_of
from muntin.errors import CheckpointError, MuntinError
from muntin.spark import join_flow, ledger
from muntin.spark.join_job import route_of_join
from muntin.sql import parse_query
from reference import Answer, ReferenceEngine, declared
from runtimes import as_table
from scenario import SeededDice
from tests.join.test_joins import COLUMNS, DELAYS, KEYS, SECOND, random_join

SEEDS = some_of(600, 2)
# un-keyed and by other keys than the join's, of aggregates that merge
MERGED = (
    "COUNT(*) AS many", "SUM(n) AS n", "MAX(m) AS m", "MIN(a.y) AS y", "AVG(n) AS mean", "COUNT(b.w) AS ws",
    "SUM(a.y) FILTER (WHERE m > 2) AS some", "STDDEV_POP(n) AS spread",
)  # fmt: skip


def random_query(dice: SeededDice) -> str:
    """As embedded, and more of those whose partials are merged."""
    sql = random_join(dice)
    if dice.chance(65) or " GROUP BY " in sql or "DISTINCT" in sql or "EMIT" in sql or " AS c " in sql:
        return sql
    keys = dice.pick(((), ("b.w",), ("a.w", "m")))
    items = [*keys, *dict.fromkeys(dice.pick(MERGED) for _ in range(dice.whole(1, 3)))]
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    tail += " HAVING COUNT(*) > 1" if dice.chance(30) else ""
    return f"SELECT {', '.join(items)} FROM {sql.split(' FROM ', 1)[1]}{tail}"


class Twins:
    """Shards and their reference, given the same steps."""

    def __init__(self, seed: int, **options: Any):
        self.dice = dice = SeededDice(seed)
        self.reference = ReferenceEngine()
        self.clock = {"a": 10 * SECOND, "b": 10 * SECOND}
        for name, last in (("a", "n"), ("b", "m")):
            self.reference.execute(
                f"CREATE STREAM {name} (ts TIMESTAMP, {COLUMNS.format(last)}) TIMESTAMP BY ts "
                f"DELAY {dice.pick(DELAYS)} SECONDS"
            )
        self.streams = {name: log.stream for name, log in self.reference.logs.items()}
        self.count = dice.whole(1, 5)
        self.queries: dict[str, str] = {}
        self.number = 0
        for _ in range(dice.whole(1, 4)):
            self.add()
        used = {each.name for sql in self.queries.values() for each in parse_query(sql, self.streams).streams}
        self.streams = {name: stream for name, stream in self.streams.items() if name in used}
        self.shards = JoinShards(list(self.streams.values()), self.queries, shards=self.count, **options)
        self.routes = {route.name for route in self.shards.job.routes}

    def add(self, routes: set[str] | None = None) -> str | None:
        """One more query, of one of some routes."""
        for _ in range(40):
            sql = random_query(self.dice)
            try:
                query = parse_query(sql, self.streams)
            except MuntinError:  # it reads a stream that nobody reads
                continue
            if routes is None or route_of_join(query, self.count) in routes:
                name = f"q{self.number}"
                self.number += 1
                self.queries[name] = sql
                self.reference.register(sql, name=name)
                return name
        return None

    def drop(self) -> str | None:
        """One query less, unless it is the last of its route."""
        name = self.dice.pick(list(self.queries))
        routes = {
            route_of_join(parse_query(sql, self.streams), self.count)
            for other, sql in self.queries.items()
            if other != name
        }
        if routes != self.routes:
            return None
        del self.queries[name]
        self.reference.drop(name)
        return name

    def batch(self, stream: str) -> pa.Table:
        dice, rows = self.dice, []
        self.clock[stream] = max(self.clock[stream], max(self.clock.values()) - 3 * SECOND)
        for _ in range(dice.whole(0, 8)):
            self.clock[stream] += dice.pick((SECOND, 0, SECOND // 2, 2 * SECOND, 1))
            at = self.clock[stream] - (
                dice.pick((0, SECOND, 4 * SECOND, 9 * SECOND)) if dice.chance(30) else 0
            )
            rows.append((at, dice.pick(KEYS), dice.pick(("x", "y", None)), dice.pick((1.0, 2.0, 0.5, float("nan"))),
                         dice.pick((1, 2, 3, None))))  # fmt: skip
        names = ("ts", "k", "w", "y", "n" if stream == "a" else "m")
        return as_table(
            {name: [row[at] for row in rows] for at, name in enumerate(names)}, self.streams[stream]
        )

    def tasks(self) -> list[tuple[str, list[pa.RecordBatch]]]:
        some = [self.dice.pick(list(self.streams)) for _ in range(self.dice.whole(0, 5))]
        return [(stream, self.batch(stream).to_batches()) for stream in some]

    def push(self) -> None:
        tasks = self.tasks()
        if self.dice.chance(20):
            self.shards.lose_attempt(tasks)
        answers = self.shards.send(tasks)
        for stream in self.streams:
            events = [batch for name, some in tasks if name == stream for batch in some]
            if events:
                table = pa.Table.from_batches(events)
                order = sorted(
                    range(table.num_rows), key=table["ts"].cast(pa.int64()).to_pylist().__getitem__
                )
                self.reference.push(stream, table.take(pa.array(order, pa.int64())).to_pydict())
        self.compare(answers)

    def compare(self, answers: dict[str, pa.Table]) -> None:
        expected = self.reference.advance()
        for name in self.queries:
            join = self.reference.joins[name]
            wanted = expected.get(name) or Answer(join.query, False)  # type: ignore[arg-type]
            got = answers[name].to_pylist() if name in answers else []
            assert_same(wanted, got, name, join.saw_all)
        assert self.shards.late == sum(self.reference.late(stream) for stream in self.streams)

    def restart(self) -> None:
        self.shards.restart(self.queries, is_warm=self.dice.chance(30))

    def change(self) -> None:
        """Start again with other queries."""
        self.add(self.routes)
        if self.dice.chance(50):
            self.drop()
        self.restart()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            getattr(self, self.dice.pick(("push",) * 6 + ("restart", "change")))()
        self.push()
        for route in self.shards.job.routes:
            for shard in self.shards.of_route(route.name):
                shard.check()


def assert_same(expected: Answer, actual: list[dict[str, Any]], name: str, saw_all: bool) -> None:
    """Row by row, at each instant where the reference knows the answer, in any order."""
    ours, theirs = _by_instant(expected.rows), _by_instant(actual)
    for instant in sorted(ours.keys() | theirs.keys(), key=str):
        wanted, got = ours.get(instant, []), theirs.get(instant, [])
        is_known = any(row["complete"] for row in [*wanted, *got]) and not expected.query.emits_changes
        if saw_all or is_known:
            rows = sorted((_rounded({**row, "complete": True}) for row in wanted), key=repr)
            found = sorted(map(_rounded, got), key=repr)
            text = f"{name}: {expected.query.text}\nat {instant} expected {rows}\ngot {found}"
            assert repr(rows) == repr(found), text


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Floats that were added up in another order."""
    return {
        name: float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value
        for name, value in row.items()
    }


def _by_instant(rows: list[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["window_end"]].append(row)
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, 30))
def test_seeds(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_FEW", 3)  # so that bases are written, too
    for seed in range(first, min(first + 30, SEEDS)):
        try:
            Twins(seed).run(steps=14)
        except AssertionError as difference:
            raise AssertionError(f"seed {seed}") from difference


def test_a_table_answers_as_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """All events at once, read by tasks in any order; held until some bytes have come, or until the end."""
    for seed in range(some_of(60, 10)):
        twins = Twins(seed + 1_000)
        monkeypatch.setattr(join_flow, "_HELD", twins.dice.pick((1 << 23, 200, 2_000)))
        twins.queries = {
            name: sql for name, sql in twins.queries.items() if twins.reference.joins[name].query.slide
        }
        if not twins.queries:
            continue
        used = {each for sql in twins.queries.values() for each in parse_query(sql, twins.streams).streams}
        shards = JoinShards(list(used), twins.queries, shards=twins.count)
        tasks = [(each.name, twins.batch(each.name).to_batches()) for _ in range(4) for each in used]
        for stream in used:
            table = pa.Table.from_batches(
                [batch for name, some in tasks if name == stream.name for batch in some]
            )
            twins.reference.push(stream.name, table.sort_by("ts").to_pydict())
        found = shards.run_as_table(tasks)
        for name, wanted in twins.reference.advance().items():
            if name in twins.queries:
                got = found[name].to_pylist() if name in found else []
                assert_same(wanted, got, f"seed {seed}: {name}", True)


S = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, {} BIGINT) TIMESTAMP BY ts"
PAIRS = "SELECT n, m FROM a [RANGE 5 SECONDS SLIDE 1 SECOND] JOIN b [RANGE 5 SECONDS] ON a.k = b.k"
COUNTS = (
    "SELECT COUNT(*) AS many FROM a [RANGE 5 SECONDS SLIDE 1 SECOND] JOIN b [RANGE 5 SECONDS] ON a.k = b.k"
)


def a_and_b(**queries: str) -> JoinShards:
    streams = [declared(S.format("a", "n")), declared(S.format("b", "m"))]
    return JoinShards(streams, queries, shards=3, is_controlled=True)


def at(stream: str, *rows: tuple[float, int | None, int]) -> tuple[str, list[pa.RecordBatch]]:
    columns = list(zip(*rows, strict=True))
    times = pa.array([int(each * SECOND) for each in columns[0]], pa.timestamp("us"))
    names = ["ts", "k", "n" if stream == "a" else "m"]
    rest = [pa.array(column, pa.int64()) for column in columns[1:]]
    return stream, [pa.record_batch([times, *rest], names)]


def test_queries_come_and_go_by_statements() -> None:
    """Also one whose partials are merged, though the job did not know it when it was planned."""
    shards = a_and_b(pairs=PAIRS)
    shards.send([at("a", (0.5, 1, 10), (0.6, 2, 20)), at("b", (0.7, 1, 1), (0.8, 2, 2))])
    shards.tell(f"REGISTER QUERY counts AS {COUNTS}")
    shards.restart()
    shards.send([at("a", (1.5, 7, 0)), at("b", (1.5, 7, 0))])
    rows = [row for row in shards.last.to_pylist() if row["query"] == "counts"]
    assert [json.loads(row["rest"])["many"] for row in rows] == [2]
    assert all(row["complete"] for row in rows)  # it knows what `pairs` knows
    shards.tell("DROP QUERY pairs")
    shards.tell(
        "REGISTER QUERY other AS SELECT n, m FROM a [RANGE 1 SECOND] JOIN b [RANGE 1 SECOND] ON a.n = b.m",
        "REGISTER QUERY alone AS SELECT COUNT(*) FROM a [RANGE 1 SECOND]",
        "REWIND STREAM c TO '1970-01-01 00:00:00'",
    )
    for told, reason in zip(
        shards.refused,
        ("is of 'a JOIN b ON a.n = b.m'", "over stream 'a' alone", "no stream 'c'"),
        strict=True,
    ):
        assert reason in told
    found = shards.send([at("a", (2.5, 7, 0)), at("b", (2.5, 7, 0))])
    assert "pairs" not in found
    assert [json.loads(row["rest"])["many"] for row in shards.last.to_pylist()] == [3]


def test_a_stream_is_set_back_and_its_joins_start_again() -> None:
    shards = a_and_b(pairs=PAIRS)
    shards.send([at("a", (1, 1, 10), (900, 1, 20)), at("b", (2, 1, 1), (3, 1, 2))])
    shards.tell("REWIND STREAM a TO '1970-01-01 00:00:04'")
    assert shards.refused == []
    shards.restart()
    found = shards.send([at("a", (4.5, 1, 30), (6, 1, 30)), at("b", (5.5, 1, 3), (6, 1, 3))])
    assert shards.late == 0
    # what was kept of b has gone with its pairs, as embedded
    assert found["pairs"].select(["n", "m"]).to_pylist() == [{"n": 30, "m": 3}]


def test_a_stream_joined_with_itself_by_different_values() -> None:
    """Each event goes to two shards, and meets no partner twice."""
    dice = SeededDice(7)
    events = [(number / 100, dice.whole(0, 9), dice.whole(0, 9)) for number in range(60)]
    text = "SELECT c.k, d.k AS other FROM a [RANGE 5 SECONDS SLIDE 1 SECOND] AS c "
    text += "JOIN a [RANGE 5 SECONDS] AS d ON c.k = d.n"
    shards = JoinShards([declared(S.format("a", "n"))], {"both": text}, shards=4)
    shards.send([at("a", *events[:30])])
    found = shards.send([at("a", *events[30:], (1.5, 99, 98))])["both"]
    wanted = [(k, other) for _, k, _ in events for _, other, n in events if k == n]
    rows = zip(found["k"].to_pylist(), found["other"].to_pylist(), strict=True)
    assert sorted(rows) == sorted(wanted)
    assert shards.late == 0


def test_groups_by_other_keys_are_merged() -> None:
    """Pairs of a group are in several shards, and the group has one row; HAVING sees all of them."""
    text = COUNTS.replace("COUNT(*) AS many", "n, COUNT(*) AS many, MAX(m) AS most, AVG(m) AS mean")
    shards = a_and_b(groups=f"{text} GROUP BY n HAVING COUNT(*) > 4")
    left = [(0.5, k, k % 3) for k in range(12)]
    found = shards.send([at("a", *left, (1, 99, 0)), at("b", *((0.6, k, k) for k in range(14)), (1, 98, 0))])
    assert found == {}  # 4 pairs each
    found = shards.send([at("a", (1.1, 12, 2), (2, 99, 0)), at("b", (1.2, 5, 50), (2, 98, 0))])["groups"]
    assert found.select(["n", "many", "most", "mean"]).to_pylist() == [
        {"n": 2, "many": 6, "most": 50, "mean": (2 + 5 + 8 + 11 + 12 + 50) / 6}
    ]


def test_events_without_a_join_key_are_late_and_begin_the_stream() -> None:
    shards = a_and_b(counts=COUNTS)
    found = shards.send([at("a", (0.5, None, 1), (2.6, 5, 1), (3, 6, 1)), at("b", (2.5, 5, 1), (3, None, 1))])
    assert found["counts"].sort_by("window_end")["many"].to_pylist() == [0, 0, 1]  # at 1, 2 and 3
    shards.send([at("a", (2.9, None, 1), (2.9, 4, 1)), at("b", (1, None, 1))])
    assert shards.late == 3


def test_events_ahead_are_left_out() -> None:
    streams = [replace(declared(S.format(*each)), ahead=SECOND) for each in (("a", "n"), ("b", "m"))]
    shards = JoinShards(streams, {"pairs": PAIRS}, shards=2)
    found = shards.send(
        [at("a", (0.5, 1, 1), (99, 1, 1)), at("b", (0.5, 1, 1), (2.1, 1, 1), (1, 1, 1))], wall=SECOND
    )
    assert shards.ahead == 2
    assert found == {}  # a has come as far as half a second


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT COUNT(*) FROM a [RANGE 1 SECOND]", "over stream 'a' alone"),
        ("SELECT a.n FROM a [RANGE 1 SECOND] JOIN a [RANGE 1 SECOND] AS c ON a.k = c.k", "no query joins stream 'b'"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(query: str, reason: str) -> None:
    with pytest.raises(MuntinError, match=reason):
        a_and_b(q=query)


def test_a_checkpoint_of_other_streams_is_refused() -> None:
    shards = a_and_b(pairs=PAIRS)
    shards.send([at("a", (1, 1, 10)), at("b", (2, 1, 1))])
    text = PAIRS.replace("a.k = b.k", "a.k = b.m")
    shards.restart({"pairs": text})
    with pytest.raises(CheckpointError, match=r"a JOIN b ON a\.k = b\.k"):
        shards.send([at("a", (1, 1, 10)), at("b", (2, 1, 1))])
