"""Filling: the history of new queries is read beside the stream, which goes on meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.engine.catalog import Asked, Catalog
from muntin.engine.event_file import EventFolder, open_events
from muntin.errors import MuntinError, SchemaError
from muntin.join_query import JoinQuery
from muntin.shard.backfill import Backfill
from muntin.shard.record_batch import to_record_batch
from muntin.stream import Stream
from muntin.view.folders import Folders

# History as users have it: past events of a stream, as batches; a path, an Arrow reader, or what `push`
# takes.

_ROWS = 65_536  # of a batch: what is in memory at a time


def history_batches(stream: Stream, history: Any, folders: Folders) -> Iterator[pa.RecordBatch]:
    """The events of a history in the order they are given, in the stream's schema.

    `history` is the path of a Parquet, Arrow, CSV or JSON lines file or of a folder of them, a pyarrow Table,
    RecordBatch or RecordBatchReader, a pandas or polars frame, or a dict of columns. A path, and every file of a
    folder, must lie in one of the `folders`.
    """
    if isinstance(history, (str, os.PathLike)):
        folders.require(history, "history")
        events = open_events(Path(history), stream)
        for file in events.files if isinstance(events, EventFolder) else ():
            folders.require(file.path, "history")  # which may be a link
        given: Iterator[Any] = events.batches(_ROWS)
    elif isinstance(history, pa.RecordBatchReader):
        given = _read(history)
    else:
        whole = to_record_batch(stream, history)
        given = (whole.slice(start, _ROWS) for start in range(0, whole.num_rows, _ROWS))
    return (to_record_batch(stream, batch) for batch in given)


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except pa.ArrowException as error:
        raise SchemaError(f"the history cannot be read: {str(error).splitlines()[0]}") from error


_ROUNDS = 3  # in which a backfill catches up with the stream, before the last in which the stream waits


@contextmanager
def filling(
    catalog: Catalog, lock: AbstractContextManager[Any], asked: Mapping[str, Asked], history: Any
) -> Iterator[Backfill]:
    """Queries of one stream with their history filled in, ready to be grafted; until the block ends they follow
    what is pushed."""
    if joins := [name for name, each in asked.items() if isinstance(each, JoinQuery)]:
        raise MuntinError(f"a backfill is the history of one stream; query '{joins[0]}' joins two")
    requests = {name: each for name, each in asked.items() if not isinstance(each, JoinQuery)}
    streams = {request.query.stream.name: request.query.stream for request in requests.values()}
    if len(streams) != 1:
        names = ", ".join(streams) or "none"
        raise MuntinError(f"a backfill is the history of one stream; these queries read {names}")
    (stream,) = streams.values()
    with lock:
        operator = catalog.operators.get(stream.name)
        if operator is None or operator.stream is not stream:
            operator = catalog.make_operator(stream)  # a script that creates it is about to run
        backfill = operator.begin_backfill(requests)
    try:
        backfill.fill(history_batches(stream, history, catalog.folders))
        for _ in range(_ROUNDS):  # what was pushed meanwhile, ever less of it
            with lock:
                live = backfill.take_held()
            backfill.catch_up(live)
        yield backfill
    finally:
        with lock:
            operator.end_backfill(backfill)
