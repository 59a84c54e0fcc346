"""Views of several kinds kept by a real session, with a restart between, and by a driver that is killed; read back by
key, range and smaller windows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from archive_flow import tables, write
from processes import descendants
from pyspark.sql import SparkSession
from view_flow import FILES, VIEWS, expected, start

import muntin.spark
from muntin.archive import View
from muntin.errors import MuntinError

pytestmark = [pytest.mark.spark, pytest.mark.slow]
KILLS, LIMIT = 2, 900  # seconds; a bound, not an expectation


def test_views_of_all_kinds(spark: SparkSession, tmp_path: Path) -> None:
    """Each holds the naive answer before and after a restart; what is read back is what was asked for."""
    made, reached = tables(), {}
    for files in (range(2), range(2, FILES)):
        write(made, tmp_path, files, FILES)
        queries = [start(spark, tmp_path, view) for view in VIEWS]
        for query in queries:
            query.awaitTermination()
        for view in VIEWS:
            folder = str(tmp_path / "views" / view)
            now = View.open(folder).now
            assert now is not None
            assert now > reached.get(view, 0)
            found = Counter(map(tuple, read(spark, folder)))
            assert found == expected(made, view, now), view
            assert sum(found.values()) > 10
            reached[view] = now
    rows = str(tmp_path / "views" / "rows_")
    wanted = expected(made, "rows_", reached["rows_"])
    for bounds in ({"key": "q"}, {"low": "q"}, {"high": "q"}):
        low, high = (
            bounds.get("low", bounds.get("key", "")),
            bounds.get("high", "z" if "low" in bounds else "r"),
        )
        assert Counter(map(tuple, read(spark, rows, **bounds))) == Counter(
            {row: many for row, many in wanted.items() if low <= row[0] < high}
        )
    smaller = Counter(map(tuple, read(spark, rows, sizes=10)))
    assert smaller == expected(made, "rows_", reached["rows_"], (10, 10))
    one = read(spark, str(tmp_path / "views" / "pairs_"), key="p", sizes=timedelta(seconds=6))
    assert {row[0] for row in one} == {"p"}
    for bad in ({"key": "q", "low": "a"}, {"sizes": 31}, {"sizes": timedelta(seconds=1)}, {"sizes": [10]}):
        with pytest.raises(MuntinError):
            muntin.spark.scan_archive(spark, rows, **bad)
    with pytest.raises(MuntinError, match="own windows only"):
        muntin.spark.scan_archive(spark, str(tmp_path / "views" / "except_"), sizes=timedelta(seconds=1))


def read(spark: SparkSession, folder: str, **bounds: Any) -> list[Any]:
    found = muntin.spark.scan_archive(spark, folder, **bounds)
    return found.drop("generated_at", "expires_at").collect()


@pytest.mark.faults
@pytest.mark.parametrize("view", ["rows_", "except_"])
def test_a_driver_that_is_killed(tmp_path: Path, view: str) -> None:
    """Right after a micro-batch, before Spark knows of it, and during the next; what is repeated is there once."""
    made, kills, ended = tables(), 0, None
    write(made, tmp_path, range(FILES), FILES)
    folder, deadline = tmp_path / "views" / view, time.monotonic() + LIMIT
    while ended != 0:
        before = last_batch(folder)
        command = [sys.executable, str(Path(__file__).with_name("view_flow.py")), str(tmp_path), view]
        driver = subprocess.Popen(command)
        while driver.poll() is None:
            is_late = time.monotonic() > deadline
            if is_late or (kills < KILLS and last_batch(folder) != before):
                time.sleep(0.2 * kills)
                for victim in [*descendants(driver.pid), driver.pid]:
                    os.kill(victim, signal.SIGKILL)
                assert not is_late, "it takes too long"
                kills += 1
                break
            time.sleep(0.02)
        ended = driver.wait()
        assert ended in (0, -signal.SIGKILL), "the driver failed by itself"
        stored = View.open(folder)
        if stored.now is not None:
            rows = stored.read_all().select(["k", "x", "more" if view == "except_" else "y"])
            found = Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))
            assert found == expected(made, view, stored.now)
    assert kills == KILLS
    assert last_batch(folder) == FILES - 1
    assert now_is_the_end(made, stored)


def now_is_the_end(made: dict[str, Any], stored: View) -> bool:
    """The last update that the watermark has passed after all events."""
    ends = [max(table["ts"].cast("int64").to_pylist()) - 1_000_000 for table in made.values()]
    return stored.now == min(ends) // 2_000_000 * 2_000_000


def last_batch(folder: Path) -> int | None:
    """The last micro-batch that the view holds."""
    return View.open(folder).epoch.batch if (folder / "directory").exists() else None
