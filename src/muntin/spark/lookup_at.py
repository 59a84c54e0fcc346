"""Look-ups on Spark: for each row of a DataFrame of requests, the answers of queries at the row's own instant.

events   --pack, fold--> rows per shard --+
                                          +--shuffle--> shards --one shuffle more, if keys differ--> wide rows
requests --pack--------> rows per shard --+
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from muntin.argument import shown, text_of
from muntin.errors import MuntinError, SchemaError, nearest
from muntin.spark.asking import ONE, Asking, pack_requests, plan_lookups
from muntin.spark.event_folder import EventFolder
from muntin.spark.flow import PACKED, brought_together, check_arguments, emitted_from, in_tasks, packed_events
from muntin.spark.job import Job
from muntin.spark.replay import run_requests
from muntin.spark.session import check_session
from muntin.spark.stream_of import WATERMARK, stream_of, to_spark_type, zones_of
from muntin.spark.wide_rows import widen

_INSTANTS = (spark.TimestampType, spark.TimestampNTZType, spark.LongType, spark.IntegerType, spark.ShortType)


def lookup_at(
    df: DataFrame | EventFolder,
    queries: str | Mapping[str, str],
    requests: DataFrame,
    *,
    stream: str,
    time: str,
    at: str = "at",
    delay: timedelta | None = None,
    requests_delay: timedelta | None = None,
    shards: int = 4,
    fold: bool = True,
) -> DataFrame:
    """The answers of queries for each row of a DataFrame of requests, at the instant that its column `at` names: those
    of the embedded `lookup_at`.

    `queries` are texts by name, whose columns are called `name.column`, or one text, whose columns are called as it
    says; over a stream called `stream` whose events are the rows of `df`. A row of the result has all columns of the
    request, then the answers of each query, `found` and `complete`. Rows come in no order.

    Two tables: all requests are answered, from all events. Two streams: a request is answered once, when the watermark
    of the events has passed its instant. State is kept for requests down to a watermark of their own, that of
    `requests.withWatermark(at, …)` or `requests_delay` behind the latest request; `complete` is false for one whose
    windows are not kept any more.
    """
    check_arguments(df, {ONE: queries} if isinstance(queries, str) else queries, stream, time, delay, shards)
    is_streaming = df.is_streaming if isinstance(df, EventFolder) else df.isStreaming
    _check_requests(requests, at, requests_delay, is_streaming)
    declared = df.stream(stream, time) if isinstance(df, EventFolder) else stream_of(df, stream, time, delay)
    zones = df.zones() if isinstance(df, EventFolder) else zones_of(df)
    job = plan_lookups(
        declared, queries, to_arrow_schema(requests.schema, timezone="UTC"), at=at,
        delay=_delay_of(requests, at, requests_delay), shards=shards, fold=fold,
        zone=zones.get(declared.time, "UTC"), zones=zones,
    )  # fmt: skip
    job = replace(job, is_table=not is_streaming)
    check_session(requests.sparkSession, is_streaming)
    packed = packed_events(df, job).unionByName(requests.mapInArrow(in_tasks(job, pack_requests), PACKED))
    emitted = emitted_from(packed, job, run_requests)
    assert job.asking is not None
    if job.asking.is_in_parts:  # what the shards of several keys say of a chunk comes together
        emitted = brought_together(emitted, "query")
        emitted = emitted if packed.isStreaming else emitted.sortWithinPartitions("query")
    return emitted.mapInArrow(_widening(job, not packed.isStreaming), _spark_schema(requests, job.asking))


def _check_requests(requests: Any, at: Any, delay: Any, is_streaming: bool) -> None:
    if not hasattr(requests, "isStreaming"):
        raise MuntinError(f"requests is a DataFrame, not {shown(requests)}")
    if requests.isStreaming != is_streaming:
        kinds = {True: "a stream", False: "a table"}
        raise MuntinError(
            f"the events are {kinds[is_streaming]}, and the requests are {kinds[not is_streaming]}: give two tables, "
            "or two streams"
        )
    text_of("at", at)
    if at not in requests.columns:
        raise SchemaError(
            f"the requests have no column '{at}', the instants to look up{nearest(at, requests.columns)}"
        )
    kind = requests.schema[at].dataType
    if not isinstance(kind, _INSTANTS):
        raise SchemaError(
            f"column '{at}' of the requests must be TIMESTAMP or BIGINT (microseconds), not "
            f"{kind.simpleString().upper()}"
        )
    if delay is not None and not isinstance(delay, timedelta):
        raise MuntinError(f"requests_delay is a timedelta, not {shown(delay)}")
    if delay is not None and not is_streaming:
        raise MuntinError("requests_delay is for streams: of a table all requests are answered")


def _delay_of(requests: DataFrame, at: str, delay: timedelta | None) -> int:
    marks = {
        field.name: field.metadata[WATERMARK] for field in requests.schema if WATERMARK in field.metadata
    }
    if marks and at not in marks:
        raise SchemaError(
            f"the requests' watermark is on column '{next(iter(marks))}', but their instants are in '{at}'; they must "
            "be the same"
        )
    declared = timedelta(milliseconds=int(marks.get(at, 0)))
    return (declared if delay is None else delay) // timedelta(microseconds=1)


def _spark_schema(requests: DataFrame, asking: Asking) -> spark.StructType:
    own = []
    for field in requests.schema:
        metadata = {name: value for name, value in field.metadata.items() if name != WATERMARK}
        own.append(spark.StructField(field.name, field.dataType, field.nullable, metadata))
    answers = [field for some in asking.fields.values() for field in some]
    return spark.StructType(
        [*own, *(spark.StructField(each.name, to_spark_type(each.type)) for each in answers)]
    )


def _widening(job: Job, is_sorted: bool) -> Any:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return widen(job, batches, is_sorted)

    return run
