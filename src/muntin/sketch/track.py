"""A track of a sketch: one input of a ring, of which the settled part is in the sketch alone.

What the sketch answers at an instant depends on the events before it, in their order, and on nothing else: it is
fed with exactly those. Events that may still be looked behind (they are not final yet, or a window that ends
among them is still owed) stay in the ring. To answer beyond the settled part a copy goes *ahead*, and is kept
for the next look-up; when events out of order come behind it, it starts again. On its way it leaves a copy where
events will be settled next, so that nothing has to be fed twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.errors import WindowTooLarge
from muntin.expression import Expression
from muntin.sketch.kinds import (
    Promise,
    Sketch,
    check_items,
    element_codes,
    is_of_items,
    make_sketch,
    promise_of,
)
from muntin.store.needs import Need, Needs
from muntin.store.ring import EventRing
from muntin.store.saved import COUNTS, INSTANTS, Saved
from muntin.structure.synopsis import Synopsis, TextOrder
from muntin.window import Unit, Window

_WORTH_A_COPY = 2**14  # events whose feeding costs more than a copy
_ANY: dict[Unit, Window] = {"time": Window("time", 1), "rows": Window("rows", 1)}


class SketchTrack:
    """Elements are the values that count. `unit` "rows": the number of their event is told in place of its time, so
    that windows are found by number. With `to`, windows end so far in the past, and the sketch is fed so much later.
    """

    def __init__(
        self,
        store: EventRing,
        where: Expression | None,
        need: Need,
        unit: Unit,
        to: int,
        name: str,
        promise: Promise,
    ):
        self.store = store
        self.where = where
        self.need = need
        self.unit = unit
        self.to = to
        self.promise = promise
        self.sketch: Sketch = make_sketch(name, need, promise)
        self.first = self.fed = (
            store.dropped
        )  # numbers of the first event it knows, and of the next it is fed
        self.fed_to = LONG_AGO  # just after the time of the last event it was fed
        known = store.known_since(_ANY[unit], need, where, ())
        self.known_since = max(known, store.forgotten_before)
        self.forgotten_before = LONG_AGO  # windows that begin before this instant have lost elements
        self._copies: list[tuple[Any, int]] = []  # that went ahead, with the number of the next event of each
        self._lag = 0  # of what is settled behind the newest event, the last time

    def follow(self) -> None:
        """The store has taken in events."""
        self._copies = [each for each in self._copies if each[1] <= self.store.changed_from]

    def settle(self, number: int, lag: int) -> None:
        """Events before this one are final, and no window that ends among them will be looked up; it is `lag`
        microseconds behind the newest."""
        self._lag = lag
        if number <= self.fed:
            return
        while self._copies and self._copies[0][1] <= number:  # it has been there already
            self.sketch, self.fed = self._copies.pop(0)
        self._feed(self.sketch, self.fed, number)
        self.fed = number
        self.fed_to = int(self.store.at[number - 1 - self.store.dropped]) + 1

    def at(self, number: int) -> Any:
        """The sketch when it has seen the events before that number."""
        if number == self.fed:
            return self.sketch
        if number < self.fed:
            raise already_settled(self.fed_to)
        while self._copies and self._copies[-1][1] > number:
            self._copies.pop()
        sketch, done = self._copies.pop() if self._copies else (self.sketch.copy(), self.fed)
        stop = self._next_settled(number)
        if stop > done and stop - self.fed >= _WORTH_A_COPY:
            self._feed(sketch, done, stop)
            self._copies, done = [(sketch.copy(), stop)], stop
        self._feed(sketch, done, number)
        self._copies.append((sketch, number))
        return sketch

    def _next_settled(self, number: int) -> int:
        """How far events will probably be settled next, if as far behind the newest as the last time."""
        newest = int(self.store.at[number - 1 - self.store.dropped])
        return min(number, self.store.dropped + self.store.find(newest - self._lag))

    def forget(self, begin: int) -> None:
        """Windows will begin at this instant, or with the event of this number, or later."""
        if self.fed == self.first:
            return
        for sketch in self._sketches():
            sketch.forget_before(begin)
        self.forgotten_before = max(self.forgotten_before, begin)

    def nbytes(self) -> int:
        return sum(int(sketch.nbytes()) for sketch in self._sketches())

    def _sketches(self) -> list[Any]:
        return [self.sketch, *(sketch for sketch, _ in self._copies)]

    def snapshot(self) -> Arrays:
        """What a restored track goes on from; the copy that is ahead can be made again."""
        delta = np.nan if self.promise.delta is None else self.promise.delta
        numbers = [self.first, self.fed, self.fed_to, self.known_since, self.forgotten_before]
        return {
            "track": np.array(numbers, np.int64),
            "promise": np.array([self.promise.eps, delta]),
            **self.sketch.snapshot(),
        }

    def restore(self, saved: Saved) -> None:
        """The track has been made with the promise that is saved."""
        self.first, self.fed, self.fed_to, self.known_since, self.forgotten_before = saved.numbers(
            "track", COUNTS, COUNTS, INSTANTS, INSTANTS, INSTANTS
        )
        held = self.store.dropped, self.store.dropped + len(self.store)
        if not (self.first <= self.fed and held[0] <= self.fed <= held[1]):
            raise saved.damaged("track", "has taken in events that the store knows nothing of")
        self.sketch.restore(saved)
        check_items(saved, self.need, self.sketch)
        self._copies = []

    def mark_items(self, used: Any) -> None:
        """Set `used` for every item that it knows."""
        self.sketch.mark_items(used)  # type: ignore[union-attr]

    def renumber_items(self, new_code: Any) -> None:
        """Codes of items are different from now on."""
        self.sketch.renumber_items(new_code)  # type: ignore[union-attr]
        self._copies = []

    def check(self) -> None:
        self.sketch.check()
        # it has seen what is no longer in the store
        assert self.first <= self.fed
        assert self.store.dropped <= self.fed <= self.store.dropped + len(self.store)
        # copies are ahead of it, and in order
        assert [number for _, number in self._copies] == sorted({number for _, number in self._copies})
        assert not self._copies or self._copies[0][1] > self.fed

    def _feed(self, sketch: Any, lo: int, hi: int) -> None:
        if lo >= hi:
            return
        part = slice(lo - self.store.dropped, hi - self.store.dropped)
        value, valid = self.store.column(self.need.input, self.where, part)
        at = self.store.at[part] if self.unit == "time" else np.arange(lo, hi)
        if not is_of_items(self.need) and value.dtype == np.float64:
            valid = valid & (value == value)  # NaN is no value
        kept = slice(None) if bool(valid.all()) else valid
        sketch.extend(element_codes(self.need, value[kept]), at=at[kept])


def already_settled(instant: int) -> WindowTooLarge:
    """A sketch cannot look back behind what it has taken in."""
    return WindowTooLarge(
        "a sketch has taken in events after that instant; it answers instants from "
        f"{np.datetime64(instant, 'us')} on"
    )


def already_forgotten(instant: int) -> WindowTooLarge:
    """A window that was whole once has lost elements since."""
    return WindowTooLarge(
        "a window at that instant needs events that have been dropped; the state answers instants from "
        f"{np.datetime64(instant, 'us')} on"
    )


def promise_in(saved: Saved) -> Promise:
    """The promise of a track that a snapshot was taken of."""
    eps, delta = saved.floats("promise", 2).tolist()
    return Promise(eps, None if np.isnan(delta) else delta)


Source = TypeVar("Source")


class KeepsItems(Protocol):
    """What every track knows, and does with items that are texts."""

    known_since: int

    def mark_items(self, used: Bools) -> None: ...

    def renumber_items(self, new_code: Ints) -> None: ...


Track = TypeVar("Track", bound=KeepsItems)


class SketchSynopsis(Synopsis[EventRing], Generic[Source, Track]):
    """Sketches of the algorithm `name` over a ring, which has the events that are not settled.

    A *track* is what is sketched for one source, such as an input, and one promise.
    """

    is_sketched = True
    instant_cost = 64

    def __init__(
        self,
        store: EventRing,
        where: Expression | None,
        keys: tuple[Expression, ...],
        text_order: TextOrder,
        name: str,
    ):
        super().__init__(store, where, keys, text_order)
        self.name = name  # type: ignore[misc]  # of the algorithm; a class serves several
        self._tracks: dict[Source, list[Track]] = {}
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """No event has been settled."""

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """A track for every source that has none that is fine enough; O(events in the ring) each."""
        super().fit(needs, changed)
        asked: dict[Source, dict[Promise, Need]] = {}
        for source, need in self._asked(needs):
            asked.setdefault(source, {})[promise_of(need, self.name)] = need
        before, self._tracks = self._tracks, {each: self._fitted(each, asked[each]) for each in asked}
        return before != self._tracks

    @abstractmethod
    def _asked(self, needs: Needs) -> Iterator[tuple[Source, Need]]:
        """What is to be sketched."""

    @abstractmethod
    def _fitted(self, source: Source, promises: Mapping[Promise, Need]) -> list[Track]:
        """The tracks of a source that keep some promises."""

    def know_from(self, instant: int) -> None:
        for track in self._all():
            track.known_since = max(track.known_since, instant)

    def _all(self) -> list[Track]:
        return [track for tracks in self._tracks.values() for track in tracks]

    @abstractmethod
    def _of(self, argument: Expression) -> list[Track]:
        """Those that keep texts of an argument as items."""

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        for track in self._of(argument):
            track.mark_items(used)

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        for track in self._of(argument):
            track.renumber_items(new_code)
