"""Un-keyed windows of a group answered from sketches: one for each input, however many windows and queries.

The sketch of an input keeps the tightest promise that any query asks of it. One that asks for more while the
stream runs has its own from then on, since a sketch cannot be made finer than it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.query import Input
from muntin.sketch.kinds import Promise, partials_of, promise_of, tightest
from muntin.sketch.track import SketchSynopsis, SketchTrack, already_forgotten, already_settled, promise_in
from muntin.store.needs import Need, Needs
from muntin.store.saved import Saved
from muntin.structure.synopsis import Asked, Found, Moves
from muntin.window import Unit, Window

SketchedInput = tuple[Input, Unit, int]  # the last: how far in the past windows end


class Sketched(SketchSynopsis[SketchedInput, SketchTrack]):
    """The sketches of events without keys."""

    def _begin(self) -> None:
        self._times = RowTimes()  # of events that the ring has no more
        self._times_to = self.store.dropped  # number of the next event for it

    def _asked(self, needs: Needs) -> Iterator[tuple[SketchedInput, Need]]:
        for window, some in needs.windows.items():
            for need in some:
                if need.input.argument is not None:
                    yield (need.input, window.unit, window.to), need

    def _fitted(self, source: SketchedInput, promises: Mapping[Promise, Need]) -> list[SketchTrack]:
        tracks = list(self._tracks.get(source, ()))
        finest = tightest(list(promises))
        if all(track.fed == track.first and not len(self.store) for track in tracks):
            tracks = []  # nothing is lost by beginning again
        if not any(track.promise.covers(finest) for track in tracks):
            need = next(iter(promises.values()))
            tracks.append(SketchTrack(self.store, self.where, need, *source[1:], self.name, finest))
        used = [_choose(tracks, promise) for promise in promises]
        return [track for track in tracks if track in used]

    def insert(self) -> None:
        for track in self._all():
            track.follow()

    def advance(self, kept_from: int) -> None:
        """Settle what lies behind; O(log 1/eps) per event."""
        super().advance(kept_from)
        number = self._number(self.kept_from)
        back = max((window.slide for window in self.needs.windows if not window.is_time), default=0)
        lag = max(0, int(self.store.at[-1]) - self.kept_from) if len(self.store) else 0
        reach = self.needs.reach("rows")
        for track in self._all():
            if track.unit == "rows":
                track.settle(number - back - track.to, lag)
                track.forget(track.fed + track.to - reach)
            else:
                track.settle(self._number(self.kept_from - track.to), lag + track.to)
                track.forget(self.kept_from - self.needs.reach("time"))
        if reach:
            self._keep_times(reach)

    def _keep_times(self, reach: int) -> None:
        """Of events that the ring may drop now."""
        self._times_to = max(self._times_to, self.store.dropped)  # where there was no window of rows before
        upto = self.store.dropped + self.first_needed()
        self._times.extend(
            self._times_to, self.store.at[self._times_to - self.store.dropped : upto - self.store.dropped]
        )
        self._times_to = upto
        self._times.forget(upto - reach)

    def _number(self, instant: int) -> int:
        """Of the first event that is not before an instant."""
        return self.store.dropped + self.store.find(instant)

    def first_needed(self) -> int:
        """Index of the first event that is not in every sketch."""
        fed = min((track.fed for track in self._all()), default=self.store.dropped + len(self.store))
        return fed - self.store.dropped

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        return np.ones(len(instants), np.bool_)

    def seen(self, window: Window, first: int, last: int) -> None:
        """A sketch has not kept the times of what it took in."""

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
        seen = window.settle_count(moves.seen)
        forever = np.full(len(seen), 2**63 - 1)
        read = [self._read(window, wanted, 2**63 - 1, max(0, int(count) - window.to)) for count in seen]
        return self._found(window, Asked(forever, wanted), read)

    def moves(self, window: Window, after: int | None, until: int, width: int) -> Moves:
        """Where the number of events passed a multiple of the slide by events in [after, until)."""
        edges = np.array([LONG_AGO if after is None else after, until])
        had, has = self.store.dropped + np.searchsorted(self.store.at, edges)
        return Moves.of_stream(had, has, window.slide)

    def _counts(self, window: Window, instants: Ints) -> Ints:
        """How many events there were before the end of a window at each instant."""
        if window.is_time:
            ended: Ints = self.store.dropped + np.searchsorted(self.store.at, instants - window.to)
            return ended
        count = self.store.dropped + np.searchsorted(self.store.at, instants)
        return np.maximum(0, window.settle_count(count) - window.to)

    def _read(self, window: Window, wanted: Sequence[Need], instant: int, count: int) -> _Read:
        """What is known of a window that ends after `count` events."""
        summaries: dict[int, Any] = {}  # by sketch
        of: dict[Need, Any] = {}
        begin = window.start(instant) if window.is_time else count + window.to - window.size
        whole = True
        for need in wanted:
            if need.input.argument is None:
                continue
            track = self._track_of(window, need)
            if id(track) not in summaries:
                if window.is_time and instant - window.to < track.fed_to:
                    raise already_settled(track.fed_to + window.to)
                # one that is new knows nothing of what ended before it
                summaries[id(track)] = track.at(max(count, track.first)).summary(since=begin)
                whole &= (
                    begin >= track.forgotten_before
                    if window.is_time
                    else begin >= track.first or (track.first == 0 and self.store.knows_count)
                )
            of[need] = summaries[id(track)]
        return _Read(of, count, whole, max(0, begin))

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
            start, end = window.start(asked.instants), asked.instants - window.to
        else:
            bounds = [self._bounds(each) for each in read]
            start, end = np.array(bounds, np.int64).reshape(-1, 2).T
        known_since = {need: self.known_since(window, need) for need in asked.needs}
        return Found(partials, start, end, whole, known_since, 1)

    def _bounds(self, read: _Read) -> tuple[int, int]:
        """Of a ROWS window, in time: of the first event that is known of it, and just after the last."""
        first, last = (each - self.store.dropped for each in (read.begin, read.count - 1))
        if last >= 0:
            end = int(self.store.at[last]) + 1
        else:  # no longer in the ring, so it is the last that a sketch was fed
            fed = [track.fed_to for track in self._all() if track.fed == read.count]
            end = max(fed, default=LONG_AGO)
        if end == LONG_AGO or read.begin >= read.count:
            return LONG_AGO, LONG_AGO
        if first >= 0:
            return int(self.store.at[first]), end
        start = self._times.find(read.begin)
        return (start if LONG_AGO < start < end else end - 1), end

    @property
    def forgotten_before(self) -> int:
        return max((track.forgotten_before for track in self._all()), default=LONG_AGO)

    def known_since(self, window: Window, need: Need) -> int:
        return (
            self.store.began_at if need.input.argument is None else self._track_of(window, need).known_since
        )

    def _track_of(self, window: Window, need: Need) -> SketchTrack:
        return _choose(self._tracks[need.input, window.unit, window.to], promise_of(need, self.name))

    def nbytes(self) -> int:
        return self._times.nbytes() + sum(track.nbytes() for track in self._all())

    def __str__(self) -> str:
        return "; ".join(map(_described, self._all()))

    def snapshot(self) -> Arrays:
        arrays = super().snapshot() | self._times.snapshot() | {"timed": np.array([self._times_to], np.int64)}
        for (input, unit, to), tracks in self._tracks.items():
            for number, track in enumerate(tracks):
                name = f"sketch {unit} {to} {input} #{number}/"
                arrays |= {name + part: array for part, array in track.snapshot().items()}
        return arrays

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        (self._times_to,) = saved.numbers("timed", (0, self.store.dropped + len(self.store)))
        self._times.restore(saved, self._times_to)
        for (input, unit, to), tracks in self._tracks.items():
            need, promises = tracks[0].need, [track.promise for track in tracks]
            restored: list[SketchTrack] = []
            while found := saved.under(f"sketch {unit} {to} {input} #{len(restored)}/"):
                track = SketchTrack(self.store, self.where, need, unit, to, self.name, promise_in(found))
                track.restore(found)
                restored.append(track)
            if not all(any(track.promise.covers(each) for track in restored) for each in promises):
                raise saved.damaged(f"sketch {unit} {to} {input}", "is missing")
            self._tracks[input, unit, to] = restored

    def check(self) -> None:
        self._times.check()
        for track in self._all():
            track.check()

    def _of(self, argument: Expression) -> list[SketchTrack]:
        return [track for track in self._all() if track.need.input.argument == argument]


class _Read:
    """What was read of a window at one instant."""

    def __init__(self, summaries: Mapping[Need, Any], count: int, is_whole: bool, begin: int):
        self.summaries = summaries
        self.count = count  # of events before its end
        self.is_whole = is_whole
        self.begin = begin  # of a ROWS window: the number of its first event


def _described(track: SketchTrack) -> str:
    known: Any = track.sketch.summary()
    now = known.error / max(1, known.count)
    past = f" ({track.to:,} {'us' if track.unit == 'time' else 'rows'} behind)" if track.to else ""
    return (
        f"sketch of {track.need.input}{past}: {describe(track.promise)}, now {now:.2g} of all that it knows; "
        f"{track.sketch.entries():,} entries of {track.sketch.most_entries():,} at most, in "
        f"{track.sketch.nbytes():,} bytes"
    )


def describe(promise: Promise) -> str:
    """A promise in words."""
    chance = "" if promise.delta is None else f", but for a chance of {promise.delta:g}"
    return f"error at most {promise.eps:g} of the window{chance}"


def _choose(tracks: Sequence[SketchTrack], promise: Promise) -> SketchTrack:
    """The track that has known most of those that keep a promise."""
    fine = [track for track in tracks if track.promise.covers(promise)]
    return min(fine, key=lambda track: (track.known_since, track.first, track.promise.eps))


# Times of rows: about when the event with a given number was, finer for new events than for old ones.
#
# Windows of so many rows are found by number; this says since when they reach back, in memory that does not
# grow with them.

_FINE = 1024  # events of each doubling of age that are kept, at least half of them


class RowTimes:
    """Of the events that were appended, in order; numbers ascend by one.

    >>> times = RowTimes()
    >>> times.extend(0, np.arange(100_000) * 10)
    >>> times.find(99_990), times.find(50_001) - 500_010 < 1000, len(times) < 20_000
    (999900, True, True)
    """

    def __init__(self) -> None:
        self._number = np.zeros(0, np.int64)
        self._at = np.zeros(0, np.int64)
        self._after_thinning = 0

    def __len__(self) -> int:
        return len(self._number)

    def extend(self, first: int, at: Ints) -> None:
        """Append events, of which the first has number `first`; O(events that are known)."""
        self._number = np.append(self._number, first + np.arange(len(at)))
        self._at = np.append(self._at, at)
        if len(self._number) > 2 * self._after_thinning + 8 * _FINE:
            self._thin()

    def find(self, number: int) -> int:
        """The time of the first event that is known from `number` on: later than it by one part in 500 of its age
        in events; LONG_AGO if there is none."""
        place = int(np.searchsorted(self._number, number))
        return int(self._at[place]) if place < len(self._at) else LONG_AGO

    def forget(self, number: int) -> None:
        """Nobody will ask for events before this one."""
        gone = int(np.searchsorted(self._number, number))
        self._number, self._at = self._number[gone:], self._at[gone:]

    def _thin(self) -> None:
        age = int(self._number[-1]) - self._number
        step = np.int64(1) << np.maximum(0, np.frexp(age / _FINE)[1] - 1).astype(np.int64)
        kept = self._number % step == 0
        self._number, self._at = self._number[kept], self._at[kept]
        self._after_thinning = len(self._number)

    def nbytes(self) -> int:
        return self._number.nbytes + self._at.nbytes

    def snapshot(self) -> Arrays:
        return {"row number": self._number.copy(), "row at": self._at.copy()}

    def restore(self, saved: Saved, end: int) -> None:
        """Have the events of a snapshot, all of them numbered below `end`."""
        self._number = saved.ints("row number", (0, end - 1), order="strictly").copy()
        self._at = saved.times("row at", len(self._number)).copy()
        self._after_thinning = len(self._number)

    def check(self) -> None:
        # numbers and times ascend
        assert bool((np.diff(self._number) > 0).all())
        assert bool((np.diff(self._at) >= 0).all())
