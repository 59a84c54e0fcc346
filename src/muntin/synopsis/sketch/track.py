"""A track of a sketch: one input of a ring, of which the settled part is in the sketch alone.

What the sketch answers at an instant depends on the events before it, in their order, and on nothing else: it is
fed with exactly those. Events that may still be looked behind (they are not final yet, or a window that ends
among them is still owed) stay in the ring. To answer beyond the settled part a copy goes *ahead*, and is kept
for the next look-up; when events out of order come behind it, it starts again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.errors import WindowTooLarge
from muntin.expression import Expression
from muntin.synopsis.contract import LONG_AGO, Arrays, Need
from muntin.synopsis.ring import EventRing
from muntin.synopsis.sketch.kinds import Promise, Sketch, element_codes, make_sketch
from muntin.window import Unit, Window

_ANY: dict[Unit, Window] = {"time": Window("time", 1), "rows": Window("rows", 1)}


class SketchTrack:
    """`unit` "time": elements are the values that count. "rows": all events, so that positions can be counted."""

    def __init__(
        self, store: EventRing, where: Expression | None, need: Need, unit: Unit, name: str, promise: Promise
    ):
        self.store = store
        self.where = where
        self.need = need
        self.unit = unit
        self.promise = promise
        self.sketch: Sketch = make_sketch(name, need, promise)
        self.first = self.fed = (
            store.dropped
        )  # numbers of the first event it knows, and of the next it is fed
        self.fed_to = LONG_AGO  # just after the time of the last event it was fed
        known = store.known_since(_ANY[unit], need, where, ())
        self.known_since = max(known, store.forgotten_before)
        self.forgotten_before = LONG_AGO  # windows that begin before this instant have lost elements
        self._ahead: tuple[Any, int] | None = None

    def follow(self) -> None:
        """The store has taken in events."""
        if self._ahead is not None and self.store.changed_from < self._ahead[1]:
            self._ahead = None

    def settle(self, number: int) -> None:
        """Events before this one are final, and no window that ends among them will be looked up."""
        if number <= self.fed:
            return
        if self._ahead is not None and self._ahead[1] <= number:
            self.sketch, self.fed = self._ahead
            self._ahead = None
        self._feed(self.sketch, self.fed, number)
        self.fed = number
        self.fed_to = int(self.store.at[number - 1 - self.store.dropped]) + 1

    def at(self, number: int) -> Any:
        """The sketch when it has seen the events before that number."""
        if number == self.fed:
            return self.sketch
        if number < self.fed:
            raise already_settled(self.fed_to)
        if self._ahead is None or self._ahead[1] > number:
            self._ahead = (self.sketch.copy(), self.fed)
        sketch, done = self._ahead
        self._feed(sketch, done, number)
        self._ahead = (sketch, number)
        return sketch

    def forget(self, instant: int, rows: int) -> None:
        """Windows will begin at this instant, or at the event `rows` before the next to be fed, or later."""
        if self.fed == self.first:
            return
        for sketch in (self.sketch, self._ahead[0] if self._ahead is not None else None):
            if sketch is not None and self.unit == "rows":
                sketch.forget(max(0, self.fed - self.first - rows))
            elif sketch is not None:
                sketch.forget_before(instant)
        self.forgotten_before = max(self.forgotten_before, instant)

    def nbytes(self) -> int:
        return self.sketch.nbytes() + (self._ahead[0].nbytes() if self._ahead is not None else 0)

    def snapshot(self) -> Arrays:
        """What a restored track goes on from; the copy that is ahead can be made again."""
        delta = np.nan if self.promise.delta is None else self.promise.delta
        numbers = [self.first, self.fed, self.fed_to, self.known_since, self.forgotten_before]
        return {
            "track": np.array(numbers, np.int64),
            "promise": np.array([self.promise.eps, delta]),
            **self.sketch.snapshot(),
        }

    def restore(self, arrays: Arrays) -> None:
        """The track has been made with the promise that is in the arrays."""
        numbers = [int(number) for number in arrays["track"]]
        self.first, self.fed, self.fed_to, self.known_since, self.forgotten_before = numbers
        self.sketch.restore(arrays)
        self._ahead = None

    def mark_items(self, used: Any) -> None:
        """Set `used` for every item that it knows."""
        self.sketch.mark_items(used)  # type: ignore[union-attr]

    def renumber_items(self, new_code: Any) -> None:
        """Codes of items are different from now on."""
        self.sketch.renumber_items(new_code)  # type: ignore[union-attr]
        self._ahead = None

    def check(self) -> None:
        self.sketch.check()
        # it has seen what is no longer in the store
        assert self.first <= self.fed
        assert self.store.dropped <= self.fed <= self.store.dropped + len(self.store)
        assert self._ahead is None or self._ahead[1] >= self.fed

    def _feed(self, sketch: Any, lo: int, hi: int) -> None:
        if lo >= hi:
            return
        part = slice(lo - self.store.dropped, hi - self.store.dropped)
        value, valid = self.store.column(self.need.input, self.where, part)
        at = self.store.at[part]
        if self.unit == "time":
            kept = slice(None) if bool(valid.all()) else valid
            sketch.extend(element_codes(self.need, value[kept]), at=at[kept])
        else:
            sketch.extend(element_codes(self.need, value), valid, at)


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


def promise_in(arrays: Arrays) -> Promise:
    """The promise of a track that a snapshot was taken of."""
    eps, delta = arrays["promise"].tolist()
    return Promise(eps, None if np.isnan(delta) else delta)
