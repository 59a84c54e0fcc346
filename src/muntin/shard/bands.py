"""Bands at work: lanes with a banded attribute, whose axis is cut where the ranges that queries ask for begin and end.

    ranges   x > 20, x > 50, x BETWEEN 30 AND 40

    cuts          21          30             41        51
    bands    ----- | 21 .. 29 | 30 .. 40     | 41 .. 50 | 51 ..

Nobody asks for what lies below 21: it is dropped. A new cut splits a band from now on. What was kept of it stays one,
and is read by queries whose range has all of it; the new query knows nothing of what came before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.band import GREATEST
from muntin.errors import CheckpointError
from muntin.fixed_point import numbers_of
from muntin.kernels.bands import find_bands
from muntin.keys.key_dictionary import KeyDictionary
from muntin.keys.table_room import read_only
from muntin.lane import Asked, Lane, columns_of_lanes
from muntin.passing import Range, domain_of
from muntin.plan.explain import LanesSeen
from muntin.shard.lanes import Lanes, PointLanes
from muntin.store.saved import Saved
from muntin.store.words import ALL_VALID

_NOBODY: Ints = np.zeros(0, np.int64)
_BUCKET_BITS = 12  # 4,096 buckets, or half of them: as many as stay in the fastest cache
_NEVER = GREATEST  # since when a band is kept that nobody asks for
_Points = tuple[Any, ...]  # a lane without its range


class Cuts:
    """Those of one lane: band i is from `cut[i]` to just before `cut[i + 1]`, or to the greatest value."""

    def __init__(self, greatest: int):
        self._greatest = greatest
        self.ranges: set[Range] = set()
        self.cut: Ints = _NOBODY
        self.cut_since: Ints = _NOBODY  # the instant from which on there has been such a cut
        self.since: Ints = _NOBODY  # the instant from which on the events of the band have been kept

    @property
    def high(self) -> Ints:
        """The last value of each band."""
        return np.append(self.cut[1:] - 1, self._greatest)[: len(self.cut)]

    @property
    def is_asked(self) -> Bools:
        """Which bands some query asks for."""
        asked: Bools = self.since != _NEVER
        return asked

    def fit(self, now: int) -> None:
        """Have the cuts of the ranges as they are now."""
        old, old_cut_since, old_since = self.cut, self.cut_since, self.since
        self.cut, self.since = self._wanted()
        there = old.searchsorted(self.cut)
        is_old = np.append(old, 0)[there] == self.cut
        is_old &= there < len(old)
        self.cut_since = np.where(is_old, np.append(old_cut_since, 0)[there], now)
        # a band is known since all that it was part of, or is made of, is known
        begin, end = old.searchsorted(self.cut, "right") - 1, old.searchsorted(self.high, "right")
        latest = np.full(len(self.cut), _NEVER)
        known = begin >= 0
        if known.any():
            runs = np.stack([begin[known], end[known]], axis=1).ravel()
            latest[known] = np.maximum.reduceat(np.append(old_since, _NEVER), runs)[::2]
        self.since = np.where(self.is_asked, np.where(latest == _NEVER, now, latest), _NEVER)

    def _wanted(self) -> tuple[Ints, Ints]:
        """The cuts of the ranges, and 0 for each band that is in one of them."""
        low, high = np.array(sorted(self.ranges), np.int64).T
        end = high[high < self._greatest] + 1
        cut = np.unique(np.concatenate([low, end]))
        deep = np.zeros(len(cut), np.int64)  # in how many ranges each band lies
        np.add.at(deep, cut.searchsorted(low), 1)
        np.add.at(deep, cut.searchsorted(end), -1)
        return cut, np.where(np.cumsum(deep) > 0, 0, _NEVER)

    def known_from(self, range: Range) -> int:
        """The instant from which on all events of a range that queries ask for have been kept, apart from others."""
        begin, end = self.cut.searchsorted(range[0]), self.cut.searchsorted(range[1], "right")
        return int(max(self.since[begin:end].max(), self.cut_since[begin], *self.cut_since[end : end + 1]))

    def check(self, ranges: set[Range]) -> None:
        assert self.ranges == ranges
        cut, asked = self._wanted()
        # there is a cut at each end of a range, and no other; what is in a range is kept
        assert np.array_equal(cut, self.cut)
        assert np.array_equal(asked == 0, self.is_asked)
        assert len(self.cut) == len(self.cut_since) == len(self.since)


class BandedLanes(Lanes):
    """Lanes with a banded attribute; the lane of an event, by its number, is that of its values and its band."""

    def __init__(self, asked: Asked):
        assert asked.banded is not None
        self._kind = asked.banded.type
        self._greatest = domain_of(self._kind)[1]
        # without attributes there is one lane, and no values to find it by
        self._ids = KeyDictionary([each.type for each in asked.attributes]) if asked.attributes else None
        self._points: list[_Points] = []  # by id
        self._cuts: dict[_Points, Cuts] = {}
        self._number: dict[tuple[_Points, int, int], int] = {}  # of each band that is asked for
        self._low = self._high = _NOBODY  # by number
        # see `find_bands`
        self._first, self._cut, self._number_of = np.zeros(1, np.int64), _NOBODY, _NOBODY
        self._shift, self._start = np.uint64(0), _NOBODY
        self._is_laid_out = True
        super().__init__(asked)

    def fit(self, changed: Collection[Lane], wanted: Mapping[Lane, int], now: int | None) -> None:
        self._known_since = {}
        self.version += 1
        self._is_laid_out = False
        touched: dict[_Points, None] = {}
        for *some, range in changed:
            points = tuple(some)
            touched[points] = None
            if points not in self._cuts:
                self._cuts[points] = Cuts(self._greatest)
            ranges = self._cuts[points].ranges
            (ranges.add if (*points, range) in wanted else ranges.discard)(range)
        for points in touched:
            if self._cuts[points].ranges:
                self._cuts[points].fit(LONG_AGO if now is None else now)
            else:
                del self._cuts[points]
        if self._cuts.keys() != set(self._points):
            self._fit_points()

    def _fit_points(self) -> None:
        kept = np.array([points in self._cuts for points in self._points], np.bool_)
        there = set(self._points)
        came = [points for points in self._cuts if points not in there]
        self._points = [points for points in self._points if points in self._cuts] + came
        if self._ids is not None:
            if not kept.all():
                self._ids.retain(kept)
            if came:
                self._ids.encode(columns_of_lanes(self.asked, came))

    def _lay_out(self) -> None:
        """Have the cuts of all lanes side by side; O(cuts)."""
        if self._is_laid_out:
            return
        self._is_laid_out = True
        before = self._number
        all_cuts = [self._cuts[points] for points in self._points]
        self._first = np.append(0, np.cumsum([len(each.cut) for each in all_cuts]))
        self._cut = np.concatenate([each.cut for each in all_cuts])
        high, asked = (
            np.concatenate([getattr(each, name) for each in all_cuts]) for name in ("high", "is_asked")
        )
        self._number_of = np.where(asked, np.cumsum(asked) - 1, -1)
        if self._ids is None:
            self._shift, self._start = _buckets(self._cut)
        self._low, self._high = self._cut[asked], high[asked]
        ends = zip(self._low.tolist(), self._high.tolist(), strict=True)
        lane = np.repeat(np.arange(len(all_cuts)), np.diff(self._first))[asked].tolist()
        self._number = {
            (self._points[number], *each): place
            for place, (number, each) in enumerate(zip(lane, ends, strict=True))
        }
        self._renumber_pairs(before)

    def _renumber_pairs(self, before: Mapping[tuple[_Points, int, int], int]) -> None:
        """Pairs of bands that are still there need not be looked up again."""
        new_number = np.array([self._number.get(each, -1) for each in before], np.int64)
        self._pairs = self._pairs.renumbered(new_number, self._room)

    @property
    def _room(self) -> int:
        return max(1, len(self._number))

    def find(self, indexed: Sequence[pa.Array]) -> Ints:
        bits, valid = _bits(indexed[-1])
        return self._find(indexed[:-1], bits, valid, pa.types.is_floating(self._kind))

    def find_folded(self, columns: Sequence[pa.Array]) -> Ints:
        lowest, highest = (
            self._find(columns[:-2], np.asarray(each), ALL_VALID, are_floats=False) for each in columns[-2:]
        )
        if (lowest != highest).any():
            raise CheckpointError(
                f"events were folded by bands of {self.asked.banded} that a query here cuts"
            )
        return lowest

    def _find(self, points: Sequence[pa.Array], bits: Ints, valid: Bools, are_floats: bool) -> Ints:
        self._lay_out()
        lane = _NOBODY if self._ids is None else self._ids.find(points)
        found = np.empty(len(bits), np.int64)
        laid_out = (self._first, self._cut, self._shift, self._start, self._number_of)
        find_bands(read_only(bits), are_floats, read_only(valid), lane, *laid_out, found)
        return found

    def _ends(self, lane: Ints) -> list[pa.Array]:
        return [pa.array(self._low[lane]), pa.array(self._high[lane])]

    def seen(self) -> LanesSeen:
        ranges = sum(len(each.ranges) for each in self._cuts.values())
        cuts = sum(len(each.cut) for each in self._cuts.values())
        return LanesSeen(len(self._cuts), self._passed, self._events, ranges, cuts)

    def known_from(self, lanes: Sequence[Lane]) -> Ints:
        return np.array([self._cuts[tuple(points)].known_from(range) for *points, range in lanes])

    def snapshot(self) -> dict[str, Any]:
        self._lay_out()
        columns = [] if self._ids is None else self._ids.snapshot()
        arrays = {
            name: np.concatenate([getattr(self._cuts[points], name) for points in self._points])
            for name in ("cut", "cut_since", "since")
        }
        return {**{str(number): values for number, values in enumerate(columns)}, **arrays}

    def restore(self, saved: Saved) -> None:
        if self._ids is not None:
            wanted = columns_of_lanes(self.asked, self._points)
            self._ids.restore(saved)
            ids = self._ids.find(wanted)
            if len(self._ids) != len(self._points) or (ids < 0).any():
                raise saved.damaged("0", "has other values than the queries ask for")
            self._points = [self._points[place] for place in np.argsort(ids).tolist()]
        self.forget_pairs()
        self._known_since = {}
        self.version += 1
        self._is_laid_out = False
        self._lay_out()
        many = len(self._cut)
        if not np.array_equal(saved.ints("cut", (-GREATEST - 1, GREATEST), many), self._cut):
            raise saved.damaged("cut", "has other cuts than the queries ask for")
        cut_since, since = (
            saved.times("cut_since", many, "any"),
            saved.ints("since", (LONG_AGO, _NEVER), many),
        )
        if not np.array_equal(since != _NEVER, self._number_of >= 0):
            raise saved.damaged("since", "has other bands than the queries ask for")
        for points, begin, end in zip(self._points, self._first[:-1], self._first[1:], strict=True):
            self._cuts[points].cut_since = cut_since[begin:end].copy()
            self._cuts[points].since = since[begin:end].copy()

    def nbytes(self) -> int:
        arrays = (self._low, self._high, self._first, self._cut, self._number_of)
        ids = 0 if self._ids is None else self._ids.nbytes()
        return ids + self._pairs.nbytes() + sum(each.nbytes for each in arrays)

    def check(self, wanted: Mapping[Lane, int]) -> None:
        ranges: dict[_Points, set[Range]] = {}
        for *some, range in wanted:
            ranges.setdefault(tuple(some), set()).add(range)
        # there is a lane for the values that queries ask for, and no other
        assert set(self._points) == self._cuts.keys() == ranges.keys()
        assert len(self._points) == len(ranges)
        if self._ids is not None:
            self._ids.check()
            found = self._ids.find(columns_of_lanes(self.asked, self._points))
            assert np.array_equal(found, np.arange(len(self._points)))
        for points, cuts in self._cuts.items():
            cuts.check(ranges[points])


def _buckets(cut: Ints) -> tuple[np.uint64, Ints]:
    """What spares most of the search among the cuts of one lane: see `find_bands`."""
    first, span = int(cut[0]), int(cut[-1]) - int(cut[0])
    shift = max(0, span.bit_length() - _BUCKET_BITS)
    begin = [min(first + (bucket << shift), GREATEST) for bucket in range((span >> shift) + 2)]
    return np.uint64(shift), cut.searchsorted(np.array(begin), "right") - 1


def _bits(values: pa.Array) -> tuple[Ints, Bools]:
    """Values as the kernel takes them: integers, or floats as they lie in memory; and which of them are not NULL."""
    kind = values.type
    valid = np.asarray(values.is_valid()) if values.null_count else ALL_VALID
    values = numbers_of(values)
    numbers = np.asarray(values.fill_null(0) if values.null_count else values)
    if pa.types.is_floating(kind):
        return numbers.astype(np.float64, copy=False).view(np.int64), valid
    return numbers.astype(np.int64, copy=False), valid


def fit_lanes(
    lanes: dict[Asked, Lanes],
    changed: Mapping[Asked, Collection[Lane]],
    wanted: Mapping[Asked, Mapping[Lane, int]],
    now: int | None,
) -> None:
    """Bring the lanes of all stores in line with what queries read; O(what changed)."""
    for asked, some in changed.items():
        if asked not in wanted:
            lanes.pop(asked, None)
            continue
        if asked not in lanes:
            lanes[asked] = PointLanes(asked) if asked.banded is None else BandedLanes(asked)
        lanes[asked].fit(some, wanted[asked], now)
