"""Rewriting: what an update does to one part. Nothing that is there changes; new segments take its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.disk import Drafts
from muntin.archive.indexing import Indexing, Layout, Number
from muntin.archive.liveness import Liveness
from muntin.archive.merge import Keep, MemoryRun, Run, chain_runs, merge_runs
from muntin.archive.segment import write_segment
from muntin.archive.sorted_columns import sort_rows
from muntin.archive.stored import Extent, Part, Stored

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
