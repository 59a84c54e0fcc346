"""View: what an archive answers, as of the last update; it stays as it is while updates go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, Definition
from muntin.archive.epoch import Epoch, read_epoch
from muntin.archive.liveness import Invalidations, Liveness
from muntin.archive.rewrite import MemoryRun, chain_runs, merge_runs
from muntin.archive.sorted_columns import sort_rows, sought
from muntin.archive.stored import Stored
from muntin.errors import ArchiveError, WindowTooLarge

# Smaller windows: results of a join answer the same join over shorter windows.
#
# A result is in it if all its inputs are still in the shorter windows; it was generated at the same
# instant. The places of its inputs decide. Results without places have only their expiry, which tells when
# all windows are shorter by the same span and the expiry is exact: a view's own is rounded up to its next
# update, so views keep places. Longer windows cannot be served: what they still hold is gone.


def is_inside(rows: pa.Table, sizes: Sequence[int], definition: Definition, now: Any,
              counts: Sequence[int] = ()) -> Any:  # fmt: skip
    """Whether each result is also one of the same join over windows of these sizes, as a NumPy array; `now` is one
    instant, or one for each result."""
    check_sizes(sizes, definition)
    if not definition.inputs:
        return rows[EXPIRES].to_numpy() - (definition.sizes[0] - sizes[0]) > now
    inside = np.ones(rows.num_rows, bool)
    ends = counts if definition.by_count else [now] * len(sizes)
    for name, size, end in zip(definition.inputs, sizes, ends, strict=True):
        inside &= rows[name].to_numpy() + size > end
    return inside


def check_sizes(sizes: Sequence[int], definition: Definition) -> None:
    """Raise an error if windows of these sizes cannot be answered from the view."""
    if len(sizes) != len(definition.sizes):
        raise WindowTooLarge(f"the view joins {len(definition.sizes)} windows, not {len(sizes)}")
    for number, (size, smaller) in enumerate(zip(definition.sizes, sizes, strict=True), 1):
        if smaller > size:
            raise WindowTooLarge(f"window {number} of {smaller} is larger than the view's, which is {size}")
    is_even = len({size - smaller for size, smaller in zip(definition.sizes, sizes, strict=True)}) == 1
    if not is_even and not definition.inputs:
        raise WindowTooLarge(
            "the windows are not all shorter by the same span, and the view does not keep the time of each input"
        )


@dataclass(frozen=True)
class Sharing:
    """What it costs to answer several windows from one view, against a view for each (in bytes)."""

    shared: int  # the times of inputs that the shared results carry beyond their own
    separate: int  # the results of the smaller windows, kept on their own

    @property
    def pays(self) -> bool:
        """Whether one view is the smaller."""
        return self.shared < self.separate


def compare_sharing(
    results: int, row_bytes: float, many: Sequence[Sequence[int]], definition: Definition
) -> Sharing:
    """Estimate the bytes of both ways, for windows of `many` sizes beside the view's own.

    Results of a join with windows shorter by some part are fewer by about that part of each.
    """
    shares = [
        float(np.prod([smaller / size for smaller, size in zip(sizes, definition.sizes, strict=True)]))
        for sizes in many
    ]
    return Sharing(8 * len(definition.inputs) * results, int(sum(shares) * results * row_bytes))


class View:
    """Reads one epoch.

    A probe costs two bisections a run and no copy of what it finds, if nothing in it is dead. Any number
    of views may be open, in this process and in others, while one archive writes.
    """

    def __init__(self, epoch: Epoch):
        self.epoch = epoch
        self.definition = epoch.definition
        self._liveness = epoch.liveness()

    @classmethod
    def open(cls, folder: str | Path) -> View:
        """The epoch published last in a folder."""
        return cls(read_epoch(Path(folder)))

    @property
    def now(self) -> int | None:
        """The instant of its answers: that of the last update."""
        return self.epoch.now

    def probe(self, key: Any, sizes: Sequence[int] | None = None) -> pa.Table:
        """The results with a key (a tuple if it has several columns), in no particular order.

        With `sizes`, those of the same join over windows of these smaller sizes.
        """
        return self._answer(self._smaller(self._probe(key), sizes))

    def probe_many(self, key: Any, many: Sequence[Sequence[int]]) -> list[pa.Table]:
        """As `probe` for several queries over smaller windows: one probe finds what all of them share."""
        found = self._probe(key)
        return [self._answer(self._smaller(found, sizes)) for sizes in many]

    def probe_range(self, low: Any = None, high: Any = None, *, after_low: bool = False,
                    through_high: bool = False, sizes: Sequence[int] | None = None) -> pa.Table:  # fmt: skip
        """The results with keys from `low` to below `high`, in the order of their keys.

        Either end may be left open. `after_low` leaves `low` out, `through_high` takes `high` in.
        """
        lows = () if low is None else self.sought(low)
        highs = () if high is None else self.sought(high)
        left, right = (
            "right" if after_low and lows else "left",
            "right" if through_high or not highs else "left",
        )
        found = self._found(
            lambda run: self._cut(run, lows, highs, left, right), self._liveness, lows, highs, left, right
        )
        return self._answer(sort_rows(self._smaller(found, sizes), self.definition.order))

    def scan(self, sizes: Sequence[int] | None = None) -> Iterator[pa.Table]:
        """All results in the order of their keys, in pieces of a few MiB."""
        return (self._answer(self._smaller(piece, sizes)) for piece in self.sorted_pieces())

    def sorted_pieces(self) -> Iterator[pa.Table]:
        """All results that are alive, as they are stored, in the order of their keys.

        Runs in no order have to be sorted in memory.
        """
        runs = [run.segment for run in self.epoch.runs()]
        if all(index.indexing.variant.layout.is_sorted for index in self.epoch.indexes):
            return merge_runs(runs, self.definition.order, self._liveness.is_alive)
        everything = [*chain_runs(runs, self._liveness.is_alive), self.definition.schema.empty_table()]
        return iter([sort_rows(pa.concat_tables(everything), self.definition.order)])

    def read_all(self, sizes: Sequence[int] | None = None) -> pa.Table:
        """All results in the order of their keys, in memory."""
        empty = self._answer(self.definition.schema.empty_table())
        return pa.concat_tables([empty, *self.scan(sizes)])

    def sought(self, key: Any) -> tuple[Any, ...]:
        """Values of the first columns of the key, as rows are searched for them."""
        values = key if isinstance(key, tuple) else (key,)
        names = self.definition.key
        if len(values) > len(names):
            raise ArchiveError(f"the key has {len(names)} column(s) ({', '.join(names)}), not {len(values)}")
        fields = (self.definition.schema.field(name) for name in names)
        return tuple(sought(value, field) for value, field in zip(values, fields, strict=False))

    def _probe(self, key: Any) -> pa.Table:
        """The live rows with a key. Most keys have none that ended before their time, which is known without them."""
        values = self.sought(key)
        known = dict(zip(self.definition.key, key if isinstance(key, tuple) else (key,), strict=False))
        may_end = self._liveness.invalidations.may_end(known)
        liveness = self._liveness if may_end else self._of_untouched
        return self._found(
            lambda run: run.segment.between(*run.segment.span(values)), liveness, values, values
        )

    @cached_property
    def _of_untouched(self) -> Liveness:
        """For results that no invalidation is about."""
        return replace(self._liveness, invalidations=Invalidations(self.definition))

    def _found(
        self, cut: Callable[[Stored], list[pa.RecordBatch]], liveness: Liveness, *limits: Any
    ) -> pa.Table:
        """The live rows of all runs that `cut` cuts out; of runs in no order, those within the limits."""
        batches: list[pa.RecordBatch] = []
        needs_filter = self.definition.by_count or len(liveness.invalidations) > 0
        for index in self.epoch.indexes:
            if not index.indexing.variant.layout.is_sorted:
                batches += self._filtered(index.runs(), *limits)
                continue
            for run in index.runs():
                if cut_out := cut(run):
                    batches += cut_out
                    needs_filter = needs_filter or liveness.has_dead(run)
        rows = pa.Table.from_batches(batches, self.definition.schema)
        return liveness.keep(rows) if needs_filter else rows

    def _cut(self, run: Stored, low: Any, high: Any, left: Any, right: Any) -> list[pa.RecordBatch]:
        return run.segment.between(run.segment.bound(low, left), run.segment.bound(high, right))

    def _filtered(self, runs: Iterator[Stored], low: Any, high: Any, left: str = "left",
                  right: str = "right") -> list[pa.RecordBatch]:  # fmt: skip
        """Rows of runs in no order: each piece is sorted and cut as if it were a run."""
        batches = []
        for piece in chain_runs([run.segment for run in runs], self._liveness.is_alive):
            run = MemoryRun(sort_rows(piece, self.definition.order), self.definition.order)
            batches += run.between(run.bound(low, left), run.bound(high, right))  # type: ignore[arg-type]
        return batches

    def inside(self, rows: pa.Table, sizes: Sequence[int]) -> pa.Table:
        """Of results that were found, those of the same join over windows of these smaller sizes."""
        inside = is_inside(rows, sizes, self.definition, self._liveness.now, self._liveness.counts)
        return rows.filter(pa.array(inside))

    def _smaller(self, rows: pa.Table, sizes: Sequence[int] | None) -> pa.Table:
        return rows if sizes is None else self.inside(rows, sizes)

    def _answer(self, rows: pa.Table) -> pa.Table:
        """Without the guess, which is the archive's own business."""
        return rows.drop_columns([EXPIRES]) if self.definition.by_count else rows

    def stats(self) -> dict[str, Any]:
        """Results, parts, runs and bytes; reads what decides whether results are alive."""
        runs = list(self.epoch.runs())
        alive = sum(
            int(self._liveness.is_alive(batch).sum())
            for run in runs
            for batch in run.segment.between(0, run.rows)
        )
        return {
            "results": alive,
            "dead": sum(run.rows for run in runs) - alive,
            "bytes": sum(run.size for run in runs),
            "parts": sum(index.indexing.parts for index in self.epoch.indexes),
            "runs": len(runs),
            "invalidations": len(self.epoch.invalidations),
        }
