"""Segment: an immutable file of rows, mapped into memory, found by key without reading it all.

    an Arrow stream     blocks of about 1 MiB, as record batches; any Arrow reader reads them
    an Arrow stream     the trailer: of each block its place, length, rows and CRC-32, and its first row
                        as far as rows are sorted by it (the fences)
    8 + 4 + 8 bytes     length and CRC-32 of the trailer, and the format version

The trailer is read when the segment is opened; a block is compared with its checksum before it is used for
the first time. A search looks at the fences, in memory, and into one block.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from muntin.archive.disk import MappedFile, cannot_write, remove, write, written
from muntin.archive.sorted_columns import Side, SortedColumns
from muntin.arrow_bytes import UnsoundBytes, read_batch, read_batches
from muntin.errors import ArchiveError, NotFound

BLOCK_BYTES = 1 << 20
FEWEST_BLOCK_ROWS, MOST_BLOCK_ROWS = 64, 1 << 16
_TAIL = struct.Struct("<QI8s")
_VERSION = b"MUNTSG01"
_FACTS = ("offset", "length", "rows", "checksum")  # of each block
_MOST_ROWS = 1 << 32  # of a block
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


class Segment:
    """An open segment.

    Opening reads the trailer. `bound` takes O(log rows) and reads one block; `between` copies nothing.
    """

    def __init__(self, path: Path, schema: pa.Schema, order: Sequence[str], never_null: Sequence[str] = ()):
        self.path = path
        self._schema = schema
        self._never_null = never_null
        try:
            self._map = MappedFile(path)
        except FileNotFoundError:
            raise NotFound(f"segment '{path}' is missing") from None
        except ValueError as error:
            raise self._damaged(str(error)) from None
        except OSError as error:
            raise ArchiveError(f"segment '{path}' cannot be read: {error.strerror or error}") from None
        self.size: int = self._map.size
        self.fences, blocks = self._read_trailer(order)
        self._offset, self._length, self._checksum = (
            blocks.column(name).to_numpy() for name in ("offset", "length", "checksum")
        )
        self._start = np.concatenate([[0], np.cumsum(blocks.column("rows").to_numpy())])
        self.rows = int(self._start[-1])
        self._order = tuple(order)
        self._searched = (
            SortedColumns([self.fences.column(name).chunk(0) for name in order]) if order else None
        )
        self._blocks: list[pa.RecordBatch | None] = [None] * len(self._offset)
        self._columns: list[SortedColumns | None] = [None] * len(self._offset)

    @property
    def name(self) -> str:
        """Of the file."""
        return self.path.name

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    def block(self, number: int) -> pa.RecordBatch:
        """A block, compared with its checksum when it is first asked for."""
        block = self._blocks[number]
        if block is None:
            offset, length = int(self._offset[number]), int(self._length[number])
            self._map.read_ahead(offset, length)
            message = self._map.slice(offset, length)
            if zlib.crc32(message) != self._checksum[number]:
                raise self._damaged(f"the checksum of block {number} does not match")
            block = self._blocks[number] = self._read_block(number, message)
        return block

    def _read_block(self, number: int, message: pa.Buffer) -> pa.RecordBatch:
        try:
            block = read_batch(message, self._schema)
        except UnsoundBytes as error:
            raise self._damaged(f"block {number} is no block: {error}") from None
        rows = int(self._start[number + 1] - self._start[number])
        if len(block) != rows:
            raise self._damaged(f"block {number} has {len(block):,} rows instead of {rows:,}")
        for name in self._never_null:
            if block.column(name).null_count:
                raise self._damaged(f"column '{name}' of block {number} is NULL somewhere")
        return block

    def bound(self, values: Sequence[Any], side: Side) -> int:
        """Number of the first row that begins with `values` or more; on the right, with more."""
        assert self._searched is not None, "rows of this segment are in no order"
        number = max(self._searched.bound(values, side) - 1, 0)
        return int(self._start[number]) + self._sorted(number).bound(values, side)

    def blocks_between(self, low: Sequence[Any], high: Sequence[Any], right: Side) -> range:
        """Numbers of the blocks that may have rows from `low` on and up to `high`; known without reading one."""
        assert self._searched is not None, "rows of this segment are in no order"
        first = max(self._searched.bound(low, "left") - 1, 0)
        return range(first, self._searched.bound(high, right))

    def span(self, values: Sequence[Any]) -> tuple[int, int]:
        """Numbers of the rows that begin with `values`: from the first to below the second."""
        assert self._searched is not None, "rows of this segment are in no order"
        first, last = (max(each - 1, 0) for each in self._searched.span(values))
        if first != last:
            return self.bound(values, "left"), self.bound(values, "right")
        start, stop = self._sorted(first).span(values)
        before = int(self._start[first])
        return before + start, before + stop

    def _sorted(self, number: int) -> SortedColumns:
        columns = self._columns[number]
        if columns is None:
            block = self.block(number)
            columns = self._columns[number] = SortedColumns([block.column(name) for name in self._order])
        return columns

    def between(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows of some numbers, without a copy."""
        if start >= stop:
            return []
        first = int(self._start.searchsorted(start, "right")) - 1
        last = int(self._start.searchsorted(stop, "left"))
        if last == first + 1:
            return [self.block(first).slice(start - int(self._start[first]), stop - start)]
        if any(block is None for block in self._blocks[first:last]):  # all in one piece
            begin = int(self._offset[first])
            self._map.read_ahead(begin, int(self._offset[last - 1] + self._length[last - 1]) - begin)
        cut = []
        for number in range(first, last):
            block, begin = self.block(number), int(self._start[number])
            cut.append(
                block.slice(max(start - begin, 0), min(stop - begin, len(block)) - max(start - begin, 0))
            )
        return cut

    def _read_trailer(self, order: Sequence[str]) -> tuple[pa.Table, pa.RecordBatch]:
        if self.size < _TAIL.size:
            raise self._damaged(f"{self.size} bytes are too few")
        length, checksum, version = _TAIL.unpack(self._map.slice(self.size - _TAIL.size, _TAIL.size))
        if version[:6] != _VERSION[:6]:
            raise self._damaged("it does not end as a segment does")
        if version != _VERSION:
            shown = version[6:].decode(errors="replace")
            raise ArchiveError(f"segment '{self.path}' has format version {shown}; this muntin reads 01")
        if length > self.size - _TAIL.size:
            raise self._damaged("it is cut short")
        trailer = self._map.slice(self.size - _TAIL.size - length, length)
        if zlib.crc32(trailer) != checksum:
            raise self._damaged("the checksum of its trailer does not match")
        self.checksum = hashlib.sha256(trailer).hexdigest()[:32]
        head = self._schema.serialize()
        if head.size > self.size or self._map.slice(0, head.size) != head:
            raise self._damaged("it does not begin with the schema of its rows")
        blocks = self._read_blocks(trailer, order)
        self._check_places(blocks, head.size, self.size - _TAIL.size - length)
        return pa.Table.from_batches([blocks.select([*order, "rows"])]), blocks

    def _read_blocks(self, trailer: pa.Buffer, order: Sequence[str]) -> pa.RecordBatch:
        """What the trailer says of each block."""
        try:
            (blocks,) = read_batches(trailer)
        except ValueError as error:  # of which unsound bytes are one kind
            raise self._damaged(f"its trailer is none: {error}") from None
        wanted = {name: pa.int64() for name in _FACTS} | {
            name: self._schema.field(name).type for name in order
        }
        if dict(zip(blocks.schema.names, blocks.schema.types, strict=True)) != wanted:
            raise self._damaged("its trailer does not say what it must of each block")
        if not len(blocks) or any(blocks.column(name).null_count for name in _FACTS):
            raise self._damaged("its trailer leaves out what a block is")
        return blocks

    def _check_places(self, blocks: pa.RecordBatch, begin: int, end: int) -> None:
        """Blocks lie in the file, one after the other, between where they may begin and end; each has rows."""
        offset, length, rows, _ = (blocks.column(name).to_numpy() for name in _FACTS)
        fits = int(offset.min()) >= 0 and int(offset.max()) <= end and int(length.min()) > 0
        fits = fits and int(length.max()) <= end
        if not (fits and offset[0] >= begin and bool((offset + length <= np.append(offset[1:], end)).all())):
            raise self._damaged("its blocks do not lie in it, one after the other")
        if not (int(rows.min()) >= 1 and int(rows.max()) <= _MOST_ROWS):
            raise self._damaged("its trailer has a block of no number of rows")

    def _damaged(self, how: str) -> ArchiveError:
        return ArchiveError(f"segment '{self.path}' is damaged: {how}")


class SegmentWriter:
    """Writes rows, in the order they come, to a new file; there is no file if it fails or gets none."""

    def __init__(self, path: Path, schema: pa.Schema, order: Sequence[str]):
        self._path, self._schema, self._order = path, schema, order
        self._held: pa.Table = schema.empty_table()
        self._block_rows = 0  # settled by the first rows
        self._blocks: dict[str, list[int]] = {name: [] for name in _FACTS}
        self._fences: list[pa.RecordBatch] = []
        self._offset = 0
        self._file = ExitStack()
        self._sink: BinaryIO | None = None

    def add(self, rows: pa.Table) -> None:
        """Write all full blocks there are; the rest waits."""
        if not self._block_rows and rows.num_rows:
            fit = BLOCK_BYTES * rows.num_rows // max(rows.nbytes, 1)
            self._block_rows = int(np.clip(fit, FEWEST_BLOCK_ROWS, MOST_BLOCK_ROWS))
        held = pa.concat_tables([self._held, rows])
        full = held.num_rows // self._block_rows * self._block_rows if self._block_rows else 0
        if full:
            self._write_blocks(held.slice(0, full))
            self._held = _copied(held.slice(full))
        else:
            self._held = pa.concat_tables([self._held, _copied(rows)])

    def finish(self) -> Segment | None:
        """The segment, on disk for good; None if there was no row."""
        self._write_blocks(self._held)
        if self._sink is None:
            return None
        with self._file:
            write(self._sink, _END_OF_STREAM)
            write(self._sink, _trailer(self._blocks, self._fences, self._order))
        return Segment(self._path, self._schema, self._order)

    def abandon(self) -> None:
        """Leave no file."""
        self._file.close()
        remove(self._path)

    def _write_blocks(self, rows: pa.Table) -> None:
        if rows.num_rows and self._sink is None:
            self._sink = self._file.enter_context(written(self._path))
            self._write(self._schema.serialize())
        for start in range(0, rows.num_rows, self._block_rows or 1):
            block = rows.slice(start, self._block_rows).combine_chunks().to_batches()[0]
            message = block.serialize()
            described = (self._offset, message.size, len(block), zlib.crc32(message))
            for values, value in zip(self._blocks.values(), described, strict=True):
                values.append(value)
            self._fences.append(block.slice(0, 1).select(list(self._order)))
            self._write(message)

    def _write(self, content: pa.Buffer) -> None:
        assert self._sink is not None
        try:
            write(self._sink, content)
        except OSError as error:
            raise cannot_write(self._path, error) from error
        self._offset += content.size


def write_segment(
    path: Path, tables: Iterable[pa.Table], schema: pa.Schema, order: Sequence[str]
) -> Segment | None:
    """Write rows to a new segment; None, and no file, if there are none."""
    writer = SegmentWriter(path, schema, order)
    try:
        for table in tables:
            writer.add(table)
        return writer.finish()
    except BaseException:
        writer.abandon()
        raise


def _copied(rows: pa.Table) -> pa.Table:
    """The rows alone: a slice would keep all that it was cut from in memory."""
    return rows.take(pa.array(np.arange(rows.num_rows)))


def _trailer(blocks: dict[str, list[int]], fences: list[pa.RecordBatch], order: Sequence[str]) -> bytes:
    columns: dict[str, Any] = {name: pa.array(values, pa.int64()) for name, values in blocks.items()}
    if order:
        columns |= dict(zip(order, pa.Table.from_batches(fences).combine_chunks().columns, strict=True))
    batch = pa.table(columns).combine_chunks().to_batches()[0]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body + _TAIL.pack(len(body), zlib.crc32(body), _VERSION)
