"""A session on this machine, set up as muntin runs best. Those who have a session hand in their own.

What each setting is for stands beside it; docs/concepts/spark.md says which of them matter elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

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
