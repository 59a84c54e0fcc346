"""RemoteUpdate: an update whose parts are rewritten elsewhere, by whoever can reach the folder.

The writer plans it, as plain data; each part that is touched is rewritten by `rewrite`, in any process, as
often as that takes; the writer publishes what they report, all at once. What an attempt left behind that was
not reported is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.disk import SUFFIX, Drafts
from muntin.archive.epoch import Epoch, Index
from muntin.archive.indexing import Indexing, Ints, Number
from muntin.archive.liveness import Invalidations, Liveness
from muntin.archive.rewrite import Rewriter, Task, Touched
from muntin.archive.sorted_columns import sort_rows
from muntin.archive.stored import Part, Stored
from muntin.errors import ArchiveError


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
