"""Queries come and go by statements in the stream, at the same point in every shard, and again after a restart."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards
from test_shards import CREATE, FOLDED, STREAM, WHOLE, _steady, same

import muntin
from effort import some_of
from muntin.spark.shard import _PARSED

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
    for shard in shards.of_route("k"):
        assert list(shard.queries) == ["sums"]


def random_statement(dice: random.Random) -> str:
    """Good and bad ones, of few names, so that they meet."""
    name = dice.choice(["sums", "a", "b", "c"])
    text = dice.choice([FOLDED["sums"], FOLDED["all"], WHOLE["rows"], NEW])
    return dice.choice(
        [f"DROP QUERY {name}", f"DROP QUERY {name}", f"REGISTER QUERY {name} AS {text}",
         f"REGISTER QUERY {name} AS {text}", f"CREATE OR REPLACE QUERY {name} AS {text}",
         f"REGISTER QUERY {name} AS {FOLDED['pair']}", "SELECT 1", f"REGISTER QUERY {name} AS SELECT SUM(w) FROM s",
         f"CREATE OR REPLACE QUERY {name} AS {text}; DROP QUERY nobody", "nonsense"]
    )  # fmt: skip


def one_by_one(queries: dict[str, str], statement: str) -> bool:
    """Carry out a statement on a set of queries, naively; whether it could be."""
    done = dict(queries)
    for each in statement.split("; "):
        words = each.split()
        name = words[4] if words[0] == "CREATE" else words[2] if len(words) > 2 else ""
        text = each.partition(" AS ")[2]
        if words[0] == "DROP" and name in done:
            del done[name]
        elif words[0] in ("REGISTER", "CREATE") and text in (
            FOLDED["sums"],
            FOLDED["all"],
            WHOLE["rows"],
            NEW,
        ):
            if words[0] == "REGISTER" and name in done:
                return False
            done[name] = text
        else:
            return False
    queries.clear()
    queries.update(done)
    return True


@pytest.mark.parametrize("seed", range(some_of(25, 40)))
@pytest.mark.parametrize("by", ["position", "file"])
def test_statements_of_a_micro_batch_are_carried_out_by_their_places(by: str, seed: int) -> None:
    """Whichever tasks read them, and in which order: the queries are those of one statement after the other, and
    those that cannot be carried out are told, each once, and change nothing."""
    dice = random.Random(seed)
    shards, queries, refused = controlled(sums=FOLDED["sums"]), {"sums": FOLDED["sums"]}, 0
    shards.send([_steady(0, 10).to_batches()])
    for turn in range(4):
        statements = [random_statement(dice) for _ in range(dice.randrange(1, 8))]
        refused += sum([not one_by_one(queries, each) for each in statements])
        if by == "position":
            placed = [(each, number * 10 - 20) for number, each in enumerate(statements)]
            dice.shuffle(placed)
        else:  # lines of a block of a file stay together, in order
            edges = sorted(dice.randrange(len(statements)) for _ in range(3))
            place = [
                (f"{1 + (edges[1] <= i):03}.txt", 100 * sum(edge <= i for edge in edges))
                for i in range(len(statements))
            ]
            placed = [(each, *where) for each, where in zip(statements, place, strict=True)]
        blocks: dict[Any, list[Any]] = {}
        for number, row in enumerate(placed):
            blocks.setdefault(row[1:] if by == "file" else number, []).append(row)
        tasks: list[list[Any]] = [[] for _ in range(3)]
        for block in dice.sample(list(blocks.values()), len(blocks)):
            dice.choice(tasks).extend(block)
        names = ["statement", by, "block"][: 2 if by == "position" else 3]
        shards.tell_in_tasks(
            [
                pa.record_batch([list(column) for column in zip(*task, strict=True)], names=names)
                for task in tasks
                if task
            ]
        )
        shards.send([_steady(10 + turn, 11 + turn).to_batches()])
        if dice.random() < 0.3:
            shards.restart()
    assert len(shards.refused) == refused
    there = {route: shard.queries for route in ("k", "") for shard in shards.of_route(route)}
    assert there["k"] | there[""] == queries


def test_statements_without_a_position_come_last() -> None:
    shards = controlled(sums=FOLDED["sums"])
    shards.send([_steady(0, 10).to_batches()])
    told = ["DROP QUERY new", f"REGISTER QUERY new AS {NEW}", None]
    shards.tell_in_tasks([pa.record_batch([told, pa.array([None, 7, 3])], names=["statement", "position"])])
    assert shards.refused == []
    assert all(list(shard.queries) == ["sums"] for shard in shards.of_route("k"))


def test_a_replaced_query_may_have_other_keys() -> None:
    shards = controlled(sums=FOLDED["sums"])
    shards.send([_steady(0, 10).to_batches()])
    shards.tell(f"CREATE OR REPLACE QUERY sums AS {FOLDED['all']}")
    assert [list(shard.queries) for route in ("k", "") for shard in shards.of_route(route)] == [
        [], [], [], ["sums"],
    ]  # fmt: skip


def test_a_replacement_keeps_the_state_that_still_fits() -> None:
    """The window that closes next has the events before the statement, also of a shard that is built again."""
    shards, engine = controlled(new=NEW), muntin.Engine()
    engine.execute(CREATE)
    engine.register(NEW, "new")
    other = NEW.replace("AS a", "+ 0 AS a")
    for turn, begin in enumerate(range(0, 40, 10)):
        if turn == 2:
            skipped = "REGISTER QUERY IF NOT EXISTS new AS SELECT COUNT(*) FROM no [ROWS 1]"
            shards.tell(f"{skipped}; CREATE OR REPLACE QUERY new AS {other}", "DROP QUERY IF EXISTS nobody")
            shards.restart()
        part = _steady(begin, begin + 10)
        engine.push("s", part)
        wanted = engine.advance()["new"].to_pylist()
        shards.send([part.to_batches()])
        found = [row for row in shards.last.to_pylist() if row["query"] == "new"]
        assert len(found) == len(wanted) > 0
        assert [row["complete"] for row in found] == [row["complete"] for row in wanted]
        values = [row["a"] if row["a"] is not None else json.loads(row["rest"])["a"] for row in found]
        assert sorted(values) == sorted(row["a"] for row in wanted)
    assert shards.refused == []
    assert all(list(shard.queries) == ["new"] for shard in shards.of_route("k"))


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
    for shard in shards.of_route("k"):
        assert shard.queries.keys() == {"sums", "ends", "new"}


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


def test_queries_that_went_are_not_remembered() -> None:
    """After 60 REGISTER and DROP, as many parsed queries are held as before."""
    shards = controlled(sums=FOLDED["sums"])
    shards.send([_steady(0, 10).to_batches()])
    before = sum(map(len, _PARSED.values()))
    for i in range(60):
        shards.tell(f"REGISTER QUERY new AS {NEW.replace('4 SECONDS', f'{4 + 2 * i} SECONDS')}")
        shards.tell("DROP QUERY new")
    assert shards.refused == []
    assert sum(map(len, _PARSED.values())) <= before
