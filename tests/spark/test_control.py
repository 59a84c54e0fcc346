"""Queries come and go by statements in the stream, at the same point in every shard, and again after a restart."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards
from test_shards import CREATE, FOLDED, STREAM, WHOLE, _steady, same

import muntin

NEW = "SELECT k, SUM(v) AS a, MEDIAN(v) AS other FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k"


def controlled(**queries: str) -> Shards:
    return Shards(STREAM, queries, keys=["k", ""], shards=3, is_controlled=True)


def test_a_query_comes_and_goes_as_in_the_engine() -> None:
    shards, engine = controlled(sums=FOLDED["sums"]), muntin.Engine()
    engine.execute(CREATE)
    engine.register(FOLDED["sums"], "sums")
    for turn, begin in enumerate(range(0, 60, 10)):
        if turn == 2:
            engine.register(NEW, "new")
            engine.drop("sums")
            shards.tell(f"REGISTER QUERY new AS {NEW}; DROP QUERY sums")
        if turn == 4:
            shards.restart()  # the statement is in the state
            shards.tell("DROP QUERY new")
            engine.drop("new")
        part = _steady(begin, begin + 10)
        engine.push("s", part)
        expected = engine.advance()
        got = shards.send([part.to_batches()])
        assert shards.refused == []
        if "new" in expected:
            wanted = expected.pop("new").to_pylist()
            found = [row for row in shards.last.to_pylist() if row["query"] == "new"]
            assert len(found) == len(wanted) > 0
            # a column that the layout has goes there, another one into `rest`
            assert sorted(row["a"] for row in found) == sorted(row["a"] for row in wanted)
            others = [json.loads(row["rest"])["other"] for row in found]
            assert sorted(others, key=str) == sorted((row["other"] for row in wanted), key=str)
            assert any(others)
        same(expected, got)
    assert shards.last.num_rows == 0


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (f"REGISTER QUERY sums AS {NEW}", "there is a query 'sums' already"),
        ("DROP QUERY sum", "no query 'sum'; did you mean 'sums'"),
        (f"REGISTER QUERY p AS {FOLDED['pair']}", "not among keys=\\['k', ''\\]"),
        ("REGISTER QUERY p AS SELECT SUM(w) FROM s [ROWS 3]", "'w'"),
        ("DROP STREAM s", "nothing else"),
        (f"REGISTER QUERY fine AS {WHOLE['rows']}; DROP QUERY gone", "no query 'gone'"),
    ],
)
def test_a_statement_that_cannot_be_carried_out_is_told_once_and_changes_nothing(
    statement: str, reason: str
) -> None:
    shards = controlled(sums=FOLDED["sums"])
    shards.send([_steady(0, 10).to_batches()])
    shards.tell(statement)
    (told,) = shards.refused
    assert re.search(reason, told)
    for operator in shards.operators("k"):
        assert list(operator.queries) == ["sums"]


def test_every_shard_has_the_same_roster() -> None:
    shards = controlled(sums=FOLDED["sums"])
    shards.send([_steady(0, 10).to_batches()])
    shards.tell(f"REGISTER QUERY new AS {NEW}", "DROP QUERY nothing", "DROP QUERY sums")
    heads = [shards.head(each) for route in shards.job.routes for each in route.ids]
    assert {(str(head.came), str(head.went)) for head in heads if head} == {("{'new': 'k'}", "['sums']")}
    assert len(shards.refused) == 1


def test_a_changed_job_wins_over_statements() -> None:
    """What the job itself names after a restart is there, whatever statements said before."""
    shards = controlled(sums=FOLDED["sums"])
    shards.send([_steady(0, 10).to_batches()])
    shards.tell(f"REGISTER QUERY new AS {NEW}", "DROP QUERY sums")
    shards.restart({"sums": FOLDED["sums"], "ends": FOLDED["ends"]})
    shards.send([_steady(10, 20).to_batches()])
    for operator in shards.operators("k"):
        assert operator.queries.keys() == {"sums", "ends", "new"}


def test_rest_is_null_when_nothing_is_left() -> None:
    shards = controlled(sums=FOLDED["sums"])
    shards.send([_steady(0, 10).to_batches()])
    text = FOLDED["sums"].replace("6 SECONDS", "8 SECONDS")
    shards.tell(f"REGISTER QUERY longer AS {text}")
    shards.send([_steady(10, 20).to_batches()])
    rows = shards.last.filter(pa.compute.equal(shards.last["query"], "longer"))
    assert rows.num_rows > 0
    assert rows["rest"].null_count == rows.num_rows
    assert rows["a"].null_count == 0
