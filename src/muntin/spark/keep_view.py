"""Materialised views kept by Spark, from streaming DataFrames: each kind in the way that suits it.

| view | kept by |
|---|---|
| pairs of two streams over time windows | Spark's own join, and tasks that rewrite parts (`view_pairs.py`) |
| ROWS, more inputs, EXCEPT, NOT EXISTS, one stream | the engine's operator, in the driver (`view_events.py`) |
| aggregates, GROUP BY, DISTINCT | nobody: they are queries of an engine, and refused here |

What reads the archive, embedded or elsewhere, reads it while Spark writes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from muntin.errors import MuntinError, NotFound, SchemaError, nearest
from muntin.expression import Expression
from muntin.join_query import JoinQuery
from muntin.own.registered import used_in
from muntin.spark.shared_path import shared_path
from muntin.spark.stream_of import stream_of, zones_of
from muntin.spark.told_view import Told
from muntin.spark.view_events import EventKeeper, events_of
from muntin.spark.view_owner import OwnedView
from muntin.spark.view_pairs import PairKeeper, pairs_of
from muntin.sql import parse_view
from muntin.view.folders import folder_of
from muntin.view.wide_join import side_of
from muntin.view_query import GroupedQuery, NegationQuery, ViewQuery, ViewSource, WideJoinQuery


def keep_view(
    statement: str,
    streams: Mapping[str, DataFrame],
    *,
    time: Mapping[str, str] | str,
    archive: str,
    checkpoint: str,
) -> DataStreamWriter:
    """A stream that keeps a view, `CREATE MATERIALIZED VIEW v AS …`, over streaming DataFrames by name, each with its
    watermark. Nothing happens until it is started.

    A DataFrame without a watermark has one of delay 0. The view is in `archive` as an embedded engine would have it:
    `Engine(archive=…)` reads it meanwhile. At each micro-batch it moves to the last update instant that the
    watermark has passed. `checkpoint` is a folder that the driver can read; all tasks must reach the archive by
    its path. The view belongs to the checkpoint that began it: another checkpoint is refused.

        muntin.spark.keep_view(text, {"a": a, "b": b}, time="ts", archive="/views", checkpoint="/spark").start()
    """
    kept_in, begun_by = shared_path("archive", archive), shared_path("checkpoint", checkpoint)
    for name, df in streams.items():
        if not df.isStreaming:
            raise MuntinError(f"stream '{name}' is a table: keep_view takes streaming DataFrames")
    known = {name: stream_of(df, name, _time_of(name, time)) for name, df in streams.items()}
    view = parse_view(statement, known)
    if view is None:
        raise MuntinError("keep_view takes a CREATE MATERIALIZED VIEW")
    if used := used_in([statement]):
        raise MuntinError(
            f"keep_view does not take functions of your own, such as {used[0].name}: compute a column in the "
            "DataFrame, or keep the view in an embedded engine"
        )
    refuse_groups(view)
    for name in view.streams:
        if name not in streams:
            raise NotFound(f"there is no stream '{name}'{nearest(name, streams)}")
    _check_kinds(view.source, streams)
    owned = OwnedView(view, folder_of(kept_in, view.name), begun_by)
    if isinstance(view.source, JoinQuery):
        told = Told.of(view, known.values())
        writer = pairs_of(view, told, streams).writeStream.foreachBatch(PairKeeper(owned, told).take)
    else:
        writer = events_of(view, streams).writeStream.foreachBatch(EventKeeper(owned).take)
    return writer.option("checkpointLocation", checkpoint)


def refuse_groups(view: ViewQuery) -> None:
    """An error if a view is fed by a query, which only an engine has."""
    if isinstance(view.source, GroupedQuery):
        raise MuntinError(
            f"view '{view.name}' has aggregates, GROUP BY or DISTINCT, which an embedded engine keeps; on Spark ask "
            "for them with shared_windows and write the answers, or keep the events and aggregate when you read them"
        )


def archive_join(
    statement: str,
    streams: Mapping[str, DataFrame],
    *,
    time: Mapping[str, str] | str,
    archive: str,
    checkpoint: str,
) -> DataStreamWriter:
    """Deprecated: the name of `keep_view` in version 0.1.0, which kept joins only; gone in 0.4."""
    warnings.warn("archive_join is called keep_view", DeprecationWarning, stacklevel=2)
    return keep_view(statement, streams, time=time, archive=archive, checkpoint=checkpoint)


def _time_of(name: str, time: Mapping[str, str] | str) -> str:
    if isinstance(time, str):
        return time
    if name not in time:
        raise SchemaError(f"time= names no column for stream '{name}'")
    return time[name]


def _check_kinds(source: ViewSource, streams: Mapping[str, DataFrame]) -> None:
    """An instant and a time of day cannot be equal: Spark would compare them by the session's time zone, muntin by
    their digits."""
    for columns in _compared_columns(source):
        zones = {
            zones_of(streams[stream])[name] for stream, name, kind in columns if pa.types.is_timestamp(kind)
        }
        if len(zones) > 1:
            names = " and ".join(f"'{name}'" for _, name, _ in columns)
            raise SchemaError(
                f"{names} are a TIMESTAMP and a TIMESTAMP_NTZ: cast one of them in its DataFrame"
            )


def _compared_columns(source: ViewSource) -> Iterator[list[tuple[str, str, pa.DataType]]]:
    """The columns that the view compares with each other: their streams, names and types."""
    pairs: list[tuple[tuple[int, Expression], tuple[int, Expression]]] = []
    if isinstance(source, JoinQuery):
        pairs = [((0, ours), (1, theirs)) for ours, theirs in source.on]
    elif isinstance(source, NegationQuery):
        outputs = {output.name: output.expression for output in source.outputs}
        pairs = [((0, outputs[name]), (1, value)) for name, value in source.on]
    elif isinstance(source, WideJoinQuery):
        pairs = [
            ((side_of(source, before.columns[0]), before), (number, own))
            for number, equalities in enumerate(source.on, 1)
            for before, own in equalities
            if before.columns
        ]
    for pair in pairs:
        if all(value.is_column for _, value in pair):
            yield [
                (source.sides[side].stream.name, _plain(source, side, value.columns[0]), value.type)
                for side, value in pair
            ]


def _plain(source: ViewSource, side: int, column: str) -> str:
    """The name of a column in its stream: wide joins call it `t.price`."""
    return column[len(source.sides[side].name) + 1 :] if isinstance(source, WideJoinQuery) else column
