"""Spark Connect: what runs in a session of this process runs there, with the same answers, or is refused by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip(
    "grpc", reason="Spark Connect needs grpcio, which is not installed: pip install 'pyspark[connect]'"
)

import connect_driver
from pyspark.sql import SparkSession

import muntin.spark
from muntin.errors import MuntinError

LIMIT = 600  # seconds; a bound, not an expectation


@pytest.mark.spark
@pytest.mark.slow
def test_a_client_has_all_of_it(spark: SparkSession, tmp_path: Path) -> None:
    service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    server = f"sc://localhost:{getattr(service, 'MODULE$').localPort()}"
    command = [sys.executable, connect_driver.__file__, str(tmp_path), server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-3_000:]}"
    assert done.stdout.count(" s\n") == len(connect_driver.STEPS)


def test_a_session_of_this_process_is_not_for_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    with pytest.raises(MuntinError, match="SPARK_REMOTE names the server 'sc://elsewhere'"):
        muntin.spark.local_session()
