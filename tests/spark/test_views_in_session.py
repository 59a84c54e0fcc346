"""Views of several kinds kept by a real session, with a restart between; read back by key, range and smaller
windows."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from archive_flow import tables, write
from pyspark.sql import SparkSession
from runs import patiently
from view_flow import FILES, VIEWS, expected, start

import muntin.spark
from muntin.archive import View
from muntin.errors import MuntinError

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_views_of_all_kinds(spark: SparkSession, tmp_path: Path) -> None:
    """Each holds the naive answer before and after a restart; what is read back is what was asked for."""
    made, reached = tables(), {}
    for files in (range(2), range(2, FILES)):
        write(made, tmp_path, files, FILES)
        begun = {view: start(spark, tmp_path, view) for view in VIEWS}  # side by side
        for view in VIEWS:
            patiently(
                lambda view=view: (begun.pop(view, None) or start(spark, tmp_path, view)).awaitTermination()  # noqa: B023
            )
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
