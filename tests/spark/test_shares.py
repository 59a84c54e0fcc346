"""Exact queries without keys in all shards: their answers are those of the engine, whoever had which event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from shards import Shards
from test_shards import CREATE, DELAY, STREAM, cut, same, tasks_of

import muntin
from muntin.spark.job import read_query
from muntin.spark.shares import has_shares

NOW, OFTEN = "[RANGE 6 SECONDS]", "[RANGE 6 SECONDS SLIDE 1 SECOND]"
QUERIES = {
    "numbers": f"SELECT COUNT(*) AS n, COUNT(v) AS m, SUM(v) AS a, AVG(x) AS b, VAR_SAMP(x) AS c FROM s {NOW}",
    "picked": f"SELECT MIN(v) AS a, MAX(j) AS b, FIRST(x) AS c, LAST(v) AS d, MAX(ts) AS e FROM s {NOW} WHERE x > -1",
    "texts": f"SELECT MIN(k) AS a, MAX(k) AS b, FIRST(k) AS c, LAST(k) AS d, SUM(v) AS e FROM s {OFTEN} "
    "HAVING SUM(v) > 3 OR SUM(v) IS NULL",
    "different": f"SELECT COUNT(DISTINCT k) AS a, COUNT(DISTINCT k) FILTER (WHERE v > 4) AS b, AVG(v) AS c "
    f"FROM s {OFTEN}",
    "floats": "SELECT COUNT(DISTINCT j) + 1 AS a FROM s [RANGE 9 SECONDS TO 1 SECOND SLIDE 3 SECONDS]",
    "two": f"SELECT SUM(x) OVER {NOW} AS a, MIN(v) OVER [RANGE 2 SECONDS] AS b FROM s",
}
BESIDE = {
    "folded": f"SELECT SUM(v) AS a FROM s {OFTEN}",
    "both": f"SELECT COUNT(DISTINCT k) AS a, COUNT(DISTINCT v) AS b FROM s {OFTEN}",
    "median": f"SELECT MEDIAN(v) AS a FROM s {OFTEN}",
    "rows": "SELECT SUM(v) AS a FROM s [ROWS 5 SLIDE 3]",
    "changes": f"SELECT COUNT(*) AS n FROM s {NOW} HAVING COUNT(*) > 3 EMIT CHANGES",
    "keyed": f"SELECT k, COUNT(DISTINCT v) AS a FROM s {OFTEN} GROUP BY k",
}


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    """Events out of order by less than the delay, no two at the same time; silence, NULLs, NaN."""
    rows = draw(st.integers(1, 60))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gaps = random.choice([1, 400_000, 1_000_000, 9_000_000], rows, p=[0.3, 0.4, 0.25, 0.05])
    at = np.unique(np.cumsum(gaps) - random.integers(0, 2, rows) * random.integers(0, DELAY // 2, rows))
    at = at[np.argsort(at + random.integers(0, DELAY // 2, len(at)), kind="stable")]
    rows = len(at)
    return pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us")),
            "k": pa.array([None if i == 4 else f"key {i}" for i in random.integers(0, 5, rows)], pa.string()),
            "j": pa.array(random.choice([0.0, -0.0, np.nan, 1.5], rows), from_pandas=False),
            "v": pa.array([None if i == 0 else int(i) for i in random.integers(0, 9, rows)], pa.int64()),
            "x": pa.array(random.normal(size=rows).round(2)),
        }
    )


@settings(max_examples=25)
@given(data=st.data())
def test_answers_are_those_of_the_engine(data: st.DataObject) -> None:
    """Silent windows once, HAVING after the merge; queries that come with a restart, attempts and memory lost."""
    pool = QUERIES | BESIDE
    names = data.draw(st.lists(st.sampled_from(sorted(pool)), min_size=1, max_size=4, unique=True))
    queries = {name: pool[name] for name in names}
    shards = Shards(STREAM, queries, shards=data.draw(st.integers(1, 4)), spread="all")
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(queries)
    for number, part in enumerate(
        cut(data.draw(streams()), data.draw(st.lists(st.integers(0, 60), max_size=4)))
    ):
        tasks = tasks_of(part, data.draw(st.integers(1, 3)))
        accident = data.draw(st.sampled_from(["none", "attempt", "memory", "another query"]))
        if accident == "attempt":
            shards.lose_attempt(tasks)
        if accident == "memory":
            shards.restart()
        if accident == "another query":  # with the keys of one that is there, so that its route is
            queries[f"new {number}"] = pool[names[0]]
            engine.register(pool[names[0]], f"new {number}")
            shards.restart(queries)
        engine.push("s", part)
        same(engine.advance(), shards.send(tasks))
    assert shards.late == engine.stats()["streams"]["s"]["late"] == 0


def test_who_has_shares() -> None:
    job = Shards(STREAM, QUERIES | BESIDE, shards=3, spread="all").job
    assert {route.name: set(route.queries) for route in job.routes} == {
        "": {"folded", "both", "median", "rows", "changes"}, "k": {"keyed"},
        "(spread)": {"numbers", "picked", "texts", "two"},
        "(spread) by k": {"different"}, "(spread) by j": {"floats"},
    }  # fmt: skip
    assert not Shards(STREAM, QUERIES, shards=3).job.is_spread
    assert not Shards(
        STREAM, QUERIES, shards=3, spread=True
    ).job.is_spread  # as checkpoints of before have it
    alone = {name: QUERIES[name] for name in ("numbers", "different")} | {"folded": BESIDE["folded"]}
    folded = {
        route.name: route.fold is not None
        for route in Shards(STREAM, alone, shards=3, spread="all").job.routes
    }
    assert folded == {"": True, "(spread)": False, "(spread) by k": False}
    with pytest.raises(muntin.MuntinError, match="spread is True, False or 'all', not 'exact'"):
        Shards(STREAM, QUERIES, spread="exact")


def test_a_hint_keeps_a_query_in_one_shard() -> None:
    assert has_shares(read_query(STREAM, f"SELECT SUM(v) AS a FROM s {NOW}"))
    assert not has_shares(read_query(STREAM, f"SELECT /*+ SYNOPSIS(rescan) */ SUM(v) AS a FROM s {NOW}"))


def _events(values: list[int], floats: list[float]) -> pa.Table:
    count = len(values)
    at = pa.array([1_000_000 * number for number in range(count)], pa.timestamp("us"))
    return pa.table(
        {"ts": at, "k": ["a"] * count, "j": [0.0] * count, "v": pa.array(values, pa.int64()), "x": floats}
    )


def test_what_a_share_alone_could_not_say() -> None:
    """A sum that fits 64 bits though that of a share does not, and floats that cancel out: one event a share."""
    most = 2**63 - 1
    table = _events([most, most, -most, -most, 7], [1e16, 1.0, -1e16, 1e-3, 0.0])
    queries = {"sums": "SELECT SUM(v) AS a, AVG(v) AS b, SUM(x) AS c FROM s [RANGE 1 HOUR]"}
    shards = Shards(STREAM, queries, shards=2, spread="all")
    shards.send([table.to_batches()])
    (row,) = shards.promise(4_000_001 + DELAY)["sums"].to_pylist()
    assert (row["a"], row["b"], row["c"]) == (7, 1.4, 1.0 + 1e-3)


@pytest.mark.filterwarnings("ignore:.* left out")
def test_a_row_without_a_value_is_left_out() -> None:
    table = _events([2**62, 2**62, 1, 1, 2**62, 2**62], [0.0] * 6)
    window = "[RANGE 3 SECONDS TO 1 MICROSECOND SLIDE 1 SECOND]"
    queries = {
        "sums": f"SELECT SUM(v) AS a, MIN(k) AS b FROM s {window}",
        "having": f"SELECT COUNT(*) AS n, MIN(k) AS b FROM s {window} HAVING SUM(v) > 5",
        "asked": f"SELECT SUM(v) AS a, MIN(k) AS b FROM s {window} HAVING COUNT(*) > 9",
        "made": f"SELECT COUNT(*) * {2**62} AS a, MIN(k) AS b FROM s {window}",
    }
    shards = Shards(STREAM, queries, shards=3, spread="all")
    assert {route.name for route in shards.job.routes} == {"(spread)"}
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(queries)
    engine.push("s", table)
    wanted = engine.advance(until=12_000_000)
    found = shards.send([table.to_batches()])
    later = shards.promise(12_000_000 + DELAY)
    both = {
        name: pa.concat_tables([each[name] for each in (found, later) if name in each])
        for name in found | later
    }
    same(wanted, both)
