"""Un-keyed windows of a group answered from sketches: one for each input, however many windows and queries.

The sketch of an input keeps the tightest promise that any query asks of it. One that asks for more while the
stream runs has its own from then on, since a sketch cannot be made finer than it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from muntin.aggregate.contract import Partial
from muntin.expression import Expression
from muntin.query import Input
from muntin.synopsis.contract import LONG_AGO, Arrays, Bools, Found, Ints, Need
from muntin.synopsis.moves import Moves
from muntin.synopsis.needs import Needs
from muntin.synopsis.ring import EventRing
from muntin.synopsis.sketch.kinds import Promise, partials_of, promise_of, tightest
from muntin.synopsis.sketch.track import SketchTrack, already_forgotten, already_settled, promise_in
from muntin.synopsis.synopsis import Asked, Synopsis, TextOrder
from muntin.window import Unit, Window

Place = tuple[Input, Unit]


class Sketched(Synopsis[EventRing]):
    """The sketches of the algorithm `name` over a ring, which has the events that are not settled."""

    def __init__(
        self,
        store: EventRing,
        where: Expression | None,
        keys: tuple[Expression, ...],
        text_order: TextOrder,
        name: str,
    ):
        super().__init__(store, where, keys, text_order)
        self.name = name  # type: ignore[misc]  # of the algorithm; this class serves several
        self._tracks: dict[Place, list[SketchTrack]] = {}

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """A sketch for every input that has none that is fine enough; O(events in the ring) each."""
        super().fit(needs, changed)
        asked: dict[Place, dict[Promise, Need]] = {}
        for window, some in needs.windows.items():
            for need in some:
                if need.input.argument is not None:
                    asked.setdefault((need.input, window.unit), {})[promise_of(need, self.name)] = need
        before, self._tracks = (
            self._tracks,
            {place: self._fitted(place, each) for place, each in asked.items()},
        )
        return before != self._tracks

    def _fitted(self, place: Place, promises: Mapping[Promise, Need]) -> list[SketchTrack]:
        tracks = list(self._tracks.get(place, ()))
        finest = tightest(list(promises))
        if all(track.fed == track.first and not len(self.store) for track in tracks):
            tracks = []  # nothing is lost by beginning again
        if not any(track.promise.covers(finest) for track in tracks):
            need = next(iter(promises.values()))
            tracks.append(SketchTrack(self.store, self.where, need, place[1], self.name, finest))
        used = [_choose(tracks, promise) for promise in promises]
        return [track for track in tracks if track in used]

    def insert(self) -> None:
        for track in self._all():
            track.follow()

    def advance(self, kept_from: int) -> None:
        """Settle what lies behind; O(log 1/eps) per event."""
        super().advance(kept_from)
        number = self.store.dropped + self.store.find(self.kept_from)
        back = max((window.slide for window in self.needs.windows if not window.is_time), default=0)
        lag = max(0, int(self.store.at[-1]) - self.kept_from) if len(self.store) else 0
        for track in self._all():
            track.settle(number - back if track.unit == "rows" else number, lag)
            track.forget(self.kept_from - self.needs.reach("time"), self.needs.reach("rows"))

    def first_needed(self) -> int:
        """Index of the first event that is not in every sketch."""
        fed = min((track.fed for track in self._all()), default=self.store.dropped + len(self.store))
        return fed - self.store.dropped

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        return np.ones(len(instants), np.bool_)

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        return self.lookup_all({window: Asked(instants, wanted)}, width)[window]

    def lookup_all(self, asked: Mapping[Window, Asked], width: int) -> dict[Window, Found]:
        """All windows, instant by instant, so that no sketch has to go back."""
        counts = {window: self._counts(window, each.instants) for window, each in asked.items()}
        steps = sorted(
            (int(count), number, window)
            for window, some in counts.items()
            for number, count in enumerate(some)
        )
        read: dict[Window, dict[int, _Read]] = {window: {} for window in asked}
        for count, number, window in steps:
            instant = int(asked[window].instants[number])
            read[window][number] = self._read(window, asked[window].needs, instant, count)
        return {
            window: self._found(window, each, [read[window][i] for i in range(len(each.instants))])
            for window, each in asked.items()
        }

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of a ROWS window when the stream had given numbers of events."""
        seen = moves.seen - moves.seen % window.slide if window.slide else moves.seen
        forever = np.full(len(seen), 2**63 - 1)
        read = [self._read(window, wanted, 2**63 - 1, int(count)) for count in seen]
        return self._found(window, Asked(forever, wanted), read)

    def moves(self, slide: int, after: int | None, until: int, width: int) -> Moves:
        """Where the number of events passed a multiple of `slide` by events in [after, until)."""
        edges = np.array([LONG_AGO if after is None else after, until])
        had, has = self.store.dropped + np.searchsorted(self.store.at, edges)
        seen = np.arange(had // slide + 1, has // slide + 1) * slide
        return Moves(np.zeros(len(seen), np.int64), seen)

    def _counts(self, window: Window, instants: Ints) -> Ints:
        """How many events there were before each instant; for ROWS windows rounded to their slide."""
        count = self.store.dropped + np.searchsorted(self.store.at, instants)
        return count - count % window.slide if window.slide and not window.is_time else count

    def _read(self, window: Window, wanted: Sequence[Need], instant: int, count: int) -> _Read:
        summaries: dict[int, Any] = {}  # by sketch
        of: dict[Need, Any] = {}
        whole, started_at = True, LONG_AGO
        for need in wanted:
            if need.input.argument is None:
                continue
            track = _choose(self._tracks[need.input, window.unit], promise_of(need, self.name))
            if id(track) not in summaries:
                if instant < track.fed_to:
                    raise already_settled(track.fed_to)
                sketch = track.at(count)
                if window.is_time:
                    summaries[id(track)] = sketch.summary(since=instant - window.size)
                    whole &= instant - window.size >= track.forgotten_before
                else:
                    begin = count - window.size
                    summaries[id(track)] = sketch.summary(rows=window.size)
                    whole &= begin >= track.first or (track.first == 0 and self.store.knows_count)
                    started_at = sketch.time_of_last(window.size)
            of[need] = summaries[id(track)]
        return _Read(of, count, whole, started_at)

    def _found(self, window: Window, asked: Asked, read: Sequence[_Read]) -> Found:
        partials: dict[Need, Partial] = {}
        for need in asked.needs:
            if need.input.argument is None:
                partials[need] = (np.array([each.count for each in read], np.int64),)
            else:
                partials |= partials_of([need], [each.summaries[need] for each in read])
        whole = np.array([each.is_whole for each in read], np.bool_)
        if bool((~whole & (asked.instants < self.kept_from)).any()):
            raise already_forgotten(self.kept_from)
        if window.is_time:
            start, end = asked.instants - window.size, asked.instants
        else:
            start = np.array([each.started_at for each in read], np.int64)
            end = np.array([self._ended_at(each.count) for each in read], np.int64)
            start = np.where(end > LONG_AGO, start, end)
        known_since = {need: self.known_since(window, need) for need in asked.needs}
        return Found(partials, start, end, whole, known_since, 1)

    def _ended_at(self, count: int) -> int:
        """Just after the last of so many events."""
        index = count - 1 - self.store.dropped
        if index >= 0:
            return int(self.store.at[index]) + 1
        return max((track.fed_to for track in self._all()), default=LONG_AGO)

    def known_since(self, window: Window, need: Need) -> int:
        if need.input.argument is None:
            return self.store.began_at
        return _choose(self._tracks[need.input, window.unit], promise_of(need, self.name)).known_since

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        for track in self._of(argument):
            track.mark_items(used)

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        for track in self._of(argument):
            track.renumber_items(new_code)

    def nbytes(self) -> int:
        return sum(track.nbytes() for track in self._all())

    def __str__(self) -> str:
        return "; ".join(
            f"sketch of {track.need.input}: {describe(track.promise)}, "
            f"{track.sketch.entries():,} entries in {track.sketch.nbytes():,} bytes"
            for track in self._all()
        )

    def snapshot(self) -> Arrays:
        arrays = super().snapshot()
        for (input, unit), tracks in self._tracks.items():
            for number, track in enumerate(tracks):
                name = f"sketch {unit} {input} #{number}/"
                arrays |= {name + part: array for part, array in track.snapshot().items()}
        return arrays

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        for (input, unit), tracks in self._tracks.items():
            need = tracks[0].need
            restored: list[SketchTrack] = []
            while found := _under(arrays, f"sketch {unit} {input} #{len(restored)}/"):
                track = SketchTrack(self.store, self.where, need, unit, self.name, promise_in(found))
                track.restore(found)
                restored.append(track)
            self._tracks[input, unit] = restored

    def check(self) -> None:
        for track in self._all():
            track.check()

    def _all(self) -> list[SketchTrack]:
        return [track for tracks in self._tracks.values() for track in tracks]

    def _of(self, argument: Expression) -> list[SketchTrack]:
        return [track for track in self._all() if track.need.input.argument == argument]


class _Read:
    """What was read of a window at one instant."""

    def __init__(self, summaries: Mapping[Need, Any], count: int, is_whole: bool, started_at: int):
        self.summaries = summaries
        self.count = count  # of events before the instant
        self.is_whole = is_whole
        self.started_at = started_at  # of a ROWS window: the time of the first element that is known


def describe(promise: Promise) -> str:
    """A promise in words."""
    chance = "" if promise.delta is None else f", but for a chance of {promise.delta:g}"
    return f"error at most {promise.eps:g} of the window{chance}"


def _choose(tracks: Sequence[SketchTrack], promise: Promise) -> SketchTrack:
    """The track that has known most of those that keep a promise."""
    fine = [track for track in tracks if track.promise.covers(promise)]
    return min(fine, key=lambda track: (track.known_since, track.first, track.promise.eps))


def _under(arrays: Arrays, prefix: str) -> Arrays:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
