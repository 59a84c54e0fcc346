"""A streaming query from Kafka to Kafka in a process of its own, to be killed.

`kafka_driver.py FOLDER BROKER KIND MASTER`: it answers the topic KIND, from `latest` on if its checkpoint is new, into
the topic KIND-answers, and never ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from kafka_events import QUERIES, events_of  # noqa: E402

import muntin.spark  # noqa: E402
from kafka_broker import connector_jars  # noqa: E402

if __name__ == "__main__":
    folder, broker, kind, master = Path(sys.argv[1]), *sys.argv[2:]
    # Killed while it writes its first offsets, a query leaves half a file, and Spark takes that for another query's.
    settings = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}
    spark = muntin.spark.local_session(
        cores=2, memory="1g", master=master, settings=settings | {"spark.jars": connector_jars()}
    )
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    messages = read.option("subscribe", kind).option("startingOffsets", "latest").load()
    answers = muntin.spark.shared_windows(
        events_of(messages, kind), QUERIES, stream="t", time="ts", shards=2, bad_events="count"
    )
    write = muntin.spark.answer_messages(answers).writeStream.format("kafka")
    write = write.option("kafka.bootstrap.servers", broker).option("topic", f"{kind}-answers")
    write = write.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        processingTime="200 milliseconds"
    )
    write.start().awaitTermination()
