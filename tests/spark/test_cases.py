"""Every case gives its answers on Spark's shards too: packed, routed, kept as state, restored."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from case_runtime import SparkShards

from casefile import read_case
from muntin.errors import MuntinError
from muntin.spark.job import plan_job
from reference import declared
from tests.test_cases import CASES, run_case

OVER_ONE_STREAM = [path for path in CASES if " JOIN " not in path.read_text().replace("\n", " ")]


def test_joins_are_refused() -> None:
    """The cases left out are those of joins, which say what to do instead."""
    stream = declared("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    join = "SELECT a.n, b.n FROM s [RANGE 5 SECONDS] AS a JOIN s [RANGE 5 SECONDS] AS b ON a.k = b.k"
    with pytest.raises(MuntinError, match="join the DataFrames"):
        plan_job(stream, {"pairs": join})
    assert len(CASES) - len(OVER_ONE_STREAM) == 2


@pytest.mark.parametrize("path", OVER_ONE_STREAM, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    run_case(read_case(path.read_text()), SparkShards())
