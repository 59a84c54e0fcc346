"""The session store: the events of each key in cells that silences keep apart, for sessions of any gap.

A session of a long gap is a run of sessions of a shorter one, so one store of cells serves all gaps, aggregates and
HAVINGs over the same keys and filter. What comes is a cell for each event. Once no look-up can stand before it, it is
put together with what came before, unless a silence as long as the shortest gap lies between:

    gaps 5s and 20s       1  3  4 . . . . . . . 14 15 . . . . . . . . . . . . . . . . 40
    cells                 [1   4]               [14 15]                              [40]
    sessions of 5s        1 to 9                14 to 20                             40 to 45
    sessions of 20s       1 to 35                                                    40 to 60

Cells lie in order of key and start; behind these, as they came, the single events that are too young. A cell also
knows the longest silence in it, `inner`: for a shorter gap, which came later, it is too coarse.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Many
from typing import NamedTuple, NoReturn

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import FOREVER, LONG_AGO, Arrays, Bools, Ints, order_of
from muntin.expression import Expression
from muntin.kernels.sessions import settle_cells
from muntin.store.batch import Batch
from muntin.store.cells import column_of, mark_codes, renumber_codes, saved_cells
from muntin.store.columns import Columns
from muntin.store.needs import Need, dtype_of
from muntin.store.saved import COUNTS, INSTANTS, Saved
from muntin.store.sequence import Reader, Sequence, Wanted
from muntin.window import Window

_INT = np.dtype(np.int64)
_BOUNDS = ("key", "start", "last", "inner")


class CellsInOrder(NamedTuple):
    """Cells by key and start, and where in the store they are."""

    key: Ints
    start: Ints
    last: Ints
    inner: Ints
    place: Ints


class SessionStore(Sequence):
    """Cells of one filtered stream and one set of keys."""

    def __init__(self, where: Expression | None, keys: tuple[Expression, ...]):
        self.where = where
        self.keys = keys
        self.gaps: Ints = np.zeros(0, np.int64)  # ascending
        self.sharp_from = LONG_AGO  # look-ups stand here or later: no cell has events on both sides
        self._cells = Columns(dict.fromkeys(_BOUNDS, _INT))
        self._sorted = 0  # so many cells, the first, are in order
        self._dropped = 0
        self._last_dropped = LONG_AGO  # the latest event that has been dropped
        self._known_gap: dict[int, int] = {}  # by gap: before this instant, something may have been dropped
        self._names: dict[Need, tuple[str, ...]] = {}  # columns of each component in the cells
        self._known_from: dict[Need, int] = {}
        self._settle_at = LONG_AGO  # half of the sessions will have closed by then
        self._began = False
        self._in_order: CellsInOrder | None = None

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def dropped(self) -> int:
        return self._dropped

    def elements_in(self, span: int) -> float:
        return float(len(self))

    # -- what is kept ------------------------------------------------------------------------------

    def serve(self, wanted: Wanted, changed: Mapping[Need, bool], now: int | None) -> None:
        """O(cells) for each component that is new."""
        if not self._began:
            self._began = True
            self.began_at = LONG_AGO if now is None else now
        gaps = sorted(wanted.gaps)
        # what was dropped was no part of a session of any gap there was; of one that is longer it may have been
        known = dict(self._known_gap)
        for gap in reversed(gaps):
            longer = (known[each] for each in sorted(known) if each >= gap)
            self._known_gap[gap] = known[gap] = next(longer, self._known_from_drops)
        self._known_gap = {gap: self._known_gap[gap] for gap in gaps}
        self.gaps = np.array(gaps, np.int64)
        for need in sorted(changed, key=str):
            if changed[need] and need not in self._names:
                identity = COMPONENTS[need.component].identity(dtype_of(need))
                self._names[need] = tuple(f"{i} {need}" for i in range(len(identity)))
                for name, (dtype, value) in zip(self._names[need], identity, strict=True):
                    self._cells.add(name, dtype, value)
                self._known_from[need] = LONG_AGO if now is None else now
            elif not changed[need] and need in self._names:
                for name in self._names.pop(need):
                    self._cells.remove(name)
                del self._known_from[need]

    @property
    def _known_from_drops(self) -> int:
        return LONG_AGO if self._last_dropped == LONG_AGO else self._last_dropped + 1

    def known_since(
        self, window: Window, need: Need, where: Expression | None, keys: tuple[Expression, ...]
    ) -> int:
        """A session is known from its start if nothing can be missing that came less than a gap before."""
        known = max(self.began_at, self._known_from[need], self._known_gap.get(window.size, LONG_AGO))
        return known if known == LONG_AGO else known + window.size - 1

    def insert(self, batch: Batch) -> None:
        """A cell for each event; O(events) per component."""
        batch = self.placeable(batch.passing(self.where))
        self.changed_from = self._dropped + len(self)
        if not len(batch):
            return
        fresh: Arrays = {
            "key": batch.key(self.keys), "start": batch.at, "last": batch.at, "inner": np.zeros(len(batch), np.int64)
        }  # fmt: skip
        for need, names in self._names.items():
            value, valid = column_of(batch, need.input)
            fresh |= zip(names, COMPONENTS[need.component].lift(value, valid, batch.at), strict=True)
        self._cells.extend(fresh)
        self._in_order = None

    def can_place(self, instant: int) -> bool:
        return instant >= self.forgotten_before

    # -- what is forgotten -------------------------------------------------------------------------

    def release(self, readers: Many[Reader], settled: int) -> None:
        """O(1) amortised per event: a pass over all cells waits until a quarter of them is new, or half can go."""
        kept = min(each.kept_from for each in readers)
        is_grown = 4 * (len(self) - self._sorted) > self._sorted
        if kept > self.sharp_from and (is_grown or kept >= self._settle_at):
            self.settle(kept, min(kept, settled))

    def settle(self, kept: int, drop_to: int) -> None:
        """Put together what no gap and no look-up at `kept` or later tells apart; drop sessions that closed up to
        `drop_to`. O(cells)."""
        old = self.in_order()
        into, start, last, inner = np.empty((4, len(old.key)), np.int64)
        cells, last_gone, closed_gone = settle_cells(
            old.key, old.start, old.last, old.inner, self.gaps, kept, drop_to, into, start, last, inner
        )
        key = np.empty(cells, np.int64)
        stays = np.flatnonzero(into >= 0)
        key[into[stays]] = old.key[stays]
        fresh: Arrays = {"key": key, "start": start[:cells], "last": last[:cells], "inner": inner[:cells]}
        lo, hi = np.zeros(1, np.int64), np.full(1, len(into))
        for need, names in self._names.items():
            component = COMPONENTS[need.component]
            partial = component.start(dtype_of(need), cells)
            component.merge(lo, hi, 0, into, self.partials(need, old.place), partial)
            fresh |= zip(names, partial, strict=True)
        self._dropped += len(self) - cells
        self._cells.replace(fresh)
        self._sorted, self._in_order = cells, None
        self.sharp_from = max(self.sharp_from, kept)
        self._last_dropped = max(self._last_dropped, int(last_gone))
        self.forgotten_before = max(self.forgotten_before, int(closed_gone))
        self._settle_at = int(np.median(fresh["last"])) + int(self.gaps[-1]) if cells else FOREVER

    # -- what is read ------------------------------------------------------------------------------

    def in_order(self, ids: Ints | None = None) -> CellsInOrder:
        """All cells by key and start, those of one time as they came; or those of some keys. All of them cost O(cells)
        after each insertion, some O(log cells) each and O(events that are too young)."""
        if ids is not None and self._in_order is None:
            return self._arranged(self._places_of(ids))
        if self._in_order is None:
            self._in_order = self._arranged(np.arange(len(self)))
        if ids is None:
            return self._in_order
        whole = self._in_order
        lo, hi = (whole.key.searchsorted(ids, side) for side in ("left", "right"))
        return CellsInOrder(*(column[numbers_in(lo, hi)] for column in whole))

    def _places_of(self, ids: Ints) -> Ints:
        key = self._cells["key"]
        lo, hi = (key[: self._sorted].searchsorted(ids, side) for side in ("left", "right"))
        young = np.flatnonzero(np.isin(key[self._sorted :], ids)) + self._sorted
        return np.concatenate((numbers_in(lo, hi), young))

    def _arranged(self, place: Ints) -> CellsInOrder:
        key, start, last, inner = (self._cells[name][place] for name in _BOUNDS)
        if len(place) == self._sorted and len(place) == len(self):
            return CellsInOrder(key, start, last, inner, place)
        old = int(np.count_nonzero(place < self._sorted))
        young, latest = start[old:], int(last[:old].max(initial=LONG_AGO))
        if bool((young[1:] >= young[:-1]).all() and (young[:1] >= latest).all()):  # nearly always
            order = order_of(key)
        else:
            by_time = order_of(start)
            order = by_time[order_of(key[by_time])]
        return CellsInOrder(key[order], start[order], last[order], inner[order], place[order])

    def partials(self, need: Need, place: Ints) -> Partial:
        """What cells hold of a component."""
        return tuple(self._cells[name][place] for name in self._names[need])

    # -- ids ---------------------------------------------------------------------------------------

    def mark_keys(self, keys: tuple[Expression, ...], used: Bools) -> None:
        if keys == self.keys:
            used[self._cells["key"]] = True

    def renumber_keys(self, keys: tuple[Expression, ...], new_id: Ints) -> None:
        """O(cells log cells): ids give cells their order."""
        if keys != self.keys:
            return
        self._cells["key"][:] = new_id[self._cells["key"]]
        young = {name: self._cells[name][self._sorted :].copy() for name in self._cells.names()}
        order = np.argsort(self._cells["key"][: self._sorted], kind="stable")
        self._cells.replace({name: np.concatenate((self._cells[name][order], young[name])) for name in young})
        self._in_order = None

    def mark_texts(self, argument: Expression, used: Bools) -> None:
        mark_codes(self._cells, self._names, argument, used)

    def renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        renumber_codes(self._cells, self._names, argument, new_code)

    # -- no sequence in time -----------------------------------------------------------------------

    def runs(self, start: Ints, end: Ints) -> NoReturn:
        raise NotImplementedError("sessions are not cut by time")

    edges = run = lifted = runs  # type: ignore[assignment]

    # -- upkeep ------------------------------------------------------------------------------------

    def nbytes(self) -> int:
        arranged = () if self._in_order is None else self._in_order
        return self._cells.nbytes() + sum(column.nbytes for column in arranged)

    def held_bytes(self) -> int:
        return self._cells.held_bytes()

    def __str__(self) -> str:
        return f"{self._sorted:,} cells between silences, and {len(self) - self._sorted:,} events to put with them"

    def snapshot(self) -> Arrays:
        """All cells in order, however they came."""
        meta = [
            self.began_at,
            self.forgotten_before,
            self.sharp_from,
            self._last_dropped,
            self._settle_at,
            self._dropped,
        ]
        arrays: Arrays = {"meta": np.array(meta, np.int64)}
        arrays["known by gap"] = np.array([self._known_gap[gap] for gap in self.gaps.tolist()], np.int64)
        place = self.in_order().place
        arrays |= {f"cell {name}": self._cells[name][place] for name in self._cells.names()}
        for need, names in self._names.items():
            arrays[f"known {names[0]}"] = np.array([self._known_from[need]], np.int64)
        return arrays

    def restore(self, saved: Saved) -> None:
        meta = saved.numbers("meta", *[INSTANTS] * 5, COUNTS)
        self.began_at, self.forgotten_before, self.sharp_from, self._last_dropped, self._settle_at = meta[:5]
        self._dropped = meta[5]
        known = saved.ints("known by gap", INSTANTS, len(self.gaps))
        self._known_gap = dict(zip(self.gaps.tolist(), known.tolist(), strict=True))
        cells = saved_cells(saved, self.keys, self._names, self._cells)
        many = len(cells["key"])
        cells["start"], cells["last"] = (
            saved.times(f"cell {name}", many, "any") for name in ("start", "last")
        )
        cells["inner"] = saved.ints("cell inner", (0, FOREVER), many)
        if bool((cells["last"] < cells["start"]).any()):
            raise saved.damaged("cell last", "has cells that end before they begin")
        key, start = cells["key"], cells["start"]
        is_back = (key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & (start[1:] < start[:-1]))
        if bool(is_back.any()):
            raise saved.damaged("cell key", "is not in the order of keys and times")
        self._cells.replace(cells)
        self._sorted, self._in_order, self._began = many, None, True
        for need, names in self._names.items():
            (self._known_from[need],) = saved.numbers(f"known {names[0]}", INSTANTS)

    def check(self) -> None:
        self._cells.check()
        key, start, last, inner = (self._cells[name] for name in _BOUNDS)
        assert bool(np.all(start <= last))
        assert bool(np.all(inner <= last - start))
        # cells that are in order are, and do not overlap; what follows is single events
        done = self._sorted
        same = key[1:done] == key[: done - 1] if done else np.zeros(0, np.bool_)
        assert bool(np.all(key[1:done] >= key[: max(done - 1, 0)]))
        assert bool(np.all(~same | (start[1:done] >= last[: max(done - 1, 0)])))
        assert bool(np.all((start == last)[done:]))
        # every cell that is not an event lies before all look-ups
        assert bool(np.all((start == last) | (last < self.sharp_from)))
        assert self._known_from.keys() == self._names.keys()
        assert list(self._known_gap) == self.gaps.tolist()


def numbers_in(lo: Ints, hi: Ints) -> Ints:
    """All numbers of some ranges [lo, hi), one range after the other."""
    many = hi - lo
    before = np.cumsum(many) - many
    numbers: Ints = np.arange(int(many.sum())) + np.repeat(lo - before, many)
    return numbers
