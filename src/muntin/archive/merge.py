"""Merging: sorted runs as one sequence of rows in order, in pieces of bounded size.

The fences of the runs say at which rows the merged sequence can be cut into pieces of a few MiB; each piece
is cut out of every run and sorted. Memory does not grow with the runs, unless very many rows are equal in
all that they are sorted by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.gather import gather
from muntin.archive.run import Run
from muntin.archive.sort import ordered_rows, sort_rows
from muntin.archive.sorted_columns import value_at

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
