"""Views of pairs: Spark's own stream-stream join finds the pairs, and its tasks rewrite the parts.

    streams --join by Spark--> pairs --foreachBatch--> results by part --a task a part--> segments --driver--> directory

A micro-batch that is repeated changes nothing: the directory knows the last one it holds, and pairs that wait for
their instant lie in a folder by batch.

**Lateness.** Spark's join drops events with `ts <= watermark`; ours is the rule `ts < watermark`. So the join sees
every time one millisecond later than it is, a step of Spark's watermark, and the pairs get their own times back
(`results_of`). Spark then drops no event that the rule lets in; a pair that comes in spite of the rule is left
out if the view has passed its instant.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from muntin.archive import EXPIRES, GENERATED, Archive
from muntin.archive.lock import WAITING
from muntin.archive.update import RemoteUpdate
from muntin.errors import MuntinError, SchemaError
from muntin.expression import Expression
from muntin.join_query import JoinQuery
from muntin.shard.intake import evaluate
from muntin.spark.stream_of import WATERMARK, quoted, refuse_look_alikes, to_spark_type, without_zone
from muntin.spark.told_view import Told, view_of
from muntin.spark.view_owner import OwnedView
from muntin.view.materialized_view import definition_of
from muntin.view_query import HIDDEN, LEFT_TIME, RIGHT_TIME, ViewQuery

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def pairs_of(view: ViewQuery, told: Told, streams: Mapping[str, DataFrame]) -> DataFrame:
    """The pairs that are ever in both windows, as Spark's own join finds them: it forgets events by their times.

    Time windows with TO are `to` microseconds behind: an event is seen while `ts + to < now <= ts + size`.
    """
    join = view.source
    assert isinstance(join, JoinQuery)
    for side in join.sides:
        if not isinstance(streams[side.stream.name].schema[side.stream.time].dataType, spark.TimestampType):
            raise SchemaError(
                f"time column '{side.stream.time}' of stream '{side.stream.name}' must be TIMESTAMP: Spark has "
                "watermarks for these only"
            )
    left, right = (_side(join, number, told, streams) for number in (0, 1))
    at = [_column(number, side.stream.time) for number, side in enumerate(join.sides)]
    windows = [side.window for side in join.sides]
    spans = [
        F.expr(f"INTERVAL {ours.size - theirs.to} MICROSECONDS")
        for ours, theirs in zip(windows, reversed(windows), strict=True)
    ]
    condition = (at[1] <= at[0] + spans[0]) & (at[0] <= at[1] + spans[1])
    for place, equal in enumerate(join.on):
        ours, theirs = (F.col(quoted(_compared(equal, place, number))) for number in (0, 1))
        condition &= ours == theirs
    pairs = left.join(right, condition, "inner")
    if pairs.sparkSession.conf.get(_POLICY, "min") != "min":
        raise MuntinError(f"the watermark of a join is the smaller of both: set {_POLICY} to min")
    return pairs


def _compared(equal: tuple[Expression, Expression], place: int, number: int) -> str:
    """The column of a side that has what an equality of ON compares."""
    return value_of(number, place) if _is_computed(equal) else column_of(number, equal[number].columns[0])


def _is_computed(equal: tuple[Expression, Expression]) -> bool:
    """Whether tasks compute what is compared: both sides if one is an expression, so that both have muntin's types."""
    return not all(value.is_column for value in equal)


def _side(join: JoinQuery, number: int, told: Told, streams: Mapping[str, DataFrame]) -> DataFrame:
    """What the join sees of a side: its columns, and the values of ON that are expressions."""
    side = join.sides[number]
    time = side.stream.time
    on = [equal[number] for equal in join.on]
    wanted = sorted({*side.columns, *(name for value in on for name in value.columns)} - {time})
    df = streams[side.stream.name]
    refuse_look_alikes(df, side.stream.name, [time, *wanted])
    delay = timedelta(microseconds=side.stream.delay)
    if WATERMARK not in df.schema[time].metadata:
        df = df.withWatermark(quoted(time), f"{delay // timedelta(milliseconds=1)} milliseconds")
    names = {each: column_of(number, each) for each in (time, *wanted)}
    df = df.select(*(F.col(quoted(each)).alias(name) for each, name in names.items()))
    values = {
        value_of(number, place): equal[number] for place, equal in enumerate(join.on) if _is_computed(equal)
    }
    if values:
        fields = [spark.StructField(name, to_spark_type(value.type)) for name, value in values.items()]
        schema = spark.StructType([*df.schema.fields, *fields])
        df = df.mapInArrow(lambda batches: with_values(told, number, batches), schema)
    # the join sees each time a millisecond later, as the time that Spark has its watermark of: see above
    later = F.col(quoted(names[time])) + F.expr("INTERVAL 1 MILLISECOND")
    return df.select(
        later.alias(names[time], metadata={WATERMARK: delay // timedelta(milliseconds=1)}),
        *(F.col(quoted(name)) for name in (*(names[each] for each in wanted), *values)),
    )


def _column(side: int, name: str) -> Column:
    return F.col(quoted(column_of(side, name)))


class PairKeeper:
    """Takes the pairs of micro-batches."""

    def __init__(self, view: OwnedView, told: Told):
        self._view, self._told = view, told

    def take(self, pairs: DataFrame, batch: int) -> None:
        """Bring the view as far as the watermark of a micro-batch."""
        with self._view.open(batch) as archive:
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
        lines = (self._view.checkpoint / "offsets" / str(batch)).read_text().splitlines()
        watermark = int(json.loads(lines[1])["batchWatermarkMs"]) * MILLISECOND
        return watermark - watermark % self._view.query.every if watermark > 0 else None

    def _let_wait(self, rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(self._view.folder / WAITING / str(batch)))

    def _waiting(self, before: int) -> list[Path]:
        """Folders of results that waited after the micro-batches before one, in their order."""
        folder = self._view.folder / WAITING
        numbers = (int(path.name) for path in (folder.iterdir() if folder.is_dir() else ()))
        return [folder / str(number) for number in sorted(numbers) if number < before]

    def _schema(self, *more: spark.StructField) -> spark.StructType:
        schema = definition_of(self._view.query).schema
        own = [spark.StructField(field.name, to_spark_type(field.type)) for field in schema]
        return spark.StructType([*own, *more])


PART, TASK = "#part", "#task"
REPORTS = "report STRING"
MILLISECOND = 1_000  # microseconds; the step of Spark's watermark
_remote_update = lru_cache(maxsize=4)(lambda told: RemoteUpdate.from_description(json.loads(told)))


def column_of(side: int, name: str) -> str:
    """What a column of a side is called in pairs on Spark, which reads dots as something else."""
    return f"{side}_{name}"


def value_of(side: int, place: int) -> str:
    """What a value that ON compares is called; no column is called so."""
    return f"{side}={place}"


def with_values(told: Told, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Events of a side with the values that ON compares, where these are expressions."""
    join = view_of(told).source
    assert isinstance(join, JoinQuery)
    names = {column_of(number, name): name for name in join.sides[number].stream.schema.names}
    for batch in batches:
        given = {
            names[column]: without_zone(values)
            for column, values in zip(batch.schema.names, batch.columns, strict=True)
        }
        for place, equal in enumerate(join.on):
            if _is_computed(equal):
                batch = batch.append_column(value_of(number, place), evaluate(equal[number], given))
        yield batch


def results_of(told: Told, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pairs of events as the archive keeps them: with the instants from which and until which they are seen."""
    view = view_of(told)
    join, schema = view.source, definition_of(view).schema
    assert isinstance(join, JoinQuery)
    for batch in batches:
        given = {
            f"{side.name}.{name}": without_zone(batch.column(column))
            for number, side in enumerate(join.sides)
            for name in side.stream.schema.names
            if (column := column_of(number, name)) in batch.schema.names
        }
        for side in join.sides:
            time = f"{side.name}.{side.stream.time}"
            given[time] = _earlier(given[time])  # as the event has it: see above
        if join.where is not None:
            passing = join.where.evaluate(given).fill_null(False)
            given = {name: column.filter(passing) for name, column in given.items()}
        at = [given[f"{side.name}.{side.stream.time}"].cast(pa.int64()).to_numpy() for side in join.sides]
        begins = [each + side.window.to for each, side in zip(at, join.sides, strict=True)]
        ends = [each + side.window.size for each, side in zip(at, join.sides, strict=True)]
        seen = -(-(np.maximum(*begins) + 1) // view.every) * view.every
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


def _earlier(times: pa.Array) -> pa.Array:
    return pa.compute.subtract(times.cast(pa.int64()), MILLISECOND).cast(pa.timestamp("us"))
