"""RunScan: how an epoch is read run by run, by others than the one who plans it, between bounds of its key and windows.

A run is left out if it is known without reading that it holds nothing of it: by the first rows of its blocks, which are
in memory where the scan is planned, by its expiry, and by the greatest places of its inputs. Of the other runs, the
blocks between the bounds are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.archive.definition import Definition
from muntin.archive.epoch import read_log
from muntin.archive.liveness import Invalidations, Liveness
from muntin.archive.rewrite import MemoryRun
from muntin.archive.sorted_columns import Side, sort_rows
from muntin.archive.stored import Stored
from muntin.archive.view import View, check_sizes, is_inside


@dataclass(frozen=True)
class Bounds:
    """Keys from `low` to `high`, as `SortedColumns` looks for them; empty is open."""

    low: tuple[Any, ...] = ()
    high: tuple[Any, ...] = ()
    through_high: bool = False  # else keys below it

    @property
    def right(self) -> Side:
        return "right" if self.through_high or not self.high else "left"

    @classmethod
    def of(cls, view: View, key: Any = None, low: Any = None, high: Any = None) -> Bounds:
        """Of one key, or of those from `low` to below `high`; a tuple has values of the first columns of the key."""
        if key is not None:
            return cls(view.sought(key), view.sought(key), True)
        return cls(() if low is None else view.sought(low), () if high is None else view.sought(high))


@dataclass(frozen=True)
class RunScan:
    """What is read of each run; plain enough to be sent elsewhere."""

    folder: Path
    definition: Definition
    now: int
    counts: tuple[int, ...]
    log: tuple[str, str] | None  # the segment of invalidations, and its checksum
    bounds: Bounds
    sizes: tuple[int, ...] | None  # smaller windows

    @classmethod
    def plan(
        cls, folder: Path, view: View, bounds: Bounds, sizes: Sequence[int] | None = None
    ) -> tuple[RunScan, list[dict[str, Any]]]:
        """The scan of a view whose segments are in a folder, and the runs that may hold something of it."""
        epoch = view.epoch
        if sizes is not None:
            check_sizes(sizes, epoch.definition)
        log = None if epoch.log is None else (epoch.log.name, epoch.log.checksum)
        liveness = epoch.liveness()
        scan = cls(folder, epoch.definition, liveness.now, liveness.counts, log, bounds,
                   None if sizes is None else tuple(sizes))  # fmt: skip
        runs = [
            {"run": run.describe(), "sorted": index.indexing.variant.layout.is_sorted}
            for index in epoch.indexes
            for run in index.runs()
            if scan._may_hold(run, index.indexing.variant.layout.is_sorted)
        ]
        return scan, runs

    def _may_hold(self, run: Stored, is_sorted: bool) -> bool:
        """Whether a run may have live results between the bounds and in the windows; known without reading it."""
        if is_sorted and not run.segment.blocks_between(self.bounds.low, self.bounds.high, self.bounds.right):
            return False
        by_count = self.definition.by_count
        if not by_count and run.greatest_expiry <= self.now:
            return False
        if self.sizes is None and not by_count:
            return True  # the expiry says all
        sizes = self.definition.sizes if self.sizes is None else self.sizes
        ends = self.counts if by_count else (self.now,) * len(sizes)
        places = zip(run.greatest_inputs or (), sizes, ends, strict=False)
        return all(place + size > end for place, size, end in places)

    def read(self, told: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """What a run has, a block at a time."""
        run = Stored.from_description(self.folder, told["run"], self.definition, told["sorted"])
        liveness = Liveness(self.definition, self.now, self._invalidations(), self.counts)
        for block in self._blocks(run, told["sorted"]):
            alive = liveness.is_alive(block)
            if self.sizes is not None:
                alive &= is_inside(
                    pa.Table.from_batches([block]), self.sizes, self.definition, self.now, self.counts
                )
            if alive.any():
                yield block if alive.all() else block.filter(pa.array(alive))

    def _blocks(self, run: Stored, is_sorted: bool) -> list[pa.RecordBatch]:
        low, high, right = self.bounds.low, self.bounds.high, self.bounds.right
        if not (low or high):
            return run.segment.between(0, run.rows)
        segment: Any = run.segment
        if not is_sorted:
            rows = pa.Table.from_batches(segment.between(0, run.rows), self.definition.schema)
            segment = MemoryRun(sort_rows(rows, self.definition.order), self.definition.order)
        found: list[pa.RecordBatch] = segment.between(segment.bound(low, "left"), segment.bound(high, right))
        return found

    def _invalidations(self) -> Invalidations:
        if self.log is None:
            return Invalidations(self.definition)
        return _read_invalidations(self.folder, self.definition, *self.log)


@lru_cache(maxsize=4)
def _read_invalidations(folder: Path, definition: Definition, name: str, checksum: str) -> Invalidations:
    """Once for all runs that a process reads."""
    return read_log(folder, definition, name, checksum)[1]
