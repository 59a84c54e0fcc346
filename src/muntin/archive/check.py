"""Checking: every invariant of an archive, read from disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED
from muntin.archive.epoch import Epoch, Index
from muntin.archive.indexing import Number
from muntin.archive.slots import slot_of
from muntin.archive.sort import is_sorted
from muntin.archive.stored import Extent, Stored
from muntin.errors import ArchiveError


def check_epoch(folder: Path, epoch: Epoch) -> None:
    """Raise an error that names the first thing that is not as it should be."""
    for name in epoch.files():
        _demand((folder / name).exists(), f"segment '{folder / name}' is missing")
    for index in epoch.indexes:
        for number, part in enumerate(index.parts):
            most = index.indexing.variant.layout.most_runs
            _demand(len(part.runs) <= most, f"part {number} has {len(part.runs)} runs, more than {most}")
            for run in part.runs:
                _check_run(epoch, index, number, run)


def _check_run(epoch: Epoch, index: Index, number: Number, run: Stored) -> None:
    definition, path = epoch.definition, run.segment.path
    rows = pa.Table.from_batches(run.segment.between(0, run.rows), definition.schema)  # compares checksums
    _demand(rows.num_rows > 0, f"'{path}' is empty")
    if index.indexing.variant.layout.is_sorted:
        _demand(is_sorted(rows, definition.order), f"'{path}' is not in order")
    belongs = index.indexing.number_of(rows[GENERATED].to_numpy(), rows[EXPIRES].to_numpy(), definition)
    _demand((belongs == number).all(), f"'{path}' holds a result of another part than {number}")
    extent = Extent(definition)
    extent.see(rows)
    seen = (extent.least_expiry, extent.greatest_expiry, extent.least_inputs)
    known = (run.least_expiry, run.greatest_expiry, run.least_inputs)
    _demand(seen == known, f"'{path}' holds {seen}, the directory says {known}")
    if not definition.by_count and epoch.now is not None and not _may_wait(epoch, index, number):
        _demand((rows[EXPIRES].to_numpy() > epoch.now).all(), f"'{path}' holds a result that has expired")


def _may_wait(epoch: Epoch, index: Index, number: Number) -> bool:
    """Whether the dead may stay in a part: in all if it never sweeps, else in the oldest class of a lazy one."""
    variant, definition = index.indexing.variant, epoch.definition
    if not variant.sweeps:
        return True
    if not variant.is_lazy or epoch.now is None:
        return False
    oldest = slot_of(np.asarray(epoch.now), definition.every) - definition.per_window
    return number // index.indexing.expiries == int(index.indexing.generation_class(oldest, definition))


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ArchiveError(otherwise)
