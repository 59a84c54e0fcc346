"""Liveness: which results are alive at an instant.

By time, those that have not expired. By count, those whose inputs are all still in their windows: the
expiry is then only a guess that chooses the part, and never decides an answer. Those that were invalidated
are dead in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.invalidations import Invalidations
from muntin.archive.stored import Stored


@dataclass(frozen=True)
class Liveness:
    """Decides for whole tables at once."""

    definition: Definition
    now: int
    invalidations: Invalidations
    counts: tuple[int, ...] = field(default=())  # events seen of each input, for windows by count

    def is_alive(self, rows: pa.Table | pa.RecordBatch) -> Any:
        """One boolean a row, as a NumPy array."""
        alive = ~self.invalidations.is_hit(rows)
        if not self.definition.by_count:
            return alive & (_numbers(rows[EXPIRES]) > self.now)
        for name, size, seen in self._windows():
            alive &= _numbers(rows[name]) + size > seen
        return alive

    def keep(self, rows: pa.Table) -> pa.Table:
        """The rows that are alive; what has no dead among it is not copied."""
        alive = self.is_alive(rows)
        if alive.all():
            return rows
        kept, start = [], 0
        for batch in rows.to_batches():
            chosen = alive[start : start + len(batch)]
            start += len(batch)
            if chosen.any():
                kept.append(batch if chosen.all() else batch.filter(pa.array(chosen)))
        return pa.Table.from_batches(kept, rows.schema)

    def has_dead(self, run: Stored) -> bool:
        """Whether time or counts have ended a row of the run; known without reading it."""
        if not self.definition.by_count:
            return run.least_expiry <= self.now
        least = zip(self._windows(), run.least_inputs, strict=True)
        return any(position + size <= seen for (_, size, seen), position in least)

    def is_dead(self, run: Stored) -> bool:
        """Whether time has ended all rows of the run; known without reading it."""
        return not self.definition.by_count and run.greatest_expiry <= self.now

    def has_invalid(self, run: Stored, since: Invalidations) -> bool:
        """Whether some of these invalidations end a row of the run; reads it, if there are any."""
        if not len(since):
            return False
        names = [*self.definition.negated_on, GENERATED]
        columns = [batch.select(names) for batch in run.segment.between(0, run.rows)]
        return bool(since.is_hit(pa.Table.from_batches(columns)).any())

    def _windows(self) -> Any:
        return zip(self.definition.inputs, self.definition.sizes, self.counts, strict=True)


def _numbers(column: Any) -> Any:
    return np.asarray(column.to_numpy())
