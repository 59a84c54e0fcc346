"""Processes die at any moment, and the answers are those of a run in which none did: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import join_events
import pyarrow as pa
import pyarrow.dataset as ds
from flow import WHOLE, assert_same, events, expected, write_files
from processes import descendants

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.slow]

DRIVER = Path(__file__).with_name("fault_driver.py")
FILES = 10
LIMIT = 1_800  # seconds; a bound, not an expectation


def workers(pid: int) -> list[int]:
    """Python workers that run tasks: the ones forked by a daemon."""
    return [
        each for each, line in descendants(pid).items() if "pyspark.daemon" in line and not descendants(each)
    ]


def jvm(pid: int) -> list[int]:
    return [each for each, line in descendants(pid).items() if "SparkSubmit" in line][:1]


def executor(pid: int) -> list[int]:
    return [each for each, line in descendants(pid).items() if "CoarseGrainedExecutorBackend" in line][:1]


@pytest.mark.parametrize(
    ("victim", "master", "sink"),
    [
        (workers, "local[2,4]", "files"),
        (jvm, "local[2,4]", "files"),
        (jvm, "local[2,4]", "foreachBatch"),
        (executor, "local-cluster[2,1,1024]", "files"),
    ],
    ids=["workers", "driver, files", "driver, foreachBatch", "executor"],
)
def test_exactly_once(tmp_path: Path, victim: Callable[[int], list[int]], master: str, sink: str) -> None:
    table = events(8_000)
    write_files(table, tmp_path / "in", range(FILES), FILES)
    kills = supervise(tmp_path, victim, master, sink)
    assert kills >= 2, "nothing was killed, so nothing was shown"
    answers = read_answers(tmp_path, sink)
    for name, wanted in expected(table, WHOLE).items():
        mine = answers.filter(ds.field("query") == name)
        assert_same(wanted, mine.select(wanted.schema.names))


def test_joins_exactly_once(tmp_path: Path) -> None:
    tables = join_events.both(6_000)
    for name, table in tables.items():
        write_files(table, tmp_path / name, range(FILES), FILES)
    assert supervise(tmp_path, workers, "local[2,4]", "files", "joins") >= 2
    answers = read_answers(tmp_path, "files")
    for name, wanted in join_events.expected(tables, join_events.JOINS).items():
        mine = answers.filter(ds.field("query") == name)
        join_events.assert_same(wanted, mine.select(wanted.schema.names), name)


def supervise(folder: Path, victim: Callable[[int], list[int]], master: str, sink: str, *more: str) -> int:
    """Run until the query has ended well, killing its processes after the 2nd, 4th and 6th micro-batch."""
    due, kills, started, unprovoked = [1, 3, 5], 0, time.monotonic(), 0
    while True:
        process, before = start(folder, master, sink, *more), kills
        while process.poll() is None:
            assert time.monotonic() - started < LIMIT
            time.sleep(0.2)
            if due and batches(folder) >= due[0]:
                due.pop(0)
                time.sleep(0.3)  # into the next micro-batch
                for each in victim(process.pid):
                    os.kill(each, signal.SIGKILL)
                    kills += 1
        if process.returncode == 0:
            return kills
        unprovoked += kills == before  # Spark gives up on processes that a busy machine starts slowly
        assert unprovoked < 4, (folder / "log").read_text()[-4_000:]


def start(folder: Path, master: str, sink: str, *more: str) -> subprocess.Popen[bytes]:
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), master, sink, *more], stdout=log, stderr=log
        )


def batches(folder: Path) -> int:
    """Micro-batches that have ended, counted over all runs."""
    progress = folder / "progress"
    return len(progress.read_text().splitlines()) if progress.exists() else 0


def read_answers(folder: Path, sink: str) -> pa.Table:
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
