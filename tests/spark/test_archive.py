"""Views kept by Spark: at every update they hold what the join answers, also after the driver was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from archive_flow import SECOND, VIEW, expected, held, start, tables, write
from processes import descendants

import muntin
import muntin.spark
from muntin.errors import MuntinError

pytestmark = pytest.mark.spark
FILES, KILLS = 4, 2
LIMIT = 600  # seconds; a bound, not an expectation


def test_holds_the_pairs_while_spark_writes(spark, tmp_path):
    made, seen, scans = tables(), [], []
    folder = str(tmp_path / "views" / "v")
    write(made, tmp_path, range(1), FILES)
    query = start(spark, tmp_path)
    try:
        for number in range(1, FILES):
            write(made, tmp_path, range(number, number + 1), FILES)
            query.processAllAvailable()
            found, now = held(tmp_path)
            assert now is None or found == expected(made, now)
            seen.append(sum(found.values()))
            scans.append((muntin.spark.scan_archive(spark, folder).select("k", "x", "total"), found))
    finally:
        query.stop()
    assert max(seen) > 100
    view = muntin.archive.View.open(folder)
    for scan, found in scans:  # each as of the update before it, though the writer has gone on
        assert Counter(map(tuple, scan.collect())) == found
    assert scans[-1][1] == expected(made, view.now)
    again = start(spark, tmp_path, availableNow=True)  # goes on from its checkpoint; there is nothing to do
    again.awaitTermination(LIMIT)
    assert held(tmp_path) == (expected(made, view.now), view.now)
    assert {path.name for path in (tmp_path / "views" / "v").glob("*.arrow")} == view.epoch.files()


def test_refusals(spark, tmp_path):
    df = spark.readStream.schema("ts TIMESTAMP, k STRING, x BIGINT, y BIGINT").parquet(str(tmp_path))
    df = df.withWatermark("ts", "1 second")
    streams = {"a": df.drop("y"), "b": df.drop("x")}
    for text, message in (
        ("SELECT k FROM a [RANGE 1 SECOND]", "takes a CREATE MATERIALIZED VIEW"),
        (VIEW.replace("JOIN b", "LEFT JOIN b"), "LEFT JOIN"),
        (VIEW.replace("JOIN b", "JOIN c").replace("b.k", "c.k"), "'c'"),
    ):
        with pytest.raises(MuntinError, match=message):
            muntin.spark.keep_view(
                text, streams, time="ts", archive=str(tmp_path / "v"), checkpoint=str(tmp_path / "c")
            )
    assert not (tmp_path / "v").exists()


@pytest.mark.slow
@pytest.mark.faults
def test_a_driver_that_is_killed(tmp_path):
    """Right after an update, before Spark knows of it, and during the next; what is repeated is there once."""
    made, kills, ended = tables(), 0, None
    write(made, tmp_path, range(FILES), FILES)
    deadline = time.monotonic() + LIMIT
    while ended != 0:
        before = last_batch(tmp_path)
        driver = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("archive_driver.py")), str(tmp_path)]
        )
        while driver.poll() is None:
            is_late = time.monotonic() > deadline
            if is_late or (kills < KILLS and last_batch(tmp_path) != before):
                time.sleep(0.3 * kills)
                for victim in [*descendants(driver.pid), driver.pid]:
                    os.kill(victim, signal.SIGKILL)
                assert not is_late, "it takes too long"
                kills += 1
                break
            time.sleep(0.02)
        ended = driver.wait()
        assert ended in (0, -signal.SIGKILL), "the driver failed by itself"
        found, now = held(tmp_path)
        assert now is None or found == expected(made, now)
    assert kills == KILLS
    assert last_batch(tmp_path) == FILES - 1
    assert (
        now >= 42 * SECOND
    )  # the watermark that the last micro-batch began with: what the others had brought


def last_batch(folder):
    """The last micro-batch that the view holds."""
    view = folder / "views" / "v"
    return muntin.archive.View.open(view).epoch.batch if (view / "directory").exists() else None
