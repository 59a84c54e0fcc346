"""Streams on Spark run to their end over the events in some files, with what they cost by the clock and in CPU."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.process_tree import cpu_seconds
from benchmarks.spark_workload import SCHEMA

WARM_UP = 2  # micro-batches that are not counted: processes start, code is compiled
_POLL = 0.05  # seconds between looks at how far a stream is


@dataclass(frozen=True)
class Played:
    """What streams that ran side by side have cost, from the end of the warm-up to the end of the last."""

    events: int  # that each of them has read
    seconds: float
    cpu: float  # of the driver, the JVM and all Python workers
    batches: int
    answers: int

    @property
    def rate(self) -> float:
        """Events per second of the clock."""
        return self.events / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds per million events."""
        return self.cpu / self.events * 1e6


def read(session: Any, folder: Path, each: int, files: str = "*.parquet") -> Any:
    """Spark's own Parquet source over the events of the workload, `each` files per micro-batch."""
    source = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", each)
    return source.parquet(str(folder / "in" / files)).withWatermark("ts", "1 second")


def play(session: Any, folder: Path, streams: Sequence[Any]) -> Played:
    """Run streams side by side to their end, each into Parquet files of its own."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    running = []
    for number, stream in enumerate(streams):
        out = folder / "out" / str(number)
        write = stream.writeStream.format("parquet").option("path", str(out / "answers"))
        write = write.option("checkpointLocation", str(out / "checkpoint"))
        running.append(write.trigger(availableNow=True).start())
    began = _wait(running, WARM_UP)
    ended = _wait(running, None)
    done = [[each for each in query.recentProgress if each.numInputRows] for query in running]
    outs = [str(out / "answers") for out in sorted((folder / "out").iterdir())]
    return Played(
        events=sum(events_of(each) for each in done[0][began[0] :]),
        seconds=ended[1] - began[1],
        cpu=ended[2] - began[2],
        batches=len(done[0]) - began[0],
        answers=sum(int(session.read.parquet(out).count()) for out in outs),
    )


def _wait(running: Sequence[Any], batches: int | None) -> tuple[int, float, float]:
    """Until all have done so many micro-batches (None: all of them): how many the slowest has, the time and the
    CPU used by then."""
    while True:
        done = min(len([each for each in query.recentProgress if each.numInputRows]) for query in running)
        is_over = not any(query.isActive for query in running)
        if is_over or (batches is not None and done >= batches):
            for query in running:
                if query.exception():
                    raise query.exception()
            return done, time.perf_counter(), cpu_seconds()
        time.sleep(_POLL)


def events_of(progress: Any) -> int:
    """Spark counts the rows of a source, of which a folder gives few: ours are counted by the tasks."""
    ours = (progress.observedMetrics or {}).get("muntin")
    return int(ours["events"] if ours else progress.numInputRows)
