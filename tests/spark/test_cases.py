"""Every case gives its answers on Spark's shards too: packed, routed, kept as state, restored."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from case_runtime import SparkShards

from casefile import read_case
from tests.test_cases import CASES, run_case


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    run_case(read_case(path.read_text()), SparkShards())
