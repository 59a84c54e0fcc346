"""Folders that muntin reads and writes itself; no session is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from muntin.errors import MuntinError
from muntin.spark import EventFolder, append_to_delta, keep_view, scan_archive
from muntin.spark.history import history_files
from muntin.spark.shared_path import shared_path


@pytest.mark.parametrize("path", ["s3a://bucket/past", "hdfs:/past", "abfss://c@a/past", "file:/past"])
def test_other_file_systems(path: str) -> None:
    """What muntin reads and writes itself has a path of the machine."""
    session: Any = None
    for read in (
        lambda: history_files(path),
        lambda: EventFolder(session, path, schema=pa.schema([("ts", pa.int64())])),
        lambda: scan_archive(session, path),
        lambda: append_to_delta("/lake", path),
        lambda: keep_view("", {}, time="ts", archive=path, checkpoint="/checkpoint"),
        lambda: keep_view("", {}, time="ts", archive="/views", checkpoint=path),
        lambda: shared_path("roster", path),
    ):
        with pytest.raises(MuntinError, match="is on a file system that only Spark reads"):
            read()
    assert shared_path("folder", "trades of 10:00/new") == Path("trades of 10:00/new")


def test_a_delta_table_is_no_folder_of_events(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    session: Any = None
    with pytest.raises(MuntinError, match="is a Delta table, whose log says which files count"):
        EventFolder(session, str(tmp_path)).stream("t", "ts")
