"""Control streams that keep folding: tasks learn from a shared roster what came, and answers are those of a job that
does not fold and is told each statement one micro-batch later."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards

import effort
from muntin.errors import CheckpointError, MuntinError
from muntin.spark import shared_roster
from muntin.stream import Stream
from scenario import SECOND, SeededDice

STREAM = Stream(
    "s",
    pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())]),
    "ts",
)
OWN = {
    "sums": "SELECT k, SUM(n) AS v FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] GROUP BY k",
    "count": "SELECT COUNT(*) AS v FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS]",
}
# other sizes, finer slices, another component, filters alike and not, and some that cells cannot answer
TO_COME = [
    "SELECT k, SUM(n) AS v FROM s [RANGE 12 SECONDS SLIDE 4 SECONDS] GROUP BY k",
    "SELECT k, SUM(n) AS v FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "SELECT k, MAX(n) AS v FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING MAX(n) > 3",
    "SELECT k, COUNT(*) AS v FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE n > 4 GROUP BY k",
    "SELECT COUNT(*) AS v FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE k = 'a'",
    "SELECT COUNT(*) AS v FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS] WHERE k = 'b'",
    "SELECT MEDIAN(n) AS v FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS]",
    "SELECT k, SUM(n) AS v FROM s [ROWS 3 SLIDE 2] GROUP BY k",
    "SELECT n, COUNT(*) AS v FROM s [RANGE 4 SECONDS SLIDE 4 SECONDS] GROUP BY n",
]


class Folding(Shards):
    """Shards with a roster; they know the number of their micro-batch."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **options: Any):
        super().__init__(
            STREAM, OWN, shards=2, keys=["k", "", "n"], is_controlled=True, roster=str(folder), **options
        )
        patch.setattr("muntin.spark.processor.this_batch", lambda: self.batch)


def table_of(times: list[int], dice: SeededDice) -> pa.Table:
    columns = {
        "k": [dice.pick(("a", "b", "c", None)) for _ in times],
        "n": [dice.whole(0, 9) for _ in times],
        "x": [0.5 for _ in times],
    }
    return pa.table({"ts": times, **columns}, schema=STREAM.schema)


def plain(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


def random_statements(dice: SeededDice) -> list[str]:
    told = []
    for _ in range(dice.pick((0, 0, 1, 2))):
        name = dice.pick(("p", "q", "r", "count"))
        sql = dice.pick(TO_COME)
        told.append(
            dice.pick(
                (
                    f"REGISTER QUERY {name} AS {sql}",
                    f"CREATE OR REPLACE QUERY {name} AS {sql}",
                    f"DROP QUERY {name}",
                )
            )
        )
    return told


@pytest.mark.parametrize("seed", range(effort.some_of(120, 3)))
def test_answers_are_those_of_events_as_they_are_one_micro_batch_later(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = SeededDice(seed)
    folding = Folding(tmp_path, monkeypatch)
    whole = Shards(STREAM, OWN, shards=2, keys=["k", "", "n"], is_controlled=True)
    now, before = 0, list[str]()
    kinds = set[str]()
    for _ in range(12):
        statements = random_statements(dice)
        times = []
        for _ in range(dice.whole(0, 9)):
            now += dice.pick((0, SECOND // 2, SECOND, 2 * SECOND))
            times.append(now)
        tasks = [table_of(times, dice).to_batches(), []]
        told = pa.record_batch({"statement": pa.array(statements, pa.string())})
        packed = folding.packed(tasks) + folding.packed_statements([told])
        kinds |= {kind for batch in packed for kind in batch["kind"].to_pylist()}
        if dice.chance(25):
            folding.lose(packed)
            assert [batch.to_pylist() for batch in folding.packed(tasks)] == [
                batch.to_pylist() for batch in packed if "statement" not in batch["kind"].to_pylist()
            ]  # another attempt packs the same, though there is a note of the first
        if dice.chance(25):
            folding.restart()
        folding.deliver(packed)
        late = pa.record_batch({"statement": pa.array(before, pa.string())})
        whole.deliver(whole.packed(tasks) + whole.packed_statements([late]))
        # what is kept from before a query came depends on how it was kept: of windows that are not covered yet,
        # cells and events may tell different parts
        answers = [each.last.filter(each.last["complete"]) for each in (folding, whole)]
        assert plain(answers[0]) == plain(answers[1]), (seed, statements, before)
        before = statements
    assert folding.refused[: len(whole.refused)] == whole.refused
    assert "cells" in kinds


def test_tasks_fold_for_what_came_and_send_events_while_a_query_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Folding(tmp_path, monkeypatch)
    dice = SeededDice(1)

    def kinds(at: int) -> dict[str, set[str]]:
        packed = shards.packed([table_of([at * SECOND], dice).to_batches()])
        shards.deliver(packed)
        of = {shard: route.name for route in shards.job.routes for shard in route.ids}
        rows = [row for batch in packed for row in batch.to_pylist() if row["kind"] in ("cells", "events")]
        return {
            kind: {of[row["shard"]] for row in rows if row["kind"] == kind} for kind in ("cells", "events")
        }

    assert kinds(1) == {"cells": {"k", ""}, "events": set()}  # nobody asks by n
    shards.tell(f"REGISTER QUERY rows AS {TO_COME[7]}")
    assert kinds(2) == {"cells": {""}, "events": {"k"}}
    shards.tell("DROP QUERY rows", f"REGISTER QUERY by_n AS {TO_COME[8]}")
    assert kinds(3) == {"cells": {"k", "", "n"}, "events": set()}
    assert shards.refused == []


def test_a_restart_with_other_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run is started with takes the place of what statements said of these names, in tasks and shards alike."""
    shards = Folding(tmp_path, monkeypatch)
    dice = SeededDice(2)
    whole = Shards(STREAM, OWN, shards=2, keys=["k", "", "n"], is_controlled=True)

    def both(times: list[int]) -> None:
        tasks = [table_of([each * SECOND for each in times], dice).to_batches()]
        shards.send(tasks)
        whole.send(tasks)
        assert plain(shards.last) == plain(whole.last)

    both([1, 2])
    said = [f"REGISTER QUERY fine AS {TO_COME[1]}", f"REGISTER QUERY most AS {TO_COME[2]}", "DROP QUERY sums"]
    for each in (shards, whole):
        each.tell(*said)  # a micro-batch by itself: nothing happens before the next one
    both([3, 5])
    both([6, 11, 14])
    given = OWN | {"most": TO_COME[0], "new": TO_COME[3]}
    for each in (shards, whole):
        each.restart(given)
    both([15, 22, 31])
    both([32, 40])


def test_a_folder_that_is_lost_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = Folding(tmp_path / "roster", monkeypatch)
    dice = SeededDice(3)
    shards.send([table_of([SECOND], dice).to_batches()])
    shards.tell(f"REGISTER QUERY fine AS {TO_COME[1]}")
    packed = shards.packed([table_of([2 * SECOND], dice).to_batches()])
    shutil.rmtree(tmp_path / "roster")
    stale = shards.packed([table_of([2 * SECOND], dice).to_batches()])
    with pytest.raises(CheckpointError, match="are in note 1 of the roster, but tasks found no note"):
        shards.deliver(stale)
    shards.deliver(packed)


def test_a_folder_of_another_run_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = SeededDice(4)
    first = Folding(tmp_path, monkeypatch)
    first.tell(f"REGISTER QUERY fine AS {TO_COME[1]}")
    other = Folding(tmp_path, monkeypatch)
    other.batch = 5
    with pytest.raises(CheckpointError, match="are in no note of the roster, but tasks found note 0"):
        other.send([table_of([SECOND], dice).to_batches()])


def test_a_roster_cannot_come_after_the_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = SeededDice(5)
    shards = Folding(tmp_path, monkeypatch)
    shards.options["roster"] = None
    shards.configure(OWN)
    shards.restart()
    shards.tell(f"REGISTER QUERY fine AS {TO_COME[1]}")
    shards.options["roster"] = str(tmp_path)
    shards.configure(OWN)
    shards.restart()
    with pytest.raises(CheckpointError, match="'fine' came by a statement before there was a roster"):
        shards.send([table_of([SECOND], dice).to_batches()])


def test_notes_are_few_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_roster, "_MOST_NOTES", 3)
    shards = Folding(tmp_path, monkeypatch)
    for each in range(6):
        shards.tell(f"CREATE OR REPLACE QUERY q AS {TO_COME[each % 2]}")
    route = next(each for each in shards.job.routes if each.name == "k")
    assert sorted(int(each.name) for each in (tmp_path / str(route.ids[0])).iterdir()) == [3, 4, 5]
    (tmp_path / str(route.ids[0]) / "5").write_text("{")
    with pytest.raises(CheckpointError, match=r"note 5 of the roster in .* cannot be read"):
        shared_roster.read_note(shards.job, route, 9)
    with pytest.raises(MuntinError, match="a roster is for streaming queries"):
        shared_roster.this_batch()
