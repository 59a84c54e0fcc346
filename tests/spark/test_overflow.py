"""On Spark, too, a value that does not exist takes nothing with it: shards and tables against the reference."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards, split

from effort import some_of
from muntin.spark.answers import unpack_answers
from muntin.spark.pack import pack_events
from muntin.spark.plan_job import plan_job
from muntin.spark.run_table import run_table
from overflows import HUGE, STREAM, random_sql
from reference import ReferenceEngine, declared
from scenario import SECOND, SeededDice

Row = dict[str, Any]
pytestmark = pytest.mark.filterwarnings("ignore:query .* leaves out")


def random_queries(dice: SeededDice) -> dict[str, str]:
    """Queries that move: without SLIDE, an answer depends on when a micro-batch ends."""
    queries: dict[str, str] = {}
    while len(queries) < 6:
        sql = random_sql(dice)
        if "SLIDE" in sql.split("FROM")[1]:
            queries[f"q{len(queries)}"] = sql
    return queries


def random_batches(dice: SeededDice) -> list[dict[str, list[Any]]]:
    """Some micro-batches of events in order."""
    batches, now = [], 10 * SECOND
    for _ in range(4):
        times = []
        for _ in range(dice.whole(3, 9)):
            now += dice.pick((0, SECOND, SECOND // 2, 3 * SECOND))
            times.append(now)
        columns: dict[str, list[Any]] = {"ts": times}
        for name, options in {"k": ("a", "b", "c", None), "j": (1, 2), "n": HUGE}.items():
            columns[name] = [dice.pick(options) for _ in times]
        batches.append(columns)
    return batches


def plain(rows: list[Row]) -> list[str]:
    """Rows in an order of their own, floats to ten digits."""
    shown = (
        {name: f"{each:.10g}" if isinstance(each, float) else each for name, each in row.items()}
        for row in rows
    )
    return sorted(str(sorted(row.items())) for row in shown)


def reference_of(queries: dict[str, str]) -> ReferenceEngine:
    reference = ReferenceEngine()
    reference.execute(STREAM)
    for name, sql in queries.items():
        reference.register(sql, name=name)
    return reference


@pytest.mark.parametrize("seed", range(some_of(12, 50)))
def test_shards_leave_out_only_the_row_without_a_value(seed: int) -> None:
    """Rows and their number, micro-batch by micro-batch, with a restart in between."""
    dice = SeededDice(seed)
    queries, stream = random_queries(dice), declared(STREAM)
    reference = reference_of(queries)
    shards = Shards(stream, queries, shards=2, fold=dice.chance(50))
    left_out = 0
    for batch in random_batches(dice):
        reference.push("s", batch)
        expected = reference.advance()
        table = pa.table(batch, schema=stream.schema)
        actual = shards.send([table.to_batches()])
        for name in queries:
            rows = expected[name].rows if name in expected else []
            found = actual[name].to_pylist() if name in actual else []
            assert plain(found) == plain(rows), queries[name]
        left_out += sum(answer.left_out for answer in expected.values())
        assert shards.overflows == left_out
        if dice.chance(30):
            shards.restart()


def test_a_table_leaves_out_only_the_row_without_a_value() -> None:
    """The same of a table, whose windows are emitted as it goes."""
    left_out = 0
    for seed in range(100, 106):
        dice = SeededDice(seed)
        queries, stream = random_queries(dice), declared(STREAM)
        reference = reference_of(queries)
        batches = random_batches(dice)
        for batch in batches:
            reference.push("s", batch)
        expected = reference.advance()
        job = plan_job(stream, queries, shards=2, zone=None)
        events = [each for batch in batches for each in pa.table(batch, schema=stream.schema).to_batches()]
        packed = pa.Table.from_batches(list(pack_events(job, events, 0)))
        order = [(name, "ascending") for name in ("shard", "start", "origin", "turn")]
        emitted = list(run_table(job, packed.sort_by(order).to_batches()))
        answers = [pa.Table.from_batches([each]) for each in unpack_answers(job, emitted)]
        actual = split(job, pa.concat_tables(answers)) if answers else {}
        for name in queries:
            rows = expected[name].rows if name in expected else []
            assert plain(actual[name].to_pylist() if name in actual else []) == plain(rows), queries[name]
        count = sum(each.column("overflows").to_pylist()[0] for each in emitted)
        assert count == sum(answer.left_out for answer in expected.values())
        left_out += count
    assert left_out > 20


@pytest.mark.filterwarnings("ignore:a row is left out")
def test_a_spread_query_leaves_out_only_the_window_without_a_value() -> None:
    """What shards said of a window is merged in a last step: an overflow there ends no job."""
    window = "[RANGE 2 SECONDS SLIDE 1 SECOND]"
    queries = {
        "plain": f"SELECT APPROX_COUNT(j = 1, 0.1) AS v FROM s {window}",
        "wide": f"SELECT APPROX_COUNT(j = 1, 0.1) * {2**61} AS v FROM s {window}",
        "having": f"SELECT APPROX_COUNT(j = 1, 0.1) AS v FROM s {window} HAVING APPROX_COUNT(j = 1, 0.1) * {2**61} > 0",
    }
    stream = declared(STREAM)
    shards = Shards(stream, queries, shards=3, spread=True)
    seconds = [10, 11, 12, 12, 12, 12, 13, 14, 15, 16, 20, 21, 25]
    table = pa.table(
        {"ts": [each * SECOND for each in seconds], "k": ["a"] * 13, "j": [1] * 13, "n": [1] * 13},
        schema=stream.schema,
    )
    answers = shards.send([table.to_batches()])
    plain_rows = {row["window_end"]: row["v"] for row in answers["plain"].to_pylist()}
    assert max(plain_rows.values()) > 3
    fitting = {end: count for end, count in plain_rows.items() if count <= 3}
    assert {row["window_end"]: row["v"] for row in answers["wide"].to_pylist()} == {
        end: count * 2**61 for end, count in fitting.items()
    }
    assert {row["window_end"]: row["v"] for row in answers["having"].to_pylist()} == {
        end: count for end, count in fitting.items() if count
    }
