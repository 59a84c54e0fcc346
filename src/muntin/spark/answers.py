"""Answers on their way: packed by shards with a few numbers about each micro-batch, unpacked into rows.

Of spread queries (spread.py, shares.py), of those with LIMIT (ranked.py), and of joins whose partials are merged
(join_answers.py), each row has what one shard said of a window; they are merged where they are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from muntin.spark.answer_table import Refusal
from muntin.spark.asking import ask_of
from muntin.spark.job import Job
from muntin.spark.join_answers import is_part, split_parts, whole_join
from muntin.spark.join_job import JoinJob
from muntin.spark.ranked import first_rows, has_ranks, split_ranked
from muntin.spark.shares import has_shares, split_shares, whole_answers
from muntin.spark.spread import split_windows, whole_answer

# what a shard gives out: one row or more per micro-batch, numbers in the first one only
EMITTED = (
    "shard INT, events BIGINT, late BIGINT, ahead BIGINT, bad BIGINT, answers BIGINT, overflows BIGINT, "
    "greatest BIGINT, state_bytes BIGINT, report STRING, query STRING, window_end BIGINT, data BINARY"
)
EMITTED_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("events", pa.int64()), ("late", pa.int64()), ("ahead", pa.int64()), ("bad", pa.int64()),
     ("answers", pa.int64()), ("overflows", pa.int64()), ("greatest", pa.int64()), ("state_bytes", pa.int64()),
     ("report", pa.string()), ("query", pa.string()),
     ("window_end", pa.int64()), ("data", pa.binary())]
)  # fmt: skip
UNPACKED = ("shard", "query", "window_end", "data")  # what is read of it again
_ROWS = 1 << 17  # of answers in one piece


def emitted_rows(
    job: Job, shard: int, answers: Mapping[str, pa.Table], refusals: Sequence[Refusal], *,
    events: int = 0, late: int = 0, ahead: int = 0, bad: int = 0, overflows: int = 0,
    greatest: int | None, state_bytes: int, report: str | None = None,
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    """Answers of one shard, and what was refused, packed; a row even if there is neither."""
    pieces: list[tuple[str | None, int | None, bytes | None]] = []
    route, bucket = job.route_of(shard)
    ranked = {name: table for name, table in answers.items() if has_ranks(table)}
    shares = {name: table for name, table in answers.items() if route.whole or is_part(table)}
    answers = {name: table for name, table in answers.items() if name not in shares | ranked}
    count = sum(table.num_rows for table in answers.values())
    if job.asking is not None:
        count = sum(table.num_rows for name, table in answers.items() if not ask_of(name)[0])
        pieces = [(None, None, None)]
        pieces += [
            (chunk, number, _to_bytes(table.slice(lo, _ROWS)))
            for name, table in answers.items()
            for number, chunk in [ask_of(name)]
            for lo in range(0, table.num_rows, _ROWS)
        ]
    elif answers or refusals:
        table = job.answer_table.table(answers)
        if refusals:
            table = pa.concat_tables([table, job.answer_table.refusals(refusals)])
        pieces = [(None, None, _to_bytes(table.slice(lo, _ROWS))) for lo in range(0, table.num_rows, _ROWS)]
    pieces = pieces or [(None, None, None)]
    if shares:
        # they are those of all shards together
        count += 0 if bucket else sum(table.num_rows for table in shares.values())
        split = _split(job, shares) if route.whole else split_parts(shares)
        pieces += [(name, end, _to_bytes(table)) for name, end, table in split]
    for name, table in ranked.items():
        count += table.num_rows
        pieces += [(each, end, _to_bytes(rows)) for each, end, rows in split_ranked(name, table)]
    for number, piece in enumerate(pieces):
        numbers = (events, late, ahead, bad, count, overflows, greatest, state_bytes, report)
        numbers = numbers if number == 0 else (0, 0, 0, 0, 0, 0, greatest, 0, None)
        yield (shard, *numbers, *piece)


def unpack_answers(
    job: Job, batches: Iterable[pa.RecordBatch], is_sorted: bool = False
) -> Iterator[pa.RecordBatch]:
    """The answers in rows that shards gave out. All that was said of a window of a spread query must be among them;
    if rows are sorted by `query` and `window_end`, one window after the other is held."""
    held: _Held = {}
    for batch in batches:
        for shard, name, end, piece in zip(*(batch.column(each) for each in UNPACKED), strict=True):
            if not piece.is_valid:
                continue
            with pa.ipc.open_stream(piece.as_buffer()) as reader:
                if not name.is_valid:
                    yield from reader
                    continue
                window = name.as_py(), end.as_py()
                if is_sorted and window not in held:
                    yield from _merged(job, held)
                held.setdefault(window, []).append((shard.as_py(), reader.read_all()))
    yield from _merged(job, held)


# by query and window (or some of its windows), what each shard said
_Held = dict[tuple[str, int], list[tuple[int, pa.Table]]]


def _split(job: Job, answers: Mapping[str, pa.Table]) -> Iterator[tuple[str, int, pa.Table]]:
    """What a shard said of windows, as all shards cut it."""
    for name, table in answers.items():
        query, _ = job.whole_query(name)
        pieces = split_shares(query, table) if has_shares(query) else split_windows(table)
        yield from ((name, number, piece) for number, piece in pieces)


def _merged(job: Job, held: _Held) -> Iterator[pa.RecordBatch]:
    """Answers of spread queries and of joins; then none are held."""
    if isinstance(job, JoinJob):
        by_query: dict[str, list[pa.Table]] = {}
        for (name, _), told in held.items():
            by_query.setdefault(name, []).extend(table for _, table in told)
        for name, parts in by_query.items():
            yield from job.answer_table.table({name: whole_join(job, pa.concat_tables(parts))}).to_batches()
        held.clear()
        return
    for (name, _), told in held.items():
        if has_ranks(told[0][1]):
            first = first_rows([table for _, table in told])
            yield from job.answer_table.table({name: first}).to_batches()
            continue
        query, shards = job.whole_query(name)
        places = {
            each: place for route in job.routes if name in route.whole for place, each in enumerate(route.ids)
        }
        parts = [table for _, table in sorted(told, key=lambda each: places[each[0]])]
        whole = (
            whole_answers(query, parts)
            if has_shares(query)
            else whole_answer(query, shards, pa.concat_tables(parts))
        )
        yield from job.answer_table.table({name: whole}).to_batches()
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
