"""Rewriting: what an update does to one part. Nothing that is there changes; new segments take its place.

Runs are merged piece by piece, whether they lie on disk or in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.disk import Drafts
from muntin.archive.indexing import Indexing, Layout, Number
from muntin.archive.liveness import Liveness
from muntin.archive.segment import write_segment
from muntin.archive.sorted_columns import Side, SortedColumns, ordered_rows, sort_rows, value_at
from muntin.archive.stored import Extent, Part, Stored
from muntin.kernels.columns import gather_rows, gather_values

# Gathering: chosen rows of a table in chunks, in any order, as one chunk, copied once.
#
# Arrow filters, joins chunks and takes rows in three copies. Rows of results are wide and an update copies
# all that it touches, so columns of fixed width go straight from where they are mapped to where they
# belong.

_WORD = 8
_SMALL = 1 << 16  # bytes below which three copies cost less than looking at each chunk


def gather(table: pa.Table, rows: Any) -> pa.Table:
    """The rows of these numbers, in their order.

    >>> halves = pa.concat_tables([pa.table({"k": [1, 2]}), pa.table({"k": [3, 4]})])
    >>> gather(halves, np.array([3, 0, 2])).to_pydict()
    {'k': [4, 1, 3]}
    """
    if table.nbytes < _SMALL:
        return table.combine_chunks().take(pa.array(rows))
    plain = [field.name for field in table.schema if _is_plain(table.column(field.name))]
    bounds = _chunk_bounds(table, plain)
    if not plain or bounds is None:
        return table.combine_chunks().take(pa.array(rows))
    taken: dict[str, Any] = {name: _gathered(table.column(name), rows, bounds) for name in plain}
    rest = [name for name in table.column_names if name not in taken]
    if rest:
        other = table.select(rest).combine_chunks().take(pa.array(rows))
        taken |= {name: other.column(name) for name in rest}
    return pa.table([taken[name] for name in table.column_names], schema=table.schema)


def compile_gather() -> None:
    """Have compiled what large tables need, before somebody waits for it."""
    many = _SMALL // _WORD
    wide = pa.array([bytes(2 * _WORD)] * many, pa.binary(2 * _WORD))
    gather(pa.table({"word": np.arange(many), "wide": wide}), np.arange(1))


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Whether its values lie side by side, a whole number of words each, and none is NULL."""
    kind = column.type
    is_fixed = pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(is_fixed and kind.bit_width % (8 * _WORD) == 0 and not column.null_count)


def _chunk_bounds(table: pa.Table, names: list[str]) -> Any:
    """Where chunks begin and end; None if columns are not cut alike."""
    cuts = {tuple(len(chunk) for chunk in table.column(name).chunks) for name in names}
    return np.cumsum([0, *cuts.pop()]) if len(cuts) == 1 else None


def _gathered(column: pa.ChunkedArray, rows: Any, bounds: Any) -> pa.Array:
    words = column.type.bit_width // (8 * _WORD)
    out = np.empty((len(rows), words), np.uint64)
    chunk_of = np.searchsorted(bounds, rows, "right") - 1
    for number, chunk in enumerate(column.chunks):
        places = np.flatnonzero(chunk_of == number)
        if not len(places):
            continue
        source = np.frombuffer(chunk.buffers()[1], np.uint64)
        source = source[chunk.offset * words : (chunk.offset + len(chunk)) * words]
        source.flags.writeable = False  # so that all are of one type to the compiler
        if words == 1:
            gather_values(source, rows[places] - bounds[number], places, out[:, 0])
        else:
            gather_rows(source.reshape(-1, words), rows[places] - bounds[number], places, out)
    return pa.Array.from_buffers(column.type, len(rows), [None, pa.py_buffer(out)])


# Run: rows in order of key and expiry, in a segment on disk or in memory; what merges and probes work on.


class Run(Protocol):
    """Rows numbered from 0."""

    @property
    def rows(self) -> int:
        """How many there are."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def fences(self) -> pa.Table:
        """The first row of each block, as far as rows are sorted by it, and `rows`, how many it has."""

    def bound(self, values: Sequence[Any], side: Side) -> int:
        """Number of the first row that begins with `values` or more; on the right, with more."""

    def between(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows of some numbers, without a copy."""


class MemoryRun:
    """A table as a run of a single block.

    >>> run = MemoryRun(pa.table({"k": [1, 2, 2], "e": [3, 4, 5]}), ["k", "e"])
    >>> run.bound((2,), "left"), run.bound((2,), "right"), run.fences.to_pylist()
    (1, 3, [{'k': 1, 'e': 3, 'rows': 3}])
    """

    def __init__(self, table: pa.Table, order: Sequence[str]):
        self._table = table.combine_chunks()
        self.rows: int = table.num_rows
        self.size: int = table.nbytes
        columns = [self._table.column(name).chunk(0) for name in order]
        self._sorted = SortedColumns(columns)
        first = {name: column[:1] for name, column in zip(order, columns, strict=True)}
        self.fences = pa.table({**first, "rows": pa.array([self.rows], pa.int64())})

    def bound(self, values: Sequence[Any], side: Side) -> int:
        """Number of the first row that begins with `values` or more; on the right, with more."""
        return self._sorted.bound(values, side)

    def between(self, start: int, stop: int) -> list[pa.RecordBatch]:
        """Rows of some numbers, without a copy."""
        batches: list[pa.RecordBatch] = self._table.slice(start, stop - start).to_batches()
        return batches


PIECE_BYTES = 8 << 20
Keep = Callable[[pa.Table], Any]  # one boolean a row, as a NumPy array


def merge_runs(runs: Sequence[Run], order: Sequence[str], keep: Keep | None = None) -> Iterator[pa.Table]:
    """The rows of all runs in ascending order, of those that `keep` keeps."""
    cuts = _cuts(runs, order)
    starts = [0] * len(runs)
    for cut in [*cuts, None]:
        stops = [run.rows if cut is None else run.bound(cut, "left") for run in runs]
        spans = zip(runs, starts, stops, strict=True)
        found = [batches for run, start, stop in spans if (batches := run.between(start, stop))]
        starts = stops
        if not found:
            continue
        piece = pa.Table.from_batches([batch for batches in found for batch in batches])
        chosen = None if keep is None else keep(piece)
        if len(found) > 1:
            piece = gather(piece, ordered_rows(piece, order, chosen))
        else:
            piece = kept(piece, chosen)
        if piece.num_rows:
            yield piece


def chain_runs(runs: Sequence[Run], keep: Keep | None = None) -> Iterator[pa.Table]:
    """The rows of all runs one after the other, of those that `keep` keeps, in pieces."""
    for run in runs:
        step = max(1, PIECE_BYTES * run.rows // max(run.size, 1))
        for start in range(0, run.rows, step):
            piece = pa.Table.from_batches(run.between(start, min(start + step, run.rows)))
            piece = kept(piece, None if keep is None else keep(piece))
            if piece.num_rows:
                yield piece


def kept(rows: pa.Table, chosen: Any) -> pa.Table:
    """The rows that are chosen; as they are, if that is all of them."""
    return rows if chosen is None or chosen.all() else gather(rows, np.flatnonzero(chosen))


def _cuts(runs: Sequence[Run], order: Sequence[str]) -> list[tuple[Any, ...]]:
    """Values at which the merged rows are cut, in ascending order."""
    rows, size = sum(run.rows for run in runs), sum(run.size for run in runs)
    if size <= PIECE_BYTES:
        return []
    fences = sort_rows(pa.concat_tables([run.fences for run in runs]), order)
    before = np.cumsum(fences.column("rows").to_numpy()) - fences.column("rows").to_numpy()
    piece = before // max(1, PIECE_BYTES * rows // size)
    cut = np.flatnonzero(np.diff(piece, prepend=piece[:1]))
    columns = [fences.column(name).chunk(0) for name in order]
    return [tuple(value_at(column, int(row)) for column in columns) for row in cut]


# Touched: what an update had to do, in parts and bytes.


@dataclass(frozen=True)
class Touched:
    """Counted for one update.

    `parts` are those that were due to lose results or got new ones, as the formulas of the paper count
    sub-indices: G + E - 1 for a doubly partitioned index.
    """

    parts: int = 0
    of: int = 0  # parts there are
    inserted: int = 0  # results
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: Touched) -> Touched:
        """Of two updates together."""
        return Touched(
            self.parts + other.parts,
            max(self.of, other.of),
            self.inserted + other.inserted,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


# Dealing out: new results to the parts they belong to, each part's in the order of its runs.


def deal_out(rows: pa.Table, indexing: Indexing, definition: Definition) -> dict[Number, pa.Table]:
    """The rows of each part that gets any; O(rows log rows), nothing per row in Python."""
    if not rows.num_rows:
        return {}
    if indexing.variant.layout.is_sorted:
        rows = sort_rows(rows, definition.order)
    number = indexing.number_of(rows[GENERATED].to_numpy(), rows[EXPIRES].to_numpy(), definition)
    by_number = np.argsort(number, kind="stable")
    rows, number = rows.take(pa.array(by_number)).combine_chunks(), number[by_number]
    numbers, starts = np.unique(number, return_index=True)
    stops = [*starts[1:].tolist(), len(number)]
    spans = zip(numbers.tolist(), starts.tolist(), stops, strict=True)
    return {number: rows.slice(start, stop - start) for number, start, stop in spans}


@dataclass(frozen=True)
class Task:
    """What is to be done to a part. `rows` come sorted if the layout is."""

    part: Part
    rows: pa.Table | None  # new results
    is_due: bool  # the dead are to go
    has_moves: bool = False  # some rows go elsewhere


@dataclass(frozen=True)
class Rewriter:
    """Carries out tasks, in any order and on any thread."""

    definition: Definition
    layout: Layout
    liveness: Liveness
    keep: Keep  # the rows that stay in a part that is due: from others, none goes elsewhere
    update: int
    drafts: Drafts

    def rewrite(self, task: Task) -> tuple[Part, Touched]:
        """The part as it is after the update, and what that took.

        Runs without anything to remove stay as they are, as long as there is room for the new ones in the
        layout; the others are merged into one.
        """
        is_merged = task.rows is not None and self.layout.most_runs == 1  # whatever is in it
        # A part that only gets an appended run need not be read: it applies what it was told when it is due.
        is_read = is_merged or task.is_due
        since = self.liveness.invalidations.since(self.definition, task.part.applied)
        stale: list[Stored] = []
        fresh: list[Stored] = []
        for run in task.part.runs:
            if task.is_due and self.liveness.is_dead(run):
                continue  # thrown away unread
            has_dead = is_merged or task.has_moves or (task.is_due and self.liveness.has_dead(run))
            has_invalid = is_read and not has_dead and self.liveness.has_invalid(run, since)
            (stale if has_dead or has_invalid else fresh).append(run)
        new = [] if task.rows is None else [task.rows]
        if new and len(fresh) + bool(stale) + 1 > self.layout.most_runs:
            stale, fresh = fresh + stale, []
            written = [self._write(task, stale, new)]
        else:
            written = [self._write(task, stale, [])] if stale else []
            written += [self._write(task, [], new)] if new else []
        kept = [run for run in written if run is not None]
        touched = Touched(
            inserted=sum(rows.num_rows for rows in new),
            bytes_read=sum(run.size for run in stale),
            bytes_written=sum(run.size for run in kept),
        )
        has_applied = is_read or not fresh
        return Part((*fresh, *kept), self.update if has_applied else task.part.applied), touched

    def _write(self, task: Task, stale: Sequence[Stored], new: Sequence[pa.Table]) -> Stored | None:
        extent = Extent(self.definition)
        keep = self.keep if task.is_due else self.liveness.is_alive
        pieces = (extent.see(piece) for piece in self._merged(stale, new, keep))
        order = self.definition.order if self.layout.is_sorted else ()
        segment = write_segment(self.drafts.path(), pieces, self.definition.schema, order)
        return extent.stored(segment) if segment else None

    def _merged(self, stale: Sequence[Stored], new: Sequence[pa.Table], keep: Keep) -> Iterator[pa.Table]:
        order = self.definition.order
        if not self.layout.is_sorted:
            yield from chain_runs([run.segment for run in stale], keep)
            yield from new
        elif stale:
            # New rows are kept as well: what was born dead has been left out, and a moved one is alive.
            runs: list[Run] = [*(run.segment for run in stale), *(MemoryRun(rows, order) for rows in new)]
            yield from merge_runs(runs, order, keep)
        else:
            yield from new
