"""Histories on Spark: new queries are filled from files as the embedded engine fills them, whatever is lost."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from shards import Shards
from test_shards import CREATE, STREAM, same, tasks_of

import muntin
from effort import some_of
from muntin.spark.history import history_files
from muntin.table import Table

WINDOW = "[RANGE 20 SECONDS SLIDE 5 SECONDS]"
QUERIES = {
    "sums": f"SELECT k, SUM(v) AS a, AVG(x) AS b FROM s {WINDOW} GROUP BY k",
    "some": f"SELECT k, COUNT(*) AS n FROM s {WINDOW} WHERE v = 3 GROUP BY k",
    "others": f"SELECT k, COUNT(*) AS n, MAX(x) AS a FROM s {WINDOW} WHERE v = 5 GROUP BY k",
    "who": f"SELECT k, MAX(x) AS a FROM s {WINDOW} GROUP BY k HAVING MAX(x) > 1 EMIT CHANGES",
    "all": f"SELECT COUNT(*) AS n, SUM(x) AS a, LAST(v) AS b FROM s {WINDOW} WHERE x > 0",
    "median": "SELECT k, MEDIAN(v) AS a FROM s [RANGE 30 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "rows": "SELECT k, SUM(v) AS a FROM s [ROWS 5 SLIDE 2] GROUP BY k",
    "now": "SELECT k, COUNT(*) AS n FROM s [RANGE 40 SECONDS] GROUP BY k",
    "count": "SELECT COUNT(DISTINCT k) AS n FROM s [RANGE 40 SECONDS SLIDE 10 SECONDS]",
    "last": "SELECT LAST(k) AS a, SUM(v) AS b FROM s [RANGE 60 SECONDS]",
}


def events(dice: random.Random, begin: int, end: int, most: int = 60) -> pa.Table:
    """Of some seconds, in order; no two at the same time."""
    rng, rows = np.random.default_rng(dice.randrange(2**32)), dice.randrange(most)
    at = np.unique(rng.integers(begin * 1_000_000, end * 1_000_000, rows))
    rows = len(at)
    return pa.table(
        {"ts": pa.array(at, pa.timestamp("us")),
         "k": pa.array([None if i == 4 else f"k{i}" for i in rng.integers(0, 5, rows)], pa.string()),
         "j": rng.integers(0, 2, rows).astype(float), "v": pa.array(rng.integers(0, 9, rows), pa.int64()),
         "x": rng.normal(size=rows).round(2)}
    )  # fmt: skip


def written(table: pa.Table, folder: Path, files: int = 3) -> str:
    """A history in some files, each with several row groups."""
    folder.mkdir(parents=True)
    size = max(1, -(-table.num_rows // files))
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet", row_group_size=7)
    return str(folder)


def engine_with(queries: dict[str, str], history: pa.Table | None) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(CREATE)
    if queries:
        engine.register_many(queries, backfill=history)
    return engine


def chosen(dice: random.Random, many: int) -> dict[str, str]:
    return {name: QUERIES[name] for name in dice.sample(sorted(QUERIES), many)}


@pytest.mark.parametrize("seed", range(some_of(120, 4)))
def test_new_queries_are_filled_as_by_the_engine(seed: int, tmp_path: Path) -> None:
    """On a first run, or in a running stream beside queries that do not notice: the history may end before the seam, or
    reach beyond it; be in order or not; attempts, and workers' memory, are lost. The files are gone afterwards."""
    dice = random.Random(seed)
    options: dict[str, Any] = {"shards": dice.randrange(1, 4), "spread": dice.choice([False, "all"])}
    options["fold"] = dice.random() < 0.7
    routes = {"k": "SELECT k, COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY k"}
    routes["none"] = "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS]"
    if options["spread"]:
        routes |= {"dealt": "SELECT MAX(k) AS n FROM s [RANGE 5 SECONDS]"}
        routes |= {"by value": "SELECT COUNT(DISTINCT k) AS n FROM s [RANGE 5 SECONDS]"}
    is_first = dice.random() < 0.3
    new = chosen(dice, dice.randrange(1, 4))
    live = [events(dice, lo, lo + 10) for lo in range(100, 160, 10)]
    begin = 0 if is_first else dice.randrange(6)
    past = pa.concat_tables([events(dice, 40, 100, 200), *live[:begin]])
    if dice.random() < 0.3:  # some of it is not there, or of a time that the stream has still to bring
        past = dice.choice([past.slice(0, 0), past.slice(30), pa.concat_tables([past, *live[begin:]])])
    if is_first:
        past = events(dice, 40, 100, 200)
    if dice.random() < 0.3:
        past = past.take(pa.array(np.random.default_rng(seed).permutation(past.num_rows)))
    queries = dict(routes) if not is_first else routes | new
    folder = written(past, tmp_path / "past")
    shards = Shards(STREAM, queries, **options, **({"history": history_files(folder)} if is_first else {}))
    # the embedded engine takes a disordered history of ROWS windows only if it is sorted
    history = past.sort_by("ts")
    engine = engine_with(queries, history if is_first else None)
    if not is_first:
        shards.send([[]])  # from then on its queries are not new, though there was no event
    for number, part in enumerate(live):
        if number == begin and not is_first:
            queries = routes | new
            engine.register_many(new, backfill=history)
            shards.options["history"] = history_files(folder)
            shards.restart(queries, is_warm=dice.random() < 0.5)
        elif number == begin + 1:
            for file in Path(folder).iterdir():
                file.unlink()
            shards.options.pop("history", None)
            shards.restart(queries, is_warm=dice.random() < 0.5)
        tasks = tasks_of(part, dice.randrange(1, 3))
        if dice.random() < 0.3:
            shards.lose_attempt(tasks)
        engine.push("s", part)
        same(engine.advance(), shards.send(tasks))
    for route in shards.job.routes:
        for shard in shards.of_route(route.name):
            shard.check()


def test_a_statement_with_a_history(tmp_path: Path) -> None:
    """Two shards and a control stream: the query is filled, also if an attempt is lost; a restart finds it."""
    dice = random.Random(3)
    past, live = events(dice, 40, 100, 200), [events(dice, lo, lo + 10) for lo in range(100, 150, 10)]
    folder = written(pa.concat_tables([past, *live[:2]]), tmp_path / "past")
    shards = Shards(STREAM, {"sums": QUERIES["sums"]}, shards=2, keys=["k", ""], is_controlled=True)
    engine = engine_with({"sums": QUERIES["sums"]}, None)
    names = ("some", "rows", "all")
    for number, part in enumerate(live):
        packed = shards.packed([part.to_batches()])
        if number == 2:
            texts = [f"REGISTER QUERY {name}_ AS {QUERIES[name]} BACKFILL '{folder}'" for name in names]
            packed = shards.packed_statements([pa.record_batch({"statement": texts})]) + packed
            shards.lose(packed)
            for name in names:
                engine.register(QUERIES[name], f"{name}_", backfill=folder)
        engine.push("s", part)
        wanted = engine.advance()
        shards.deliver(packed)
        got: dict[str, list[dict[str, Any]]] = {}
        for row in shards.last.to_pylist():
            values = {name: value for name, value in row.items() if value is not None and name != "rest"}
            got.setdefault(row["query"], []).append(values | json.loads(row["rest"] or "{}"))
        assert {name: table.num_rows for name, table in wanted.items()} == {
            name: len(rows) for name, rows in got.items()
        }
        for name, table in wanted.items():
            for row in table.to_pylist():
                row = {column: value for column, value in row.items() if value is not None}
                assert any({**other, **row} == other for other in got[name]), (name, row, got[name])
        if number == 2:
            for file in Path(folder).iterdir():
                file.unlink()
            shards.restart()
    assert not shards.refused


def test_a_history_that_cannot_be_read_is_refused_by_all_shards(tmp_path: Path) -> None:
    table = events(random.Random(1), 0, 20)
    folder = Path(written(table, tmp_path / "past"))
    pq.write_table(table.drop_columns(["v"]), folder / "9.parquet")
    (tmp_path / "empty").mkdir()
    shards = Shards(STREAM, {"sums": QUERIES["sums"]}, shards=2, is_controlled=True)
    texts = [
        f"REGISTER QUERY new AS {QUERIES['sums']} BACKFILL '{path}'"
        for path in (folder, tmp_path / "empty", tmp_path / "nowhere")
    ]
    shards.tell(*texts, f"REGISTER QUERY new AS {QUERIES['sums']}")
    assert len(shards.refused) == 3
    assert "9.parquet" in shards.refused[0]
    assert "'v'" in shards.refused[0]
    assert "there is no .parquet or .arrow or .feather file in" in shards.refused[1]
    assert "there is no folder" in shards.refused[2]
    assert [sorted(shard.queries) for shard in shards.of_route("k")] == [["new", "sums"]] * 2


def test_a_history_that_is_gone_registers_nothing(tmp_path: Path) -> None:
    """The micro-batch fails, and comes again when the files are there."""
    past, live = events(random.Random(1), 40, 100), events(random.Random(2), 100, 200)
    folder = written(past, tmp_path / "past")
    files = history_files(folder)
    shards = Shards(STREAM, {"sums": QUERIES["sums"]}, shards=2, history=files)
    (tmp_path / "past").rename(tmp_path / "elsewhere")
    with pytest.raises(Exception, match=r"cannot read .*0\.parquet"):
        shards.send([live.to_batches()])
    assert not shards.of_route("k")
    (tmp_path / "elsewhere").rename(tmp_path / "past")
    engine = engine_with({"sums": QUERIES["sums"]}, past)
    engine.push("s", live)
    same(engine.advance(), shards.send([live.to_batches()]))


def test_tables_and_histories_do_not_go_together() -> None:
    table = Table("limits", pa.schema([("k", pa.string()), ("most", pa.int64())]), ("k",))
    text = f"SELECT s.k, SUM(v) AS a FROM s {WINDOW} JOIN limits AS l ON s.k = l.k GROUP BY s.k HAVING SUM(v) > l.most"
    with pytest.raises(muntin.MuntinError, match="take no history"):
        Shards(STREAM, {"q": text}, tables=[table], history=["past.parquet"])
