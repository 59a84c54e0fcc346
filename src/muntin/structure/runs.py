"""Un-keyed windows as runs of a sequence, answered by one structure per component.

A time window is a run of positions found by binary search on time; a ROWS window is one by
arithmetic. So R-INT, B-INT and L-INT, which are about positions, serve both, over single events
or over slices alike (Arasu & Widom, section 3; time-based windows by the search).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import chain
from typing import cast

import numpy as np

from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Ints
from muntin.expression import Expression
from muntin.store.needs import Need, Needs
from muntin.store.ring import EventRing
from muntin.store.saved import Saved
from muntin.store.sequence import Located
from muntin.store.sequence import Sequence as Elements
from muntin.structure.synopsis import Asked, Found, Moves, Synopsis, TextOrder
from muntin.structure.track import Track
from muntin.window import Window

_TOGETHER = 3  # windows that are worth putting together

TrackMaker = Callable[[Elements, Expression | None, Need], Track]


def without_parameters(need: Need) -> Need:
    """All quantiles of an input are read from one structure."""
    return need._replace(parameters=()) if need.parameters else need


class RunSynopsis(Synopsis[Elements]):
    """A track, with a structure of the algorithm `name`, for each component that the group needs, or for
    all that `place_of` puts in one place."""

    def __init__(
        self,
        store: Elements,
        where: Expression | None,
        keys: tuple[Expression, ...],
        text_order: TextOrder,
        name: str,
        make_track: TrackMaker,
        place_of: Callable[[Need], Hashable] = without_parameters,
    ):
        super().__init__(store, where, keys, text_order)
        assert not keys, "runs of a sequence have no keys"
        self.name = name  # type: ignore[misc]  # of all synopses, only this one serves several algorithms
        self._make_track = make_track
        self._place_of = place_of  # needs of one place are served by one track
        self._tracks: dict[Hashable, Track] = {}
        self._members: dict[Hashable, dict[str, set[Need]]] = {}  # of each track, by component
        self._minding: set[Hashable] = set()  # tracks that must know of every change of the windows

    @property
    def _ring(self) -> EventRing:
        """The store of ROWS windows."""
        assert self.store.holds_events
        return cast(EventRing, self.store)

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """Build structures for new components from the store, at once: O(elements) each. O(1) for a component
        that a structure serves already."""
        super().fit(needs, changed)
        touched = set(self._minding)
        if changed is None:
            self._members = {}
            touched |= self._tracks.keys()
        touched |= {self._take(need) for need in (needs.components if changed is None else changed)}
        return sum(self._fit_track(place) for place in touched) > 0

    def _fit_track(self, place: Hashable) -> bool:
        """Bring a track in line with what is needed of it; whether it has another structure since."""
        members, track = self._members.get(place), self._tracks.pop(place, None)
        self._minding.discard(place)
        if members is None:
            return False
        before = track.structure if track else None
        if track is None:
            track = self._make_track(self.store, self.where, next(iter(next(iter(members.values())))))
        track.text_order = self._text_order
        track.fit(self.needs, members.keys())
        self._tracks[place] = track
        if track.minds_windows:
            self._minding.add(place)
        return before is not None and before is not track.structure

    def _take(self, need: Need) -> Hashable:
        """Note that a component is needed, or not any more; where."""
        place = self._place_of(need)
        members = self._members.setdefault(place, {})
        some = members.setdefault(need.component, set())
        if need in self.needs.components:
            some.add(need)
        else:
            some.discard(need)
        if not some:
            del members[need.component]
        if not members:
            del self._members[place]
        return place

    def insert(self) -> None:
        """O(1) amortised per element, and per element that had to be taken back for one out of order."""
        for track in self._tracks.values():
            track.follow()

    def settle(self) -> None:
        for track in self._tracks.values():
            track.structure.forget(self.store.dropped)

    def move(self, text_order: TextOrder, key_ids: Ints | None) -> None:
        super().move(text_order, key_ids)
        for track in self._tracks.values():
            track.text_order = text_order

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        if window.is_time:
            located = self.locate(window.start(instants), instants - window.to, instants)
        else:
            located = self.locate_counts(window, window.settle_count(self._counts(instants)), instants)
        return self._found(window, located, wanted)

    def lookup_all(self, asked: Mapping[Window, Asked], width: int) -> dict[Window, Found]:
        """Time windows are located together, and each component is read once for all that want it: that saves calls,
        which cost more than the windows."""
        together = {window: each for window, each in asked.items() if window.is_time}
        if len(together) < _TOGETHER:
            return super().lookup_all(asked, width)
        rest = {window: each for window, each in asked.items() if window not in together}
        found = super().lookup_all(rest, width)
        instants = np.concatenate([each.instants for each in together.values()])
        located = self.locate(
            np.concatenate([window.start(each.instants) for window, each in together.items()]),
            np.concatenate([each.instants - window.to for window, each in together.items()]),
            instants,
        )
        ends = np.cumsum([len(each.instants) for each in together.values()]).tolist()
        parts = dict(zip(together, map(slice, [0, *ends[:-1]], ends), strict=True))
        partials: dict[Window, dict[Need, Partial]] = {window: {} for window in together}
        for track, needs in self._by_track(
            list(dict.fromkeys(chain.from_iterable(e.needs for e in together.values())))
        ):
            some = [window for window, each in together.items() if not set(needs).isdisjoint(each.needs)]
            lo, hi = (
                np.concatenate([bound[parts[window]] for window in some])
                for bound in (located.lo, located.hi)
            )
            read, at = track.query(needs, lo, hi), 0
            for window in some:
                many = len(together[window].instants)
                for need in together[window].needs:
                    if need in read:
                        partials[window][need] = tuple(array[at : at + many] for array in read[need])
                at += many
        for window, part in parts.items():
            here = Located(*(bound[part] for bound in located))
            found[window] = self.found(window, here, partials[window], 1)
        return found

    def track_of(self, need: Need) -> Track:
        return self._tracks[self._place_of(need)]

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of a ROWS window when the stream had given numbers of events."""
        count = window.settle_count(moves.seen)
        return self._found(window, self.locate_counts(window, count, np.full(len(count), 2**63 - 1)), wanted)

    def moves(self, window: Window, after: int | None, until: int, width: int) -> Moves:
        """Where the number of events passed a multiple of the slide by events in [after, until)."""
        had, has = self._counts(np.array([LONG_AGO if after is None else after, until]))
        return Moves.of_stream(had, has, window.slide)

    def first_needed(self) -> int:
        """Index of the first element that a window looked up from `kept_from` on reaches."""
        rows, time = self.needs.reach("rows"), self.needs.reach("time")
        return max(0, min(self._ring.find(self.kept_from) - rows, self._ring.find(self.kept_from - time)))

    def nbytes(self) -> int:
        return sum(track.structure.nbytes() for track in self._tracks.values())

    def check(self) -> None:
        for track in self._tracks.values():
            track.structure.check()
            # every structure has seen what the store holds, no more and no less
            assert track.structure.first <= self.store.dropped
            assert track.structure.end == self.store.dropped + len(self.store)

    def restore(self, saved: Saved) -> None:
        """Structures are rebuilt from the store."""
        super().restore(saved)
        self.rebuild()

    def rebuild(self) -> None:
        self._tracks = {}
        self.fit(self.needs)

    def locate_counts(self, window: Window, count: Ints, asked_at: Ints) -> Located:
        """Where a ROWS window lies after so many events, which is asked at some instants; refused as in `locate`."""
        ring = self._ring
        at, oldest = ring.at, np.full(len(count), ring.dropped)
        lo, hi, is_whole = self.locate_rows(window, count, oldest, oldest + len(at), asked_at)
        held = hi > lo
        start, end = np.zeros(len(lo), np.int64), np.zeros(len(lo), np.int64)
        start[held], end[held] = at[(lo - oldest)[held]], at[(hi - oldest)[held] - 1] + 1
        return Located(lo, hi, start, end, is_whole)

    def partials_of(self, located: Located, wanted: Sequence[Need]) -> dict[Need, Partial]:
        """What runs hold, of one window or of many."""
        partials: dict[Need, Partial] = {}
        for track, needs in self._by_track(wanted):
            partials |= track.query(needs, located.lo, located.hi)
        return partials

    def _found(self, window: Window, located: Located, wanted: Sequence[Need]) -> Found:
        return self.found(window, located, self.partials_of(located, wanted), 1)

    def found(self, window: Window, located: Located, partials: dict[Need, Partial], width: int) -> Found:
        known_since: dict[Need, int] = {}
        for track, needs in self._by_track(list(partials)):
            known_since |= track.known_since(window, needs)
        return Found(partials, located.start, located.end, located.is_whole, known_since, width)

    def known_since(self, window: Window, need: Need) -> int:
        return self.track_of(need).known_since(window, [need])[need]

    def _by_track(self, wanted: Sequence[Need]) -> list[tuple[Track, list[Need]]]:
        together: dict[Hashable, list[Need]] = {}
        for need in wanted:
            together.setdefault(self._place_of(need), []).append(need)
        return [(self._tracks[place], needs) for place, needs in together.items()]

    def _counts(self, instants: Ints) -> Ints:
        """How many events there were before each instant."""
        ring = self._ring
        return ring.dropped + ring.at.searchsorted(instants)
