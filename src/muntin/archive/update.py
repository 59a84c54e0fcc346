"""Update: from one epoch to the next. Parts are rewritten side by side; nothing is published here.

A migration goes from one indexing to another, at once or while the old results expire. In a
`RemoteUpdate` others rewrite the parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.disk import SUFFIX, Drafts
from muntin.archive.epoch import Epoch, Index
from muntin.archive.indexing import Indexing, Ints, Number, slot_of
from muntin.archive.liveness import Arrivals, Invalidations, Liveness
from muntin.archive.rewrite import Keep, Rewriter, Task, Touched, chain_runs, deal_out
from muntin.archive.segment import SegmentWriter, write_segment
from muntin.archive.sorted_columns import sort_rows
from muntin.archive.stored import Extent, Part, Stored
from muntin.archive.view import View
from muntin.errors import ArchiveError


@dataclass(frozen=True)
class Update:
    """One update: `new` has the instant, counts and invalidations of the next epoch, but the old indexes."""

    old: Epoch
    new: Epoch
    drafts: Drafts
    pool: Executor

    def run(self, rows: pa.Table) -> tuple[Epoch, Touched]:
        """The next epoch, its segments written; `rows` are the new results that are alive."""
        assert self.new.now is not None
        liveness, total, indexes = self.new.liveness(), Touched(), []
        for index in self.old.indexes:
            is_last = index is self.old.index
            if not is_last and is_over(index, liveness, self.new.definition):
                continue
            updated, touched = self._update_index(index, rows if is_last else rows.slice(0, 0))
            indexes.append(updated)
            total += touched
        return self._with_log(replace(self.new, indexes=tuple(indexes))), total

    def _update_index(self, index: Index, rows: pa.Table) -> tuple[Index, Touched]:
        new, definition, indexing = self.new, self.new.definition, index.indexing
        assert new.now is not None
        before = new.now if self.old.now is None else self.old.now
        reach = new.arrivals.reach(definition) if definition.by_count else 0
        due = indexing.due(before, new.now, definition, reach)
        keep: Keep = new.liveness().is_alive
        moved: set[Number] = set()
        if definition.by_count:
            open_parts = frozenset(due | class_mates(rows, indexing, definition))
            relocation = Relocation(new.liveness(), new.arrivals, indexing, open_parts)
            moving = {number: relocation.moving(index.parts[number]) for number in due}
            moved = {number for number, tables in moving.items() if tables}
            rows = pa.concat_tables([rows, *(table for tables in moving.values() for table in tables)])
            keep = relocation.stays
        dealt = deal_out(rows, indexing, definition)
        rewriter = Rewriter(
            definition, indexing.variant.layout, new.liveness(), keep, new.number, self.drafts
        )
        tasks = {
            number: Task(index.parts[number], dealt.get(number), number in due, number in moved)
            for number in sorted(due | dealt.keys())
        }
        parts, total = list(index.parts), Touched(parts=len(tasks), of=indexing.parts)
        for number, (part, touched) in zip(
            tasks, self._run_tasks(rewriter, list(tasks.values())), strict=True
        ):
            parts[number], total = part, total + touched
        return replace(index, parts=tuple(parts)), total

    def _run_tasks(self, rewriter: Rewriter, tasks: list[Task]) -> list[tuple[Part, Touched]]:
        futures = [self.pool.submit(rewriter.rewrite, task) for task in tasks]
        wait(futures)  # all of them, also if one fails: what is taken back must not be written any more
        return [future.result() for future in futures]

    def _with_log(self, new: Epoch) -> Epoch:
        """Without the invalidations that every part has applied, and the others on disk."""
        parts = [part for index in new.indexes for part in index.parts if part.runs]
        applied = min((part.applied for part in parts), default=new.number)
        rest = new.invalidations.since(new.definition, applied)
        if rest.entries.equals(self.old.invalidations.entries):
            return replace(new, invalidations=rest, log=self.old.log)
        log = write_segment(self.drafts.path(), [rest.entries], rest.schema, ())
        return replace(new, invalidations=rest, log=log)


# Relocation: results of count windows that outlived their guess get a new one, and move to its part.
#
# Without it they would wait a full turn of the classes to be looked at again. They move only among parts
# that the update has open anyway.


@dataclass(frozen=True)
class Relocation:
    """Decides for whole tables which rows move, and what they become."""

    liveness: Liveness
    arrivals: Arrivals
    indexing: Indexing
    open_parts: frozenset[Number]

    def stays(self, rows: pa.Table) -> Any:
        """Which rows are alive and stay where they are."""
        return self.liveness.is_alive(rows) & ~self._moves(rows)

    def moving(self, part: Part) -> list[pa.Table]:
        """The rows of a part that move, with their new guess."""
        overdue = (run for run in part.runs if run.least_expiry <= self.liveness.now)
        batches = (batch for run in overdue for batch in run.segment.between(0, run.rows))
        found = []
        for piece in (pa.Table.from_batches([batch]) for batch in batches):
            moves = self._moves(piece) & self.liveness.is_alive(piece)
            if moves.any():
                rows = piece.filter(pa.array(moves))
                found.append(self.arrivals.with_guess(rows, self.liveness.now, self.liveness.definition))
        return found

    def _moves(self, rows: pa.Table) -> Any:
        definition, now = self.liveness.definition, self.liveness.now
        guess = self.arrivals.guess(rows, now, definition)
        number = self.indexing.number_of(rows[GENERATED].to_numpy(), guess, definition)
        is_open = np.isin(number, np.fromiter(self.open_parts, np.int64, len(self.open_parts)))
        return (rows[EXPIRES].to_numpy() <= now) & is_open


def class_mates(rows: pa.Table, indexing: Indexing, definition: Definition) -> set[Number]:
    """All parts of the classes in which some results were generated."""
    slots = slot_of(rows[GENERATED].to_numpy(), definition.every)
    classes = np.unique(indexing.generation_class(slots, definition)).tolist()
    return {
        generation * indexing.expiries + expiry
        for generation in classes
        for expiry in range(indexing.expiries)
    }


_SUPPOSED_RATE = 200e6  # bytes a second, before any update was measured


def migrate_at_once(view: View, indexing: Indexing, drafts: Drafts) -> tuple[Epoch, Touched]:
    """An epoch with a new index of all results that are alive; reads each once, holds a few MiB a part."""
    epoch, definition, layout = view.epoch, view.definition, indexing.variant.layout
    update = epoch.number + 1
    order = definition.order if layout.is_sorted else ()
    runs = [run.segment for run in epoch.runs()]
    pieces = view.sorted_pieces() if layout.is_sorted else chain_runs(runs, epoch.liveness().is_alive)
    writers: dict[Number, tuple[SegmentWriter, Extent]] = {}
    try:
        for piece in pieces:
            for number, rows in deal_out(piece, indexing, definition).items():
                if number not in writers:
                    writers[number] = (
                        SegmentWriter(drafts.path(), definition.schema, order),
                        Extent(definition),
                    )
                writer, extent = writers[number]
                writer.add(extent.see(rows))
        parts, size = [Part(applied=update)] * indexing.parts, 0
        for number, (writer, extent) in writers.items():
            if (segment := writer.finish()) is not None:
                parts[number] = Part((extent.stored(segment),), update)
                size += segment.size
    except BaseException:
        for writer, _ in writers.values():
            writer.abandon()
        raise
    read = sum(run.size for run in runs)
    touched = Touched(parts=len(writers), of=indexing.parts, bytes_read=read, bytes_written=size)
    return replace(epoch, number=update, indexes=(Index(indexing, tuple(parts)),)), touched


def migrate_in_parallel(view: View, indexing: Indexing, drafts: Drafts) -> tuple[Epoch, Touched]:
    """An epoch with a new index for new results; the old ones only lose results, until they are empty."""
    old = view.epoch
    retired = (
        replace(index, retired_at=old.now) if index.retired_at is None else index for index in old.indexes
    )
    new = replace(old, number=old.number + 1, indexes=(*retired, Index.empty(indexing)))
    return new, Touched(of=indexing.parts)


def stops_for(epoch: Epoch, rate: float) -> float:
    """Seconds that building anew would take, at a rate of bytes a second."""
    return sum(run.size for run in epoch.runs()) / (rate or _SUPPOSED_RATE)


def is_over(index: Index, liveness: Liveness, definition: Definition) -> bool:
    """Whether a retired index holds nothing alive any more.

    Known from the directory; only with windows by count are results read, once their time should be over.
    """
    if not definition.by_count:
        return all(liveness.is_dead(run) for run in index.runs())
    if index.retired_at is None or liveness.now < index.retired_at + definition.window:
        return not any(True for _ in index.runs())
    batches = (batch for run in index.runs() for batch in run.segment.between(0, run.rows))
    return not any(liveness.is_alive(batch).any() for batch in batches)


@dataclass(frozen=True)
class RemoteUpdate:
    """All that the rewriting of a part has to know; `describe` makes it plain values."""

    folder: Path
    definition: Definition
    indexing: Indexing
    number: int  # of the update
    now: int
    due: frozenset[Number]  # parts in which results expire
    runs: dict[Number, tuple[dict[str, Any], ...]]  # of each part, as the directory describes them

    @classmethod
    def plan(cls, folder: Path, epoch: Epoch, now: int) -> RemoteUpdate:
        """The update of an epoch to an instant."""
        definition, index = epoch.definition, epoch.index
        if definition.by_count or len(epoch.invalidations):
            raise ArchiveError("only results that expire by time can be updated elsewhere")
        if len(epoch.indexes) > 1:
            raise ArchiveError("a migration is under way; update here until the old index has expired")
        if epoch.now is not None and now < epoch.now:
            raise ArchiveError(f"the archive has been updated at {epoch.now}: it cannot go back to {now}")
        before = now if epoch.now is None else epoch.now
        due = frozenset(index.indexing.due(before, now, definition))
        runs = {number: tuple(run.describe() for run in part.runs) for number, part in enumerate(index.parts)}
        return cls(folder, definition, index.indexing, epoch.number + 1, now, due, runs)

    def part_of(self, rows: pa.Table | pa.RecordBatch) -> Ints:
        """The part each result belongs to."""
        return self.indexing.number_of(rows[GENERATED].to_numpy(), rows[EXPIRES].to_numpy(), self.definition)

    def rewrite(self, number: Number, rows: pa.Table, attempt: str) -> dict[str, Any]:
        """Rewrite a part with its new results; what `publish` has to be told. `attempt` is like no other."""
        layout = self.indexing.variant.layout
        liveness = Liveness(self.definition, self.now, Invalidations(self.definition))
        stored = tuple(
            Stored.from_description(self.folder, run, self.definition, layout.is_sorted)
            for run in self.runs[number]
        )
        new = liveness.keep(self.definition.conform(rows, self.now))
        if layout.is_sorted:
            new = sort_rows(new, self.definition.order)
        drafts = Drafts(self.folder, self.number, f"{number:04d}-{attempt}-")
        rewriter = Rewriter(self.definition, layout, liveness, liveness.is_alive, self.number, drafts)
        task = Task(Part(stored, self.number), new if new.num_rows else None, number in self.due)
        part, touched = rewriter.rewrite(task)
        return {
            "part": number, "runs": [run.describe() for run in part.runs], "inserted": touched.inserted,
            "bytes_read": touched.bytes_read, "bytes_written": touched.bytes_written,
        }  # fmt: skip

    def index_with(self, epoch: Epoch, reports: Iterable[dict[str, Any]]) -> tuple[Index, Touched]:
        """The index with the parts that were reported, each once."""
        if epoch.number + 1 != self.number:
            raise ArchiveError(
                f"update {self.number} was planned before the archive went on to {epoch.number}"
            )
        parts, touched = list(epoch.index.parts), Touched(of=self.indexing.parts)
        is_sorted = self.indexing.variant.layout.is_sorted
        for report in {report["part"]: report for report in reports}.values():
            runs = (
                Stored.from_description(self.folder, run, self.definition, is_sorted)
                for run in report["runs"]
            )
            parts[report["part"]] = Part(tuple(runs), self.number)
            counted = (report[name] for name in ("inserted", "bytes_read", "bytes_written"))
            touched += Touched(1, 0, *counted)
        return Index(self.indexing, tuple(parts)), touched

    def leftovers(self, epoch: Epoch) -> list[Path]:
        """Files of this update that an epoch does not refer to."""
        used = epoch.files()
        return [path for path in self.folder.glob(f"{self.number:010d}-*{SUFFIX}") if path.name not in used]

    def describe(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "folder": str(self.folder), "definition": self.definition.describe(), "indexing": self.indexing.label,
            "number": self.number, "now": self.now, "due": sorted(self.due),
            "runs": [list(self.runs[number]) for number in range(self.indexing.parts)],
        }  # fmt: skip

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> RemoteUpdate:
        """What `describe` described."""
        return cls(
            Path(description["folder"]),
            Definition.from_description(description["definition"]),
            Indexing.parse(description["indexing"]),
            description["number"],
            description["now"],
            frozenset(description["due"]),
            {number: tuple(runs) for number, runs in enumerate(description["runs"])},
        )
