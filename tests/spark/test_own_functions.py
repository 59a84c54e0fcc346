"""Functions of the user's own on Spark: their modules are imported where a job arrives; others are refused."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from shards import Shards

import muntin
from muntin.errors import CheckpointError, MuntinError
from muntin.own.registered import REGISTERED
from muntin.spark.plan_job import plan_job
from reference import declared
from registry import books_restored

STREAM = declared("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, x DOUBLE) TIMESTAMP BY ts")
QUERY = "SELECT k, SUM(TRIPLED(x)) AS a FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k"
MODULE = """
import muntin
import pyarrow.compute as pc

@muntin.function("TRIPLED", takes=[float], returns=float, version={version})
def tripled(x):
    return pc.multiply(x, 3.0)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module of functions; another process has imported nothing of it."""
    path = tmp_path / "functions_of_mine.py"
    path.write_text(MODULE.format(version=1))
    monkeypatch.syspath_prepend(tmp_path)
    with books_restored():
        __import__(path.stem)
        yield path
    sys.modules.pop(path.stem, None)


def elsewhere(path: Path) -> None:
    """This process as one that has not imported the module yet."""
    sys.modules.pop(path.stem, None)
    REGISTERED.pop("TRIPLED", None)


def test_module_is_imported_where_a_job_arrives(module: Path) -> None:
    packed = pickle.dumps(plan_job(STREAM, {"q": QUERY}))
    elsewhere(module)
    job = pickle.loads(packed)
    assert REGISTERED["TRIPLED"].version == 1
    assert job.functions.functions == (("TRIPLED", 1, "functions_of_mine"),)
    elsewhere(module)
    module.write_text(MODULE.format(version=2) + "\n")
    with pytest.raises(
        MuntinError, match=r"TRIPLED has version 1 where the job was planned, and module .* version 2"
    ):
        pickle.loads(packed)
    elsewhere(module)
    module.unlink()
    with pytest.raises(MuntinError, match=r"which cannot be imported here .*addPyFile"):
        pickle.loads(packed)


def test_functions_that_nobody_else_can_import_are_refused() -> None:
    with books_restored():

        @muntin.function("INNER_ONE", takes=[float], returns=float)
        def inner(x: pa.Array) -> pa.Array:
            return x

        text = QUERY.replace("TRIPLED", "Inner_One")
        with pytest.raises(
            MuntinError, match=r"INNER_ONE is defined inside a function of module .*my_functions"
        ):
            plan_job(STREAM, {"q": text})
        REGISTERED["INNER_ONE"].is_local, REGISTERED["INNER_ONE"].module = False, "__main__"
        with pytest.raises(MuntinError, match=r"INNER_ONE is defined in a script or notebook .*addPyFile"):
            plan_job(STREAM, {"q": text})
        assert plan_job(STREAM, {"q": text.replace("Inner_One", "")}).functions.functions == ()


def test_state_knows_versions(module: Path) -> None:
    """A checkpoint is gone on with by the same version alone."""
    second = pa.array([1_000_000, 5_000_000], pa.timestamp("us"))
    batch = pa.record_batch({"ts": second, "k": ["a", "a"], "x": [1.0, 2.0]})
    shards = Shards(STREAM, {"q": QUERY}, shards=1)
    answers = shards.send([[batch]])
    assert answers["q"]["a"].to_pylist() == [3.0, 3.0]
    REGISTERED["TRIPLED"].version = 2
    shards.restart({"q": QUERY})
    with pytest.raises(CheckpointError, match="TRIPLED, version 1, and version 2 is registered"):
        shards.send([[batch]])


@pytest.mark.spark
@pytest.mark.slow
def test_in_a_session(spark, module: Path) -> None:
    """Workers have nothing but the file."""
    import muntin.spark

    spark.sparkContext.addPyFile(str(module))
    df = spark.createDataFrame([(1, "a", 1.0), (3, "a", 2.0)], "at INT, k STRING, x DOUBLE")
    df = df.selectExpr("timestamp_seconds(at) AS ts", "k", "x")
    answers = muntin.spark.shared_windows(df, {"q": QUERY}, stream="s", time="ts", flush=True)
    rows = muntin.spark.answers_of(answers, "q").orderBy("window_end").collect()
    assert [row["a"] for row in rows] == [3.0, 9.0, 6.0]
