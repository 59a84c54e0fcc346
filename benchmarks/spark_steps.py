"""What Spark itself costs: reading events into Python, a micro-batch, and each of its partitions."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.process_tree import cpu_seconds
from benchmarks.spark_runs import play, read
from benchmarks.spark_workload import SCHEMA, queries, write_events

_FEW, _MANY = 1, 5  # partitions whose difference says what one costs
_TURNS = 8  # micro-batches of a stream of very few events


def measure_spark(millions: int) -> dict[str, float]:
    """CPU seconds to read a million events, and per partition and micro-batch; seconds of a micro-batch."""
    import muntin.spark

    folder = Path(tempfile.mkdtemp(prefix="muntin-steps-"))
    session = muntin.spark.local_session(cores=2, memory="4g")
    try:
        write_events(folder / "large", millions, 1_000_000)
        write_events(folder / "in", _TURNS, 1_000)
        table = session.read.schema(SCHEMA).parquet(str(folder / "large"))
        for _ in range(3):  # the last one counts: the JVM compiles what it runs often
            began = cpu_seconds()
            table.mapInArrow(_count, "events BIGINT").collect()
            reading = cpu_seconds() - began
        few, many = (_small_batches(session, folder, partitions) for partitions in (_FEW, _MANY))
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "read": reading / millions,
        "driver": few.seconds / few.batches,
        "partition": max(many.cpu / many.batches - few.cpu / few.batches, 0.0) / (_MANY - _FEW),
    }


def _small_batches(session: Any, folder: Path, partitions: int) -> Any:
    import muntin.spark

    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    answers = muntin.spark.shared_windows(
        read(session, folder, 1), queries(10), stream="t", time="ts", shards=partitions
    )
    return play(session, folder, [answers])


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"events": [sum(batch.num_rows for batch in batches)]})
