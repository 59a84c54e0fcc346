"""What tasks do for an archive: pairs become results, results find their parts, a part is rewritten."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from muntin.archive import EXPIRES, GENERATED
from muntin.archive.remote import RemoteUpdate
from muntin.join_query import JoinQuery
from muntin.sql import parse_view
from muntin.stream import Stream
from muntin.view.materialized_view import definition_of
from muntin.view_query import HIDDEN, LEFT_TIME, RIGHT_TIME, ViewQuery

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
