"""Spread queries: what the shards promise together, and what is said of a window that one shard knows in part."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import muntin
from muntin.plan.demand import needs_of
from muntin.sketch.kinds import promise_of
from muntin.spark.job import read_query
from muntin.spark.spread import is_spread, share_text, whole_answer
from muntin.stream import Stream

STREAM = Stream(
    "s", pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("x", pa.float64())]), "ts", 0
)
WINDOW = "[RANGE 20 SECONDS SLIDE 5 SECONDS]"
CALLS = ("APPROX_QUANTILE(x, 0.9, {})", "APPROX_COUNT(k = 'a', {})", "APPROX_FREQUENT(k, 0.4, {})")


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 1000])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("eps", "delta"), [("0.1", None), ("0.07", "0.01"), ("0.01", "0.000001")])
def test_the_chances_of_all_shards_add_up_to_the_chance_of_the_query(call, shards, eps, delta):
    """Each shard keeps to the error of the query; if any of them may fail, the answer may."""
    asked = call.format(eps if delta is None else f"{eps}, {delta}")
    share = read_query(STREAM, share_text(read_query(STREAM, f"SELECT {asked} AS a FROM s {WINDOW}"), shards))
    assert not share.keys
    for promised in share.calls:
        (need,) = needs_of(promised)
        share_eps, share_delta = promise_of(need)
        assert share_eps == pytest.approx(float(eps), rel=1e-12)
        if delta is None:
            assert share_delta is None
        else:
            assert share_delta * shards == pytest.approx(float(delta), rel=1e-6)
        assert str(promised.window) == WINDOW


@pytest.mark.parametrize(
    "known", [[True, True, True], [True, False, True], [False, True, True], [False, False, False]]
)
def test_an_answer_is_complete_if_every_share_is(known):
    query = read_query(STREAM, f"SELECT APPROX_COUNT_SUMMARY(k, 0.1) AS c FROM s {WINDOW}")
    engine_answer = _share_of_one_shard(query)
    parts = pa.concat_tables(
        [engine_answer.set_column(engine_answer.column_names.index("complete"), "complete", pa.array([each]))
         for each in known]
    )  # fmt: skip
    (row,) = whole_answer(query, len(known), parts).to_pylist()
    assert row["complete"] == all(known)


def _share_of_one_shard(query):
    """What a shard says of one window."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, x DOUBLE) TIMESTAMP BY ts")
    engine.register(share_text(query, 3), "share")
    engine.push(
        "s", {"ts": pa.array([1, 2, 30_000_000], pa.timestamp("us")), "k": ["a", "b", "a"], "x": [1.0, 2, 3]}
    )
    return engine.advance()["share"].slice(0, 1)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT k, APPROX_COUNT(x = 1, 0.1) AS a FROM s {WINDOW} GROUP BY k",
        f"SELECT APPROX_COUNT(x = 1, 0.1) AS a, COUNT(*) AS n FROM s {WINDOW}",
        "SELECT APPROX_COUNT(x = 1, 0.1) AS a FROM s [ROWS 10 SLIDE 5]",
        f"SELECT APPROX_COUNT(x = 1, 0.1) AS a FROM s {WINDOW} HAVING APPROX_COUNT(x = 1, 0.1) > 3 EMIT CHANGES",
    ],
)
def test_what_shares_could_not_answer_is_not_spread(text):
    assert not is_spread(read_query(STREAM, text))
