"""A job on a standalone cluster whose executors have nothing but what a deployment gives them.

MUNTIN_PACKED may name an environment that venv-pack or conda-pack has made (docs/concepts/deploying-spark.md): then it
is sent along as an archive. Otherwise workers have the Python of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import deployed_driver
import pyarrow.parquet as pq
from flow import assert_same, events, expected, write_files
from standalone import StandaloneCluster

import muntin

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.slow]
PACKED = os.environ.get("MUNTIN_PACKED")


def test_a_standalone_cluster(tmp_path: Path) -> None:
    """The answers are those of the embedded engine, and executors keep their kernels where they are told to."""
    table, cache, home = events(4_000), tmp_path / "cache", tmp_path / "home"
    write_files(table, tmp_path / "in", range(2), 2)
    home.mkdir()
    settings = {"spark.executorEnv.MUNTIN_CACHE_DIR": str(cache), "spark.sql.shuffle.partitions": "2"}
    if PACKED:
        (home / "env").mkdir()
        subprocess.run(["tar", "xzf", PACKED, "-C", str(home / "env")], check=True)
        settings["spark.archives"] = f"{PACKED}#env"
        environment = {"PYSPARK_PYTHON": "./env/bin/python"}
    else:
        source = str(Path(muntin.__file__).parents[1])
        settings["spark.executorEnv.PYTHONPATH"] = source
        environment = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": source}
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        done = cluster.submit([deployed_driver.__file__, str(tmp_path)], settings, environment, home)
    assert done.returncode == 0, done.stderr[-3_000:]
    assert any(cache.rglob("*.nbc"))
    for source in ("frame", "folder"):
        answers = pq.read_table(tmp_path / source / "answers")
        for name, wanted in expected(table, deployed_driver.QUERIES).items():
            rows = answers.filter(pq.filters_to_expression([("query", "==", name)]))
            assert_same(wanted, rows.select(wanted.schema.names))
