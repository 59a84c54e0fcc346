"""History as users have it: past events of a stream, as batches; a path, an Arrow reader, or what `push` takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.engine.event_file import EventFolder, open_events
from muntin.errors import SchemaError
from muntin.shard.record_batch import to_record_batch
from muntin.stream import Stream
from muntin.view.folders import Folders

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
