"""A sequence: elements in order of time that windows are runs of: a ring's events, or slices.

Stores are sequences. They are shared: many groups read one. Their elements have numbers, 0 for
the first ever, which never change while the element is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.crew import ALONE, Crew
from muntin.expression import Expression
from muntin.store.batch import Batch
from muntin.store.needs import Need
from muntin.store.saved import Saved
from muntin.window import Window

if TYPE_CHECKING:
    from muntin.store.needs import Needs
    from muntin.store.slice_store import SliceStore

# Located: where windows lie in a sequence, and whether the state covers them.


class Located(NamedTuple):
    """Runs `[lo, hi)` of element numbers with their bounds in time.

    Arrays with an element per window, or plain numbers for one window: the rules are the same.

    >>> Located(3, 7, start=100, end=160, is_whole=True).is_complete(known_since=120)
    False
    """

    lo: Any
    hi: Any
    start: Any
    end: Any
    is_whole: Any  # nothing of the window has been forgotten

    def is_complete(self, known_since: Any) -> Any:
        """Which windows are covered from their start, by something that has been kept since an instant."""
        return is_complete(self.start, self.end, self.is_whole, known_since)


def is_complete(start: Any, end: Any, is_whole: Any, known_since: Any) -> Any:
    """A window is covered if it is whole and begins no earlier than what it reads was kept; one that holds
    no event by its bounds has nothing that could be missing."""
    return is_whole & ((start >= known_since) | (end <= start))


class Reader(Protocol):
    """Whoever is answered from a store: its windows are looked up at `kept_from` or later."""

    kept_from: int
    needs: Needs

    def first_needed(self) -> int:
        """Index of the first event that a window reaches; only readers of rings are asked."""


class Wanted(Protocol):
    """What all groups of a store want of it."""

    @property
    def step(self) -> int:
        """Of the coarsest grid with the edges of all windows."""

    @property
    def longest(self) -> Mapping[Any, int]:
        """The longest window of each shape."""

    @property
    def gaps(self) -> set[int]:
        """Of sessions, all gaps."""

    @property
    def columns(self) -> Any:
        """Arguments, predicates and keys that are read of each event, with a `version` of them."""


class Sequence(ABC):
    """What its owner and its readers may ask of a store."""

    began_at: int = LONG_AGO  # instant from which all events are here; later if created late
    forgotten_before: int = LONG_AGO  # just after the last element that was dropped
    knows_count: bool = True  # whether elements are numbered from the first event of the stream
    changed_from: int = 0  # number of the first element that the last insertion touched
    holds_events: bool = False  # whether elements are single events, with their columns
    crew: Crew = ALONE  # the threads that may share its work

    @property
    def youngest(self) -> SliceStore | None:
        """The slices that new cells go to; None of a store that takes in events alone."""
        return None

    @property
    def unit(self) -> int:
        """The time that an element stands for; 1 of events, which are counted."""
        return 1

    @abstractmethod
    def serve(self, wanted: Wanted, changed: Mapping[Need, bool], now: int | None) -> None:
        """Keep what is wanted from now on: components that are True in `changed` have come, others have gone."""

    @abstractmethod
    def release(self, readers: Many[Reader], settled: int) -> None:
        """Drop what no window of a reader can reach. No event is expected any more before `settled`."""

    @abstractmethod
    def elements_in(self, span: int) -> float:
        """About how many elements a time window holds; O(1)."""

    def can_place(self, instant: int) -> bool:
        """Whether an event of that time would find its place."""
        return True

    @property
    @abstractmethod
    def dropped(self) -> int:
        """Number of the oldest element kept."""

    @abstractmethod
    def __len__(self) -> int:
        """How many elements are kept."""

    @abstractmethod
    def runs(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Index of the first element, and of one past the last, within each [start, end) of time."""

    @abstractmethod
    def edges(self, lo: int, hi: int) -> tuple[Ints, Ints]:
        """The times [start, end) that each element with index in [lo, hi) stands for."""

    @abstractmethod
    def run(self, start: int, end: int) -> tuple[int, int]:
        """`runs` of one window, but element numbers, as plain integers; O(log n)."""

    def locate(self, start: Ints, end: Ints) -> Located:
        """Time windows [start, end) as runs of element numbers, and whether they have lost nothing."""
        lo, hi = self.runs(start, end)
        return Located(lo + self.dropped, hi + self.dropped, start, end, self.is_whole(start, end))

    def locate_one(self, start: int, end: int) -> Located:
        """`locate` of one window, as plain numbers."""
        return Located(*self.run(start, end), start, end, self.is_whole(start, end))

    def is_whole(self, start: Any, end: Any) -> Any:
        """Whether nothing of a time window [start, end), or of each of many, has been dropped."""
        return (start >= self.forgotten_before) | (end <= start)

    @abstractmethod
    def known_since(
        self, window: Window, need: Need, where: Expression | None, keys: tuple[Expression, ...]
    ) -> int:
        """The instant from which on all that a need reads has been kept, on the window's edges."""

    @abstractmethod
    def lifted(self, need: Need, where: Expression | None, lo: int, hi: int) -> Partial:
        """The partial of each element with index in [lo, hi) that passes `where`, on its own."""

    def by_key(
        self, need: Need, where: Expression | None, keys: tuple[Expression, ...], lo: int, hi: int
    ) -> tuple[Ints, Ints, Partial]:
        """What the elements with numbers in [lo, hi) hold of each key: ids, instants, partials; in order of time."""
        raise NotImplementedError("the store has no keys")

    def keys_between(self, keys: tuple[Expression, ...], lo: int, hi: int) -> Ints:
        """Ids of the keys of the events with numbers in [lo, hi), whatever they hold; of stores of events alone."""
        raise NotImplementedError("the store has no events")

    def count_by_key(self, lo: int, hi: int) -> int:
        """How many there are of them, about."""
        return max(0, hi - lo)

    def mark_keys(self, keys: tuple[Expression, ...], used: Bools) -> None:
        """Set `used` for every key id that an element has."""

    def renumber_keys(self, keys: tuple[Expression, ...], new_id: Ints) -> None:
        """Key ids are different from now on."""

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        """Set `used` for every code of a text that an element has."""

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        """Codes of texts are different from now on; they keep their order."""

    @abstractmethod
    def insert(self, batch: Batch) -> None:
        """Take in a batch; sets `changed_from`. Events older than what has been forgotten are left out: only a
        stream that begins before a history that was filled in can have such."""

    def placeable(self, batch: Batch) -> Batch:
        """The events of a batch that are not older than what has been forgotten."""
        if not len(batch) or batch.earliest >= self.forgotten_before:
            return batch
        return batch.since(self.forgotten_before)

    @abstractmethod
    def nbytes(self) -> int: ...

    @abstractmethod
    def held_bytes(self) -> int:
        """Of its elements alone: `nbytes` without what is set aside for more."""

    @abstractmethod
    def snapshot(self) -> Arrays: ...

    @abstractmethod
    def restore(self, saved: Saved) -> None: ...

    @abstractmethod
    def check(self) -> None: ...
