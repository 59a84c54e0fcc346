"""Requests on Spark by hand: when they are answered, what is kept for them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from asked import (
    CREATE,
    MANY,
    SUMS,
    answered_table,
    ask,
    asked_shards,
    batch,
    compare,
    requests,
    rows_of,
    scattered,
    small,
    some_events,
    stream_of,
)
from shards import Shards

from muntin.errors import CheckpointError, MuntinError
from muntin.spark import pack
from muntin.spark.asking import pack_requests, plan_lookups
from muntin.spark.request_shard import RequestShard

__all__ = ["small"]


def test_a_request_waits_for_the_watermark_and_is_answered_once() -> None:
    """
    events     1 2 3     9       20       watermark: greatest - 2
    requests   ^4          ^10  ^18
    """
    shards = asked_shards(MANY)
    assert ask(shards, None, requests(4, 10)) == []  # nobody knows how far time has come
    (row,) = ask(shards, some_events(1, 2, 3, 9), None)
    assert (row["label"], row["sums.total"], row["whole.many"], row["named.v"]) == (0, 3, 2, 1)
    shards.restart()
    assert ask(shards, None, None) == []
    assert ask(shards, some_events(11), requests(18, first=2)) == []
    (row,) = ask(shards, some_events(12), None)
    assert (row["label"], row["sums.total"]) == (1, 1)
    assert ask(shards, None, requests(10, first=7))[0]["label"] == 7  # the watermark has passed it already
    shards.restart()
    (row,) = ask(shards, some_events(20), None)
    assert (row["label"], row["sums.many"], row["sums.found"], row["sums.complete"]) == (2, 0, False, True)


def test_state_is_kept_down_to_the_watermark_of_requests() -> None:
    """The longest window before it is there; further back nothing is, and `complete` says so."""
    shards = asked_shards(SUMS, delay=100)
    ask(shards, some_events(*range(0, 1000, 2)), requests(600))
    ask(shards, some_events(1000), None)
    before, reached = ask(shards, None, requests(300, 500, first=1))
    assert (reached["total"], reached["complete"]) == (2, True)
    assert (before["total"], before["found"], before["complete"]) == (None, False, False)
    ask(shards, some_events(2000), requests(1998, first=3))
    ask(shards, some_events(3000), None)
    shards.restart()
    (row,) = ask(shards, None, requests(1000, first=4))
    assert not row["complete"], row
    (row,) = ask(shards, None, requests(1900, first=5))
    assert (row["many"], row["complete"]) == (0, True)


def test_a_restart_keeps_what_requests_may_ask_for() -> None:
    """From log and from base; the next events must not push out what only requests need."""
    shards = asked_shards(SUMS, delay=1_000)
    ask(shards, some_events(*range(0, 1000, 2)), requests(600))
    for turn in range(8):
        shards.restart()
        (row,) = ask(shards, some_events(1000 + turn), requests(500, first=turn))
        assert (row["many"], row["complete"]) == (2, True)


def test_without_requests_no_more_is_kept_than_their_delay() -> None:
    shards = asked_shards(SUMS, delay=10)
    sizes = []
    for begin in range(0, 40_000, 4_000):
        shards.ask([some_events(*range(begin, begin + 4_000)).to_batches()], [])
        sizes.append(sum(each.nbytes() for each in shards.of_route("k")))
    assert sizes[-1] <= 2 * sizes[1]
    (row,) = ask(shards, None, requests(39_980))
    assert not row["complete"]
    (row,) = ask(shards, None, requests(39_990, first=1))
    assert (row["many"], row["complete"]) == (4, True)


def test_requests_that_wait_are_in_log_and_base() -> None:
    shards = asked_shards(MANY, delay=5, shards=3)
    for turn in range(9):
        given = requests(1000, 2000, key=f"k{turn % 4}", first=2 * turn)
        assert ask(shards, some_events(turn, key=f"k{turn}"), given) == []
        shards.restart()
    assert any(
        head is not None and head.base for route in shards.job.routes for head in map(shards.head, route.ids)
    )
    shards.lose(shards.packed([some_events(1500).to_batches()]))
    assert [row["label"] for row in ask(shards, some_events(1500), None)] == list(range(0, 18, 2))
    shards.restart()
    assert [row["label"] for row in ask(shards, some_events(2500), None)] == list(range(1, 18, 2))


def test_equal_requests_are_answered_as_often_as_they_come() -> None:
    """Chunks of equal rows have one name, in one micro-batch and in several."""
    shards = asked_shards(MANY, shards=2)
    same = requests(5, 6)
    shards.ask([], [same.to_batches(), same.to_batches()])
    shards.ask([], [same.to_batches()])
    got = ask(shards, some_events(1, 4, 20), None)
    assert [row["label"] for row in got] == [0, 0, 0, 1, 1, 1]
    assert {(row["label"], row["sums.many"], row["named.v"]) for row in got} == {(0, 2, 1), (1, 1, 1)}


def test_the_zone_of_a_session_may_change_while_requests_wait() -> None:
    shards, at = asked_shards(SUMS), pa.array([50], pa.timestamp("us", "UTC"))
    for zone in ("UTC", "Asia/Tokyo"):
        given = requests(50).set_column(2, "at", at.cast(pa.timestamp("us", zone)))
        shards.options["schema"] = requests().schema.set(2, pa.field("at", at.type))
        shards.restart(SUMS)
        assert ask(shards, None, given) == []
    assert len(ask(shards, some_events(90), None)) == 2


def test_queries_may_change_between_runs_and_requests_may_not() -> None:
    shards = asked_shards(MANY)
    ask(shards, some_events(1, 2, 3), requests(50))
    shards.restart(MANY | {"sums": SUMS.replace("SUM(v)", "MAX(v)")})
    (row,) = ask(shards, some_events(60), None)
    assert (row["sums.many"], row["sums.complete"], row["whole.many"]) == (0, True, 0)
    shards.options["schema"] = requests().schema.append(pa.field("more", pa.int64()))
    shards.restart(MANY)
    with pytest.raises(
        CheckpointError, match=r"is of requests \(k VARCHAR, .* not of requests .*more BIGINT"
    ):
        ask(shards, some_events(70), None)


def test_a_checkpoint_of_windows_is_not_gone_on_with_for_requests() -> None:
    shards = Shards(stream_of(CREATE), {"sums": SUMS})
    shards.send([some_events(1, 2).to_batches()])
    shards.tester.processor = asked_shards({"sums": SUMS}).tester.processor
    shards.tester.processor.init(shards.tester.handle)
    with pytest.raises(CheckpointError, match="is of shared windows, without requests, not of requests"):
        shards.send([some_events(3).to_batches()])


def test_tables_as_duckdb_answers_them() -> None:
    duckdb = pytest.importorskip("duckdb")
    random = np.random.default_rng(3)
    events = batch(
        ts=random.integers(0, 4_000, 800), k=random.choice(["a", "b", "c"], 800), j=random.integers(0, 4, 800),
        v=random.integers(-9, 9, 800),
    )  # fmt: skip
    given = batch(
        k=random.choice(["a", "b", "d"], 200),
        who=["a"] * 200,
        at=random.integers(-50, 4_500, 200),
        label=range(200),
    )
    text = (
        "SELECT k, SUM(v) AS total, COUNT(*) AS many, MIN(j) AS least, AVG(v) AS mean FROM s [RANGE 300 MICROSECONDS] "
        "GROUP BY k"
    )
    job = plan_lookups(stream_of(CREATE), text, given.schema, zone=None, shards=3)
    got = rows_of(answered_table(job, scattered(events, 3, 1), scattered(given, 2, 1)))
    expected = duckdb.sql(
        "SELECT r.k, r.who, r.at, r.label, SUM(v)::BIGINT AS total, COUNT(v) AS many, MIN(j) AS least, AVG(v) AS mean, "
        "COUNT(v) > 0 AS found, true AS complete FROM given r LEFT JOIN events e ON e.k = r.k AND e.ts < r.at "
        "AND e.ts >= r.at - INTERVAL 300 MICROSECONDS GROUP BY ALL ORDER BY r.label"
    ).to_arrow_table().to_pylist()  # fmt: skip
    assert len(expected) == 200
    for one, other in zip(expected, got, strict=True):
        compare(one, other, "")


def test_memory_follows_the_windows_not_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long table in pieces: as much is kept at its end as early on."""
    kept: list[int] = []
    forget = RequestShard.forget_before

    def noted(shard: Any, instant: int) -> None:
        forget(shard, instant)
        kept.append(shard.nbytes())

    monkeypatch.setattr(RequestShard, "forget_before", noted)
    monkeypatch.setattr(pack, "MOST_EVENTS", 1_000)
    monkeypatch.setattr(pack, "_AT_ONCE", 1_000)
    job = plan_lookups(stream_of(CREATE), SUMS, requests().schema, zone=None, shards=1)
    answered_table(job, [some_events(*range(lo, lo + 4_000)).to_batches() for lo in range(0, 40_000, 4_000)],
                   [requests(39_999, 5).to_batches()])  # fmt: skip
    assert len(kept) > 5
    assert max(kept[1:]) < 10_000  # the first has room for all that came together


@pytest.mark.parametrize(
    ("queries", "given", "told"),
    [
        (SUMS, {"who": ["a"], "at": [1]}, "no column 'k', a key of query 'query'"),
        ({"q": SUMS}, {"k": ["a"]}, "no column 'at', the instants to look up"),
        (SUMS, {"k": [1], "at": [1]}, "column 'k' of the batch does not fit the requests"),
        (SUMS, {"k": ["a"], "at": ["noon"]}, "column 'at' of the batch does not fit the requests"),
        (SUMS, {"k": ["a"], "at": [1], "found": [1]}, "the requests have a column 'found'"),
        (
            SUMS,
            {"k": ["a"], "at": [1], "Total": [1]},
            "two columns 'Total' and 'total', which Spark takes for one",
        ),
        ({"q": SUMS, "Q": SUMS}, {"k": ["a"], "at": [1]}, "two columns 'q.total' and 'Q.total'"),
        ({}, {"at": [1]}, "there is no query"),
        (
            "SELECT a.v FROM s [RANGE 9 SECONDS] AS a JOIN s [RANGE 9 SECONDS] AS b ON a.k = b.k",
            {"at": [1]},
            "query 'query' joins two streams; lookup_at takes queries over one stream",
        ),
        (
            "SELECT s.k, SUM(v) AS t FROM s [RANGE 9 SECONDS] JOIN limits AS l ON s.k = l.k GROUP BY s.k",
            {"k": ["a"], "at": [1]},
            "unknown stream 'limits'; there are: s",
        ),
    ],
)
def test_what_is_refused(queries: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(MuntinError) as error:
        plan_lookups(stream_of(CREATE), queries, pa.table(given).schema)
    assert told in str(error.value)


def test_a_request_without_an_instant_fails_its_query() -> None:
    with pytest.raises(MuntinError, match="'at' is NULL in row 1"):
        list(
            pack_requests(
                asked_shards(SUMS).job,
                batch(k=["a", "a"], who=["a", "a"], at=[1, None], label=[1, 2]).to_batches(),
                0,
            )
        )
