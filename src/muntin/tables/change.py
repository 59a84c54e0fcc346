"""A change of a table: which of its rows come, become others, and go; and how one that has been made is undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from muntin.arrays import Ints
from muntin.tables.keyed_rows import KeyedRows

_NONE: Ints = np.zeros(0, np.int64)


class Change(NamedTuple):
    """Which slots of a table a change concerns. Of the rows that come, `slots` are where each goes."""

    inserted: Ints = _NONE  # slots that had no row
    replaced: Ints = _NONE  # slots whose row becomes another one with the same key
    deleted: Ints = _NONE  # slots that lose their row
    rows: KeyedRows | None = None
    slots: Ints = _NONE

    @property
    def is_empty(self) -> bool:
        return not len(self.slots) and not len(self.deleted)


@dataclass
class PastChange:
    """A change that has been made, and how it can be undone and made again."""

    version: int  # of the table before it
    change: Change
    before: KeyedRows | None  # rows that were replaced or deleted …
    slots: Ints  # … where they were
    order: Ints  # … and when they were inserted
    made: Ints  # when those of the change were, that are new
    until: dict[str, int]  # instants of a stream up to this one see the table before
