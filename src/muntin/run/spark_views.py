"""Views of a run on Spark: what they hold at the end of the input.

Of a finite input only the end of a view can be read. So Spark finds the events that are still in some window of the
view then, and the engine takes these in: memory follows the windows. Windows by count need all events in one order,
and take them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import SchemaError
from muntin.join_query import JoinQuery
from muntin.run.outputs import OutputFiles
from muntin.run.pipeline import Report, RunProgress, push_all
from muntin.run.script import Script
from muntin.stream import Stream
from muntin.view_query import ViewQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = 65_536  # pushed at once


@dataclass(frozen=True)
class Ends:
    """What a stream has: how many events, and the time of the last in microseconds."""

    events: int
    greatest: int | None


@dataclass(frozen=True, eq=False)
class Tail:
    """Events at the end of a stream in order of time, to be pushed as those of a file are."""

    stream: Stream
    table: pa.Table
    bytes: int = 0
    fraction: float = 1.0

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.table.combine_chunks().to_batches(max_chunksize=batch_rows)


def keep_views(
    script: Script, ends: Mapping[str, Ends], frame: Callable[[str], DataFrame], archive: Path, outputs: OutputFiles,
    flush: bool, progress: RunProgress,
) -> int:  # fmt: skip
    """Bring the views of a script to the `ends` of their streams, and answer SELECTs from them: how many answers there
    were."""
    only = replace(script, queries={}, backfills={})
    engine = only.start_engine(archive=archive)
    try:
        since = since_when(script.views, script.streams, ends)
        tails = [
            Tail(script.streams[name], tail_of(frame(name), script.streams[name], since)) for name in ends
        ]
        report = Report(0, archive)
        push_all(engine, only, tails, outputs, _ROWS, flush, progress, report)  # type: ignore[arg-type]
    finally:
        engine.close()
    return report.answers


def ends_of(df: DataFrame, stream: Stream) -> Ends:
    """Count the events of a stream, and find the last one."""
    from pyspark.sql import functions as F

    time = _microseconds(stream)
    row: Any = df.agg(F.count(F.lit(1)), F.max(time), F.count_if(time.isNull())).collect()[0]
    if row[2]:
        raise SchemaError(f"{row[2]:,} events of stream '{stream.name}' have no {stream.time}")
    return Ends(row[0], row[1])


def since_when(
    views: Mapping[str, ViewQuery], streams: Mapping[str, Stream], ends: Mapping[str, Ends]
) -> int | None:
    """No window of these views can hold an event before this instant when all has been read; None if all count.

    A view stands at its watermark, or later. A result lies in windows up to their size, and a negation asks what lay
    in the other window when the event came: hence the sum.
    """
    greatest = {name: each.greatest for name, each in ends.items()}
    if None in greatest.values() or any(_by_count(view) for view in views.values()):
        return None
    watermark = min(at - streams[name].delay for name, at in greatest.items() if at is not None)
    longest = max(sum(side.window.size for side in view.source.sides) + view.every for view in views.values())
    return watermark - longest


def tail_of(df: DataFrame, stream: Stream, since: int | None) -> pa.Table:
    """The events from an instant on, in order."""
    chosen = df if since is None else df.where(_microseconds(stream) >= since)
    return chosen.toArrow().sort_by(stream.time)


def _by_count(view: ViewQuery) -> bool:
    return not isinstance(view.source, JoinQuery) and view.source.by_count


def _microseconds(stream: Stream) -> Any:
    from pyspark.sql import functions as F

    from muntin.spark.stream_of import quoted

    column = F.col(quoted(stream.time))
    return F.unix_micros(column) if pa.types.is_timestamp(stream.schema.field(stream.time).type) else column
