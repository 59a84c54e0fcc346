"""What every synopsis offers: a way to answer the windows of one group from a shared store.

A synopsis is *fitted* to the needs of its group, follows each *insertion* into its store, *advances*
(lets go of what no window needs), and answers *look-ups* with partials, which aggregates lower to
answers. Whatever it keeps beyond the store can be rebuilt from it, so a snapshot of the store is
all that must be saved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from muntin.aggregates.contract import Partial, is_text
from muntin.arrays import FOREVER, LONG_AGO, Arrays, Bools, Ints
from muntin.errors import WindowTooLarge
from muntin.expression import Expression
from muntin.key_index.finders import KeyBand
from muntin.key_index.foremost import Foremost
from muntin.key_index.heads import WindowHeads
from muntin.key_index.key_finder import Candidates
from muntin.query import Input
from muntin.store.needs import Need, Needs
from muntin.store.saved import INSTANTS, Saved
from muntin.store.sequence import Located, is_complete
from muntin.store.sequence import Sequence as Elements
from muntin.structure.points import lookup_each
from muntin.window import Window, span

# What a look-up found: partials of windows, and where the windows lie.


class Found(NamedTuple):
    """What a look-up at `r` instants for `k` keys found.

    `partials` have r * k slots, key by key within each instant. `start`, `end` and `is_whole` (nothing
    of the window has been forgotten) describe the windows: one element per `width` slots. An empty
    ROWS window has start == end.
    """

    partials: dict[Need, Partial]
    start: Ints
    end: Ints
    is_whole: Bools
    known_since: dict[Need, int]  # the instant from which on each need has been kept
    width: int
    is_full: Bools | None = None  # of ROWS windows per key: which of them have as many events as they may

    def complete(self, needs: Sequence[Need]) -> Bools:
        """Which windows are covered from their start, as far as some needs are concerned."""
        known_since = max(self.known_since[need] for need in needs)
        complete: Bools = is_complete(self.start, self.end, self.is_whole, known_since)
        return complete


# Windows that close by events instead of by time.


class Moves(NamedTuple):
    """Windows that closed by events: the slot of each and how many it had seen, as they closed. Of sessions, the
    instant at which each closed."""

    slot: Ints
    seen: Ints

    @classmethod
    def of_stream(cls, had: int, has: int, slide: int) -> Moves:
        """Of one slot, as the number of its events went from `had` to `has`.

        >>> Moves.of_stream(7, 21, 5).seen
        array([10, 15, 20])
        """
        seen = np.arange(had // slide + 1, has // slide + 1) * slide
        return cls(np.zeros(len(seen), np.int64), seen)


@runtime_checkable
class CountsEvents(Protocol):
    """A synopsis of windows that close by events: ROWS windows, and sessions."""

    def moves(self, window: Window, after: int | None, until: int, width: int) -> Moves:
        """Where the number of a slot's events passed a multiple of the window's slide by events in [after, until); the
        sessions that closed after `after` and up to `until`."""

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of `window` for given slots when they had given numbers of events."""


class KeyReader(Protocol):
    """Reads some needs of one window, key by key."""

    def locate(self, settled: int) -> bool:
        """Have the window end at an instant, on its slide; False if it has to be looked up another way."""

    def partials(self, id: int) -> list[Any]:
        """The partial of each need as plain numbers; nothing if the key has no event in the window."""


Store = TypeVar("Store", bound=Elements)

# text is kept as codes; this gives the sort rank of every code, and the code of every rank
TextOrder = Callable[[Expression], tuple[Ints, Ints]]


def rank_of(input: Input, text_order: TextOrder) -> Ints:
    """The rank of every code of a text; of other values, which are in order as they are kept, none."""
    argument = input.argument
    return (
        text_order(argument)[0] if argument is not None and is_text(argument.type) else np.zeros(0, np.int64)
    )


class Asked(NamedTuple):
    """Needs of a window at some instants (already rounded to its slide), ascending unless they are of points."""

    instants: Ints
    needs: Sequence[Need]


class Synopsis(ABC, Generic[Store]):
    """Contract of all synopses; `tests/structure` runs its suite over every registered one.

    `where` is what the store has not filtered already.
    """

    name: ClassVar[str]
    is_sketched: ClassVar[bool] = False  # whether answers vary while the events in the window stay the same
    loses_edges: ClassVar[bool] = False  # whether the store makes coarser what no window reads any more
    budget: int = 0  # bytes that the state of all keys may take, of those that keep within one
    instant_cost: ClassVar[int] = 1  # of a look-up at an instant, next to one in an array of many instants

    def __init__(
        self, store: Store, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
    ):
        self.store = store
        self.where = where
        self.keys = keys
        self.needs = Needs()
        self.kept_from = LONG_AGO  # whatever was forgotten, windows looked up from here on were spared
        self._text_order = text_order

    def __str__(self) -> str:
        """What it has chosen to keep beside the store, for those who ask; nothing if there was no choice."""
        return ""

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """Answer for `needs` from now on, and nothing else; its store has been fitted before.

        `changed` are the components that came or went since the last time, None if that is not known.
        Whether what was prepared for look-ups has to be prepared anew.
        """
        self.needs = needs
        return False

    def insert(self) -> None:
        """Follow an insertion into the store, whose elements changed from `store.changed_from` on."""

    def advance(self, kept_from: int) -> None:
        """Windows will be looked up at `kept_from` or later only; it never moves back."""
        self.kept_from = max(self.kept_from, kept_from)

    def move(self, text_order: TextOrder, key_ids: Ints | None) -> None:
        """Another shard keeps it from now on, with another order of texts, and other ids of keys (None: it has
        no keys); its store has been told."""
        self._text_order = text_order
        if key_ids is not None:
            self.renumber_keys(key_ids)

    def settle(self) -> None:
        """Follow the store, which has forgotten its oldest elements."""

    @abstractmethod
    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        """Partials of `window` at each instant (already rounded to its slide).

        `ids` are the keys asked for, ascending; None means all ids below `width`, which is the number
        of slots per instant.
        """

    def lookup_all(self, asked: Mapping[Window, Asked], width: int) -> dict[Window, Found]:
        """Windows of all keys, which may share work."""
        return {
            window: self.lookup(window, each.instants, each.needs, None, width)
            for window, each in asked.items()
        }

    def lookup_points(self, asked: Mapping[Window, Asked], ids: Ints | None) -> dict[Window, Found]:
        """Windows at points: of one key each, at an instant each, in any order; None: without keys.

        Each has a slot. An id that no key has is that of a key without events. Nothing is refused: a window that has
        been forgotten is not whole, and what is found of it means nothing.
        """
        return {window: lookup_each(self, window, *each, ids) for window, each in asked.items()}

    def key_reader(self, window: Window, needs: Sequence[Need]) -> KeyReader | None:
        """How one key is read in less time than by a look-up; None if there is no such way. Good until the
        components of the store change."""
        return None

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        """At which instants the window may hold an event of any key; a cheap test for silence."""
        lo, hi = self.store.runs(window.start(instants), instants - window.to)
        return np.asarray(hi > lo)

    def seen(self, window: Window, first: int, last: int) -> tuple[Ints, Ints] | None:
        """The first and the last instant at which the window may see each stored element, of the elements that
        it sees at an instant from `first` to `last`; None if that is not known. O(elements).

        A ROWS window changes when an event comes: an element is seen from then on, for ever.
        """
        if not window.is_time:
            lo, hi = (int(each[0]) for each in self.store.runs(np.array([first - 1]), np.array([last])))
            start, _ = self.store.edges(lo, hi)
            return start + 1, np.full(len(start), FOREVER)
        spans = np.array([window.start(first)]), np.array([last - window.to])
        start, end = self.store.edges(*(int(each[0]) for each in self.store.runs(*spans)))
        return end + window.to, window.last_with(start)

    def candidates(
        self, need: Need, window: Window, instant: int, settled: int, band: KeyBand
    ) -> Candidates | None:
        """Keys among which are all those whose need of a window that ends at `instant` lies in
        a band; None if the synopsis would rather be asked for all keys.

        Events before the instant `settled` have all come.
        """
        return None

    def heads(self, need: Need, window: Window, instant: int, width: int) -> WindowHeads | None:
        """What names the keys that come first in a window; None if all of the `width` keys had better be visited."""
        return None

    def foremost(
        self, need: Need, windows: Mapping[Window, int], width: int, many: int
    ) -> dict[Window, Foremost]:
        """The keys that come first in windows that stand at given instants, so many or some more, chosen from all of
        the `width` keys by one component. Windows are missing of which all components had better be read."""
        return {}

    def mark_keys(self, used: Bools) -> None:
        """Set `used` for every key id of its own that the store does not have any more."""

    def renumber_keys(self, new_id: Ints) -> None:
        """Key ids are different from now on, in the store too."""

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        """Set `used` for every code of a text that it has and the store may not have any more."""

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        """Codes of texts are different from now on, in the store too; they keep their order."""

    def rebuild(self) -> None:
        """Make anew from the store whatever is kept beside it."""

    def first_needed(self) -> int:
        """Index of the first event of a ring that a window looked up from `kept_from` on reaches."""
        raise NotImplementedError("only readers of rings know")

    def nbytes(self) -> int:
        """Bytes of state beyond the store's."""
        return 0

    def snapshot(self) -> Arrays:
        """What cannot be rebuilt from the store, as named arrays."""
        return {"kept_from": np.array([self.kept_from], np.int64)}

    def restore(self, saved: Saved) -> None:
        """Go on from a snapshot; the store has been restored and this synopsis fitted before."""
        (self.kept_from,) = saved.numbers("kept_from", INSTANTS)

    def check(self) -> None:
        """Assert every invariant."""

    @property
    def forgotten_before(self) -> int:
        """Windows that begin before this instant have lost something."""
        return int(self.store.forgotten_before)

    def known_since(self, window: Window, need: Need) -> int:
        """The instant from which on a need has been kept, on the edges of a window."""
        return self.store.known_since(window, need, self.where, self.keys)

    def know_from(self, instant: int) -> None:
        """Something is missing before an instant, as the store knows; for those who know it for themselves."""

    def found(self, window: Window, located: Located, partials: dict[Need, Partial], width: int) -> Found:
        """What a look-up found, with where it lies and since when it has been kept."""
        known_since = {need: self.known_since(window, need) for need in partials}
        return Found(partials, located.start, located.end, located.is_whole, known_since, width)

    def locate(self, start: Ints, end: Ints, instants: Ints) -> Located:
        """The runs that time windows [start, end), looked up at given instants, are.

        One that began before the state did is answered as far as it goes (not whole). One that was whole
        once, but has been forgotten, is refused.
        """
        located = self.store.locate(start, end)
        if not located.is_whole.all():
            self.refuse_forgotten(located, instants)
        return located

    def refuse_forgotten(self, located: Located, instants: Any, kept_since: int | None = None) -> None:
        """Raise if a time window that once was whole has lost events since. What there was before
        `kept_since` is lost; by default, what the store has dropped."""
        gone = np.atleast_1d(~np.asarray(located.is_whole) & (instants < self.kept_from))
        if bool(gone.any()):
            start, asked = (int(np.atleast_1d(each)[gone][0]) for each in (located.start, instants))
            size = asked - start
            first = size + (self.store.forgotten_before if kept_since is None else kept_since)
            raise WindowTooLarge(
                f"a window of {span(size)} at {np.datetime64(asked, 'us')} needs events that have been "
                f"dropped; the state answers instants from {np.datetime64(first, 'us')} on"
            )

    def locate_rows(
        self, window: Window, count: Ints, oldest: Ints, newest: Ints, asked_at: Ints
    ) -> tuple[Ints, Ints, Bools]:
        """The runs that ROWS windows are after `count` events of which `[oldest, newest)` are kept, and
        which of them are whole; refused as in `locate`."""
        begin = count - window.size
        lost = (begin < oldest) & (oldest > 0) & (window.size > window.to)
        if bool(np.any(lost & (asked_at < self.kept_from))):
            raise WindowTooLarge(
                f"{window} at that instant needs events that have been dropped; "
                f"the state keeps the last {len(self.store):,} events: ask for a later instant"
            )
        if self.store.began_at != LONG_AGO and window.size > window.to:
            lost |= (begin < oldest) | (window.slide > 0 and not self.store.knows_count)
        hi = np.clip(count - window.to, oldest, newest)
        return np.minimum(np.maximum(begin, oldest), hi), hi, ~lost
