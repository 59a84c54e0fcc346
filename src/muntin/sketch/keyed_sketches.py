"""Windows per key answered from sketches, within a budget of memory.

When all that is kept for the keys outgrows the budget, errors are doubled until it fits; answers say how wrong
they are. If even that is not enough, because there are too many keys, the oldest values are forgotten, and windows
that reach back to them are not `complete` any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from muntin.aggregates.contract import Partial
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.query import Input
from muntin.sketch.keyed_track import KeyedTrack, Values
from muntin.sketch.kinds import Promise, element_codes, promise_of, tightest
from muntin.sketch.sketched import describe
from muntin.sketch.track import SketchSynopsis, already_forgotten, already_settled
from muntin.store.needs import Need, Needs
from muntin.store.ring import key_column
from muntin.store.saved import INSTANTS, Saved
from muntin.structure.synopsis import Found
from muntin.window import Window

DEFAULT_BUDGET = 256 * 2**20


class KeyedSketches(SketchSynopsis[Input, KeyedTrack]):
    """A sketch for each key."""

    def _begin(self) -> None:
        self.budget = DEFAULT_BUDGET
        self._fed = self.store.dropped  # number of the next event to be settled
        self._fed_to = LONG_AGO  # just after the time of the last one that was
        self._last_at = np.zeros(0, np.int64)  # of the last settled event of each key

    def _asked(self, needs: Needs) -> Iterator[tuple[Input, Need]]:
        return ((need.input, need) for need in needs.components if need.input.argument is not None)

    def _fitted(self, source: Input, promises: Mapping[Promise, Need]) -> list[KeyedTrack]:
        tracks = list(self._tracks.get(source, ()))
        finest = tightest(list(promises))
        is_empty = not len(self.store) and self._fed_to == LONG_AGO
        if is_empty:
            tracks = []
        if not any(track.asked.covers(finest) for track in tracks):
            need = next(iter(promises.values()))
            known = self.store.known_since(_ANY, need, self.where, self.keys)
            since = known if self._fed_to == LONG_AGO else max(known, self._fed_to)
            since = max(since, self.store.forgotten_before)
            tracks.append(self._make_track(need, finest, since))
        used = [_choose(tracks, promise) for promise in promises]
        return [track for track in tracks if track in used]

    def _make_track(self, need: Need, promise: Promise, known_since: int) -> KeyedTrack:
        return KeyedTrack(need, self.name, promise, known_since)

    def advance(self, kept_from: int) -> None:
        """Settle what lies behind, and keep to the budget."""
        super().advance(kept_from)
        # what windows that end in the past do not have yet waits in the ring, for all of them
        past = max((window.to for window in self.needs.windows), default=0)
        number = self.store.dropped + self.store.find(self.kept_from - past)
        if number > self._fed:
            self._settle(number)
        if self._fed_to > LONG_AGO:
            for track in self._all():
                track.forget(self.kept_from - self.needs.reach("time"))
            self._keep_to_budget()

    def _settle(self, number: int) -> None:
        part = slice(self._fed - self.store.dropped, number - self.store.dropped)
        key, at = self._keys(part), self.store.at[part]
        known = key >= 0
        if len(key) and int(key.max()) >= len(self._last_at):
            more = max(int(key.max()) + 1, 2 * len(self._last_at)) - len(self._last_at)
            self._last_at = np.append(self._last_at, np.full(more, LONG_AGO))
        self._last_at[key[known]] = at[known]  # in order of time, so the last one stays
        for track in self._all():
            track.room = self.budget // len(self._all())
            track.take(self._values(track, part))
        self._fed, self._fed_to = number, int(at[-1]) + 1

    def _keep_to_budget(self) -> None:
        if self._settled_bytes() <= self.budget:
            return
        for track in self._all():
            track.compact()
        while self._settled_bytes() > self.budget:
            finest = sorted(self._all(), key=lambda track: -track.nbytes())
            if not any(track.coarsen() for track in finest[:1]) and not any(
                track.coarsen() for track in finest[1:]
            ):
                break
        while self._settled_bytes() > self.budget:
            # what was forgotten may share a block with what was not, and look older than it is
            begin = max(
                min(track.oldest(self._fed_to) for track in self._all()),
                min(track.forgotten_before for track in self._all()),
            )
            if begin >= self._fed_to:
                break  # nothing is left
            for track in self._all():
                track.forget(begin + -(-(self._fed_to - begin) // _STEPS))
                track.demote()
                track.compact()

    def _settled_bytes(self) -> int:
        return sum(track.nbytes() for track in self._all())

    def first_needed(self) -> int:
        """Index of the first event that is not settled."""
        return self._fed - self.store.dropped

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        return np.ones(len(instants), np.bool_)

    def seen(self, window: Window, first: int, last: int) -> tuple[Ints, Ints]:
        """Of what is settled, the last event of each key tells how long the key has one in the window."""
        at = np.unique(np.concatenate([self._last_at[self._last_at > LONG_AGO], self.store.at]))
        at = at[(at >= window.start(first)) & (at < last - window.to)]
        return at + window.to + 1, window.last_with(at)

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        found = [self._lookup(window, int(instant), wanted, ids, width) for instant in instants]
        partials = {
            need: tuple(
                np.concatenate(arrays) for arrays in zip(*(each[need] for each in found), strict=True)
            )
            for need in wanted
        }
        start, end = window.start(instants), instants - window.to
        forgotten = self.forgotten_before
        if bool(((start < forgotten) & (instants < self.kept_from)).any()):
            raise already_forgotten(self.kept_from)
        whole = (start >= forgotten) & (end >= self._fed_to)
        known_since = {need: self.known_since(window, need) for need in wanted}
        return Found(partials, start, end, whole, known_since, width)

    def _lookup(
        self, window: Window, instant: int, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> dict[Need, Partial]:
        since, stop = window.start(instant), self.store.find(instant - window.to)
        first = self._fed - self.store.dropped
        if instant - window.to < self._fed_to:
            if instant < self.kept_from:
                raise already_settled(self._fed_to + window.to)
            since, stop = (
                2**62,
                first,
            )  # asked for since then: of what was settled nobody knows which is older
        part = slice(max(first, min(self.store.find(since), stop)), max(first, stop))
        last = width - 1 if ids is None else int(ids.max(initial=-1))
        keys = max(len(self._last_at), last + 1, int(self._keys(part).max(initial=-1)) + 1)
        slot_of = np.full(keys + 1, -1)  # the last is of no key
        slot_of[np.arange(width) if ids is None else ids] = np.arange(width)
        slot_of[-1] = -1
        partials: dict[Need, Partial] = {}
        for need in wanted:
            if need.input.argument is None:
                partials[need] = (self._presence(since, part, slot_of, width),)
        for track in self._all():
            needs = [
                need for need in wanted if need.input == track.need.input and self._track_of(need) is track
            ]
            if needs:
                partials |= track.read(since, self._values(track, part), slot_of, width, needs)
        return partials

    def _presence(self, since: int, part: slice, slot_of: Ints, width: int) -> Ints:
        """Whether each key has an event in a window."""
        present = np.zeros(width, np.int64)
        settled = slot_of[: len(self._last_at)][self._last_at >= since]
        newest = slot_of[self._keys(part)]
        for slot in (settled, newest):
            present[slot[slot >= 0]] = 1
        return present

    def _keys(self, part: slice) -> Ints:
        """Keys of some events of the ring, -1 for those that do not count."""
        key: Ints = self.store[key_column(self.keys)][part]
        return key if self.where is None else np.where(self.store[f"mask {self.where.sql}"][part], key, -1)

    def _values(self, track: KeyedTrack, part: slice) -> Values:
        value, valid = self.store.column(track.need.input, self.where, part)
        key = self._keys(part)
        kept = valid & (key >= 0)
        if value.dtype == np.float64 and track.is_quantile:
            kept &= ~np.isnan(value)
        return Values(key[kept], element_codes(track.need, value[kept]), self.store.at[part][kept])

    def _track_of(self, need: Need) -> KeyedTrack:
        return _choose(self._tracks[need.input], promise_of(need, self.name))

    @property
    def forgotten_before(self) -> int:
        return max((track.forgotten_before for track in self._all()), default=LONG_AGO)

    def known_since(self, window: Window, need: Need) -> int:
        return self.store.began_at if need.input.argument is None else self._track_of(need).known_since

    def mark_keys(self, used: Bools) -> None:
        alive = np.flatnonzero(self._last_at >= self.kept_from - self.needs.reach("time"))
        used[alive] = True
        for track in self._all():
            track.mark_keys(used)

    def renumber_keys(self, new_id: Ints) -> None:
        known = np.flatnonzero(self._last_at[: len(new_id)] > LONG_AGO)
        known = known[new_id[known] >= 0]
        last_at = np.full(int(new_id[known].max(initial=-1)) + 1, LONG_AGO)
        last_at[new_id[known]] = self._last_at[known]
        self._last_at = last_at
        for track in self._all():
            track.renumber_keys(new_id)

    def nbytes(self) -> int:
        return self._last_at.nbytes + self._settled_bytes()

    def __str__(self) -> str:
        return "; ".join(_described(track, self.budget) for track in self._all())

    def snapshot(self) -> Arrays:
        arrays = super().snapshot() | {
            "fed": np.array([self._fed, self._fed_to], np.int64),
            "last_at": self._last_at.copy(),
        }
        for input, tracks in self._tracks.items():
            for number, track in enumerate(tracks):
                arrays |= {
                    f"keyed {input} #{number}/{part}": array for part, array in track.snapshot().items()
                }
        return arrays

    def restore(self, saved: Saved) -> None:
        super().restore(saved)
        held = self.store.dropped, self.store.dropped + len(self.store)
        self._fed, self._fed_to = saved.numbers("fed", held, INSTANTS)
        self._last_at = saved.times("last_at", order="any").copy()
        if bool((self._last_at[saved.width(self.keys) :] > LONG_AGO).any()):
            raise saved.damaged("last_at", "has keys that are not there")
        for input, tracks in self._tracks.items():
            need, promises = tracks[0].need, [track.asked for track in tracks]
            restored: list[KeyedTrack] = []
            while found := saved.under(f"keyed {input} #{len(restored)}/"):
                _, delta, asked = found.floats("promise", 3).tolist()
                promise = Promise(asked, None if np.isnan(delta) else delta)
                track = self._make_track(need, promise, LONG_AGO)
                track.restore(found, self.keys)
                restored.append(track)
            if not all(any(track.asked.covers(each) for track in restored) for each in promises):
                raise saved.damaged(f"keyed {input}", "is missing")
            self._tracks[input] = restored

    def check(self) -> None:
        # what is settled has been in the store, and what is not still is
        assert self.store.dropped <= self._fed <= self.store.dropped + len(self.store)
        for track in self._all():
            track.check()

    def _of(self, argument: Expression) -> list[KeyedTrack]:
        return [
            track for track in self._all() if track.need.input.argument == argument and not track.is_quantile
        ]


_STEPS = 8  # in so many the oldest values are forgotten for lack of room
_ANY = Window("time", 1)


def _choose(tracks: Sequence[KeyedTrack], promise: Promise) -> KeyedTrack:
    """The track that has known most of those that were made for a promise."""
    fine = [track for track in tracks if track.asked.covers(promise)]
    return min(fine, key=lambda track: (track.known_since, track.asked.eps))


def _described(track: KeyedTrack, budget: int) -> str:
    full = " (for lack of room)" if track.promise != track.asked else ""
    size = f"{track.entries():,} entries in {track.nbytes():,} bytes of {budget:,} at most"
    return (
        f"{track.need.input}: {describe(track.promise)}{full}, {len(track.heavy):,} keys in sketches, {size}"
    )
