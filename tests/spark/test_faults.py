"""Processes die at any moment, and the answers are those of a run in which none did: nothing lost, nothing twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import archive_flow
import join_events
import lookup_events
import pyarrow as pa
import pyarrow.dataset as ds
import table_events
import view_flow
from flow import WHOLE, assert_same, events, expected, write_files
from supervised import Victims, driver, executor, machine, supervise, workers

from muntin.archive import View

pytestmark = [
    pytest.mark.faults,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.usefixtures("quick_workers"),
]

FILES = 6
CLUSTER = "local-cluster[2,1,1024]"
EACH = pytest.mark.parametrize(
    ("victims", "master"),
    [(workers, "local[2,4]"), (driver, "local[2,4]"), (executor, CLUSTER)],
    ids=["workers", "driver", "executor"],
)


@EACH
def test_windows(tmp_path: Path, victims: Victims, master: str) -> None:
    answer_windows(tmp_path, victims, master, "files")


def test_windows_by_batch(tmp_path: Path) -> None:
    """A sink of one's own, which a micro-batch may be handed twice."""
    answer_windows(tmp_path, driver, "local[2,4]", "foreachBatch")


def answer_windows(folder: Path, victims: Victims, master: str, sink: str) -> None:
    table = events(8_000)
    write_files(table, folder / "in", range(FILES), FILES)
    assert supervise(folder, victims, "windows", master=master, sink=sink) >= 2
    answers = read_answers(folder, sink)
    for name, wanted in expected(table, WHOLE).items():
        assert_same(wanted, of_query(answers, name, wanted))


@EACH
def test_joins(tmp_path: Path, victims: Victims, master: str) -> None:
    tables = join_events.both(3_000)
    for name, table in tables.items():
        write_files(table, tmp_path / name, range(FILES), FILES)
    assert supervise(tmp_path, victims, "joins", master=master) >= 2
    answers = read_answers(tmp_path)
    for name, wanted in join_events.expected(tables, join_events.JOINS).items():
        join_events.assert_same(wanted, of_query(answers, name, wanted), name)


@EACH
def test_lookups(tmp_path: Path, victims: Victims, master: str) -> None:
    """Requests wait in the state for several micro-batches, and each is answered once."""
    table, requests = events(4_000), lookup_events.asked(200, 45_000_000)
    write_files(table, tmp_path / "in", range(FILES), FILES)
    write_files(requests, tmp_path / "asked", range(FILES), FILES)
    assert supervise(tmp_path, victims, "lookups", master=master) >= 2
    lookup_events.same(lookup_events.answered(table, requests), read_answers(tmp_path))


@EACH
def test_tables(tmp_path: Path, victims: Victims, master: str) -> None:
    """A stream of changes and one of events: a change has its effect once, before the events of its micro-batch."""
    table, engine = events(6_000), table_events.engine_with([], table_events.RULE_ROWS)
    wanted: dict[str, list[pa.Table]] = {}
    write_files(table, tmp_path / "in", range(FILES), FILES)
    changes = [
        *table_events.LIMIT_ROWS,
        {"k": "a", "most": 10**6},
        {"k": "z", "gone": True},
        {"k": "c", "most": 5},
    ]
    write_files(table_events.changes_table(changes), tmp_path / "changes", range(FILES), FILES)
    for number, row in enumerate(changes):
        table_events.change(engine, [row])
        engine.push("t", table.slice(number * 1_000, 1_000))
        for name, each in engine.advance().items():
            wanted.setdefault(name, []).append(each)
    assert supervise(tmp_path, victims, "tables", master=master) >= 2
    answers = read_answers(tmp_path)
    assert wanted.keys() == table_events.QUERIES.keys()
    for name, some in wanted.items():
        whole = pa.concat_tables(some)
        if "span" in whole.column_names:  # Parquet has no such type, only Spark's note of it
            whole = whole.drop_columns("span")
        assert_same(whole, of_query(answers, name, whole))


@pytest.mark.parametrize(
    ("victims", "master"),
    [(workers, "local[2,4]"), (machine, "local[2,4]"), (executor, CLUSTER)],
    ids=["workers", "driver", "executor"],
)
def test_a_view_that_spark_joins(tmp_path: Path, victims: Victims, master: str) -> None:
    """The driver is killed right after an update, before Spark knows of it, and during the next."""
    made = archive_flow.tables()
    archive_flow.write(made, tmp_path, range(4), 4)
    folder = tmp_path / "views" / "v"

    def look() -> None:
        if updates(folder):
            found, now = archive_flow.held(tmp_path)
            assert now is None or found == archive_flow.expected(made, now)

    kills = supervise(
        tmp_path, victims, "v", master=master, due=(1, 2), reached=lambda _: updates(folder), after=look
    )
    assert kills == 2
    assert updates(folder) == 4
    # the watermark that the last micro-batch began with: what the others had brought
    assert archive_flow.held(tmp_path)[1] >= 42 * archive_flow.SECOND


@pytest.mark.parametrize(
    ("view", "victims"),
    [("rows_", machine), ("except_", machine), ("except_", workers), ("pairs_", machine)],
    ids=["rows, driver", "except, driver", "except, workers", "pairs, driver"],
)
def test_a_view(tmp_path: Path, view: str, victims: Victims) -> None:
    """What is repeated is there once, whatever keeps the view."""
    made = archive_flow.tables()
    archive_flow.write(made, tmp_path, range(view_flow.FILES), view_flow.FILES)
    folder = tmp_path / "views" / view
    look: Callable[[], None] = lambda: check_view(made, view, folder)  # noqa: E731
    kills = supervise(tmp_path, victims, view, due=(1, 2), reached=lambda _: updates(folder), after=look)
    assert kills == 2
    assert updates(folder) == view_flow.FILES
    look()


def check_view(made: dict[str, pa.Table], view: str, folder: Path) -> None:
    """What it holds is the naive answer as of where it stands."""
    if not updates(folder):
        return
    stored = View.open(folder)
    if stored.now is not None:
        third = {"rows_": "y", "except_": "more", "pairs_": "other"}[view]
        rows = stored.read_all().select(["k", "x", third])
        found = Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        assert found == view_flow.expected(made, view, stored.now)


def updates(folder: Path) -> int:
    """Micro-batches that a view holds."""
    batch = View.open(folder).epoch.batch if (folder / "directory").exists() else None
    return 0 if batch is None else batch + 1


def of_query(answers: pa.Table, name: str, wanted: pa.Table) -> pa.Table:
    return answers.filter(ds.field("query") == name).select(wanted.schema.names)


def read_answers(folder: Path, sink: str = "files") -> pa.Table:
    """What a reader sees: with the file sink, the files that its log names."""
    if sink == "foreachBatch":
        files = sorted(str(each) for each in (folder / "out").glob("batch=*/part-*.parquet"))
    else:
        lines = [
            line
            for log in (folder / "out" / "_spark_metadata").iterdir()
            if not log.name.startswith(".")
            for line in log.read_text().splitlines()
            if line.startswith("{")
        ]
        files = sorted({json.loads(line)["path"].removeprefix("file://") for line in lines})
    return ds.dataset(files).to_table()
