"""Answers in a Delta table are there once, whatever is done again; and such a table is a history."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip(
    "deltalake", reason="Delta tables need deltalake, which is not installed: pip install 'muntin[delta]'"
)

import deltalake
import test_history
from delta_writer import ROWS, Answers, committed
from flow import FOLDED, WHOLE, assert_same, events, expected, write_files
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from runs import stream_of
from shards import Shards
from supervised import supervise
from test_shards import STREAM, same, tasks_of

import muntin.spark
from muntin.errors import ArchiveError, MuntinError
from muntin.spark.history import history_files

KILLS = 50  # between write and commit, and as many at any moment
TABLES = 20  # that are made by a writer which is killed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return checkpoint(tmp_path)


def checkpoint(folder: Path) -> Path:
    """A checkpoint, as far as it is read."""
    (folder / "commits").mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "some-query"}))
    return folder


def numbers(folder: Path) -> list[int]:
    return sorted(deltalake.DeltaTable(str(folder / "table")).to_pyarrow_table()["n"].to_pylist())


def test_a_repeated_micro_batch(folder: Path) -> None:
    write: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder))
    for batch in (0, 0, 1, 0, 1, 2):
        answers = Answers(batch)
        write(answers, batch)
        assert answers.is_made  # or Spark's state would not advance
    assert numbers(folder) == list(range(3 * ROWS))
    # another query has micro-batches of its own
    (folder / "metadata").write_text(json.dumps({"id": "another-query"}))
    write(Answers(3), 0)
    assert numbers(folder) == list(range(4 * ROWS))


@pytest.mark.parametrize("batch", [0, 1])
def test_a_driver_that_was_given_up(folder: Path, batch: int) -> None:
    """Both have seen the table without the micro-batch, or no table; the one that comes second is refused."""
    write: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder))
    for before in range(batch):
        write(Answers(before), before)

    class Overtaken(Answers):
        def toArrow(self) -> pa.Table:  # while its answers are made
            write(Answers(batch), batch)
            return super().toArrow()

    with pytest.raises((deltalake.exceptions.CommitFailedError, ArchiveError)):
        write(Overtaken(batch), batch)
    write(Answers(batch + 1), batch + 1)
    assert numbers(folder) == list(range((batch + 2) * ROWS))


@pytest.mark.parametrize("batch", [0, 1])
def test_drivers_that_write_at_once(folder: Path, batch: int) -> None:
    """Each has made its answers when the others write: at most one is not refused."""
    write: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder))
    for before in range(batch):
        write(Answers(before), before)
    together = threading.Barrier(3, timeout=120)

    class Ready(Answers):
        def toArrow(self) -> pa.Table:
            together.wait()
            return super().toArrow()

    def drive() -> None:
        with suppress(deltalake.exceptions.CommitFailedError, ArchiveError):
            write(Ready(batch), batch)

    drivers = [threading.Thread(target=drive) for _ in range(together.parties)]
    for each in drivers:
        each.start()
    for each in drivers:
        each.join()
    write(Answers(batch), batch)  # what Spark repeats if all were refused
    assert numbers(folder) == list(range((batch + 1) * ROWS))


def test_queries_that_make_one_table(folder: Path) -> None:
    """A table that another query has made meanwhile is written to, as one that was there."""
    write: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder))
    (folder / "other").mkdir()
    (folder / "other" / "metadata").write_text(json.dumps({"id": "another-query"}))
    other: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder / "other"))

    class Overtaken(Answers):
        def toArrow(self) -> pa.Table:
            other(Answers(1), 0)
            return super().toArrow()

    write(Overtaken(0), 0)
    assert numbers(folder) == list(range(2 * ROWS))


def test_new_columns_and_no_answers(folder: Path) -> None:
    """A query that is new brings its columns; a micro-batch without answers is no commit."""
    write: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder))

    class Fewer(Answers):
        def toArrow(self) -> pa.Table:
            return super().toArrow().slice(0, 0)

    class Wider(Answers):
        def toArrow(self) -> pa.Table:
            whole = super().toArrow()
            return whole.append_column("x", pa.array([0.5] * len(whole)))

    write(Fewer(0), 0)  # makes the table
    made = deltalake.DeltaTable(str(folder / "table")).version()
    write(Fewer(1), 1)
    assert deltalake.DeltaTable(str(folder / "table")).version() == made
    write(Answers(2), 2)
    write(Wider(3), 3)
    found = deltalake.DeltaTable(str(folder / "table")).to_pyarrow_table()
    assert (found.num_rows, found["x"].null_count) == (2 * ROWS, ROWS)


def test_a_table_that_is_compacted_meanwhile(folder: Path) -> None:
    write: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder))
    for batch in range(3):
        write(Answers(batch), batch)

    class Compacted(Answers):
        def toArrow(self) -> pa.Table:
            deltalake.DeltaTable(str(folder / "table")).optimize.compact()
            return super().toArrow()

    write(Compacted(3), 3)
    assert numbers(folder) == list(range(4 * ROWS))


def test_a_table_that_is_gone(folder: Path) -> None:
    write: Any = muntin.spark.append_to_delta(str(folder / "table"), str(folder))
    with pytest.raises(ArchiveError, match="goes on with micro-batch 4, but there is no Delta table"):
        write(Answers(4), 4)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize(("tables", "kills"), [(1, KILLS), (TABLES, 1)])
def test_killed(tmp_path: Path, tables: int, kills: int) -> None:
    """Nothing lost, nothing twice: in one table for long, and in many in their first micro-batch."""
    folders = [checkpoint(tmp_path / str(number)) for number in range(tables)]
    script = Path(__file__).with_name("delta_writer.py")
    subprocess.run(
        [sys.executable, str(script), str(kills), "1", *map(str, folders)], check=True, timeout=1_200
    )
    for folder in folders:
        assert numbers(folder) == list(range(committed(folder) * ROWS))
        assert committed(folder) >= kills


@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("quick_workers")
def test_a_stream_that_is_killed(tmp_path: Path) -> None:
    """In a session of Spark, all processes die between write and commit of each micro-batch."""
    table, files = events(6_000), 5
    write_files(table, tmp_path / "in", range(files), files)
    supervise(tmp_path, lambda _: [], "windows", sink="delta", due=())
    assert len(list(tmp_path.glob("died-*"))) == files
    assert_answers(tmp_path / "out", table, WHOLE)


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Each micro-batch fails after it was written, and is done again."""
    table, failed = events(4_000), set()
    write_files(table, tmp_path / "in", range(3), 3)
    checkpoint = str(tmp_path / "checkpoint")
    append = muntin.spark.append_to_delta(str(tmp_path / "out"), checkpoint)

    def write(answers: DataFrame, batch: int) -> None:
        append(answers, batch)
        if batch not in failed:
            failed.add(batch)
            raise RuntimeError("as if killed before the commit")

    while True:
        answers = muntin.spark.shared_windows(
            stream_of(spark, tmp_path / "in", 1), FOLDED, stream="t", time="ts", shards=2
        )
        writer = answers.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
            break
        except StreamingQueryException as error:
            # the second: Spark gives a Python process ten seconds to start, which a busy machine may not manage
            assert any(each in str(error) for each in ("as if killed", "failed to connect back"))
    assert failed == {0, 1, 2}
    assert_answers(tmp_path / "out", table, FOLDED)


def assert_answers(path: Path, table: pa.Table, queries: dict[str, str]) -> None:
    """A Delta table has the answers of the embedded engine, each once."""
    found = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    for name, wanted in expected(table, queries).items():
        mine = found.filter(pa.compute.equal(found["query"], name))
        assert_same(wanted, mine.select(wanted.schema.names))


def test_as_a_history(tmp_path: Path) -> None:
    """Files that the log does not name, or names no more, are none of it."""
    path = str(tmp_path / "past")
    table = events(300)
    deltalake.write_deltalake(path, table.slice(0, 100))
    deltalake.write_deltalake(path, table.slice(100, 100), mode="append")
    assert len(history_files(path)) == 2
    deltalake.write_deltalake(path, table.slice(200, 100), mode="overwrite")
    assert len(list((tmp_path / "past").glob("*.parquet"))) == 3
    (file,) = history_files(path)
    assert pa.parquet.read_table(file).num_rows == 100
    deltalake.write_deltalake(str(tmp_path / "parts"), table.slice(0, 100), partition_by=["k"])
    with pytest.raises(MuntinError, match="partitioned by k"):
        history_files(str(tmp_path / "parts"))


def test_a_query_that_is_filled_from_a_table(tmp_path: Path) -> None:
    """Of a name that a URI escapes."""
    path, queries = str(tmp_path / "past, 50 + ä#?"), {"sums": test_history.QUERIES["sums"]}
    past, live = (test_history.events(random.Random(1), *span, 200) for span in ((0, 100), (100, 120)))
    deltalake.write_deltalake(path, past)
    engine = test_history.engine_with(queries, past)
    engine.push("s", live)
    shards = Shards(STREAM, queries, shards=2, history=history_files(path))
    same(engine.advance(), shards.send(tasks_of(live, 2)))
