"""A streaming query in a process of its own, to be killed: `fault_driver.py FOLDER MASTER SINK KIND`.

It answers the files in FOLDER, one of each stream a micro-batch, and ends when all are done. KIND says what runs:
windows, joins, look-ups, tables, or one of the views.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import archive_flow  # noqa: E402
import join_events  # noqa: E402
import lookup_events  # noqa: E402
import table_events  # noqa: E402
import view_flow  # noqa: E402
from flow import WHOLE  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from runs import finish, stream_of  # noqa: E402
from supervised import kill, machine  # noqa: E402

import muntin.spark  # noqa: E402


def main(folder: Path, master: str, sink: str, kind: str) -> None:
    spark = muntin.spark.local_session(cores=2, memory="1g", master=master)
    if kind == "v":
        archive_flow.start(spark, folder, availableNow=True).awaitTermination()
    elif kind in view_flow.VIEWS:
        view_flow.start(spark, folder, kind).awaitTermination()
    else:
        write(answers_of(spark, folder, kind), folder, sink)


def answers_of(spark: SparkSession, folder: Path, kind: str) -> DataFrame:
    if kind == "joins":
        return muntin.spark.shared_windows(
            join_events.streams_of(spark, folder, 1), join_events.JOINS, time="ts", shards=2
        )
    if kind == "lookups":
        return lookup_events.streamed(spark, folder)
    if kind == "tables":
        return table_events.streamed(spark, folder, table_events.RULE_ROWS, 1)
    return muntin.spark.shared_windows(
        stream_of(spark, folder / "in", 1), WHOLE, stream="t", time="ts", shards=2
    )


def write(answers: DataFrame, folder: Path, sink: str) -> None:
    writer = answers.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if sink == "files":
        writer = writer.format("parquet").option("path", str(folder / "out"))
    elif sink == "delta":
        append = muntin.spark.append_to_delta(str(folder / "out"), str(folder / "checkpoint"))
        writer = writer.foreachBatch(dying_after(append, folder))
    else:
        writer = writer.foreachBatch(muntin.spark.overwrite_batches(str(folder / "out")))
    finish(writer, attempts=50)  # whoever supervises says when it is in vain


def dying_after(append: Callable[[DataFrame, int], None], folder: Path) -> Callable[[DataFrame, int], None]:
    """Each micro-batch is written, and before Spark commits it all processes die; the next driver repeats it."""

    def write(answers: DataFrame, batch: int) -> None:
        append(answers, batch)
        died = folder / f"died-{batch}"
        if not died.exists():
            died.touch()
            kill(machine(os.getpid()))  # this process is the last of them

    return write


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
