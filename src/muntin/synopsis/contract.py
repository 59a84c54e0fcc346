"""What every synopsis offers: the shared state behind a group of windows.

A synopsis is *fitted* to the needs of its group, *inserts* batches, *advances* (forgets what no
window needs), and answers *look-ups* with partials, which aggregates lower to answers. It can
*snapshot* itself to arrays, *restore* from them, and *check* its own invariants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.aggregate.contract import Partial
from muntin.errors import WindowTooLarge
from muntin.expression import Expression
from muntin.query import Input
from muntin.window import Window

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

LONG_AGO = -(2**63)  # an instant before all others


class Need(NamedTuple):
    """One component of one input that some call of the group reads."""

    input: Input
    component: str


Needs = Mapping[Window, frozenset[Need]]


def storage(kind: pa.DataType) -> np.dtype:
    """How values of a type are kept: floats as float64, all else as int64 (text as codes)."""
    return np.dtype(np.float64 if pa.types.is_floating(kind) else np.int64)


class Column(NamedTuple):
    """Values of one argument; where not `valid` the value is NULL and its place holds 0."""

    value: npt.NDArray[Any]
    valid: Bools


@dataclass
class Batch:
    """Events as synopses see them: in order of time, without late ones, evaluated into columns."""

    at: Ints
    keys: Mapping[tuple[Expression, ...], Ints]  # dense key ids by GROUP BY expressions
    columns: Mapping[Expression, Column]  # by argument
    masks: Mapping[Expression, Bools]  # by predicate; NULL is False
    _passing: dict[Expression, Batch] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at)

    def key(self, keys: tuple[Expression, ...]) -> Ints:
        """Key ids, all 0 for un-keyed state."""
        return self.keys[keys] if keys else np.zeros(len(self.at), np.int64)

    def passing(self, where: Expression | None) -> Batch:
        """The events that pass a predicate; computed once per predicate."""
        if where is None:
            return self
        if where not in self._passing:
            kept = self.masks[where]
            self._passing[where] = Batch(
                self.at[kept],
                {keys: ids[kept] for keys, ids in self.keys.items()},
                {
                    name: Column(column.value[kept], column.valid[kept])
                    for name, column in self.columns.items()
                },
                {name: mask[kept] for name, mask in self.masks.items()},
            )
        return self._passing[where]


class Found(NamedTuple):
    """What a look-up at `r` instants for `k` keys found.

    `partials` have r * k slots, key by key within each instant. `start`, `end` and `complete`
    describe the windows: one element per `width` slots. An empty ROWS window has start == end.
    """

    partials: dict[Need, Partial]
    start: Ints
    end: Ints
    complete: Bools
    width: int


class Synopsis(ABC):
    """Contract of all synopses; `tests/synopsis` runs its suite over every registered one."""

    name: ClassVar[str]
    kept_from: int = LONG_AGO  # whatever was forgotten, windows looked up from here on were spared

    @abstractmethod
    def fit(self, needs: Needs, now: int | None) -> None:
        """Keep what `needs` asks for and drop the rest. What is new is known from `now` on
        (just after the greatest event time; None before the first event)."""

    @abstractmethod
    def insert(self, batch: Batch) -> None:
        """Take in a batch; the same state results however events are cut into batches."""

    @abstractmethod
    def advance(self, kept_from: int) -> None:
        """Forget what no window looked up at `kept_from` or later can hold."""

    @abstractmethod
    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], keys: Ints | None, width: int
    ) -> Found:
        """Partials of `window` at each instant (already rounded to its slide).

        `keys` maps each key id to its slot, -1 for keys not asked for; None means every id is its
        own slot. `width` is the number of slots per instant.
        """

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        """At which instants the window may hold an event of any key; a cheap test for silence."""
        return np.ones(len(instants), np.bool_)

    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of state."""

    @abstractmethod
    def snapshot(self) -> Arrays:
        """All state as named arrays."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """State from a snapshot of a synopsis fitted to the same needs."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant."""

    def covers(
        self, window: Window, instants: Ints, start: Ints, forgotten_before: int, known_from: int
    ) -> Bools:
        """Which windows the state covers from their start.

        One that began before what is known is answered as far as it goes (False). One that was
        covered once, but has been forgotten, is refused.
        """
        gone = start < forgotten_before
        if bool(np.any(gone & (instants < self.kept_from))):
            first = max(forgotten_before + window.size, LONG_AGO + window.size)
            asked = np.datetime64(int(instants.min()), "us")
            raise WindowTooLarge(
                f"{window} at {asked} needs events that have been dropped; "
                f"the state answers instants from {np.datetime64(int(first), 'us')} on"
            )
        return ~gone & (start >= known_from)

    def describe(self) -> str:
        """A few words on its shape for `explain`."""
        return ""
