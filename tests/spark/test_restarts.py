"""A restart with other queries goes on as the engine does: whatever was there before, and however it was planned."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from shards import Shards
from test_shards import CREATE, STREAM, same, tasks_of

import muntin
from effort import some_of
from muntin.errors import CheckpointError

WINDOWS = (
    "[RANGE 2 SECONDS SLIDE 1 SECOND]", "[RANGE 6 SECONDS SLIDE 3 SECONDS]",
    "[RANGE 5 SECONDS TO 1 SECOND SLIDE 1 SECOND]",
    "[RANGE 40 SECONDS SLIDE 10 SECONDS]", "[RANGE 2 DAYS SLIDE 1 HOUR]", "[RANGE 30 SECONDS SLIDE 2 SECONDS]",
)  # fmt: skip
CALLS = ("SUM(v)", "MAX(v)", "COUNT(v)", "AVG(x)", "COUNT(*)", "LAST(v)", "MIN(x) FILTER (WHERE v > 3)")


def random_query(dice: random.Random, keys: str) -> str:
    window, call = dice.choice(WINDOWS), dice.choice(CALLS)
    where = dice.choice(["", "", " WHERE v > 2", f" WHERE x > {dice.randrange(70) / 10}"])
    if dice.random() < 0.08:
        call = "MEDIAN(v)"  # which needs events: nothing of its route is folded then
    by = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {keys + ', ' if keys else ''}{call} AS a FROM s {window}{where}{by}"


def events(dice: random.Random, begin: int, end: int) -> pa.Table:
    rows = dice.randrange(40)
    rng = np.random.default_rng(dice.randrange(2**32))
    at = np.sort(rng.integers(begin * 1_000_000, end * 1_000_000, rows))
    return pa.table(
        {"ts": pa.array(at, pa.timestamp("us")),
         "k": pa.array([f"k{i}" for i in rng.integers(0, 4, rows)], pa.string()),
         "j": rng.integers(0, 2, rows).astype(float), "v": rng.integers(0, 9, rows),
         "x": rng.normal(size=rows).round(2)}
    )  # fmt: skip


def other_queries(dice: random.Random, before: dict[str, str], routes: list[str]) -> dict[str, str]:
    """Some dropped, some new, some with another text under the same name; of each route at least one."""
    kept = {name: text for name, text in before.items() if dice.random() < 0.6}
    changed = {name: random_query(dice, dice.choice(routes)) for name in before if dice.random() < 0.3}
    new = {
        f"q{dice.randrange(100)}": random_query(dice, dice.choice(routes)) for _ in range(dice.randrange(4))
    }
    queries = kept | changed | new
    for route in routes:
        if not any(
            text.endswith(f"GROUP BY {route}") if route else "GROUP BY" not in text
            for text in queries.values()
        ):
            name = next(name for i in range(9) if (name := f"always {route} {i}") not in queries)
            queries[name] = random_query(dice, route)
    return queries


Answers = dict[str, pa.Table]


class Restarts:
    """A job that is started again and again, beside an engine that goes on."""

    def __init__(self, dice: random.Random, folder: Path):
        self.dice = dice
        self.folder = folder
        self.routes = dice.choice([["k"], [""], ["k", ""], ["j, k", "k"]])
        self.spread = "all" if "" in self.routes and dice.random() < 0.4 else False
        self.queries = self.with_fixed(other_queries(dice, {}, self.routes))
        self.engine = muntin.Engine()
        self.engine.execute(CREATE)
        self.engine.register_many(self.queries)
        many = dice.randrange(1, 4)
        self.shards = Shards(STREAM, self.queries, shards=many, spread=self.spread, fold=dice.random() < 0.7)
        self.past: list[pa.Table] = []

    def with_fixed(self, queries: dict[str, str]) -> dict[str, str]:
        """One that is spread must be there from the start, if any may come."""
        if not self.spread:
            return queries
        dealt = {
            f"dealt {name}": text.replace(*_WITHOUT_SLIDE)
            for name, text in queries.items()
            if "SLIDE 3" in text
        }
        return queries | dealt | {"dealt": "SELECT COUNT(v) AS a, MAX(k) AS b FROM s [RANGE 6 SECONDS]"}

    def again(self) -> None:
        """Other queries, folded or not, perhaps filled from a history, on columns that nobody has read."""
        dice, before = self.dice, self.queries
        own = {name: text for name, text in before.items() if not name.startswith("dealt")}
        self.queries = self.with_fixed(other_queries(dice, own, self.routes))
        for name in [name for name, text in before.items() if self.queries.get(name) != text]:
            self.engine.drop(name)
        new = {name: text for name, text in self.queries.items() if before.get(name) != text}
        self.shards.options["fold"] = dice.random() < 0.7
        self.shards.options.pop("history", None)
        past = pa.concat_tables(self.past) if self.past else None
        if past is not None and past.num_rows and new and dice.random() < 0.4:
            path = self.folder / f"{len(self.past)}.parquet"
            pq.write_table(past, path)
            self.shards.options["history"] = [str(path)]
            self.engine.register_many(new, backfill=past)
        else:
            self.engine.register_many(new)
        unread = pa.field("unread", dice.choice([pa.int64(), pa.string(), pa.float64()]))
        self.shards.stream = replace(STREAM, schema=STREAM.schema.append(unread))
        self.shards.restart(self.queries, is_warm=dice.random() < 0.5)

    def refused(self, part: pa.Table) -> None:
        """Start with other shards, or another type of a column that was read; then as before."""
        shards, stream, many = self.shards, self.shards.stream, self.shards.options["shards"]
        if self.dice.random() < 0.5 and any(route.shards > 1 for route in shards.job.routes):
            shards.options["shards"] = many + 1
            reason = f"has {many} shards"
        else:
            heads = [shards.head(each) for route in shards.job.routes for each in route.ids]
            read = {name for head in heads if head is not None for name in head.columns or ()}
            bound = read & {"v", "x"}
            if not bound:
                return
            name = sorted(bound)[0]
            place = stream.schema.get_field_index(name)
            shards.stream = replace(stream, schema=stream.schema.set(place, pa.field(name, pa.int32())))
            reason = f"has column '{name}' as"
            part = part.set_column(
                part.column_names.index(name), name, pa.array([0] * part.num_rows, pa.int32())
            )
        shards.restart(self.queries)
        with pytest.raises(CheckpointError, match=reason):
            shards.lose_attempt([part.to_batches()])
        shards.stream, shards.options["shards"] = stream, many
        shards.restart(self.queries)

    def send(self, part: pa.Table) -> None:
        tasks = tasks_of(part, self.dice.randrange(1, 3))
        if self.dice.random() < 0.2:
            self.shards.lose_attempt(tasks)
        self.engine.push("s", part)
        self.past.append(part)
        wanted, found = (
            self.after_first_event(each) for each in (self.engine.advance(), self.shards.send(tasks))
        )
        if self.spread:
            wanted, found = self.known(wanted, found)
        same(wanted, found)

    def after_first_event(self, answers: Answers) -> Answers:
        """Without silent windows that end before the stream began: where events were folded, it began with a slice, and
        a query that comes later may have a finer SLIDE than that slice (docs/concepts/spark.md, what differs)."""
        first = min((part["ts"][0].value for part in self.past if part.num_rows), default=None)
        if first is None:
            return answers
        begun = {
            name: table
            if "GROUP BY" in self.queries[name]
            else table.filter(pa.array(np.asarray(table["window_end"].cast(pa.int64())) > first))
            for name, table in answers.items()
        }
        return {name: table for name, table in begun.items() if table.num_rows}

    def known(self, wanted: Answers, found: Answers) -> tuple[Answers, Answers]:
        """Without what is not complete on Spark: a new query there knows what others on its route have kept, and in the
        engine what any other has."""
        assert wanted.keys() == found.keys()
        for name in [name for name in wanted if "GROUP BY" not in self.queries[name]]:
            assert wanted[name].num_rows == found[name].num_rows
            complete = {row["window_end"]: row["complete"] for row in found[name].to_pylist()}
            wanted[name], found[name] = (
                each[name].filter(pa.array([complete[end] for end in each[name]["window_end"].to_pylist()]))
                for each in (wanted, found)
            )
        return wanted, found


_WITHOUT_SLIDE = (" SLIDE 3 SECONDS", "")


# 33: after a restart tasks fold more coarsely than the stairs of a shard are; 197: lanes were folded more coarsely than
# the store of the filter that took their cells
@pytest.mark.parametrize("seed", sorted({*range(some_of(200, 2)), 33, 197}))
def test_restarts_answer_as_the_engine(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Queries added, dropped and changed under the same name, filled from a history or not; folding on and off; types
    and shards changed, which is refused and leaves no trace; micro-batches without events, the first and the last among
    them: at random. Every plan that they lead to takes what the driver sends."""
    dice = random.Random(seed)
    if dice.random() < 0.5:  # so that windows move to stairs when they can
        for name, value in (("FEW_GRANULES", 0), ("CLEAR_MARGIN", 1e-9), ("MOST_FOR_ONE_FOLD", 1e9)):
            monkeypatch.setattr(f"muntin.plan.choices.{name}", value)
    if dice.random() < 0.5:
        monkeypatch.setattr("muntin.spark.ledger._SMALL", 2_000)
    job = Restarts(dice, tmp_path)
    empty = events(dice, 0, 1).slice(0, 0)
    at = 0
    for turn in range(12):
        if dice.random() < 0.4 and turn:
            job.again()
        begin, at = at, at + dice.choice([1, 5, 20])
        part = events(dice, begin, at)
        if dice.random() < 0.15 and turn:
            job.refused(part)
        is_quiet = turn in (0, 11) and dice.random() < 0.5
        job.send(empty if is_quiet or dice.random() < 0.1 else part)
    for route in job.shards.job.routes:
        plans = set()
        for shard in job.shards.of_route(route.name):
            shard.check()
            manager = shard._shard.state.manager
            plans.add(
                str([(each.planned, each.store, sorted(each.queries)) for each in manager.groups.values()])
            )
        assert len(plans) == 1  # all shards of a route have the same plan
