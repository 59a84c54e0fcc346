"""Bad events: one of them takes no other with it, whoever finds it, and replays and restarts leave out the same ones.

The reference is an embedded engine that is pushed every event by itself: a bad event is one that it refuses.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards, split

import effort
import muntin
from muntin.errors import MuntinError
from muntin.spark.answers import EMITTED_SCHEMA, unpack_answers
from muntin.spark.pack import pack_events
from muntin.spark.plan_job import plan_job
from muntin.spark.run_table import run_table
from muntin.stream import Stream
from scenario import SECOND, SeededDice

STREAM = Stream(
    "s",
    pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("n", pa.int64()), ("u", pa.uint64())]),
    "ts",
)
CREATE = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, u UBIGINT) TIMESTAMP BY ts"
# each may find an event without a value: by an argument, a filter, the rest of a laned filter, a key, a large integer
BY_KEY = {
    "sum": "SELECT k, SUM(n * n) AS v, COUNT(*) AS c FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "some": "SELECT k, COUNT(*) AS c FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE n * n < 50 GROUP BY k",
}
ALONE = {
    "laned": "SELECT COUNT(*) AS c FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] WHERE k = 'a' AND n * n < 50",
    "other": "SELECT COUNT(*) AS c FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] WHERE k = 'b' AND n * n < 50",
}
BY_PRODUCT = {
    "keyed": "SELECT n * n AS p, COUNT(*) AS c FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY n * n"
}
LARGE = {"large": "SELECT k, MAX(u) AS m, COUNT(*) AS c FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k"}
ROWS = {"last": "SELECT k, SUM(n * n) AS v FROM s [ROWS 3 SLIDE 1] GROUP BY k"}
HUGE = 2**40  # its square has no value


def random_batches(dice: SeededDice) -> list[list[dict[str, Any]]]:
    batches, now = [], 10 * SECOND
    for _ in range(5):
        events = []
        for _ in range(dice.whole(0, 12)):
            now += dice.pick((0, SECOND // 2, SECOND))
            events.append(
                {
                    "ts": dice.pick((now, now, now, now, None)),
                    "k": dice.pick(("a", "b", None)),
                    "n": dice.pick((1, 2, 9, HUGE, None)),
                    "u": dice.pick((1, 2**63 + 1, 7)),
                }
            )
        batches.append(events)
    return batches


def table_of(events: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(events, schema=STREAM.schema)


class OneByOne:
    """An embedded engine that is told the queries of one route."""

    def __init__(self, queries: dict[str, str]):
        self.engine = muntin.Engine()
        self.engine.execute(CREATE)
        for name, sql in queries.items():
            self.engine.register(sql, name=name)
        self.bad: list[dict[str, Any]] = []

    def send(self, events: list[dict[str, Any]]) -> dict[str, pa.Table]:
        times = []
        for event in events:
            try:
                self.engine.push("s", table_of([event]))
            except MuntinError:
                self.bad.append(event)
            if event["ts"] is not None:
                times.append(event["ts"])
        # a bad event that has a time moves time on as others do
        return self.engine.advance(until=max(times)) if times else {}


def plain(tables: dict[str, pa.Table]) -> dict[str, list[str]]:
    return {name: sorted(map(str, table.to_pylist())) for name, table in tables.items() if table.num_rows}


@pytest.mark.parametrize(
    "queries", [BY_KEY, ALONE, BY_PRODUCT, LARGE, ROWS], ids=lambda each: next(iter(each))
)
def test_a_bad_event_takes_no_other_with_it(queries: dict[str, str]) -> None:
    for seed in range(effort.some_of(60, 5)):
        dice = SeededDice(seed)
        is_told, fold = dice.chance(50), dice.chance(50)
        expected = OneByOne(queries)
        shards = Shards(STREAM, queries, shards=2, fold=fold, bad_events="emit" if is_told else "count")
        told: list[dict[str, Any]] = []
        for events in random_batches(dice):
            packed = shards.packed([table_of(events).to_batches()])
            if dice.chance(30):
                shards.lose(packed)
            if dice.chance(30):
                shards.restart()
            actual = shards.deliver(packed)
            assert plain(actual) == plain(expected.send(events)), (seed, fold)
            told += [json.loads(row["rest"]) for row in shards.last.to_pylist() if row["query"] is None]
        assert shards.bad == len(expected.bad)
        assert len(told) == (len(expected.bad) if is_told else 0)
        if is_told:
            stated = sorted(str(each["event"]["k"]) for each in told)  # all queries read this column
            assert stated == sorted(str(each["k"]) for each in expected.bad)


def test_a_replay_leaves_out_what_was_left_out_whatever_the_policy_is_now() -> None:
    shards = Shards(STREAM, ROWS, shards=2, fold=False, bad_events="count")
    events = [{"ts": i * SECOND, "k": "a", "n": n, "u": 1} for i, n in enumerate([1, HUGE, 2])]
    shards.send([table_of(events).to_batches()])
    shards.options["bad_events"] = "fail"
    shards.configure(ROWS)
    shards.restart()
    events = [{"ts": each * SECOND, "k": "a", "n": 3, "u": 1} for each in (9, 10)]
    later = shards.send([table_of(events).to_batches()])
    assert later["last"].to_pylist()[-1]["v"] == 1 + 4 + 9
    with pytest.raises(MuntinError, match=r'n \* n.*64 bits.*bad_events="count"'):
        shards.send([table_of([{"ts": 11 * SECOND, "k": "a", "n": HUGE, "u": 1}]).to_batches()])


def test_events_without_a_time_fail_by_default() -> None:
    shards = Shards(STREAM, BY_KEY)
    with pytest.raises(MuntinError, match="'ts' is NULL"):
        shards.send([table_of([{"ts": None, "k": "a", "n": 1, "u": 1}]).to_batches()])


def test_a_table_tells_of_bad_events_too() -> None:
    events = [{"ts": i * SECOND, "k": "a", "n": n, "u": 1} for i, n in enumerate([1, HUGE, 2, 3, 4, 5])]
    events.insert(3, {"ts": None, "k": "b", "n": 7, "u": 1})
    for fold in (True, False):
        job = plan_job(STREAM, BY_KEY, shards=2, fold=fold, zone=None, bad_events="emit")
        packed = pa.Table.from_batches(list(pack_events(job, table_of(events).to_batches(), 0)))
        order = [("shard", "ascending"), ("start", "ascending"), ("turn", "ascending")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            emitted = list(run_table(job, packed.sort_by(order).to_batches()))
        rows = pa.Table.from_batches(list(unpack_answers(job, emitted)))
        told = [json.loads(row["rest"]) for row in rows.to_pylist() if row["query"] is None]
        assert sorted(each["event"]["n"] for each in told) == [7, HUGE]
        assert [each["keys"] for each in told if each["event"]["n"] == HUGE] == ["k"]
        assert sum(pa.Table.from_batches(emitted, EMITTED_SCHEMA)["bad"].to_pylist()) == 2
        expected = OneByOne(BY_KEY)
        assert plain(split(job, rows)) == plain(expected.send(events))


def test_only_bad_events() -> None:
    """A micro-batch of nothing else: it is counted, and time stands still."""
    shards = Shards(STREAM, BY_KEY, bad_events="emit")
    nothing = shards.send([table_of([{"ts": None, "k": "a", "n": 1, "u": 1}]).to_batches()])
    assert (nothing, shards.bad) == ({}, 1)
    far = {"ts": 2**62, "k": "a", "n": 1, "u": 1}  # beyond the year 9999
    shards.send([table_of([far]).to_batches()])
    assert shards.bad == 2
    assert "'ts' is NULL or lies outside" in shards.refused[-1]


def test_policies_are_named() -> None:
    with pytest.raises(MuntinError, match="bad_events is one of 'fail', 'count', 'emit', not 'drop'"):
        Shards(STREAM, BY_KEY, bad_events="drop")
