"""Shared reads: what questions that are asked together have in common, read once.

Ten thousand queries differ in their windows, thresholds and outputs, but the windows are few, those of
one group nest, and all keys of a window are the same for every query that looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from muntin.arrays import Ints
from muntin.lane import Laned
from muntin.shard.adapt.timed import timed, timed_together
from muntin.shard.read.band_order import accumulated, bands_of, pairs_of
from muntin.shard.read.evaluate import Finder, Rows
from muntin.shard.read.lane_order import order_of
from muntin.shard.read.picked import Picked, pick, pick_entries, taken, taken_rows
from muntin.shard.read.question import Question
from muntin.shard.read.reading import GroupWindow, Reading, reading_of
from muntin.shard.read.side_by_side import SideBySide, is_in_one_place, places_in_bands, places_in_lanes
from muntin.shard.state import State
from muntin.store.needs import Need
from muntin.structure.synopsis import Asked, CountsEvents, Found, Synopsis
from muntin.window import Pace, Window

Thing = TypeVar("Thing")


class SharedReads:
    """Reads the windows of some questions; what was found lives as long as this does."""

    def __init__(self, state: State, is_alone: bool = False):
        """Of one question that `is_alone`, only what that question needs is read."""
        self._state = state
        self.is_alone = is_alone
        self._found: dict[tuple[int, Window, bytes], Found] = {}
        self.visited: set[int] = set()  # groups of which all keys have been looked up
        self._once: dict[Hashable, Any] = {}
        self._picked: list[Picked] = []
        self._settled: dict[tuple[int, Pace], tuple[Ints, bytes, Ints]] = {}

    def prefetch(self, questions: Iterable[Question]) -> None:
        """Look up all windows of questions about all keys, group by group, so that windows of one group can share the
        work."""
        # windows at instants: most questions have them in common with others
        seen: dict[tuple[int, int], tuple[Reading, Ints]] = {}
        for question in questions:
            reading = reading_of(self._state, question.name)
            seen.setdefault((reading.same_windows, id(question.instants)), (reading, question.instants))
        self.prefetch_windows(
            (wanted, instants, reading.slots_of(wanted))
            for reading, instants in seen.values()
            for wanted in reading.windows
        )

    def prefetch_windows(self, wanted: Iterable[tuple[GroupWindow, Ints, int]]) -> None:
        """Look up windows of all keys at some instants, given how many slots each has."""
        asked: dict[tuple[int, int], dict[Window, Asked]] = {}
        for each, instants, width in wanted:
            windows = asked.setdefault((each.number, width), {})
            # if another query asks for other instants of the window, that one looks for itself
            if each.window not in windows:
                settled, token = self._settle(each.window, instants)
                if (each.number, each.window, token) not in self._found:
                    windows[each.window] = Asked(settled, self._needs(each))
            elif self.is_alone:  # calls of one query may read different components of different lanes
                known = windows[each.window]
                windows[each.window] = known._replace(needs=tuple(dict.fromkeys((*known.needs, *each.needs))))
        for (number, width), windows in asked.items():
            if width and windows:
                self._look_up(number, windows, width)
                self.visited.add(number)

    def _look_up(self, number: int, windows: Mapping[Window, Asked], width: int) -> None:
        hosts, rides = hosted(windows)
        counts = {window: len(each.instants) for window, each in hosts.items()}
        found = timed_together(
            self._state, number, counts, lambda synopsis: synopsis.lookup_all(hosts, width)
        )
        synopsis = self._state.synopses[number]
        for window, ride in rides.items():
            found[window] = taken_from(window, ride, found[ride.host], windows[window], synopsis)
        for window, each in windows.items():
            self._found[number, window, each.instants.tobytes()] = found[window]

    def slots(self, question: Question) -> tuple[Rows, Finder]:
        """The slots of a question, and how to find what is in them."""
        reading = reading_of(self._state, question.name)
        if reading.laned is not None:
            return self._slots_in_lanes(question, reading, reading.laned)
        ids, moves = question.ids, question.moves
        width = reading.width if ids is None or reading.keys is None else len(ids)
        if moves is not None:
            return Rows(1, moves.seen, moves.slot), lambda wanted: self.find(wanted, question, width)
        many = len(question.instants)
        key = ids if ids is None or many == 1 else np.tile(ids, many)
        rows = Rows(width, question.instants, key, question.is_started)
        return rows, lambda wanted: self.find(wanted, question, width)

    def _slots_in_lanes(self, question: Question, reading: Reading, laned: Laned) -> tuple[Rows, Finder]:
        """The same for a query that reads lanes: the slots are those of the keys that have events there."""
        state, width = self._state, reading.width
        known_since = state.lanes[laned.asked].known_since(laned.lanes)
        is_lone = question.ids is not None or self.is_alone or not width
        if laned.way is not None and not is_lone:
            return self._slots_in_bands(question, reading, laned, known_since)
        among_all = pick(state, laned, question.ids)
        asked = question._replace(ids=np.sort(among_all.pairs) if is_lone else None)
        picked = among_all if asked.ids is None else among_all.among(asked.ids)

        def find(wanted: GroupWindow) -> Found:
            whole = self.find(wanted, asked, width if asked.ids is None else len(asked.ids))
            if wanted.window.is_time:
                return taken(whole, picked, wanted.needs, known_since)
            return taken_rows(whole, picked, wanted.needs, known_since, wanted.window, len(question.instants))

        return self._picked_slots(question, reading, picked, find)

    def _slots_in_bands(
        self, question: Question, reading: Reading, laned: Laned, known_since: int
    ) -> tuple[Rows, Finder]:
        """The same for a query that reads all bands above or below a cut: they have been merged for all its like."""
        order = bands_of(self._state, laned.asked).order(laned.way)
        picked = pick_entries(order, laned)

        def find(wanted: GroupWindow) -> Found:
            whole = self.find(wanted, question, reading.width)
            merged = accumulated(order, whole, wanted.needs, self.once)
            return taken(merged, picked, wanted.needs, known_since)

        return self._picked_slots(question, reading, picked, find)

    def _picked_slots(
        self, question: Question, reading: Reading, picked: Picked, find: Finder
    ) -> tuple[Rows, Finder]:
        key = None if reading.keys is None else np.tile(picked.keys, len(question.instants))
        rows = Rows(len(picked.keys), question.instants, key, question.is_started)
        # What is made of a window is known by the identity of what was found, which must stay its own.
        self._picked.append(picked)
        return rows, lambda wanted: self.once(("lanes", wanted, id(picked)), lambda: find(wanted))

    def find(self, wanted: GroupWindow, question: Question, width: int) -> Found:
        """What a group has of a window: for all its queries, if the question is about all keys."""
        if wanted.laned is not None:
            return self._find_in_lanes(wanted, wanted.laned, question, width)
        number, window, needs, _ = wanted
        if (moves := question.moves) is not None:

            def count(synopsis: Any) -> Found:
                assert isinstance(synopsis, CountsEvents)
                return synopsis.lookup_counts(window, moves, needs, width)

            return timed(self._state, number, window, len(moves.seen), count)
        ids = question.ids
        if ids is not None or (self.is_alone and not self._found):  # nobody else will ask
            settled = window.settle(question.instants)
            return timed(
                self._state, number, window, len(settled),
                lambda synopsis: synopsis.lookup(window, settled, needs, ids, width),
            )  # fmt: skip
        settled, token = self._settle(window, question.instants)
        where = (number, window, token)
        if where not in self._found:
            needs = self._needs(wanted)
            self._found[where] = timed(
                self._state, number, window, len(settled),
                lambda synopsis: synopsis.lookup(window, settled, needs, None, width),
            )  # fmt: skip
        return self._found[where]

    def _find_in_lanes(self, wanted: GroupWindow, laned: Laned, question: Question, width: int) -> Found:
        """What the lanes of a FILTER have of a window, for the keys of the question: those of all that are asked about,
        whether they have events in these lanes or not. O(keys), and O(pairs) once for all lanes of a store."""
        state, pairs = self._state, self._state.keys[laned.asked.store_keys]
        known_since = state.lanes[laned.asked].known_since(laned.lanes)
        whole = wanted._replace(laned=None)
        if question.ids is not None or not len(pairs):
            picked = pick(state, laned, np.arange(width) if question.ids is None else question.ids)
            some = np.sort(picked.pairs)
            found = self.find(whole, question._replace(ids=some), len(some))
            return taken(found, picked.among(some), wanted.needs, known_since)

        if is_in_one_place(laned):
            which = (whole.number, whole.window, laned.asked, laned.way)
            beside = self.once(
                ("side by side", which, question.name, id(question.instants)),
                lambda: self._side_by_side(question, wanted, laned, width),
            )
            return beside.read(laned, wanted.needs, known_since)
        found = self.once(
            ("pairs", whole, id(question.instants)), lambda: self.find(whole, question, len(pairs))
        )
        picked = pairs_of(state, laned.asked).picked(
            (laned, width), lambda: pick(state, laned, np.arange(width))
        )
        return taken(found, picked, wanted.needs, known_since)

    def _side_by_side(self, question: Question, wanted: GroupWindow, laned: Laned, width: int) -> SideBySide:
        """What all FILTERs of a query read that are like one of them: of the same window and store."""
        state, which = self._state, (wanted.number, wanted.window, laned.asked, laned.way)
        needs: dict[Laned, tuple[Need, ...]] = {
            each.laned: each.needs
            for each in reading_of(state, question.name).windows
            if each.laned is not None
            and is_in_one_place(each.laned)
            and (each.number, each.window, each.laned.asked, each.laned.way) == which
        }
        some, every = tuple(needs), tuple(dict.fromkeys(chain.from_iterable(needs.values())))
        pairs = state.keys[laned.asked.store_keys]
        found = self.find(wanted._replace(laned=None, needs=every), question, len(pairs))
        if laned.asked.banded is None:
            order = order_of(state, laned.asked)
            places = order.picked((some, width), lambda: places_in_lanes(order, some, width))
            return SideBySide(some, places, found)
        bands = bands_of(state, laned.asked)
        in_order = bands.order(laned.way)
        places = bands.picked((some, width), lambda: places_in_bands(in_order, some, width))
        return SideBySide(some, places, accumulated(in_order, found, every, self.once))

    def once(self, what: Hashable, make: Callable[[], Thing]) -> Thing:
        """Something that depends on nothing but what was found, made when it is first asked for."""
        if what not in self._once:
            self._once[what] = make()
        thing: Thing = self._once[what]
        return thing

    def _needs(self, wanted: GroupWindow) -> tuple[Need, ...]:
        if self.is_alone:
            return wanted.needs
        return tuple(self._state.manager.groups[wanted.number].needs.windows[wanted.window])

    def _settle(self, window: Window, instants: Ints) -> tuple[Ints, bytes]:
        """Where a window stands when it is looked up; with a token for what is the same."""
        which = (id(instants), window.pace)
        if which not in self._settled:
            settled = window.settle(instants)
            self._settled[which] = settled, settled.tobytes(), instants  # kept, so that its id stays its own
        settled, token, _ = self._settled[which]
        return settled, token


# Piggybacked windows: of the windows of one size that are due together, one is looked up for all.
#
# Windows of one size that stand at the same instant are the same window, however often each moves. So the
# look-up of the one that is due most often, the host, also answers those that are due at some of its
# instants.


class Ride(NamedTuple):
    """Where the answers of a piggybacked window are found."""

    host: Window
    places: Ints | None  # among the instants of the host; None: at all of them


def hosted(asked: Mapping[Window, Asked]) -> tuple[dict[Window, Asked], dict[Window, Ride]]:
    """What must be looked up, and for every other window the one that it rides on.

    >>> often, seldom = Window("time", 8, slide=2), Window("time", 8, slide=4)
    >>> hosts, rides = hosted({seldom: Asked(np.array([4, 8]), ()), often: Asked(np.array([4, 6, 8]), ())})
    >>> list(hosts), rides[seldom].host == often, rides[seldom].places
    ([[RANGE 8 MICROSECONDS SLIDE 2 MICROSECONDS]], True, array([0, 2]))
    """
    alike: dict[tuple[int, int, bool], list[Window]] = {}
    hosts: dict[Window, Asked] = {}
    for window, each in asked.items():
        if window.is_time:
            alike.setdefault((window.size, window.to, window.since), []).append(window)
        else:
            hosts[window] = each
    rides: dict[Window, Ride] = {}
    for windows in alike.values():
        if len(windows) > 1:
            windows.sort(key=lambda window: -len(asked[window].instants))
        some: list[Window] = []
        for window in windows:
            ride = next((ride for host in some if (ride := _ride(host, asked, window))), None)
            if ride is None:
                some.append(window)
                hosts[window] = asked[window]
                continue
            rides[window] = ride
            host = hosts[ride.host]
            needs = tuple(dict.fromkeys((*host.needs, *asked[window].needs)))
            hosts[ride.host] = host._replace(needs=needs)
    return hosts, rides


def _ride(host: Window, asked: Mapping[Window, Asked], window: Window) -> Ride | None:
    """How a window rides on another of its size, if that is due whenever it is."""
    offered, wanted = asked[host].instants, asked[window].instants
    if len(offered) == len(wanted):
        return Ride(host, None) if np.array_equal(offered, wanted) else None
    places = np.searchsorted(offered, wanted)
    is_due = places[-1] < len(offered) and np.array_equal(offered[places], wanted)
    return Ride(host, places) if is_due else None


def taken_from(window: Window, ride: Ride, found: Found, asked: Asked, synopsis: Synopsis[Any]) -> Found:
    """What a piggybacked window takes of what its host found; the same thing, if all of it.

    Only since when it has been known may be different: the grid had the edges of one before those of the
    other.
    """
    known_since = {need: synopsis.known_since(window, need) for need in asked.needs}
    if ride.places is None:
        is_same = all(found.known_since[need] == known_since[need] for need in asked.needs)
        return found if is_same else found._replace(known_since=known_since)
    width, places = found.width, ride.places
    slots = places if width == 1 else (places[:, None] * width + np.arange(width)).ravel()
    partials = {need: tuple(array[slots] for array in found.partials[need]) for need in asked.needs}
    start, end, is_whole = found.start[places], found.end[places], found.is_whole[places]
    return Found(partials, start, end, is_whole, known_since, width)
