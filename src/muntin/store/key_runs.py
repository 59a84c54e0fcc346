"""Key runs: the events of a ring once more, by key and then by time, so that one key's window is two searches.

    ring    at    1  2  3  4  5  6         runs   a: 1 4 6 . .      b: 2 3 .      c: 5 .
            key   a  b  b  a  c  a                (in one pool; a dot is room for more)

Runs are fed from the ring, in batches, when a look-up wants them: whoever only pushes pays nothing. Each event is
appended behind the others of its key. Events out of order make the ring change from some event on; the entries after
that time are taken back and fed again.

What can be merged has a tree of partials per run (`kernels/key_runs.py`), quantiles and different values have what
`by_value.py` keeps; each is made when it is first read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS, HOLISTIC, INEXACT
from muntin.aggregates.contract import Array, Partial
from muntin.arrays import FOREVER, LONG_AGO, Bools, Ints
from muntin.expression import Expression
from muntin.kernels.columns import find_run
from muntin.kernels.key_runs import (
    BLOCK,
    arrange_runs,
    extend_spans,
    find_places,
    group_by_key,
    locate_points,
    locate_spans,
    make_room,
    move_entries,
    read_runs,
    take_back,
    tally_keys,
)
from muntin.query import Input
from muntin.store.by_value import ByValue
from muntin.store.needs import EVERY_EVENT, Need, dtype_of
from muntin.store.ring import EventRing, key_column
from muntin.store.value_order import Pool

_SMALLEST = 1024  # entries of an empty pool
_MANY = 4  # times as many keys as events: fewer are not worth grouping
_TOO_LARGE = 8  # times the events of the ring, from which on the pool is made anew
_NO_IDS = np.zeros(0, np.int64)


class _Tree(NamedTuple):
    """The nodes of one component, of all runs."""

    row: int  # of `built`
    nodes: Partial


class Spans(NamedTuple):
    """Entries `lo .. hi - 1` of the run of a key, for each slot."""

    keys: Ints
    lo: Ints
    hi: Ints


class KeyRuns:
    """The events of a ring that pass `where`, by key."""

    def __init__(self, ring: EventRing, where: Expression | None, keys: tuple[Expression, ...]):
        self._ring, self._where, self._key = ring, where, key_column(keys)
        self._needs: set[Need] = set()
        self._inputs: set[Input] = set()
        self.by_value = ByValue(self._pool)
        self.begin_again()

    # -- what is kept ------------------------------------------------------------------------------

    def begin_again(self, left: Ints = _NO_IDS) -> None:
        """Forget all entries; `left` events of each key have left already."""
        self._start = np.zeros(len(left), np.int64)
        self._room = np.zeros(len(left), np.int64)
        self._count = np.zeros(len(left), np.int64)
        self._left = left.copy()
        self._came = np.zeros(len(left), np.int64)
        self._end = 0  # of the pool in use
        self._fed = self._ring.dropped  # number of the first event of the ring that is not here
        self._wrong_after = FOREVER  # entries later than this have to be taken back
        self._partial: set[Input] = set()  # inputs of which an entry is not valid, or has been
        self.by_value.begin_again()
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        """A pool of that capacity, without entries; trees are to be made anew."""
        self.capacity = capacity
        self._at = np.empty(capacity, np.int64)
        self._value = {
            each.argument: np.empty(capacity, self._ring[f"value {each.argument.sql}"].dtype)
            for each in self._inputs
            if each.argument is not None
        }
        self._valid = {each: np.empty(capacity, np.bool_) for each in self._inputs}
        self.by_value.allocate(capacity)
        self._forget_trees()

    def _forget_trees(self) -> None:
        self._trees: dict[Need, _Tree] = {}
        self._built = np.zeros((sum(map(_has_tree, self._needs)), len(self._start)), np.int64)

    def fit(self, needs: Collection[Need], left: Ints = _NO_IDS) -> None:
        """Have what these needs read. If that is more than before, all entries are forgotten, and fed again when they
        are wanted; `left` as for `begin_again`."""
        if needs == self._needs:
            return
        inputs = {need.input for need in needs if need != EVERY_EVENT}
        is_more = not inputs <= self._inputs
        self._needs, self._inputs = set(needs), inputs
        if is_more:
            self.begin_again(left)
            return
        arguments = {each.argument for each in inputs}
        self._value = {each: values for each, values in self._value.items() if each in arguments}
        self._valid = {each: valid for each, valid in self._valid.items() if each in inputs}
        self.by_value.fit(needs)
        self._forget_trees()

    @property
    def behind(self) -> int:
        """How many events of the ring have to be fed before anything can be read."""
        return self._ring.dropped + len(self._ring) - max(self._fed, self._ring.dropped)

    def follow(self) -> None:
        """The ring has changed from `changed_from` on; O(1)."""
        ring = self._ring
        if ring.changed_from < self._fed:
            self._wrong_after = min(self._wrong_after, int(ring.at[ring.changed_from - ring.dropped]))
            self._fed = ring.changed_from

    def catch_up(self, floor: int, spare: int = 0) -> None:
        """Feed what is in the ring and not here; O(1) amortised per event. Of each key, the `spare` latest events
        before the instant `floor` may be asked for, and all after it."""
        ring = self._ring
        if not self.behind:
            return
        if self._wrong_after < FOREVER and self._fed < ring.dropped:
            self.begin_again()  # whose entries were wrong, only events that are gone could tell
        begin = max(self._fed, ring.dropped) - ring.dropped
        key: Ints = ring[self._key][begin:]
        if self._wrong_after < FOREVER:
            self._take_back(key[(key >= 0) & (key < len(self._start))])
        self._fed = ring.dropped + len(ring)
        kept = key >= 0
        if self._where is not None:
            kept = kept & ring[f"mask {self._where.sql}"][begin:]
        if kept.all():
            part: slice | Ints = slice(begin, begin + len(key))
        else:
            key, part = key[kept], begin + np.flatnonzero(kept)
        if len(key):
            self._append(key, part, floor, spare)

    def _take_back(self, key: Ints) -> None:
        """Take back the entries of some keys that are wrong; O(keys, and these entries)."""
        keys = np.flatnonzero(np.bincount(key))
        self.by_value.unlink(keys, self._wrong_after)
        take_back(keys, self._wrong_after, self._at, self._start, self._count, self._built)
        self.by_value.take_back(keys, self._left, self._count)
        self._wrong_after = FOREVER

    def _append(self, key: Ints, part: slice | Ints, floor: int, spare: int) -> None:
        self._know_keys(int(key.max()) + 1)
        tally_keys(key, self._came)
        if _MANY * len(key) > len(self._start):  # the entries of a key are written one after the other
            order = np.empty(len(key), np.int64)
            group_by_key(key, np.cumsum(self._came) - self._came, order)
            key, part = key[order], part.start + order if isinstance(part, slice) else part[order]
        moved = np.empty((3, min(len(key), len(self._start))), np.int64)
        headers = (self._start, self._room, self._count, self._left, self._built)
        moves, self._end, has_room = make_room(
            key, self._came, *headers, self._at, self._end, self.capacity, floor, spare, *moved
        )
        for column in self._columns():
            move_entries(column, column, *moved[:, :moves])
        if not has_room:
            self._arrange(floor, spare)
        place = np.empty(len(key), np.int64)
        find_places(key, self._came, self._start, self._count, place)
        self._at[place] = self._ring.at[part]
        for argument, values in self._value.items():
            values[place] = self._ring[f"value {argument.sql}"][part]
        for input, valid in self._valid.items():
            given = self._ring.valid(input, None, part)
            valid[place] = given
            if not given.all():
                self._partial.add(input)
        self.by_value.append(key, place)

    def _arrange(self, floor: int, spare: int) -> None:
        """Make the pool anew, with room for the events that come."""
        moved = np.empty((3, len(self._start)), np.int64)
        headers = (self._start, self._room, self._count, self._left, self._built)
        self._end = arrange_runs(self._came, *headers, self._at, floor, spare, *moved)
        before = list(self._columns())
        self._allocate(max(_SMALLEST, self._end + self._end // 2))
        for old, new in zip(before, self._columns(), strict=True):
            move_entries(old, new, *moved)
        self.by_value.arrange(self.capacity, self._start, self._left)

    def _columns(self) -> Iterable[Array]:
        return self._at, *self._value.values(), *self._valid.values(), *self.by_value.columns()

    def _know_keys(self, width: int) -> None:
        """Have runs, perhaps empty ones, for the ids below `width`; O(1) amortised."""
        known = len(self._start)
        if width > known:
            more = max(width, known + known // 2) - known
            self._start, self._room, self._count, self._left, self._came = (
                np.concatenate([each, np.zeros(more, np.int64)])
                for each in (self._start, self._room, self._count, self._left, self._came)
            )
            self._built = np.concatenate([self._built, np.zeros((len(self._built), more), np.int64)], axis=1)

    def shed(self, left: Ints = _NO_IDS) -> None:
        """The ring has forgotten events: if they were most of all, the pool goes, too. O(1)."""
        if self.capacity > max(_SMALLEST, _TOO_LARGE * len(self._ring)):
            self.begin_again(left)

    def renumber(self, new_id: Ints) -> None:
        """Key ids are different from now on, in the ring too; -1 of those that nobody needs. O(keys)."""
        known = min(len(new_id), len(self._start))
        old = np.flatnonzero(new_id[:known] >= 0)
        width, new = int(new_id.max(initial=-1)) + 1, new_id[old]
        for name in ("_start", "_room", "_count", "_left"):
            moved = np.zeros(width, np.int64)
            moved[new] = getattr(self, name)[old]
            setattr(self, name, moved)
        built = np.zeros((len(self._built), width), np.int64)
        built[:, new] = self._built[:, old]
        self._built, self._came = built, np.zeros(width, np.int64)
        self.by_value.begin_again()

    # -- what is read ------------------------------------------------------------------------------

    def seen(self, ids: Ints) -> tuple[Ints, Ints]:
        """How many events of each key have left, and how many are here."""
        self._know_keys(int(ids.max(initial=-1)) + 1)
        return self._left[ids], self._count[ids]

    def locate(self, ids: Ints, begins: Ints, ends: Ints) -> Spans:
        """The entries of keys in each [begin, end) of time, key by key within each; O(log entries) a slot."""
        self._know_keys(int(ids.max(initial=-1)) + 1)
        lo, hi = np.empty((2, len(begins) * len(ids)), np.int64)
        edges = (begins, np.argsort(begins, kind="stable"), ends, np.argsort(ends, kind="stable"))
        locate_spans(ids, *edges, self._start, self._count, self._at, lo, hi)
        return Spans(ids if len(begins) == 1 else np.tile(ids, len(begins)), lo, hi)

    def locate_points(self, ids: Ints, begins: Ints, ends: Ints) -> Spans:
        """The entries of one key in one [begin, end) of time, for each of both; O(log entries) a slot."""
        self._know_keys(int(ids.max(initial=-1)) + 1)
        lo, hi = np.empty((2, len(ids)), np.int64)
        locate_points(ids, begins, ends, self._start, self._count, self._at, lo, hi)
        return Spans(ids, lo, hi)

    def extend(self, spans: Spans, begins: Ints) -> Spans:
        """Spans that end where others do and begin earlier; O(log entries) a slot."""
        lo = np.empty(len(begins), np.int64)
        extend_spans(spans.keys, begins, self._start, self._at, spans.lo, lo)
        return spans._replace(lo=lo)

    def times(self, keys: Ints, entries: Ints) -> Ints:
        """When the given entries of keys happened."""
        found: Ints = self._at[self._start[keys] + entries]
        return found

    def read(self, need: Need, spans: Spans) -> Partial:
        """Partials of a component that can be merged; O(log entries) a slot, of inexact ones O(entries)."""
        into = COMPONENTS[need.component].start(dtype_of(need), len(spans.keys))
        self.read_into(need, spans, into)
        return into

    def read_into(self, need: Need, spans: Spans, into: Partial) -> None:
        """The same into partials of nothing."""
        if self.counts_entries(need):
            np.subtract(spans.hi, spans.lo, out=into[0])
        else:
            read_runs(COMPONENTS[need.component].kind(dtype_of(need)))(*spans, *self.entries_of(need), *into)

    def _pool(self, input: Input) -> Pool:
        headers = (self._start, self._count, self._left)
        return Pool(*headers, self._at, self._values_of(input), self._valid[input])

    def counts_entries(self, need: Need) -> bool:
        """Whether a need is nothing but the number of entries."""
        return need.component == "count" and (need == EVERY_EVENT or need.input not in self._partial)

    def entries_of(self, need: Need) -> tuple[Array, ...]:
        """Where the entries of all keys are, what they hold, and the nodes over them, as kernels take them."""
        tree = self._trees.get(need) or self._plant(need)
        headers = (self._start, self._count, self._built[tree.row])
        return *headers, self._at, self._values_of(need.input), self._valid[need.input], *tree.nodes

    def find(self, id: int, begin: int, end: int) -> tuple[int, int]:
        """The entries of one key in [begin, end) of time; O(log entries)."""
        if id >= len(self._start):
            return 0, 0
        first = int(self._start[id])
        lo, hi = find_run(self._at, first, first + int(self._count[id]), begin, end)
        return lo - first, hi - first

    def counts(self, id: int, end: int) -> tuple[int, int]:
        """How many events of a key have left, and how many entries lie before `end`; O(1) if all do."""
        if id >= len(self._start) or not (count := int(self._count[id])):
            return (int(self._left[id]) if id < len(self._left) else 0), 0
        is_all = self._at[self._start[id] + count - 1] < end
        return int(self._left[id]), count if is_all else self.find(id, LONG_AGO, end)[1]

    def gather(self, input: Input, spans: Spans) -> tuple[Ints, Ints, Ints, Array, Bools]:
        """The entries of all slots end to end: where each slot begins and ends, times, values, and which are valid."""
        many = spans.hi - spans.lo
        hi = np.cumsum(many)
        index = np.arange(many.sum()) + np.repeat(self._start[spans.keys] + spans.lo - hi + many, many)
        return hi - many, hi, self._at[index], self._values_of(input)[index], self._valid[input][index]

    def _values_of(self, input: Input) -> Array:
        return self._at if input.argument is None else self._value[input.argument]

    def _plant(self, need: Need) -> _Tree:
        component, dtype = COMPONENTS[need.component], dtype_of(need)
        # what is inexact must not depend on how a run is split: it has no nodes, and is folded as by a scan
        many = 0 if need.component in INEXACT else 2 * (self.capacity // BLOCK)
        tree = self._trees[need] = _Tree(len(self._trees), component.start(dtype, many + 1))
        return tree

    def nbytes(self) -> int:
        headers = (self._start, self._room, self._count, self._left, self._came, self._built)
        nodes = (array for tree in self._trees.values() for array in tree.nodes)
        arrays = (*headers, self._at, *self._value.values(), *self._valid.values(), *nodes)
        return sum(each.nbytes for each in arrays) + self.by_value.nbytes()

    def check(self) -> None:
        """Assert that the runs have the events of the ring that were fed, and that nodes are those of the entries."""
        self._check_pool()
        self._check_trees()
        self.by_value.check()
        if self._wrong_after == FOREVER:
            self._check_entries()

    def _check_pool(self) -> None:
        used = np.flatnonzero(self._room)
        start, room, count = self._start[used], self._room[used], self._count[used]
        # runs lie one beside the other in the pool, with their entries inside
        order = np.argsort(start)
        assert bool(np.all((start + room)[order][:-1] <= start[order][1:]))
        assert not len(used) or int((start + room).max()) <= self._end <= self.capacity
        assert bool(np.all(count <= room))
        assert not self._count[self._room == 0].any()
        assert bool(np.all(start[room >= BLOCK] % BLOCK == 0))
        assert bool(np.all(self._built % BLOCK == 0))
        assert bool(np.all(self._built <= self._count))
        assert not self._came.any()

    def _check_trees(self) -> None:
        keys = np.arange(len(self._start))
        whole = Spans(keys, np.zeros(len(keys), np.int64), self._count)
        for need in self._trees:
            component, dtype = COMPONENTS[need.component], dtype_of(need)
            by_entries = component.start(dtype, len(keys))
            lo, hi, at, value, valid = self.gather(need.input, whole)
            component.fold_runs(lo, hi, at, value, valid, by_entries)
            by_nodes = self.read(need, whole)
            # what roundings have lost depends on the order of adding
            assert np.allclose(by_nodes[0], by_entries[0], equal_nan=True)

    def _check_entries(self) -> None:
        """The youngest entries are those of the ring: whichever of the two has more has not let go of it yet."""
        used, ring = np.flatnonzero(self._room), self._ring
        fed = slice(0, max(0, self._fed - ring.dropped))
        key, at = ring[self._key][fed], ring.at[fed]
        passes = key >= 0
        if self._where is not None:
            passes = passes & ring[f"mask {self._where.sql}"][fed]
        for k, begin, entries in zip(
            used.tolist(), self._start[used].tolist(), self._count[used].tolist(), strict=True
        ):
            mine = np.flatnonzero(passes & (key == k))
            kept = min(len(mine), entries)
            place = slice(begin + entries - kept, begin + entries)
            mine = mine[len(mine) - kept :]
            assert np.array_equal(self._at[place], at[mine])
            assert bool(np.all(np.diff(self._at[begin : begin + entries]) >= 0))
            for argument, values in self._value.items():
                assert values[place].tobytes() == ring[f"value {argument.sql}"][mine].tobytes()
            for input, valid in self._valid.items():
                assert np.array_equal(valid[place], ring.column(input, None, mine)[1])


def _has_tree(need: Need) -> bool:
    """Whether a component merges; a count of all events is known without."""
    return need != EVERY_EVENT and need.component not in HOLISTIC
