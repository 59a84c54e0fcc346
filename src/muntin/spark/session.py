"""A session on this machine, set up as muntin runs best. Those who have a session hand in their own.

What each setting is for stands beside it; docs/concepts/spark.md says which of them matter elsewhere.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from muntin.errors import MuntinError
from muntin.spark.connect import refuse_client
from muntin.spark.java import find_java

_STATE = "spark.sql.streaming.stateStore"
PROVIDER = f"{_STATE}.providerClass"
STATE_SETTINGS = {
    # state as deltas: what transformWithState asks for, and changes instead of snapshots at every commit
    PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
}
_SETTINGS = STATE_SETTINGS | {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # many rows at once between the JVM and Python; each batch has a fixed cost on both sides
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # no limit in bytes: Spark would add up the size of all vectors again for every single row
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # a micro-batch without events closes no window
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # renaming through the file system at hand instead of Hadoop's FileContext: a third of a small micro-batch
    "spark.sql.streaming.checkpointFileManagerClass":
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}  # fmt: skip


def local_session(
    cores: int = 2, memory: str = "2g", master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session in this process; the Java it needs is found, or was installed with muntin. A task that fails
    is tried four times. `master` may name a cluster on this machine instead, as in `local-cluster[2,1,1024]`.

    Its shuffles have as many partitions as there are cores: each costs some 80 ms of every micro-batch.
    """
    _refuse_remote()
    find_java().use()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master or f"local[{cores},4]").appName("muntin")
    chosen = _SETTINGS | {"spark.sql.shuffle.partitions": str(cores), "spark.driver.memory": memory}
    chosen["spark.executorEnv.PYSPARK_PYTHON"] = os.environ["PYSPARK_PYTHON"]
    if path := os.environ.get("PYTHONPATH"):
        # executors run in folders of their own, where a relative path leads to no muntin, or to another one
        chosen["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, path.split(os.pathsep)))
    for name, value in (chosen | dict(settings or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _refuse_remote() -> None:
    """A process has sessions of its own, or of Spark Connect."""
    if (active := SparkSession.getActiveSession()) is not None:
        refuse_client(active, "local_session", "one is active, and a process has either kind. Stop it first")
    if address := os.environ.get("SPARK_REMOTE"):
        raise MuntinError(
            f"local_session starts Spark in this process, but SPARK_REMOTE names the server '{address}': unset it, or "
            "use SparkSession.builder.remote"
        )


# What a session must be for shared windows to run in it, checked before anything runs: later it fails deep
# in Java.

_SET_PYTHON = (
    "set PYSPARK_PYTHON (or spark.pyspark.python) to a Python that has muntin {version} wherever tasks run, before the "
    "session starts"
)
_checked: WeakSet[SparkSession] = WeakSet()  # sessions whose workers are known to be right


def check_session(session: SparkSession, is_streaming: bool) -> None:
    """Raise an error that names the setting to change, if a session cannot run shared windows."""
    if is_streaming:
        _check_state_store(session)
    if session not in _checked:
        _check_workers(session)
        _checked.add(session)


def _check_state_store(session: SparkSession) -> None:
    found = str(session.conf.get(PROVIDER))
    if not found.endswith("RocksDBStateStoreProvider"):
        raise MuntinError(
            f"a stream of shared windows keeps its state in RocksDB, but {PROVIDER} is {found}: "
            f"set it to {STATE_SETTINGS[PROVIDER]}"
        )


def _check_workers(session: SparkSession) -> None:
    """Ask one worker which muntin it has. Anything else that is wrong there, the job itself will tell."""
    own = str(sys.modules["muntin"].__version__)
    advice = _SET_PYTHON.format(version=own)
    try:
        (row,) = (
            session.range(1, numPartitions=1).mapInArrow(_asking(), "python STRING, found STRING").collect()
        )
    except PySparkException as error:
        if "PYTHON_VERSION_MISMATCH" in str(error):
            raise MuntinError(f"tasks run another version of Python than this process: {advice}") from error
        if missing := re.search(
            r"No module named '([^']+)'", str(error)
        ):  # without pyarrow nothing can be asked
            raise MuntinError(f"the Python of tasks has no {missing[1]}: {advice}") from error
        return
    if row["found"] != own:
        found = f"has muntin {row['found']}, not {own}" if row["found"] else "has no muntin"
        raise MuntinError(f"the Python of tasks, '{row['python']}', {found}: {advice}")


def _asking() -> Any:
    # a function made here travels by value: where there is no muntin, none of its modules can be named
    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import sys

        import pyarrow

        try:
            found = importlib.import_module("muntin").__version__
        except ImportError:
            found = None
        told = [pyarrow.array([each], pyarrow.string()) for each in (sys.executable, found)]
        yield from (
            pyarrow.RecordBatch.from_arrays(told, names=["python", "found"])
            for each in batches
            if each.num_rows
        )

    return ask
