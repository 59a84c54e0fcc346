"""Moves: results of count windows that outlived their guess get a new one, and move to its part.

Without it they would wait a full turn of the classes to be looked at again. They move only among parts that
the update has open anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.arrivals import Arrivals
from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.indexing import Indexing, Number
from muntin.archive.liveness import Liveness
from muntin.archive.slots import slot_of
from muntin.archive.stored import Part


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
