"""Thousands of windows over one DataFrame: events in, answers out, in one Spark query.

DataFrame --pack, fold--> rows per shard --shuffle--> shards with state --unpack--> answers
          (every task)                   (a few rows) (one per shard)
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
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
from muntin.spark.answers import EMITTED, EMITTED_SCHEMA, UNPACKED, emitted_rows, unpack_answers
from muntin.spark.changes import pack_changes
from muntin.spark.control import pack_statements
from muntin.spark.event_folder import EventFolder
from muntin.spark.job import Job, Route, plan_job, source_of
from muntin.spark.loaded_tables import LOAD, loaded_frame
from muntin.spark.pack import CLOCK, pack_events, read_batch
from muntin.spark.place import placed
from muntin.spark.processor import stateful_step
from muntin.spark.session import check_session
from muntin.spark.shard import SparkShard
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
    "ahead BIGINT, least BIGINT"
)
METRICS = "muntin"  # how the names begin under which progress has our numbers
_number = itertools.count(1)  # of calls: a streaming query may have several, each with a name of its own
_PLACES = "muntin"  # the metadata of the column `query`: where each query has its columns


Packing = Callable[[Job, Iterable[pa.RecordBatch], int], Iterator[pa.RecordBatch]]


def shared_windows(
    df: DataFrame | EventFolder,
    queries: Mapping[str, str],
    *,
    stream: str,
    time: str,
    delay: timedelta | None = None,
    ahead: timedelta | None = None,
    rewind: datetime | None = None,
    control: DataFrame | None = None,
    tables: Mapping[str, DataFrame | TableFrame] = MappingProxyType({}),
    keys: Iterable[str] = (),
    shards: int = 4,
    fold: bool = True,
    flush: bool = False,
    spread: bool = False,
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
    into one more, `rest`, as JSON.

    Keyed queries are spread over `shards`; queries without GROUP BY run in one. `fold=False` sends every
    event to its shard as it is, and judges lateness by the microsecond instead of by the slice.
    With `flush` the windows still open at the end of a table are emitted too. With `spread` approximate queries
    without GROUP BY over RANGE windows run in all shards: each has a sketch of its share of the events, and
    what they know of a window is merged.
    """
    _check_arguments(df, queries, stream, time, delay, shards)
    is_streaming = df.is_streaming if isinstance(df, EventFolder) else df.isStreaming
    if flush and is_streaming:
        raise MuntinError("flush is for tables: a stream has no end at which windows could be left open")
    declared = (
        df.stream(stream, time) if isinstance(df, EventFolder) else stream_of(df, stream, time, delay, ahead)
    )
    zones = df.zones() if isinstance(df, EventFolder) else zones_of(df)
    frames = frames_of(tables, is_streaming)
    job = plan_job(
        declared, queries, keys=keys, shards=shards, fold=fold, flush=flush, spread=spread,
        zone=zones.get(declared.time, "UTC"), zones={**zones, **zones_of_tables(frames)},
        is_controlled=control is not None, rewind=None if rewind is None else to_microseconds(rewind),
        tables=tables_of(frames, declared, queries.values()),
        has_changes=any(frame.is_streaming for frame in frames.values()),
    )  # fmt: skip
    session = df.session if isinstance(df, EventFolder) else df.sparkSession
    check_session(session, is_streaming)
    if isinstance(df, EventFolder):
        packed = df.packed(job, PACKED)
    else:
        packed = _needed(df, job).mapInArrow(_in_tasks(job, _pack_columns), PACKED)
    if control is not None:
        packed = packed.unionByName(_packed_statements(job, control, is_streaming))
    if loaded := loaded_rows(frames, job.tables):
        packed = packed.unionByName(loaded_frame(session, job, loaded, PACKED, is_streaming))
    for name, frame in frames.items():
        if frame.is_streaming:
            packing = partial(pack_changes, name, frame.deleted is not None)
            packed = packed.unionByName(changes_of(frame, name).mapInArrow(_in_tasks(job, packing), PACKED))
    return answers_from(packed, job)


def _check_arguments(df: Any, queries: Any, stream: Any, time: Any, delay: Any, shards: Any) -> None:
    if not isinstance(df, EventFolder) and not hasattr(df, "isStreaming"):
        raise MuntinError(f"df is a DataFrame or an EventFolder, not {shown(df)}")
    if not isinstance(queries, Mapping):
        raise MuntinError(f"queries is a dict {{name: sql}}, not {shown(queries)}")
    for name, sql in queries.items():
        text_of("each name of queries", name)
        text_of(f"query '{name}'", sql)
    text_of("stream", stream)
    text_of("time", time)
    if delay is not None and not isinstance(delay, timedelta):
        raise MuntinError(f"delay is a timedelta, not {shown(delay)}")
    count_of("shards", shards, 1)


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
    return _statements(control).mapInArrow(_in_tasks(job, pack_statements), PACKED)


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
    if packed.isStreaming:
        emitted = packed.groupBy("shard").transformWithState(stateful_step(job), EMITTED, "Append", "None")
        emitted = emitted.observe(
            f"{METRICS} {next(_number)}",
            F.sum("events").alias("events"),
            F.sum("late").alias("late"),
            F.sum("ahead").alias("ahead"),
            F.sum("answers").alias("answers"),
            F.sum("overflows").alias("overflows"),
            F.max("greatest").alias("greatest"),
            F.sum("state_bytes").alias("state_bytes"),
        )
    else:
        together = packed.repartition(_cores(packed), "shard").sortWithinPartitions(
            "shard", "start", "origin", "turn"
        )
        emitted = together.mapInArrow(_running(job), EMITTED)
    emitted = emitted.select("shard", *UNPACKED)
    if job.is_spread:  # all that was said of a window comes together
        tasks = int(packed.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        emitted = emitted.repartition(tasks, "query", F.coalesce("window_end", "shard"))
        emitted = emitted if packed.isStreaming else emitted.sortWithinPartitions("query", "window_end")
    return emitted.mapInArrow(_unpacking(job, not packed.isStreaming), _spark_schema(job.answer_table))


def _cores(df: DataFrame) -> int:
    """As many tasks as can run at once; a session elsewhere (Spark Connect) tells only how many it shuffles into."""
    session = df.sparkSession
    try:
        return int(session.sparkContext.defaultParallelism)
    except PySparkException:
        return int(session.conf.get("spark.sql.shuffle.partitions") or 0) or 1


def answers_of(answers: DataFrame, name: str) -> DataFrame:
    """The answers of one query, with the columns it has embedded: keys, values, window and `complete`."""
    if not hasattr(answers, "schema"):
        raise MuntinError(f"answers is a DataFrame that shared_windows made, not {shown(answers)}")
    text_of("name", name)
    field = next((each for each in answers.schema if each.name == "query"), None)
    if field is None or _PLACES not in field.metadata:
        raise MuntinError(
            "this DataFrame does not say where each query has its columns: "
            "give the one that shared_windows returned, or one made from it that still has its column 'query'"
        )
    places: dict[str, dict[str, str]] = json.loads(field.metadata[_PLACES])
    if name not in places:
        raise NotFound(f"there is no query '{name}'{nearest(name, places)}")
    chosen = [F.col(quoted(place)).alias(column) for column, place in places[name].items()]
    return answers.where(F.col("query") == name).select(*chosen)


def _spark_schema(table: AnswerTable) -> spark.StructType:
    fields = [spark.StructField(field.name, to_spark_type(field.type)) for field in table.schema]
    fields[0] = spark.StructField("query", spark.StringType(), metadata={_PLACES: table.metadata()})
    return spark.StructType(fields)


def _in_tasks(job: Job, pack: Packing) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        return pack(job, batches, context.partitionId() if context else 0)

    return run


def _unpacking(job: Job, is_sorted: bool) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack_answers(job, batches, is_sorted)

    return run


def _running(job: Job) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_table(job, batches)

    return run


# bytes of rows taken in together: a thousand queries are cheaper to answer at several instants at once
_HELD = 1 << 23


def run_table(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers of the shards whose rows come here, shard by shard and in order of `start`.

    State is bounded by the windows, not by the table: when some rows of data have been taken in, every window
    that ends before the next one starts is emitted.
    """
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, some in groupby(rows, key=lambda row: row["shard"]):
        if number == Job.ID:
            continue  # a table has no state
        route, bucket = job.route_of(number)
        shard = SparkShard(job, route, bucket)
        shard.register(route.queries)
        told: dict[str, Any] = {"events": 0, "late": 0, "greatest": None, "state_bytes": 0}
        for answers in _run_shard(job, route, shard, some, told):
            told["overflows"] = shard.take_overflows()
            for row in emitted_rows(job, number, answers, [], **told):
                yield pa.record_batch([[cell] for cell in row], schema=EMITTED_SCHEMA)
            told["events"] = told["state_bytes"] = 0


def _run_shard(
    job: Job, route: Route, shard: SparkShard, rows: Iterable[dict[str, Any]], told: dict[str, Any]
) -> Iterator[dict[str, pa.Table]]:
    """Rows that only tell the time come first, so that the end is known before the beginning."""
    # a query without SLIDE answers once, as of the end: there must be no instant in between
    queries = map(source_of, shard.parsed_queries.values())
    goes_on = all(query.slide or query.moves_by_rows for query in queries)
    greatest: int | None = None
    held: list[tuple[str, bytes]] = []
    size = 0
    for row in rows:
        told["events"] += row["events"]
        if row["kind"] == "counted":
            continue  # no event of a table is late
        if row["kind"].startswith(LOAD):
            shard.tables.load(row["kind"].removeprefix(LOAD), read_batch(row["data"]))
            continue
        if row["least"] is not None and route.held:
            shard.begin(row["least"])
        if row["data"] is None:
            seen = row["greatest"]
            greatest = greatest if seen is None else seen if greatest is None else max(greatest, seen)
            continue
        assert greatest is not None
        if size > _HELD:
            shard.insert(held)
            held, size = [], 0
            if goes_on:
                yield from filter(None, shard.advance_to(min(row["start"], greatest - job.stream.delay)))
        held.append((row["kind"], row["data"]))
        size += len(row["data"])
    shard.insert(held)
    told["greatest"], told["state_bytes"] = greatest, shard.nbytes()
    if greatest is None:
        return
    yield from shard.advance(greatest)
    if job.flush:
        yield from shard.flush(greatest)
