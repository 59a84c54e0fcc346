"""Sketches of one input per key: few values of a key as they are, many as a sketch.

A key whose values take less room than a sketch is *light*: its settled values are kept with those of all other
light keys, in order of time, and its answers are exact. When it has more than a sketch keeps as they are, it gets
one: it is *heavy* from then on, until it is silent for longer than any window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregates.approximate import WEIGHT_BITS
from muntin.aggregates.component import SUMMARIES
from muntin.aggregates.contract import Array, Partial
from muntin.aggregates.holistic import as_written, pick_quantile, ranks_of
from muntin.arrays import LONG_AGO, Arrays, Bools, Ints
from muntin.expression import Expression
from muntin.kernels.light_quantiles import count_slots, group_values, select_ranks
from muntin.sketch.count_summary import CountSummary
from muntin.sketch.kinds import Promise, check_items, is_of_items, is_weighted, make_sketch, partials_of
from muntin.sketch.quantile_summary import QuantileSummary
from muntin.sketch.weighted_counts import WEIGHED, weighed
from muntin.store.codes import OrderCode
from muntin.store.columns import Columns
from muntin.store.needs import Need, dtype_of
from muntin.store.saved import INSTANTS, Saved

_INT = np.dtype(np.int64)


class Values(NamedTuple):
    """Values of keys, in order of time."""

    key: Ints
    value: Array
    at: Ints


class KeyedTrack:
    """`promise` may become coarser than what was asked for, if there is no room for that."""

    def __init__(self, need: Need, name: str, promise: Promise, known_since: int):
        self.need = need
        self.name = name
        self.asked = promise
        self.promise = promise
        self.known_since = known_since
        self.forgotten_before = LONG_AGO  # windows that begin before this instant have lost values
        self.is_quantile = not is_of_items(need)
        self.heavy: dict[int, Any] = {}
        self.room = 2**62  # bytes that there are for it
        self._shortened = 0  # how often sketches were told to keep fewer elements as they come
        dtype = dtype_of(need) if self.is_quantile else WEIGHED if is_weighted(need) else _INT
        self._light = Columns({"key": _INT, "value": dtype, "at": _INT})
        self._most = self._most_light()
        self._spare = 0  # so many values more no light key has too many of, whichever gets them

    def take(self, values: Values) -> None:
        """Take in settled values; O(1) amortised each, and more for those of heavy keys."""
        is_heavy = np.isin(values.key, np.fromiter(self.heavy, np.int64, len(self.heavy)))
        for key, part in _by_key(Values(*(each[is_heavy] for each in values))):
            self.heavy[key].extend(part.value, at=part.at)
        light = ~is_heavy
        self._light.extend({name: each[light] for name, each in values._asdict().items()})
        self._spare -= int(np.bincount(values.key[light]).max(initial=0))
        if self._spare < 0:
            self._promote()

    def forget(self, instant: int) -> None:
        """Windows will begin at this instant or later."""
        if instant <= self.forgotten_before:
            return
        self.forgotten_before = instant
        self._light.drop_first(int(np.searchsorted(self._light["at"], instant)))
        for key, sketch in list(self.heavy.items()):
            sketch.forget_before(instant)
            if sketch.needed_from >= sketch.end:
                del self.heavy[key]

    def coarsen(self) -> bool:
        """Make do with less room: at twice the error, or, where that is no error to promise, by keeping fewer elements
        as they come; False if there is none to gain."""
        if self.promise.eps <= 0.25:
            self.promise = self.promise._replace(eps=2 * self.promise.eps)
            for sketch in self.heavy.values():
                sketch.coarsen()
        elif self._make_sketch().shorten():
            self._shortened += 1
            for sketch in self.heavy.values():
                sketch.shorten()
        else:
            return False
        self._most = self._most_light()
        self._promote()
        return True

    def compact(self) -> None:
        """Have no room for more light values."""
        self._light = self._light.copy()

    def demote(self) -> None:
        """Keys of which no more is needed than a sketch has as it came are light again."""
        small = {key: newest for key, sketch in self.heavy.items() if (newest := sketch.newest()) is not None}
        some = {key: newest for key, newest in small.items() if len(newest[0]) <= self._most}
        if not some:
            return
        for each in some:
            del self.heavy[each]
        keys = np.repeat(np.fromiter(some, np.int64, len(some)), [len(value) for value, _ in some.values()])
        value, at = (np.concatenate(parts) for parts in zip(*some.values(), strict=True))
        more = {"key": keys, "value": value, "at": at}
        both = {name: np.concatenate([self._light[name], more[name]]) for name in Values._fields}
        order = np.argsort(both["at"], kind="stable")
        self._light.replace({name: array[order] for name, array in both.items()})
        self._spare = 0

    def oldest(self, until: int) -> int:
        """About since when it has values; `until` if it has none."""
        times = [int(sketch.time_of_last(sketch.end)) for sketch in self.heavy.values()]
        times += [int(self._light["at"][0])] if len(self._light) else []
        return min((each for each in times if each > LONG_AGO), default=until)

    def read(
        self, since: int, newest: Values, slot_of: Ints, width: int, wanted: list[Need]
    ) -> dict[Need, Partial]:
        """Partials of a window from `since` on for some keys: `slot_of[key]` is the slot of a key, or -1; `newest`
        are those of its values that are not settled."""
        light = self._since(since)
        if all(need.component == "approx_quantile" for need in wanted) and not self.heavy:
            return _selected([light, newest], slot_of, width, wanted)
        both = Values(*(np.concatenate(pair) for pair in zip(light, newest, strict=True)))
        slot = slot_of[both.key]
        asked = slot >= 0
        order = np.lexsort((_items(both.value)[asked], slot[asked]))
        value = both.value[asked][order]
        offset = np.searchsorted(slot[asked][order], np.arange(width + 1))
        heavy = [(int(slot_of[key]), key) for key in self.heavy if slot_of[key] >= 0]
        if not self.is_quantile:
            summaries = [_exact_counts(value[lo:hi]) for lo, hi in itertools.pairwise(offset)]
            for at, key in heavy:
                known = self.heavy[key].summary(since=since)
                summaries[at] = CountSummary.merge([known, summaries[at]])
            return partials_of(wanted, summaries)
        merged: dict[int, QuantileSummary] = {}  # of heavy keys, by slot
        for at, key in heavy:
            exact = _exact_quantiles(value[offset[at] : offset[at + 1]])
            merged[at] = QuantileSummary.merge([self.heavy[key].summary(since=since), exact])
        partials: dict[Need, Partial] = {}
        for need in wanted:
            if need.component in SUMMARIES:
                exact_too = [
                    merged[at] if at in merged else _exact_quantiles(value[lo:hi])
                    for at, (lo, hi) in enumerate(itertools.pairwise(offset))
                ]
                partials |= partials_of([need], exact_too)
                continue
            picked, count = pick_quantile(value, offset, need.parameters[0])
            error = np.zeros(width)
            for at, known in merged.items():
                found = partials_of([need], [known])[need]
                picked[at], count[at], error[at] = (each[0] for each in found)
            partials[need] = (picked, count, error)
        return partials

    def _since(self, instant: int) -> Values:
        first = int(np.searchsorted(self._light["at"], instant))
        return Values(*(self._light[name][first:] for name in Values._fields))

    def _promote(self) -> None:
        """Give a sketch to every key that has too many light values."""
        key = self._light["key"]
        count = np.bincount(key)
        self._spare = max(0, self._most - int(count.max(initial=0)))
        many = np.flatnonzero(count > self._most)
        if self.promise != self.asked:  # there is no room for all: for those that gain most
            many = many[np.argsort(-count[many], kind="stable")][: self._most_heavy() - len(self.heavy)]
        if not len(many):
            return
        goes = np.isin(key, many)
        for each, part in _by_key(Values(*(self._light[name][goes] for name in Values._fields))):
            self.heavy[each] = self._make_sketch()
            self.heavy[each].extend(part.value, at=part.at)
        self._light.retain(~goes)

    def _most_heavy(self) -> int:
        """So many keys can have a sketch: half of the room is left to those that have none."""
        sketch = self._make_sketch()
        return max(len(self.heavy), self.room // (2 * int(sketch.bytes_for(self._most))))

    def _most_light(self) -> int:
        """What a sketch would keep as it comes; for lack of room, as many as take no more room than a sketch."""
        sketch = self._make_sketch()
        most = int(sketch.unsettled)
        if self.promise != self.asked:
            value_bytes = sum(self._light[name].itemsize for name in Values._fields)
            while sketch.bytes_for(most) > most * value_bytes:
                most += most // 4 + 1
        return most

    def _make_sketch(self) -> Any:
        sketch = make_sketch(self.name, self.need, self.promise)
        for _ in range(self._shortened):
            sketch.shorten()
        return sketch

    # -- state -------------------------------------------------------------------------------------

    def entries(self) -> int:
        """Light values, and entries of sketches."""
        return len(self._light) + sum(int(sketch.entries()) for sketch in self.heavy.values())

    def nbytes(self) -> int:
        return self._light.nbytes() + sum(int(sketch.nbytes()) for sketch in self.heavy.values())

    def mark_keys(self, used: Bools) -> None:
        used[self._light["key"]] = True
        used[list(self.heavy)] = True

    def renumber_keys(self, new_id: Ints) -> None:
        self._light["key"][:] = new_id[self._light["key"]]
        self.heavy = {int(new_id[key]): sketch for key, sketch in self.heavy.items()}

    def mark_items(self, used: Bools) -> None:
        used[_items(self._light["value"])] = True
        for sketch in self.heavy.values():
            sketch.mark_items(used)

    def renumber_items(self, new_code: Ints) -> None:
        items = _items(self._light["value"])
        items[:] = new_code[items]
        for sketch in self.heavy.values():
            sketch.renumber_items(new_code)

    def snapshot(self) -> Arrays:
        delta = np.nan if self.promise.delta is None else self.promise.delta
        arrays: Arrays = {
            "promise": np.array([self.promise.eps, delta, self.asked.eps]),
            "shortened": np.array([self._shortened], np.int64),
            "track": np.array([self.known_since, self.forgotten_before], np.int64),
            "heavy": np.array(list(self.heavy), np.int64),
            **{f"light {name}": _items(self._light[name]).copy() for name in Values._fields},
        }
        if is_weighted(self.need):
            arrays["light weight"] = self._light["value"]["rank"].copy()
        for key, sketch in self.heavy.items():
            arrays |= {f"heavy {key}/{part}": array for part, array in sketch.snapshot().items()}
        return arrays

    def restore(self, saved: Saved, keys: tuple[Expression, ...]) -> None:
        """Go on from a snapshot of a track of the same need."""
        self.promise = self.promise._replace(eps=float(saved.floats("promise", 3)[0]))
        if "shortened" in saved:  # not in version 0.1.0
            (self._shortened,) = saved.numbers("shortened", (0, 64))
        self._most = self._most_light()
        self.known_since, self.forgotten_before = saved.numbers("track", INSTANTS, INSTANTS)
        key = saved.ids("light key", keys)
        is_code = not self.is_quantile and saved.is_text(self.need.input.argument)
        value = (
            saved.codes("light value", self.need.input.argument, len(key))
            if is_code
            else saved.array("light value", _items(self._light["value"]).dtype, len(key))
        )
        if is_weighted(self.need):
            value = weighed(value, saved.ints("light weight", (0, 2**WEIGHT_BITS - 1), len(key)))
        self._light.replace({"key": key, "value": value, "at": saved.times("light at", len(key))})
        heavy = saved.ids("heavy", keys).tolist()
        if len(set(heavy)) < len(heavy) or np.isin(key, heavy).any():
            raise saved.damaged("heavy", "has keys twice")
        for each in heavy:
            self.heavy[each] = self._make_sketch()
            self.heavy[each].restore(saved.under(f"heavy {each}/"))
            check_items(saved, self.need, self.heavy[each])

    def check(self) -> None:
        self._light.check()
        # no key is both light and heavy, and none is light that has too many values, but for lack of room
        assert not np.isin(self._light["key"], list(self.heavy)).any()
        few = not len(self._light) or int(np.bincount(self._light["key"]).max()) <= self._most
        assert few or self.promise != self.asked
        # light values are in order of time
        assert bool((np.diff(self._light["at"]) >= 0).all())
        for sketch in self.heavy.values():
            sketch.check()


def _by_key(values: Values) -> Iterator[tuple[int, Values]]:
    """The values of each key, in their order."""
    if not len(values.key):
        return
    order = np.argsort(values.key, kind="stable")
    key = values.key[order]
    edges = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)]
    for lo, hi in itertools.pairwise(edges):
        some = order[lo:hi]
        yield int(key[lo]), Values(key[lo:hi], values.value[some], values.at[some])


def _selected(
    parts: Sequence[Values], slot_of: Ints, width: int, wanted: Sequence[Need]
) -> dict[Need, Partial]:
    """Quantiles of values that are all there; O(values)."""
    count = np.zeros(width, np.int64)
    for key, _, _ in parts:
        count_slots(key, slot_of, count)
    offset = np.concatenate([[0], np.cumsum(count)])
    grouped, place = np.empty(offset[-1], parts[0].value.dtype), offset[:-1].copy()
    for key, value, _ in parts:
        group_values(key, value, slot_of, place, grouped)
    work = np.empty((2, int(count.max(initial=0))), grouped.dtype)
    partials: dict[Need, Partial] = {}
    for need in wanted:
        picked = np.zeros(width, grouped.dtype)
        select_ranks(grouped, offset, ranks_of(as_written(need.parameters[0]), count), work, picked)
        partials[need] = (picked, count, np.zeros(width))
    return partials


def _items(value: Array) -> Array:
    """Of values that may have weights, the items."""
    return value["value"] if value.dtype.names else value


def _exact_counts(value: Array) -> CountSummary:
    weight = value["rank"].copy() if value.dtype.names else np.ones(len(value), np.int64)
    unknown = np.zeros(len(value), np.int64)
    return CountSummary.of(_items(value).copy(), weight, unknown, int(weight.sum()), 0, 0)


def _exact_quantiles(value: Array) -> QuantileSummary:
    codes = OrderCode("max", value.dtype)
    plain = value[~np.isnan(value)] if value.dtype == np.float64 else value
    return QuantileSummary.of(codes, [codes.codes(plain)], np.ones(1, np.int64), 1, len(plain), 0, 0)
