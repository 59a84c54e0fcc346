"""Wide rows: a request, and beside it what the shards of all its keys have answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from muntin.errors import MuntinError
from muntin.spark.answers import UNPACKED
from muntin.spark.asking import POSITION, Asking
from muntin.spark.job import Job


def widen(job: Job, batches: Iterable[pa.RecordBatch], is_sorted: bool = False) -> Iterator[pa.RecordBatch]:
    """Requests with their answers. All that was said of a chunk must be among the rows; if they are sorted by chunk,
    one chunk after the other is held."""
    assert job.asking is not None
    held: dict[str, dict[int, list[pa.Table]]] = {}
    for batch in batches:
        for _, chunk, ask, piece in zip(*(batch.column(each) for each in UNPACKED), strict=True):
            if not piece.is_valid:
                continue
            with pa.ipc.open_stream(piece.as_buffer()) as reader:
                table = reader.read_all()
            if not chunk.is_valid:
                yield from _wide(job.asking, {0: [table]})
                continue
            if is_sorted and chunk.as_py() not in held:
                yield from _all_wide(job.asking, held)
            held.setdefault(chunk.as_py(), {}).setdefault(ask.as_py(), []).append(table)
    yield from _all_wide(job.asking, held)


def _all_wide(asking: Asking, held: dict[str, dict[int, list[pa.Table]]]) -> Iterator[pa.RecordBatch]:
    for parts in held.values():
        yield from _wide(asking, parts)
    held.clear()


def _wide(asking: Asking, parts: Mapping[int, list[pa.Table]]) -> Iterator[pa.RecordBatch]:
    """Rows of one chunk; every ask has answered the same positions."""
    tables = {number: pa.concat_tables(some) for number, some in parts.items()}
    if asking.is_in_parts:
        tables = {number: _by_position(table) for number, table in tables.items()}
        positions = [table[POSITION] for table in tables.values()]
        if len(tables) < len(asking.asks) or any(each != positions[0] for each in positions):
            raise MuntinError(
                "shards have answered different requests of one chunk: this is an error in muntin"
            )
    of_query = {name: number for number, ask in enumerate(asking.asks) for name in ask.queries}
    columns = [tables[0][f"own {i}"] for i in range(len(asking.schema))]
    for name, fields in asking.fields.items():
        columns += [tables[of_query[name]][f"answer {name}/{i}"] for i in range(len(fields))]
    yield from pa.Table.from_arrays(columns, asking.wide.names).to_batches()


def _by_position(table: pa.Table) -> pa.Table:
    order = np.argsort(table[POSITION].to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks()
