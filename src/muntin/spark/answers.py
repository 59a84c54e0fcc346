"""Answers on their way: packed by shards with a few numbers about each micro-batch, unpacked into rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from muntin.spark.job import Job

# what a shard gives out: one row or more per micro-batch, numbers in the first one only
EMITTED = (
    "shard INT, events BIGINT, late BIGINT, answers BIGINT, greatest BIGINT, state_bytes BIGINT, data BINARY"
)
EMITTED_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("events", pa.int64()), ("late", pa.int64()), ("answers", pa.int64()),
     ("greatest", pa.int64()), ("state_bytes", pa.int64()), ("data", pa.binary())]
)  # fmt: skip
_ROWS = 1 << 17  # of answers in one piece


def emitted_rows(
    job: Job, shard: int, answers: Mapping[str, pa.Table], refusals: Mapping[str, str], *,
    events: int, late: int, greatest: int | None, state_bytes: int,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Answers of one shard, and statements that were refused, packed; a row even if there are none."""
    pieces: list[bytes | None] = [None]
    if answers or refusals:
        told = [job.layout.refusal(*each) for each in refusals.items()]
        table = pa.concat_tables([job.layout.table(answers), *told])
        pieces = [_to_bytes(table.slice(lo, _ROWS)) for lo in range(0, table.num_rows, _ROWS)] or [None]
    count = sum(table.num_rows for table in answers.values())
    for number, piece in enumerate(pieces):
        numbers = (events, late, count, greatest, state_bytes) if number == 0 else (0, 0, 0, greatest, 0)
        yield (shard, *numbers, piece)


def unpack_answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answers in rows that shards gave out."""
    for batch in batches:
        for piece in batch.column("data"):
            if piece.is_valid:
                with pa.ipc.open_stream(piece.as_buffer()) as reader:
                    yield from reader


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    packed: Any = sink.getvalue().to_pybytes()
    return bytes(packed)
