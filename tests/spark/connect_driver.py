"""A table and a stream in a session of Spark Connect, in a process of its own: `connect_driver.py FOLDER SERVER`.

It answers the files in FOLDER/in, the table into FOLDER/table/answers and the stream into FOLDER/answers.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from flow import FOLDED, SCHEMA  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from runs import run, stream_of  # noqa: E402

import muntin.spark  # noqa: E402
from muntin.spark.session import STATE_SETTINGS  # noqa: E402

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    session = SparkSession.builder.remote(sys.argv[2]).getOrCreate()
    for name, value in {**STATE_SETTINGS, "spark.sql.shuffle.partitions": "2"}.items():
        session.conf.set(name, value)
    df = session.read.schema(SCHEMA).parquet(str(folder / "in"))
    table = muntin.spark.shared_windows(df, FOLDED, stream="t", time="ts", delay=timedelta(seconds=2))
    table.write.parquet(str(folder / "table" / "answers"))
    run(muntin.spark.shared_windows(stream_of(session, folder / "in"), FOLDED, stream="t", time="ts"), folder)
    assert muntin.spark.read_state(session, str(folder / "checkpoint"))
    session.stop()
