"""Shards on Spark answer as the embedded engine does: however events are cut into micro-batches and tasks,
folded or not, and whatever is lost in between."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from shards import Shards

import muntin
from answers import is_close
from muntin.errors import CheckpointError, MuntinError
from muntin.spark.ledger import FORMAT
from muntin.stream import Stream

DELAY = 3_000_000
STREAM = Stream(
    "s",
    pa.schema(
        [
            ("ts", pa.timestamp("us")),
            ("k", pa.string()),
            ("j", pa.float64()),
            ("v", pa.int64()),
            ("x", pa.float64()),
        ]
    ),
    "ts",
    DELAY,
)
CREATE = (
    "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, j DOUBLE, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 3 SECONDS"
)
FOLDED = {
    "sums": "SELECT k, SUM(v) AS a, AVG(x) AS b FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "ends": "SELECT k, FIRST(v) AS a, LAST(x) AS b, VAR_SAMP(x) AS c FROM s [RANGE 4 SECONDS SLIDE 4 SECONDS] "
    "GROUP BY k",
    "some": "SELECT k, COUNT(*) AS n FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS] WHERE v > 3 GROUP BY k "
    "HAVING COUNT(*) > 1",
    "who": "SELECT k, MAX(x) AS a FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING MAX(x) > 0 EMIT CHANGES",
    "pair": "SELECT j, k, MIN(v) AS a FROM s [RANGE 5 SECONDS TO 1 SECOND SLIDE 1 SECOND] GROUP BY j, k",
    "all": "SELECT COUNT(*) AS n, SUM(x) AS a, MIN(v) FILTER (WHERE x > 0) AS b FROM s "
    "[RANGE 3 SECONDS SLIDE 1 SECOND]",
    "few": "SELECT COUNT(*) AS n, MAX(v) AS a FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS] WHERE x > 0",
}
WHOLE = {
    "median": "SELECT k, MEDIAN(v) AS a FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "rows": "SELECT k, SUM(v) AS a FROM s [ROWS 3 SLIDE 2] GROUP BY k",
    "global": "SELECT SUM(v) AS a, LAST(k) AS b FROM s [ROWS 5 SLIDE 3]",
    "now": "SELECT k, COUNT(*) AS n FROM s [RANGE 4 SECONDS] GROUP BY k",
}


@st.composite
def streams(draw: st.DrawFn) -> pa.Table:
    """Events out of order by less than the delay; ties, silence, NULLs, NaN and keys of all kinds."""
    rows = draw(st.integers(1, 60))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    gaps = random.choice([0, 1, 400_000, 1_000_000, 9_000_000], rows, p=[0.2, 0.1, 0.4, 0.25, 0.05])
    at = np.cumsum(gaps) + draw(st.sampled_from([-50_000_000, 0, 1_700_000_000_000_000]))
    at -= random.integers(0, 2, rows) * random.integers(0, DELAY // 2, rows)
    return pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us")),
            "k": pa.array([None if i == 4 else f"key {i}" * (1 + i) for i in random.integers(0, 5, rows)]),
            "j": pa.array(random.choice([0.0, -0.0, np.nan, 1.5], rows), from_pandas=False),
            "v": pa.array([None if i == 0 else int(i) for i in random.integers(0, 9, rows)]),
            "x": pa.array(random.normal(size=rows).round(2)),
        }
    )


def cut(table: pa.Table, places: list[int]) -> list[pa.Table]:
    """Parts between some places."""
    edges = [0, *sorted(place % (table.num_rows + 1) for place in places), table.num_rows]
    return [table.slice(lo, hi - lo) for lo, hi in pairwise(edges)]


def shards_and_engine(queries: Mapping[str, str], many: int) -> tuple[Shards, muntin.Engine]:
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(queries)
    return Shards(STREAM, queries, shards=many), engine


def tasks_of(part: pa.Table, many: int) -> list[list[pa.RecordBatch]]:
    """The same events read by several tasks, each of which has some that follow one another."""
    size = -(-part.num_rows // many) or 1
    return [part.slice(lo, size).to_batches() for lo in range(0, many * size, size)]


@pytest.mark.parametrize("fold", [True, False])
@settings(max_examples=25)
@given(data=st.data())
def test_answers_are_those_of_the_engine(fold: bool, data: st.DataObject) -> None:
    """Micro-batch by micro-batch, with attempts and memory lost at random."""
    table = data.draw(streams())
    pool = FOLDED if fold else FOLDED | WHOLE
    names = data.draw(st.lists(st.sampled_from(sorted(pool)), min_size=1, max_size=4, unique=True))
    queries = {name: pool[name] for name in names}
    shards = Shards(STREAM, queries, fold=fold, shards=data.draw(st.integers(1, 4)))
    assert all((route.fold is not None) == fold for route in shards.job.routes)
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(queries)
    for part in cut(table, data.draw(st.lists(st.integers(0, 60), max_size=4))):
        tasks = tasks_of(part, data.draw(st.integers(1, 3)))
        accident = data.draw(st.sampled_from(["none", "attempt", "memory"]))
        if accident == "attempt":
            shards.lose_attempt(tasks)
        if accident == "memory":
            shards.restart()
        engine.push("s", part)
        same(engine.advance(), shards.send(tasks))
    assert shards.late == engine.stats()["streams"]["s"]["late"] == 0


def same(expected: Mapping[str, pa.Table], got: Mapping[str, pa.Table]) -> None:
    """The same rows for each query, in any order."""
    assert expected.keys() == got.keys()
    for name, table in expected.items():
        assert table.schema.names == got[name].schema.names
        one, other = (sorted(each.to_pylist(), key=_place) for each in (table, got[name]))
        assert len(one) == len(other), f"{name}:\n{one}\n{other}"
        for wanted, found in zip(one, other, strict=True):
            assert all(is_close(wanted[c], found[c]) for c in wanted), f"{name}:\n{wanted}\n{found}"


def _place(row: dict[str, Any]) -> str:
    # -0.0 and 0.0 are one key: either may stand for it
    keys = [row[name] + 0.0 for name in row if name == "j"]
    keys += [value for value in row.values() if not isinstance(value, float)]
    return str([row["window_end"], row["window_start"], *keys])


def test_a_log_is_replaced_by_a_base_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many micro-batches through bases written often; each is restored from, and old entries are gone."""
    monkeypatch.setattr("muntin.spark.ledger._SMALL", 2_000)
    queries = {name: WHOLE[name] for name in ("rows", "global", "median")}
    shards = Shards(STREAM, queries, shards=2)
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(queries)
    random = np.random.default_rng(5)
    for turn in range(12):
        at = np.sort(random.integers(turn * 2_000_000, (turn + 1) * 2_000_000, 40))
        part = pa.table(
            {
                "ts": pa.array(at, pa.timestamp("us")), "k": random.choice(["a", "b", "c"], 40),
                "j": random.normal(size=40), "v": random.integers(0, 9, 40), "x": random.normal(size=40),
            }
        )  # fmt: skip
        engine.push("s", part)
        same(engine.advance(), shards.send([part.to_batches()]))
        if turn % 3 == 2:
            shards.restart()
    for shard in shards.job.routes[0].ids:
        head = shards.head(shard)
        assert head is not None
        assert head.base > 0
        assert head.entries == 12
        assert min(head.tokens) > head.base - 5
        assert len(shards.tester.peekMapState("log", shard)) == len(head.tokens)
        assert len(shards.tester.peekMapState("base", shard)) == head.pieces
    for shard in shards.of_route("k"):
        shard.check()


def test_a_filter_that_is_folded_by_itself_and_by_lanes() -> None:
    """LAST goes by its own filter, SUM by lanes: a store that serves both takes what it needs from either."""
    queries = {
        "last": "SELECT k, LAST(v) AS a FROM s [RANGE 40 SECONDS SLIDE 10 SECONDS] WHERE v > 2 GROUP BY k",
        "sum": "SELECT k, SUM(v) AS a FROM s [RANGE 5 SECONDS TO 1 SECOND SLIDE 1 SECOND] WHERE v > 2 GROUP BY k",
    }
    shards, engine = shards_and_engine(queries, 2)
    assert all(route.fold for route in shards.job.routes)
    at = np.arange(120) * 500_000
    part = pa.table(
        {"ts": pa.array(at, pa.timestamp("us")), "k": [f"k{i % 3}" for i in range(120)], "j": [0.0] * 120,
         "v": [i % 7 for i in range(120)], "x": [1.0] * 120}
    )  # fmt: skip
    engine.push("s", part)
    same(engine.advance(), shards.send([part.to_batches()]))


def test_queries_may_change_between_runs() -> None:
    """Those that are gone are dropped, new ones answer from then on; others go on as if nothing had been."""
    first = {"all": FOLDED["all"], "few": FOLDED["few"]}
    shards = Shards(STREAM, first)
    engine = muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(first)
    parts = [_steady(lo, lo + 10) for lo in range(0, 40, 10)]
    for turn, part in enumerate(parts):
        if turn == 2:
            second = {"all": FOLDED["all"], "new": FOLDED["few"].replace("MAX", "MIN")}
            engine.drop("few")
            engine.register(second["new"], "new")
            shards.restart(second)
        engine.push("s", part)
        same(engine.advance(), shards.send([part.to_batches()]))


def _steady(begin: int, end: int) -> pa.Table:
    at = np.arange(begin * 1_000_000, end * 1_000_000, 250_000)
    number = np.arange(len(at))
    return pa.table(
        {"ts": pa.array(at, pa.timestamp("us")), "k": [f"k{i % 3}" for i in number], "j": number / 7,
         "v": number % 5, "x": np.sin(number)}
    )  # fmt: skip


def test_late_events_are_counted_and_left_out() -> None:
    """By the microsecond without folding; with it, once the slice of the event has ended."""
    for fold, late in ((False, 2), (True, 1)):
        shards = Shards(STREAM, {"all": FOLDED["all"]}, fold=fold)
        shards.send([_steady(0, 10).to_batches()])  # the greatest time is 9.75, so the watermark 6.75
        events = (
            _steady(0, 1)
            .slice(0, 2)
            .set_column(0, "ts", pa.array([5_900_000, 6_500_000], pa.timestamp("us")))
        )
        shards.send([events.to_batches()])
        assert shards.late == late


def test_state_of_another_format_is_refused() -> None:
    shards = Shards(STREAM, {"all": FOLDED["all"]})
    shards.send([_steady(0, 10).to_batches()])
    shard = shards.job.routes[0].ids[0]
    (text,) = shards.tester.peekValueState("head", shard)
    shards.tester.updateValueState("head", shard, (text.replace(f'"format": {FORMAT}', '"format": 99'),))
    with pytest.raises(CheckpointError, match="format version 99"):
        shards.send([_steady(10, 20).to_batches()])


def test_another_number_of_shards_is_refused() -> None:
    shards = Shards(STREAM, {"sums": FOLDED["sums"]}, shards=2)
    shards.send([_steady(0, 10).to_batches()])
    shards.options["shards"] = 4
    shards.restart({"sums": FOLDED["sums"]})
    with pytest.raises(CheckpointError, match=r"2 shards .* not 4: go on with shards=2"):
        shards.send([_steady(10, 20).to_batches()])


def test_other_keys_are_refused() -> None:
    shards = Shards(STREAM, {"sums": FOLDED["sums"]})
    shards.send([_steady(0, 10).to_batches()])
    shards.restart({"sums": FOLDED["sums"], "pair": FOLDED["pair"]})
    with pytest.raises(CheckpointError, match="queries by the keys"):
        shards.send([_steady(10, 20).to_batches()])


def test_a_job_without_queries_or_shards_is_refused() -> None:
    with pytest.raises(MuntinError, match="no query"):
        Shards(STREAM, {})
    with pytest.raises(MuntinError, match="has 1 to 32,768 shards, not 0"):
        Shards(STREAM, {"sums": FOLDED["sums"]}, shards=0)
