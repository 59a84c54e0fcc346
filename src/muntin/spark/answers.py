"""Answers on their way: packed by shards with a few numbers about each micro-batch, unpacked into rows.

Of spread queries (spread.py) each row has what one shard said of one window; they are merged where they are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from muntin.spark.answer_table import Refusal
from muntin.spark.job import Job
from muntin.spark.spread import split_windows, whole_answer

# what a shard gives out: one row or more per micro-batch, numbers in the first one only
EMITTED = (
    "shard INT, events BIGINT, late BIGINT, ahead BIGINT, answers BIGINT, overflows BIGINT, greatest BIGINT, "
    "state_bytes BIGINT, query STRING, window_end BIGINT, data BINARY"
)
EMITTED_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("events", pa.int64()), ("late", pa.int64()), ("ahead", pa.int64()),
     ("answers", pa.int64()), ("overflows", pa.int64()), ("greatest", pa.int64()), ("state_bytes", pa.int64()),
     ("query", pa.string()),
     ("window_end", pa.int64()), ("data", pa.binary())]
)  # fmt: skip
UNPACKED = ("query", "window_end", "data")  # what is read of it again
_ROWS = 1 << 17  # of answers in one piece


def emitted_rows(
    job: Job, shard: int, answers: Mapping[str, pa.Table], refusals: Sequence[Refusal], *,
    events: int = 0, late: int = 0, ahead: int = 0, overflows: int = 0, greatest: int | None, state_bytes: int,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Answers of one shard, and what was refused, packed; a row even if there is neither."""
    pieces: list[tuple[str | None, int | None, bytes | None]] = [(None, None, None)]
    route, bucket = job.route_of(shard)
    count = sum(table.num_rows for table in answers.values())
    if route.whole:
        count = 0 if bucket else count  # they are those of all shards together
        pieces += [(name, end, _to_bytes(table)) for name, end, table in split_windows(answers)]
    elif answers or refusals:
        told = [job.answer_table.refusal(each) for each in refusals]
        table = pa.concat_tables([job.answer_table.table(answers), *told])
        parts = [_to_bytes(table.slice(lo, _ROWS)) for lo in range(0, table.num_rows, _ROWS)]
        pieces = [(None, None, part) for part in parts] or pieces
    for number, piece in enumerate(pieces):
        numbers = (events, late, ahead, count, overflows, greatest, state_bytes)
        numbers = numbers if number == 0 else (0, 0, 0, 0, 0, greatest, 0)
        yield (shard, *numbers, *piece)


def unpack_answers(
    job: Job, batches: Iterable[pa.RecordBatch], is_sorted: bool = False
) -> Iterator[pa.RecordBatch]:
    """The answers in rows that shards gave out. All that was said of a window of a spread query must be among them;
    if rows are sorted by `query` and `window_end`, one window after the other is held."""
    held: dict[tuple[str, int], list[pa.Table]] = {}
    for batch in batches:
        for name, end, piece in zip(*(batch.column(each) for each in UNPACKED), strict=True):
            if not piece.is_valid:
                continue
            with pa.ipc.open_stream(piece.as_buffer()) as reader:
                if not name.is_valid:
                    yield from reader
                    continue
                window = name.as_py(), end.as_py()
                if is_sorted and window not in held:
                    yield from _merged(job, held)
                held.setdefault(window, []).append(reader.read_all())
    yield from _merged(job, held)


def _merged(job: Job, held: dict[tuple[str, int], list[pa.Table]]) -> Iterator[pa.RecordBatch]:
    """Answers of spread queries; then none are held."""
    for (name, _), parts in held.items():
        query, shards = job.whole_query(name)
        yield from job.answer_table.table(
            {name: whole_answer(query, shards, pa.concat_tables(parts))}
        ).to_batches()
    held.clear()


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    packed: Any = sink.getvalue().to_pybytes()
    return bytes(packed)


# Exactly-once by overwriting: a sink for `foreachBatch` that may see a micro-batch twice and keeps it once.


def overwrite_batches(path: str, format: str = "parquet") -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`: each micro-batch owns the folder `batch=<number>` under `path`.

    After a failure Spark repeats a micro-batch with the same number and the same answers, which then take the
    place of whatever the first attempt left.

        answers.writeStream.foreachBatch(muntin.spark.overwrite_batches("/answers")).start()
    """

    def write(answers: DataFrame, batch: int) -> None:
        answers.write.format(format).mode("overwrite").save(f"{path}/batch={batch}")

    return write
