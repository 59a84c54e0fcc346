"""Row groups: how the rows of a Parquet file come, whole groups where those are small.

Arrow decodes a group that is asked for whole in three quarters of the time that it takes to hand out the same rows
batch by batch. But all of it is in memory then, so this is for groups whose values have a fixed width and take few
bytes: texts may be any length, and a group may be the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet

_MOST_BYTES = 32 << 20  # of a group that is decoded whole
_FEWEST_ROWS = 32_768  # of a group that is worth a call of its own


def read_groups(
    file: pa.parquet.ParquetFile, columns: list[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """All rows in order, as batches that end at multiples of `batch_rows` where that takes no copy; the columns in the
    order of the file."""
    seen = 0
    for is_whole, groups in groupby(
        range(file.num_row_groups), lambda group: _is_small(file, columns, group)
    ):
        if is_whole:
            batches = (
                batch for group in groups for batch in file.read_row_group(group, columns).to_batches()
            )
        else:
            batches = file.iter_batches(batch_rows, row_groups=list(groups), columns=columns)
        for batch in batches:
            for piece in _cut(batch, batch_rows - seen % batch_rows, batch_rows):
                seen += piece.num_rows
                yield piece


def _is_small(file: pa.parquet.ParquetFile, columns: list[str], group: int) -> bool:
    kinds = [file.schema_arrow.field(name).type for name in columns]
    rows = file.metadata.row_group(group).num_rows
    if rows < _FEWEST_ROWS or not all(pa.types.is_primitive(each) for each in kinds):
        return False
    return bool(rows * sum(each.bit_width for each in kinds) <= 8 * _MOST_BYTES)


def _cut(batch: pa.RecordBatch, first: int, most: int) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of `most` rows, the first of which has `first`.

    >>> [piece["x"].to_pylist() for piece in _cut(pa.record_batch({"x": [1, 2, 3, 4, 5, 6]}), 1, 3)]
    [[1], [2, 3, 4], [5, 6]]
    """
    begin, end = 0, first
    while begin < batch.num_rows:
        yield batch.slice(begin, end - begin)
        begin, end = end, end + most
