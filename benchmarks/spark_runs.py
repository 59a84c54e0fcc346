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
_POLL = 0.25  # seconds between looks at how far a stream is, each of which costs some milliseconds of CPU


@dataclass(frozen=True)
class Played:
    """What streams that ran side by side have cost, from the end of the warm-up to the end of the last."""

    events: int  # that each of them has read, on average: some are ahead of others when the warm-up ends
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


def play(session: Any, folder: Path, streams: Sequence[Any], sink: str = "parquet") -> Played:
    """Run streams side by side to their end, each into Parquet files of its own, or into a sink without files."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    start = _Mark(0, 0, time.perf_counter(), cpu_seconds())
    running = []
    for number, stream in enumerate(streams):
        out = folder / "out" / str(number)
        write = stream.writeStream.format(sink)
        write = write.option("path", str(out / "answers")) if sink == "parquet" else write
        write = write.option("checkpointLocation", str(out / "checkpoint"))
        running.append(write.trigger(availableNow=True).start())
    began = _wait(running, WARM_UP)
    ended = _wait(running, None)
    if (
        ended.events == began.events
    ):  # all in the micro-batches of the warm-up: counted whole, with what starts up
        began = start
    return Played(
        events=(ended.events - began.events) // len(streams),
        seconds=ended.at - began.at,
        cpu=ended.cpu - began.cpu,
        batches=(ended.batches - began.batches) // len(streams),
        answers=ended.answers
        if sink != "parquet"
        else sum(
            int(session.read.parquet(str(out / "answers")).count()) for out in (folder / "out").iterdir()
        ),
    )


@dataclass(frozen=True)
class _Mark:
    """How far streams are, all together."""

    events: int
    batches: int
    at: float
    cpu: float
    answers: int = 0


def _wait(running: Sequence[Any], batches: int | None) -> _Mark:
    """Until each has done so many micro-batches; None: until all have ended."""
    while True:
        is_over = not any(query.isActive for query in running)
        done = [[each for each in query.recentProgress if each.numInputRows] for query in running]
        if is_over or (batches is not None and min(map(len, done)) >= batches):
            for query in running:
                if query.exception():
                    raise query.exception()
            events = sum(events_of(each) for progress in done for each in progress)
            answers = sum(_told(each, "answers") for progress in done for each in progress)
            return _Mark(events, sum(map(len, done)), time.perf_counter(), cpu_seconds(), answers)
        time.sleep(_POLL)


def events_of(progress: Any) -> int:
    """Spark counts the rows of a source, of which a folder gives few: ours are counted by the tasks."""
    return _told(progress, "events") if _ours(progress) else int(progress.numInputRows)


def _told(progress: Any, number: str) -> int:
    """What muntin tells of a micro-batch; 0 where there is no muntin."""
    ours = _ours(progress)
    return int(ours[number] or 0) if ours else 0


def _ours(progress: Any) -> Any:
    return next(
        (each for name, each in (progress.observedMetrics or {}).items() if name.startswith("muntin")), None
    )
