"""A materialised view kept by Spark: its own stream-stream join finds the pairs, its tasks rewrite the parts.

    streams --join by Spark--> pairs --foreachBatch--> results by part --a task a part--> segments --driver--> directory

What reads the archive, embedded or elsewhere, reads it while Spark writes. A micro-batch that is repeated changes
nothing: the directory knows the last one it holds, and pairs that wait for their instant lie in a folder by batch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark
from pyspark.sql.streaming import DataStreamWriter

from muntin.archive import GENERATED
from muntin.errors import MuntinError, NotFound, nearest
from muntin.expression import Expression
from muntin.join_query import JoinQuery, JoinSide
from muntin.spark.archive_tasks import (
    PART,
    REPORTS,
    TASK,
    Told,
    column_of,
    results_of,
    rewrite_parts,
    stored_part,
)
from muntin.spark.stream_of import stream_of, to_spark_type
from muntin.sql import parse_view
from muntin.view.folder_name import folder_of
from muntin.view.materialized_view import MaterializedView
from muntin.view_query import ViewQuery

_MILLISECOND = 1_000  # microseconds


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

    The view is in `archive` as an embedded engine would have it: `Engine(archive=…)` reads it meanwhile. At each
    micro-batch it moves to the last update instant that the watermark has passed. `checkpoint` is a folder that
    the driver can read; all tasks must reach the archive by its path.

        muntin.spark.archive_join(text, {"a": a, "b": b}, time="ts", archive="/views", checkpoint="/spark").start()
    """
    named = {name: time if isinstance(time, str) else time[name] for name in streams}
    known = {name: stream_of(df, name, named[name]) for name, df in streams.items()}
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
    keeper = _Keeper(view, Told.of(view, known), folder_of(Path(archive), view.name), Path(checkpoint))
    return pairs.writeStream.foreachBatch(keeper.take).option("checkpointLocation", checkpoint)


def _pairs(join: JoinQuery, streams: Mapping[str, DataFrame]) -> DataFrame:
    """The pairs that are ever in both windows, as Spark's own join finds them: it forgets events by these times."""
    left, right = (_side(side, join, number, streams) for number, side in enumerate(join.sides))
    at = [_column(number, side.stream.time) for number, side in enumerate(join.sides)]
    sizes = [F.expr(f"INTERVAL {side.window.size} MICROSECONDS") for side in join.sides]
    condition = (at[1] <= at[0] + sizes[0]) & (at[0] <= at[1] + sizes[1])
    for ours, theirs in join.on:
        condition &= _column(0, ours.columns[0]) == _column(1, theirs.columns[0])
    return left.join(right, condition, "inner")


def _side(side: JoinSide, join: JoinQuery, number: int, streams: Mapping[str, DataFrame]) -> DataFrame:
    on = [equal[number] for equal in join.on]
    for value in on:
        _check_column(value)
    wanted = sorted({*side.columns, side.stream.time, *(value.columns[0] for value in on)})
    return streams[side.stream.name].select(
        *(F.col(f"`{name}`").alias(column_of(number, name)) for name in wanted)
    )


def _check_column(value: Expression) -> None:
    if not value.is_column:
        raise MuntinError(
            f"on Spark a view is joined by columns; '{value}' is an expression: add it as a column"
        )


def _column(side: int, name: str) -> Column:
    return F.col(f"`{column_of(side, name)}`")


class _Keeper:
    """Takes the pairs of micro-batches; it opens the archive with the first, and holds it while it lives."""

    def __init__(self, view: ViewQuery, told: Told, folder: Path, checkpoint: Path):
        self._view, self._told, self._folder, self._checkpoint = view, told, folder, checkpoint
        self._kept: MaterializedView | None = None

    def take(self, pairs: DataFrame, batch: int) -> None:
        """Bring the view as far as the watermark of a micro-batch."""
        archive = self._open().archive
        epoch = archive.view.epoch
        if epoch.batch is not None and batch <= epoch.batch:
            # repeated: it is there already, but Spark's join has to take its events in
            pairs.write.format("noop").mode("overwrite").save()
            return
        rows = self._results(pairs, batch).persist()
        try:
            instant = self._instant(batch)
            if instant is None or (epoch.now is not None and instant <= epoch.now):
                self._let_wait(rows, batch)
                archive.note_batch(batch)
            else:
                self._let_wait(rows.filter(F.col(GENERATED) > instant), batch)
                self._update(rows.filter(F.col(GENERATED) <= instant), instant, batch)
        finally:
            rows.unpersist()
        for old in self._waiting(batch):
            shutil.rmtree(old, ignore_errors=True)

    def _open(self) -> MaterializedView:
        if self._kept is None:
            self._kept = MaterializedView(self._view, self._folder)
        return self._kept

    def _results(self, pairs: DataFrame, batch: int) -> DataFrame:
        """What the pairs are as results, and what has waited."""
        told, schema = self._told, self._schema()
        rows = pairs.mapInArrow(lambda batches: results_of(told, batches), schema)
        waiting = self._waiting(batch)
        if waiting:  # the last one holds all
            rows = rows.union(pairs.sparkSession.read.schema(schema).parquet(str(waiting[-1])))
        return rows

    def _update(self, rows: DataFrame, instant: int, batch: int) -> None:
        """A task for each part that is touched; the driver publishes what they report."""
        archive, session = self._open().archive, rows.sparkSession
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
        watermark = int(json.loads(lines[1])["batchWatermarkMs"]) * _MILLISECOND
        return watermark - watermark % self._view.every if watermark > 0 else None

    def _let_wait(self, rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(self._folder / "waiting" / str(batch)))

    def _waiting(self, before: int) -> list[Path]:
        """Folders of results that waited after the micro-batches before one, in their order."""
        folder = self._folder / "waiting"
        numbers = (int(path.name) for path in (folder.iterdir() if folder.is_dir() else ()))
        return [folder / str(number) for number in sorted(numbers) if number < before]

    def _schema(self, *more: spark.StructField) -> spark.StructType:
        definition = self._open().archive.definition
        own = [spark.StructField(field.name, to_spark_type(field.type)) for field in definition.schema]
        return spark.StructType([*own, *more])
