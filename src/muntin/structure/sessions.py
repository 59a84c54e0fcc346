"""sessions: fold each key's events into cells between silences, put cells together at look-up.

| | |
|---|---|
| Full name | sessions, with look-up by merging cells of the shortest gap |
| Answers | aggregates with fixed-size partials over sessions, keyed or not |
| Insert | O(1) per event and component, and O(1) amortised to put events into cells |
| Lookup | O(cells of the keys asked for); what closed: O(C) for C cells and each gap |
| Space | O(cells): per key at most one for each gap, beside those that have not been given out, and recent events |
| Shares | cells, whatever the gap, aggregate or HAVING |
| Reference | Patroumpas & Sellis, ADBIS 2011 (windows that nest); Traub et al., TODS 2021 (sessions in slices) |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import Partial
from muntin.arrays import FOREVER, LONG_AGO, Bools, Ints
from muntin.errors import WindowTooLarge
from muntin.instant import LAST
from muntin.kernels.sessions import find_sessions
from muntin.store.needs import Need, dtype_of
from muntin.store.session_store import CellsInOrder, SessionStore, numbers_in
from muntin.structure.synopsis import Found, Moves, Synopsis
from muntin.window import Window


class _Runs(NamedTuple):
    """Sessions as runs of cells, by key and closing; `is_cut` if what came just before is not known."""

    cells: CellsInOrder
    key: Ints
    lo: Ints
    hi: Ints
    close: Ints
    is_cut: Bools


class Sessions(Synopsis[SessionStore]):
    """Sessions of any gap over one store."""

    name = "sessions"

    def holds_events(self, window: Window, instants: Ints) -> Bools:
        return np.ones(len(instants), np.bool_)

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        """The sessions that are open at each instant."""
        many = width if ids is None else len(ids)
        slots, runs, asked_at = [], [], np.repeat(instants, many)
        is_known = np.ones(len(asked_at), np.bool_)
        cells = self.store.in_order(ids)
        for place, instant in enumerate(instants.tolist()):
            sharp = cells
            if instant < self.store.sharp_from:
                self._refuse_forgotten(window, instant)
                is_cut = (cells.start < instant) & (cells.last >= instant)
                sharp = cells._replace(inner=np.where(is_cut, FOREVER, cells.inner))
                is_known[place * many + _slot_of(cells.key[is_cut], ids)] = False
            run = self._find(sharp, window, instant, instant, FOREVER)
            runs.append(run)
            slots.append(place * many + _slot_of(run.key, ids))
        found = self._found(window, runs, slots, asked_at - window.size, wanted)
        return found._replace(is_whole=found.is_whole & is_known)

    def _refuse_forgotten(self, window: Window, instant: int) -> None:
        """Raise if cells may have events on both sides of an instant that look-ups were done with. A stream that began
        before its history ended is looked up all the same: what lies in such cells is left out."""
        if instant < self.kept_from:
            raise WindowTooLarge(
                f"{window} at {np.datetime64(instant, 'us')} needs events one by one, which have been put "
                f"together; the state answers instants from {np.datetime64(self.store.sharp_from, 'us')} on"
            )

    def moves(self, window: Window, after: int | None, until: int, width: int) -> Moves:
        """The sessions that closed; O(cells)."""
        after = LONG_AGO if after is None else after
        run = self._find(self.store.in_order(), window, until, after, until)
        order = np.lexsort((run.key, run.close))
        return Moves(run.key[order], run.close[order])

    def lookup_counts(self, window: Window, moves: Moves, wanted: Sequence[Need], width: int) -> Found:
        """Partials of sessions, given by when they closed. What is not known here to have closed then is empty: a
        component may have been kept for less long than others."""
        first, last = int(moves.seen.min()), int(moves.seen.max())
        run = self._find(self.store.in_order(), window, last, first - 1, last)
        instants = np.unique(np.concatenate((run.close, moves.seen)))
        of_runs, of_moves = (
            key * len(instants) + instants.searchsorted(close)
            for key, close in ((run.key, run.close), (moves.slot, moves.seen))
        )
        order = np.argsort(of_moves)
        place = np.minimum(of_moves[order].searchsorted(of_runs), len(order) - 1)
        is_asked = of_moves[order][place] == of_runs
        some = _Runs(run.cells, *(column[is_asked] for column in run[1:]))
        return self._found(window, [some], [order[place[is_asked]]], moves.seen - window.size, wanted)

    def _find(self, cells: CellsInOrder, window: Window, instant: int, after: int, until: int) -> _Runs:
        lo, hi, close = np.empty((3, len(cells.key)), np.int64)
        is_cut = np.empty(len(cells.key), np.bool_)
        found = find_sessions(
            cells.key,
            cells.start,
            cells.last,
            cells.inner,
            window.size,
            instant,
            after,
            until,
            lo,
            hi,
            close,
            is_cut,
        )
        return _Runs(cells, cells.key[lo[:found]], lo[:found], hi[:found], close[:found], is_cut[:found])

    def _found(
        self,
        window: Window,
        runs: Sequence[_Runs],
        slots: Sequence[Ints],
        reach: Ints,
        wanted: Sequence[Need],
    ) -> Found:
        """What sessions hold, each in a slot of its own. Where there is none, nobody has come since `reach`. One that
        would close after all time ends with it."""
        known_since = {need: self.known_since(window, need) for need in wanted}
        start, end = np.zeros((2, len(reach)), np.int64)
        is_whole = np.asarray(reach + window.size >= max(known_since.values(), default=LONG_AGO))
        partials: dict[Need, Partial] = {
            need: COMPONENTS[need.component].start(dtype_of(need), len(reach)) for need in wanted
        }
        for run, slot in zip(runs, slots, strict=True):
            start[slot], end[slot] = run.cells.start[run.lo], np.minimum(run.close, LAST)
            is_whole[slot] = ~run.is_cut
            place = run.cells.place[numbers_in(run.lo, run.hi)]
            hi, all_of_it = np.cumsum(run.hi - run.lo), np.zeros(len(place), np.int64)
            for need, into in partials.items():
                component = COMPONENTS[need.component]
                whole, held = component.start(dtype_of(need), len(slot)), self.store.partials(need, place)
                component.merge(hi - (run.hi - run.lo), hi, 1, all_of_it, held, whole)
                for array, values in zip(into, whole, strict=True):
                    array[slot] = values
        return Found(partials, start, end, is_whole, known_since, 1)


def _slot_of(key: Ints, ids: Ints | None) -> Ints:
    """The place of each key among those that are asked for, which ascend; all of them, if that is None."""
    return key if ids is None else ids.searchsorted(key)
