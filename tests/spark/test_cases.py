"""Every case gives its answers on Spark's shards too: packed, routed, kept as state, restored."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from case_runtime import SparkShards
from join_case_runtime import SparkJoins

from casefile import read_case
from muntin.errors import MuntinError
from muntin.spark.plan_job import plan_job
from reference import declared
from tests.test_cases import CASES, run_case

JOINS = [path for path in CASES if " JOIN " in path.read_text().replace("\n", " ")]
DERIVED = [path for path in CASES if "\nderive\n" in path.read_text()]  # Spark refuses derived streams
OVER_ONE_STREAM = [path for path in CASES if path not in (*JOINS, *DERIVED)]


def test_joins_get_several_dataframes() -> None:
    """With one, they say what to write instead."""
    stream = declared("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    join = "SELECT a.n, b.n FROM s [RANGE 5 SECONDS] AS a JOIN s [RANGE 5 SECONDS] AS b ON a.k = b.k"
    with pytest.raises(MuntinError, match="DataFrame for each stream"):
        plan_job(stream, {"pairs": join})


@pytest.mark.parametrize("path", OVER_ONE_STREAM, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    run_case(read_case(path.read_text()), SparkShards())


@pytest.mark.parametrize("path", JOINS, ids=lambda path: path.stem)
def test_case_of_joins(path: Path) -> None:
    run_case(read_case(path.read_text()), SparkJoins())
