"""Spark Connect: tables and streams have the answers that they have in a session of this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip(
    "grpc", reason="Spark Connect needs grpcio, which is not installed: pip install 'pyspark[connect]'"
)

from flow import FOLDED, events, expected, write_files
from pyspark.sql import SparkSession
from runs import assert_answers

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LIMIT = 600  # seconds; a bound, not an expectation


def test_a_table_and_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    table = events(4_000)
    write_files(table, tmp_path / "in", range(2), 2)
    driver = str(Path(__file__).with_name("connect_driver.py"))
    server = f"sc://localhost:{spark.conf.get('spark.connect.grpc.binding.port')}"
    subprocess.run([sys.executable, driver, str(tmp_path), server], check=True, timeout=LIMIT)
    assert_answers(spark, tmp_path / "table", expected(table, FOLDED))
    assert_answers(spark, tmp_path, expected(table, FOLDED))
