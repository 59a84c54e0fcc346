"""Thousands of windows over one DataFrame: events in, answers out, in one Spark query.

DataFrame --pack, fold--> rows per shard --shuffle--> shards with state --unpack--> answers
          (every task)                   (a few rows) (one per shard)
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from muntin.argument import count_of, shown, text_of
from muntin.errors import MuntinError, NotFound, SchemaError, nearest
from muntin.instant import to_microseconds
from muntin.spark.answer_table import AnswerTable
from muntin.spark.answers import EMITTED, UNPACKED, unpack_answers
from muntin.spark.bad_events import FAIL
from muntin.spark.changes import pack_changes
from muntin.spark.control import pack_statements
from muntin.spark.event_folder import EventFolder
from muntin.spark.explain import PLANNED, remember
from muntin.spark.history import check_history, history_files
from muntin.spark.job import Job
from muntin.spark.join_flow import inputs_of, plan_frames, run_join_table, span_of
from muntin.spark.join_job import JoinJob
from muntin.spark.loaded_tables import loaded_frame
from muntin.spark.pack import CLOCK, pack_events
from muntin.spark.place import placed
from muntin.spark.plan_job import plan_job
from muntin.spark.processor import stateful_step
from muntin.spark.run_table import run_table
from muntin.spark.session import check_session
from muntin.spark.shared_path import shared_path
from muntin.spark.stream_of import quoted, stream_of, to_spark_type, zones_of
from muntin.spark.table_frame import (
    TableFrame,
    changes_of,
    frames_of,
    loaded_rows,
    tables_of,
    zones_of_tables,
)

PACKED = (
    "shard INT, start BIGINT, origin INT, turn INT, kind STRING, greatest BIGINT, events BIGINT, data BINARY, "
    "ahead BIGINT, least BIGINT, bad BIGINT, roster BIGINT"
)
METRICS = "muntin"  # how the names begin under which progress has our numbers
_number = itertools.count(1)  # of calls: a streaming query may have several, each with a name of its own
_NO_FLUSH = "flush is for tables: a stream has no end at which windows could be left open"
_PLACES = "muntin"  # the metadata of the column `query`: where each query has its columns


Packing = Callable[[Any, Iterable[pa.RecordBatch], int], Iterator[pa.RecordBatch]]
RunTable = Callable[[Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def shared_windows(
    df: DataFrame | EventFolder | Mapping[str, DataFrame],
    queries: Mapping[str, str],
    *,
    stream: str | None = None,
    time: str | Mapping[str, str],
    delay: timedelta | Mapping[str, timedelta] | None = None,
    ahead: timedelta | Mapping[str, timedelta] | None = None,
    rewind: datetime | None = None,
    control: DataFrame | None = None,
    tables: Mapping[str, DataFrame | TableFrame] = MappingProxyType({}),
    history: EventFolder | str | None = None,
    keys: Iterable[str] = (),
    shards: int = 4,
    fold: bool = True,
    flush: bool = False,
    spread: bool | str = False,
    bad_events: str = FAIL,
    name: str | None = None,
    roster: str | None = None,
) -> DataFrame:
    """The answers of many queries over one DataFrame (or folder), streaming or not: a row for each answer.

    `queries` are texts by name, over a stream called `stream` whose events are the rows of `df` and whose
    DELAY is that of `df.withWatermark(time, …)`, or `delay`: Spark forgets the watermark of a table. Columns:
    `query`, the keys and values by name, `window_start`, `window_end`, `complete`; `answers_of` has one query's
    alone. A query that cannot run is refused here, with the reason.

    Events whose time lies more than `ahead` beyond the clock on the wall when their micro-batch began are left out and
    counted. `rewind` sets a stream back that an event with a wrong time has brought too far: when a query is started
    with another `rewind` than before, its shards start again at that instant.

    `tables` are those that queries join, by name: a DataFrame of rows, which is read when this function is called, or
    a streaming one of changes. The primary key is made of the columns that ON compares with the stream, unless a
    `TableFrame` says otherwise.

    `control` is a stream of REGISTER QUERY, CREATE OR REPLACE QUERY, DROP QUERY and REWIND STREAM statements, in a
    column `statement`: queries that come and go while the stream runs; and of INSERT and DELETE, which change tables.
    Those of one micro-batch take effect by a column `position`, or in the order of files and of rows in a file. Their
    keys must be among those of `queries` or `keys` (GROUP BY lists, "" for none), and what has no column here goes
    into one more, `rest`, as JSON. `roster` is a folder that driver and executors reach by one path: with it, tasks
    learn of these queries and go on folding, and a query comes or goes one micro-batch later.

    `bad_events` says what becomes of events without a time, or for which a query cannot compute something: by default
    they fail the query ("fail"); with "count" they are left out and counted; with "emit" a row of the answers without a
    `query` tells of each besides.

    `name` is that of the job, under which its numbers are observed.

    `history` has events from before the stream, in a folder that driver and tasks reach by the same path: the windows
    of queries that are new to the checkpoint are filled from it, and others do not notice.

    Keyed queries are spread over `shards`; queries without GROUP BY run in one. `fold=False` sends every
    event to its shard as it is, and judges lateness by the microsecond instead of by the slice.
    With `flush` the windows still open at the end of a table are emitted too. With `spread` approximate queries
    without GROUP BY over RANGE windows run in all shards: each has a sketch of its share of the events, and
    what they know of a window is merged. With `spread="all"` so do exact ones whose events cannot be folded where they
    are read (docs/concepts/spark.md).

    Joins of streams get a DataFrame for each stream by name, `{"trades": trades, "quotes": quotes}`, and no `stream`;
    `time`, `delay` and `ahead` are then one for all, or one for each stream by name. Such joins have no `rewind`,
    `tables`, `keys`, `fold` or `spread`.
    """
    _check_queries(queries, shards)
    if isinstance(df, Mapping):
        joins = plan_frames(
            df, queries, time=time, delay=delay, ahead=ahead, shards=shards, flush=flush,
            is_controlled=control is not None, stream=stream, rewind=rewind, tables=tables, keys=tuple(keys),
            spread=spread, history=history,
        )  # fmt: skip
        return _joined(df, joins, control)
    check_arguments(df, queries, stream, time, delay, shards)
    stream, time = text_of("stream", stream), text_of("time", time)
    delay, ahead = span_of("delay", delay), span_of("ahead", ahead)
    is_streaming = df.is_streaming if isinstance(df, EventFolder) else df.isStreaming
    if flush and is_streaming:
        raise MuntinError(_NO_FLUSH)
    declared = (
        df.stream(stream, time) if isinstance(df, EventFolder) else stream_of(df, stream, time, delay, ahead)
    )
    zones = df.zones() if isinstance(df, EventFolder) else zones_of(df)
    frames = frames_of(tables, is_streaming)
    files = [] if history is None else _files_of(history, is_streaming)
    job = plan_job(
        declared, queries, keys=keys, shards=shards, fold=fold, flush=flush, spread=spread,
        zone=zones.get(declared.time, "UTC"), zones={**zones, **zones_of_tables(frames)},
        is_controlled=control is not None, rewind=None if rewind is None else to_microseconds(rewind),
        tables=tables_of(frames, declared, queries.values()),
        has_changes=any(frame.is_streaming for frame in frames.values()), history=files,
        bad_events=bad_events,
        name=None if name is None else text_of("name", name),
        roster=None if roster is None else str(shared_path("roster", roster)),
    )  # fmt: skip
    check_history(job.reading, files, is_whole=False)
    session = df.session if isinstance(df, EventFolder) else df.sparkSession
    check_session(session, is_streaming)
    packed = packed_events(df, job)
    if control is not None:
        packed = packed.unionByName(_packed_statements(job, control, is_streaming))
    if loaded := loaded_rows(frames, job.tables):
        packed = packed.unionByName(loaded_frame(session, job, loaded, PACKED, is_streaming))
    for name, frame in frames.items():
        if frame.is_streaming:
            packing = partial(pack_changes, name, frame.deleted is not None)
            packed = packed.unionByName(changes_of(frame, name).mapInArrow(in_tasks(job, packing), PACKED))
    remember(job)
    return answers_from(packed, job)


def check_arguments(df: Any, queries: Any, stream: Any, time: Any, delay: Any, shards: Any) -> None:
    """An error that names the argument which cannot be what it is."""
    if not isinstance(df, EventFolder) and not hasattr(df, "isStreaming"):
        raise MuntinError(
            f"df is a DataFrame, an EventFolder, or for joins one DataFrame a stream, not {shown(df)}"
        )
    _check_queries(queries, shards)
    text_of("stream", stream)
    text_of("time", time)
    span_of("delay", delay)


def _check_queries(queries: Any, shards: Any) -> None:
    if not isinstance(queries, Mapping):
        raise MuntinError(f"queries is a dict {{name: sql}}, not {shown(queries)}")
    for name, sql in queries.items():
        text_of("each name of queries", name)
        text_of(f"query '{name}'", sql)
    count_of("shards", shards, 1)


def _joined(frames: Mapping[str, DataFrame], job: JoinJob, control: DataFrame | None) -> DataFrame:
    """The answers of joins."""
    first = next(iter(frames.values()))
    if job.flush and first.isStreaming:
        raise MuntinError(_NO_FLUSH)
    check_session(first.sparkSession, first.isStreaming)
    packed = [df.mapInArrow(in_tasks(job, packing), PACKED) for df, packing in inputs_of(job, frames)]
    if control is not None:
        packed.append(_packed_statements(job, control, first.isStreaming))
    remember(job)
    return answers_from(reduce(DataFrame.unionByName, packed), job)


def packed_events(df: DataFrame | EventFolder, job: Job) -> DataFrame:
    """Rows for shards, packed by the tasks that read the events."""
    if isinstance(df, EventFolder):
        return df.packed(job, PACKED)
    return _needed(df, job).mapInArrow(in_tasks(job, _pack_columns), PACKED)


def _files_of(history: Any, is_streaming: bool) -> list[str]:
    if not is_streaming:
        raise MuntinError(
            "history is for streams: a table is answered from all its rows, so add those of the past to it"
        )
    if hasattr(history, "isStreaming"):
        raise MuntinError(
            "history is a folder, which shards read when a query is new, and no DataFrame: write it there with "
            "df.write.parquet(path), and give history=path"
        )
    return history_files(history.path if isinstance(history, EventFolder) else text_of("history", history))


def _needed(df: DataFrame, job: Job) -> DataFrame:
    """The columns that a job reads, chosen by their place: names may differ in case alone, or have dots in them."""
    by_place = df.toDF(*(str(place) for place in range(len(df.columns))))
    chosen = [F.col(quoted(str(df.columns.index(name)))) for name in job.reading.schema.names]
    # a streaming query's current_timestamp() is written down with its offsets: a second attempt has the same
    return by_place.select(*chosen, *([] if job.stream.ahead is None else [F.current_timestamp()]))


def _pack_columns(job: Job, batches: Iterable[pa.RecordBatch], origin: int) -> Iterator[pa.RecordBatch]:
    names = [*job.reading.schema.names, *([] if job.stream.ahead is None else [CLOCK])]
    return pack_events(job, (batch.rename_columns(names) for batch in batches), origin)


def _packed_statements(job: Job, control: DataFrame, is_streaming: bool) -> DataFrame:
    if not is_streaming or not control.isStreaming:
        raise MuntinError("a control stream is for streams: both DataFrames must be streaming")
    return _statements(control).mapInArrow(in_tasks(job, pack_statements), PACKED)


def _statements(control: DataFrame) -> DataFrame:
    """Statements, each with its place among those of its micro-batch."""
    kinds = dict(control.dtypes)
    if kinds.get("statement") != "string" or kinds.keys() - {"statement", "position"}:
        raise SchemaError(
            "the control stream must have a column statement STRING, and perhaps position BIGINT, "
            f"not {control.dtypes}"
        )
    return placed(control, ["statement"], "position" if "position" in kinds else None, "the control stream")


def answers_from(packed: DataFrame, job: Job) -> DataFrame:
    """From packed rows to answers."""
    emitted = emitted_from(packed, job, run_join_table if isinstance(job, JoinJob) else run_table)
    if job.is_spread:  # all that was said of a window comes together
        emitted = brought_together(emitted, "query", F.coalesce("window_end", "shard"))
        emitted = emitted if packed.isStreaming else emitted.sortWithinPartitions("query", "window_end")
    return emitted.mapInArrow(
        _unpacking(job, not packed.isStreaming), _spark_schema(job.answer_table, job.fingerprint)
    )


def emitted_from(packed: DataFrame, job: Job, run: RunTable) -> DataFrame:
    """From packed rows to what shards give out; those of a table `run` from its beginning to its end."""
    if packed.isStreaming:
        emitted = packed.groupBy("shard").transformWithState(stateful_step(job), EMITTED, "Append", "None")
        emitted = emitted.observe(
            f"{METRICS} {job.name or next(_number)}",
            F.sum("events").alias("events"),
            F.sum("late").alias("late"),
            F.sum("ahead").alias("ahead"),
            F.sum("bad").alias("bad"),
            F.sum("answers").alias("answers"),
            F.sum("overflows").alias("overflows"),
            F.max("greatest").alias("greatest"),
            F.sum("state_bytes").alias("state_bytes"),
            F.collect_list("report").alias("reports"),
        )
    else:
        # a task for each shard: what is sent to Python at once, and sorted, is then the rows of one shard at most
        tasks = max([_cores(packed), *(route.shards for route in job.routes)])
        together = packed.repartition(tasks, "shard").sortWithinPartitions("shard", "start", "origin", "turn")
        emitted = together.mapInArrow(_running(job, run), EMITTED)
    return emitted.select(*UNPACKED)


def brought_together(emitted: DataFrame, *by: Any) -> DataFrame:
    """Rows that agree on some columns, in one task; in as many tasks as the session shuffles into."""
    return emitted.repartition(int(emitted.sparkSession.conf.get("spark.sql.shuffle.partitions")), *by)


def _cores(df: DataFrame) -> int:
    """As many tasks as can run at once; a session elsewhere (Spark Connect) tells only how many it shuffles into."""
    session = df.sparkSession
    try:
        return int(session.sparkContext.defaultParallelism)
    except PySparkException:
        return int(session.conf.get("spark.sql.shuffle.partitions") or 0) or 1


def answers_of(answers: DataFrame, name: str) -> DataFrame:
    """The answers of one query, with the columns it has embedded: keys, values, window and `complete`."""
    text_of("name", name)
    places = places_of(answers)
    if name not in places:
        raise NotFound(f"there is no query '{name}'{nearest(name, places)}")
    chosen = [F.col(quoted(place)).alias(column) for column, place in places[name].items()]
    return answers.where(F.col("query") == name).select(*chosen)


def places_of(answers: DataFrame) -> dict[str, dict[str, str]]:
    """For each query by name, the columns that it has embedded, and which columns of the answers they are."""
    if not hasattr(answers, "schema"):
        raise MuntinError(f"answers is a DataFrame that shared_windows made, not {shown(answers)}")
    field = next((each for each in answers.schema if each.name == "query"), None)
    if field is None or _PLACES not in field.metadata:
        raise MuntinError(
            "this DataFrame does not say where each query has its columns: "
            "give the one that shared_windows returned, or one made from it that still has its column 'query'"
        )
    places: dict[str, dict[str, str]] = json.loads(field.metadata[_PLACES])
    return places


def _spark_schema(table: AnswerTable, job: str) -> spark.StructType:
    fields = [spark.StructField(field.name, to_spark_type(field.type)) for field in table.schema]
    metadata = {_PLACES: table.metadata(), PLANNED: job}
    fields[0] = spark.StructField("query", spark.StringType(), metadata=metadata)
    return spark.StructType(fields)


def in_tasks(job: Job, pack: Packing) -> Any:
    """What tasks run, told which of them they are."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        return pack(job, batches, context.partitionId() if context else 0)

    return run


def _unpacking(job: Job, is_sorted: bool) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack_answers(job, batches, is_sorted)

    return run


def _running(job: Job, run: RunTable) -> Any:
    def run_in_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run(job, batches)

    return run_in_task
