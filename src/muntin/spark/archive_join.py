"""A materialised view kept by Spark: its own stream-stream join finds the pairs, its tasks rewrite the parts.

    streams --join by Spark--> pairs --foreachBatch--> results by part --a task a part--> segments --driver--> directory

What reads the archive, embedded or elsewhere, reads it while Spark writes. A micro-batch that is repeated changes
nothing: the directory knows the last one it holds, and pairs that wait for their instant lie in a folder by batch.

**Lateness.** Spark's join drops events with `ts <= watermark`; ours is the rule `ts < watermark`. So the join sees
every time one millisecond later than it is, a step of Spark's watermark, and the pairs get their own times back
(`results_of`). Spark then drops no event that the rule lets in; a pair that comes in spite of the rule is left
out if the view has passed its instant.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from pyspark.sql.streaming import DataStreamWriter

from muntin.archive import EXPIRES, GENERATED, Archive
from muntin.archive.epoch import NAME as DIRECTORY
from muntin.archive.update import RemoteUpdate
from muntin.errors import ArchiveError, MuntinError, NameTaken, NotFound, SchemaError, nearest
from muntin.expression import Expression
from muntin.join_query import JoinQuery, JoinSide
from muntin.spark.stream_of import WATERMARK, quoted, stream_of, to_spark_type, zones_of
from muntin.sql import parse_view
from muntin.stream import Stream
from muntin.view.folders import folder_of
from muntin.view.materialized_view import MaterializedView, definition_of
from muntin.view_query import HIDDEN, LEFT_TIME, RIGHT_TIME, ViewQuery

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def archive_join(
    statement: str,
    streams: Mapping[str, DataFrame],
    *,
    time: Mapping[str, str] | str,
    archive: str,
    checkpoint: str,
) -> DataStreamWriter:
    """A stream that keeps a view: `CREATE MATERIALIZED VIEW v AS SELECT … FROM a [RANGE …] JOIN b [RANGE …] ON …
    EVERY …` over DataFrames, each with its watermark. Nothing happens until it is started.

    A DataFrame without a watermark has one of delay 0. The view is in `archive` as an embedded engine would have it:
    `Engine(archive=…)` reads it meanwhile. At each micro-batch it moves to the last update instant that the
    watermark has passed. `checkpoint` is a folder that the driver can read; all tasks must reach the archive by
    its path. The view belongs to the checkpoint that began it: another checkpoint is refused.

        muntin.spark.archive_join(text, {"a": a, "b": b}, time="ts", archive="/views", checkpoint="/spark").start()
    """
    for each in (archive, checkpoint):
        if "://" in str(each):
            raise MuntinError(
                f"'{each}' is not a folder of this machine: give the path under which it is mounted"
            )
    named = {name: time if isinstance(time, str) else _time_of(name, time) for name in streams}
    known = {name: _joinable(df, name, named[name]) for name, df in streams.items()}
    view = parse_view(statement, known)
    if view is None:
        raise MuntinError("archive_join takes a CREATE MATERIALIZED VIEW")
    source = view.source
    if not isinstance(source, JoinQuery) or any(side.window.to for side in source.sides):
        raise MuntinError(
            f"on Spark a view joins two streams over time windows that end now; '{view.name}' does not: keep it "
            "embedded"
        )
    for side in source.sides:
        if side.stream.name not in streams:
            raise NotFound(f"there is no stream '{side.stream.name}'{nearest(side.stream.name, streams)}")
    pairs = _pairs(source, streams)
    if pairs.sparkSession.conf.get(_POLICY, "min") != "min":
        raise MuntinError(f"the watermark of a join is the smaller of both: set {_POLICY} to min")
    keeper = _Keeper(view, Told.of(view, known), folder_of(Path(archive), view.name), Path(checkpoint))
    return pairs.writeStream.foreachBatch(keeper.take).option("checkpointLocation", checkpoint)


def _time_of(name: str, time: Mapping[str, str]) -> str:
    if name not in time:
        raise SchemaError(f"time= names no column for stream '{name}'")
    return time[name]


def _joinable(df: DataFrame, name: str, time: str) -> Stream:
    """The stream that a DataFrame is, if Spark can join it by time."""
    if not df.isStreaming:
        raise MuntinError(f"stream '{name}' is a table: archive_join takes streaming DataFrames")
    stream = stream_of(df, name, time)
    if not isinstance(df.schema[stream.time].dataType, spark.TimestampType):
        raise SchemaError(
            f"time column '{stream.time}' of stream '{name}' must be TIMESTAMP: Spark has watermarks for these only"
        )
    return stream


def _pairs(join: JoinQuery, streams: Mapping[str, DataFrame]) -> DataFrame:
    """The pairs that are ever in both windows, as Spark's own join finds them: it forgets events by these times."""
    left, right = (_side(side, join, number, streams) for number, side in enumerate(join.sides))
    at = [_column(number, side.stream.time) for number, side in enumerate(join.sides)]
    sizes = [F.expr(f"INTERVAL {side.window.size} MICROSECONDS") for side in join.sides]
    condition = (at[1] <= at[0] + sizes[0]) & (at[0] <= at[1] + sizes[1])
    for ours, theirs in join.on:
        _check_kinds(join, (ours.columns[0], theirs.columns[0]), streams)
        condition &= _column(0, ours.columns[0]) == _column(1, theirs.columns[0])
    return left.join(right, condition, "inner")


def _side(side: JoinSide, join: JoinQuery, number: int, streams: Mapping[str, DataFrame]) -> DataFrame:
    on = [equal[number] for equal in join.on]
    for value in on:
        _check_column(value)
    time = side.stream.time
    wanted = {*side.columns, *(value.columns[0] for value in on)} - {time}
    df = streams[side.stream.name]
    often = Counter(name.casefold() for name in df.columns)
    for name in (time, *sorted(wanted)):
        if often[name.casefold()] > 1:
            raise SchemaError(
                f"Spark cannot tell '{name}' from another column of stream '{side.stream.name}': rename one"
            )
    delay = timedelta(microseconds=side.stream.delay)
    if WATERMARK not in df.schema[time].metadata:
        df = df.withWatermark(quoted(time), f"{delay // timedelta(milliseconds=1)} milliseconds")
    # the join sees each time a millisecond later, as the time that Spark has its watermark of: see above
    later = F.col(quoted(time)) + F.expr("INTERVAL 1 MILLISECOND")
    return df.select(
        later.alias(column_of(number, time), metadata={WATERMARK: delay // timedelta(milliseconds=1)}),
        *(F.col(quoted(name)).alias(column_of(number, name)) for name in sorted(wanted)),
    )


def _check_column(value: Expression) -> None:
    if not value.is_column:
        raise MuntinError(
            f"on Spark a view is joined by columns; '{value}' is an expression: add it as a column"
        )


def _check_kinds(join: JoinQuery, names: tuple[str, str], streams: Mapping[str, DataFrame]) -> None:
    """Spark would compare an instant with a time of day by the session's time zone."""
    zones = {
        zones_of(streams[side.stream.name]).get(name)
        for side, name in zip(join.sides, names, strict=True)
        if pa.types.is_timestamp(side.stream.schema.field(name).type)
    }
    if len(zones) > 1:
        raise SchemaError(
            f"'{names[0]}' and '{names[1]}' are a TIMESTAMP and a TIMESTAMP_NTZ: cast one of them in its DataFrame"
        )


def _column(side: int, name: str) -> Column:
    return F.col(quoted(column_of(side, name)))


class _Keeper:
    """Takes the pairs of micro-batches. The archive is opened and locked for each of them, so that a query that has
    stopped, for whatever reason, holds nothing: it can be started again where it was, or its view be dropped."""

    def __init__(self, view: ViewQuery, told: Told, folder: Path, checkpoint: Path):
        self._view, self._told, self._folder, self._checkpoint = view, told, folder, checkpoint

    def take(self, pairs: DataFrame, batch: int) -> None:
        """Bring the view as far as the watermark of a micro-batch."""
        with self._open(batch) as archive:
            epoch = archive.view.epoch
            if batch == epoch.batch:
                # repeated: it is there already, but Spark's join has to take its events in
                pairs.write.format("noop").mode("overwrite").save()
                return
            rows = self._results(pairs, batch, epoch.now).persist()
            try:
                instant = self._instant(batch)
                if instant is None or (epoch.now is not None and instant <= epoch.now):
                    self._let_wait(rows, batch)
                    archive.note_batch(batch)
                else:
                    self._let_wait(rows.filter(F.col(GENERATED) > instant), batch)
                    self._update(archive, rows.filter(F.col(GENERATED) <= instant), instant, batch)
            finally:
                rows.unpersist()
        for old in self._waiting(batch):
            shutil.rmtree(old, ignore_errors=True)

    def _open(self, batch: int) -> Archive:
        """The archive, if it is the one that this checkpoint has written so far."""
        begin = "start with a new checkpoint and without this view: DROP MATERIALIZED VIEW removes it"
        apart = f"checkpoint '{self._checkpoint}' goes on with micro-batch {batch}, but"
        if batch and not (self._folder / DIRECTORY).exists():
            raise ArchiveError(f"{apart} there is no view in '{self._folder}'; start with a new checkpoint")
        owner = json.loads((self._checkpoint / "metadata").read_text())["id"]
        try:
            archive = MaterializedView(self._view, self._folder, kept_by=owner).archive
        except NameTaken as error:
            raise NameTaken(f"{error}. Go on from the checkpoint that began it, or {begin}") from None
        last = archive.view.epoch.batch
        if batch not in (last, 0 if last is None else last + 1):
            archive.close()
            raise ArchiveError(f"{apart} the view in '{self._folder}' has come to {last}; {begin}")
        return archive

    def _results(self, pairs: DataFrame, batch: int, passed: int | None) -> DataFrame:
        """What the pairs are as results, and what has waited; without pairs of instants that the view has passed."""
        told, schema = self._told, self._schema()
        rows = pairs.mapInArrow(lambda batches: results_of(told, batches), schema)
        waiting = self._waiting(batch)
        if waiting:  # the last one holds all
            rows = rows.union(pairs.sparkSession.read.schema(schema).parquet(str(waiting[-1])))
        return rows if passed is None else rows.filter(F.col(GENERATED) > passed)

    def _update(self, archive: Archive, rows: DataFrame, instant: int, batch: int) -> None:
        """A task for each part that is touched; the driver publishes what they report."""
        session = rows.sparkSession
        update = archive.plan_remote(instant)
        told = json.dumps(update.describe())
        with_part = rows.mapInArrow(
            lambda batches: stored_part(told, batches),
            self._schema(spark.StructField(PART, spark.LongType())),
        )
        parts = sorted({row[PART] for row in with_part.select(PART).distinct().collect()} | update.due)
        # a row for each part beside its results, so that there is a task also for those that only lose some
        marks = session.range(len(parts)).select(
            *(F.lit(None).cast(field.dataType).alias(field.name) for field in self._schema().fields),
            F.element_at(F.array(*map(F.lit, parts or [0])), F.col("id").cast("int") + 1).alias(PART),
        )
        task = F.array_position(F.array(*map(F.lit, parts or [0])), F.col(PART)).cast("int") - 1
        dealt = with_part.union(marks).withColumn(TASK, task).repartitionById(max(1, len(parts)), F.col(TASK))
        reports = dealt.mapInArrow(lambda batches: rewrite_parts(told, batches), REPORTS).collect()
        archive.publish_remote(update, [json.loads(row["report"]) for row in reports], batch)

    def _instant(self, batch: int) -> int | None:
        """The last update instant up to the watermark of a micro-batch, which Spark notes before it runs it."""
        lines = (self._checkpoint / "offsets" / str(batch)).read_text().splitlines()
        watermark = int(json.loads(lines[1])["batchWatermarkMs"]) * MILLISECOND
        return watermark - watermark % self._view.every if watermark > 0 else None

    def _let_wait(self, rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(self._folder / "waiting" / str(batch)))

    def _waiting(self, before: int) -> list[Path]:
        """Folders of results that waited after the micro-batches before one, in their order."""
        folder = self._folder / "waiting"
        numbers = (int(path.name) for path in (folder.iterdir() if folder.is_dir() else ()))
        return [folder / str(number) for number in sorted(numbers) if number < before]

    def _schema(self, *more: spark.StructField) -> spark.StructType:
        schema = definition_of(self._view).schema
        own = [spark.StructField(field.name, to_spark_type(field.type)) for field in schema]
        return spark.StructType([*own, *more])


PART, TASK = "#part", "#task"
REPORTS = "report STRING"
MILLISECOND = 1_000  # microseconds; the step of Spark's watermark
_remote_update = lru_cache(maxsize=4)(lambda told: RemoteUpdate.from_description(json.loads(told)))


def column_of(side: int, name: str) -> str:
    """What a column of a side is called in pairs on Spark, which reads dots as something else."""
    return f"{side}_{name}"


@dataclass(frozen=True)
class Told:
    """A view as plain data; workers parse its text again, once per process."""

    text: str
    streams: tuple[tuple[str, bytes, str, int], ...]

    @classmethod
    def of(cls, view: ViewQuery, streams: Mapping[str, Stream]) -> Told:
        """What tasks are told of a view over streams."""
        known = (
            (each.name, each.schema.serialize().to_pybytes(), each.time, each.delay)
            for each in streams.values()
        )
        return cls(view.text, tuple(known))


@lru_cache(maxsize=8)
def _view_of(told: Told) -> ViewQuery:
    streams = {
        name: Stream(name, pa.ipc.read_schema(pa.py_buffer(schema)), time, delay)
        for name, schema, time, delay in told.streams
    }
    view = parse_view(told.text, streams)
    assert view is not None
    return view


def results_of(told: Told, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pairs of events as the archive keeps them: with the instants from which and until which they are seen."""
    view = _view_of(told)
    join, schema = view.source, definition_of(view).schema
    assert isinstance(join, JoinQuery)
    for batch in batches:
        given = {
            f"{side.name}.{name}": _without_zone(batch.column(column))
            for number, side in enumerate(join.sides)
            for name in side.stream.schema.names
            if (column := column_of(number, name)) in batch.schema.names
        }
        for side in join.sides:
            time = f"{side.name}.{side.stream.time}"
            given[time] = _earlier(given[time])  # as the event has it: see archive_join.py
        if join.where is not None:
            passing = join.where.evaluate(given).fill_null(False)
            given = {name: column.filter(passing) for name, column in given.items()}
        at = [given[f"{side.name}.{side.stream.time}"].cast(pa.int64()).to_numpy() for side in join.sides]
        ends = [each + side.window.size for each, side in zip(at, join.sides, strict=True)]
        seen = -(-(np.maximum(*at) + 1) // view.every) * view.every
        gone = -(-(np.minimum(*ends) + 1) // view.every) * view.every
        columns = {
            output.name: output.expression.evaluate(given)
            for output in join.outputs
            if not output.name.startswith(HIDDEN)
        }
        columns |= {LEFT_TIME: pa.array(at[0] + 1), RIGHT_TIME: pa.array(at[1] + 1)}
        columns |= {GENERATED: pa.array(seen), EXPIRES: pa.array(gone)}
        made = pa.table([columns[name] for name in schema.names], schema=schema).filter(pa.array(seen < gone))
        yield from made.combine_chunks().to_batches()


def stored_part(told: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Results with the part that each belongs to."""
    update: RemoteUpdate = _remote_update(told)
    for batch in batches:
        yield batch.append_column(PART, pa.array(update.part_of(batch), pa.int64()))


def rewrite_parts(told: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rewrite the part that this task is for, or several, with the results that came; a report for each."""
    update: RemoteUpdate = _remote_update(told)
    given = list(batches)
    if not given:
        return
    rows = pa.Table.from_batches(given).drop_columns([TASK]).combine_chunks()
    context = TaskContext.get()
    assert context is not None
    for part in rows[PART].unique().to_pylist():
        mine = rows.filter(pa.compute.equal(rows[PART], part)).drop_columns([PART])
        results = mine.filter(pa.compute.is_valid(mine[GENERATED]))  # without the mark
        report = update.rewrite(part, results, str(context.taskAttemptId()))
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})


def _without_zone(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column


def _earlier(times: pa.Array) -> pa.Array:
    return pa.compute.subtract(times.cast(pa.int64()), MILLISECOND).cast(pa.timestamp("us"))
