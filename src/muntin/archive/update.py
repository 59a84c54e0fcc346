"""Update: from one epoch to the next. Parts are rewritten side by side; nothing is published here."""

from __future__ import annotations

from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.arrivals import Arrivals
from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.disk import Drafts
from muntin.archive.epoch import Epoch, Index
from muntin.archive.indexing import Indexing, Number, slot_of
from muntin.archive.liveness import Liveness
from muntin.archive.merge import Keep
from muntin.archive.migration import is_over
from muntin.archive.rewrite import Rewriter, Task, Touched, deal_out
from muntin.archive.segment import write_segment
from muntin.archive.stored import Part


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
            moves = Moves(new.liveness(), new.arrivals, indexing, open_parts)
            moving = {number: moves.moving(index.parts[number]) for number in due}
            moved = {number for number, tables in moving.items() if tables}
            rows = pa.concat_tables([rows, *(table for tables in moving.values() for table in tables)])
            keep = moves.stays
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


# Moves: results of count windows that outlived their guess get a new one, and move to its part.
#
# Without it they would wait a full turn of the classes to be looked at again. They move only among parts
# that the update has open anyway.


@dataclass(frozen=True)
class Moves:
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
