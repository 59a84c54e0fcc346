"""key_runs: keep the events once more by key and time, find one key's window by two searches.

| | |
|---|---|
| Full name | runs of events per key, with a B-INT over each |
| Answers | every aggregate, time windows per key, suffix or historical, at any instant |
| Insert | the ring's own cost; O(1) amortised per event when it is first looked up |
| Lookup | one key: O(log n) for its n events; what does not merge, O(its window / 8); all keys: that for each |
| Space | per event 17 to 40 bytes beside the ring and 1/8 of a partial per component; per key 40 bytes and 8 for each |
| Shares | runs, whatever the window, aggregate or filter of an aggregate |
| Reference | Arasu & Widom, VLDB 2004, section 4 (substreams), with B-INT of section 3.2 in each |

A look-up of a few keys reads their runs; a scan of the window's events (`rescan`) visits all of them. To feed the runs
costs more than one scan. So windows are scanned until that has cost as much as feeding would, and then the runs are
fed: whatever comes, the total is at most about twice that of the better way. Where keys have hardly any events each,
a scan stays the better way for all keys together.

HAVING that compares COUNT, SUM, MIN or MAX with constants is answered by a collective or a staircase index (section 4
there), which names candidates; only their runs are read. An index is fed, too, so it is made when look-ups have paid
for it.

For QUANTILE the values of each run are kept in order, 12 bytes each, and the order moves on with the windows. MODE
reads the same order: the most frequent value is the longest run of equal ones, found by a pass over it. For
COUNT(DISTINCT) each event knows how far the next one with its value is, in 4 bytes, and the last one of each value in
the window counts (Patroumpas & Sellis); a table of them takes 16 to 64 bytes for each. Windows that nest, and all phi,
have both in common.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregates.component import COMPARING, COMPONENTS, HOLISTIC
from muntin.aggregates.contract import Partial, is_text
from muntin.aggregates.holistic import as_written
from muntin.arrays import Ints
from muntin.expression import Expression
from muntin.key_index.finders import KeyBand
from muntin.key_index.key_finder import Candidates
from muntin.query import Input
from muntin.store.key_runs import KeyRuns, Spans
from muntin.store.needs import Need, Needs, dtype_of
from muntin.store.ring import EventRing
from muntin.store.run_window import RunWindow
from muntin.store.sequence import Located
from muntin.store.value_order import Order, Ranks
from muntin.structure.rescan import Rescan, RingSynopsis
from muntin.structure.synopsis import Asked, Found, TextOrder, rank_of
from muntin.window import Pace, Window

# What things cost, in events that could be scanned meanwhile:
_FEED = 12.0  # to feed an event
_READ = 20.0  # to read the window of a key
_MERGE = 120.0  # at most, to merge the events of one, beside finding them
_SORT = 20.0  # to scan an event for an aggregate that does not merge
_PASS = 0.5  # to pass over an event of a key that is not asked for
_DETOUR = 100_000.0  # to look up one key in the general way, which a short path spares
_TOGETHER = 4096  # points that are read window by window
_SAMPLE = 256  # points that are looked at to tell what they would cost
_AT_ONCE = 4_000_000  # entries that are copied to be sorted


class Wanted(NamedTuple):
    """What is wanted of a window, which has a row of slots, by key, for each of so many instants."""

    needs: Sequence[Need]
    rows: int


class ReadsRuns(RingSynopsis):
    """A synopsis that reads single events, by key."""

    _runs: KeyRuns

    def _read_all(
        self, wanted: Sequence[Wanted], ids: Ints, spans: Spans, order: Order
    ) -> list[dict[Need, Partial]]:
        """The partials of each window; slots lie window by window, row by row. What single values decide is read for
        all windows together."""
        found: list[dict[Need, Partial]] = []
        together: dict[tuple[Input, str], list[list[Need]]] = {}
        ends = np.cumsum([rows for _, rows in wanted])
        slots = [
            slice((end - rows) * len(ids), end * len(ids))
            for (_, rows), end in zip(wanted, ends, strict=True)
        ]
        for each, ((needs, _), mine) in enumerate(zip(wanted, slots, strict=True)):
            found.append({})
            for need in needs:
                if need.component in ("distinct", "mode") or self._picks(need):
                    windows = together.setdefault((need.input, need.component), [[] for _ in wanted])
                    windows[each].append(need)
                else:
                    found[each][need] = self._read(need, Spans(*(column[mine] for column in spans)))
        by_value = self._runs.by_value
        partials: Sequence[Sequence[Partial]]
        for (input, component), windows in together.items():
            if component == "distinct":
                counts = by_value.count_different(input, ids, spans.lo, spans.hi, order.sequence)
                partials = [
                    [(counts[mine],)] * len(needs) for needs, mine in zip(windows, slots, strict=True)
                ]
            elif component == "mode":
                rank = rank_of(input, self._text_order)
                asked = np.repeat([len(needs) > 0 for needs in windows], [rows for _, rows in wanted])
                some_rows = order._replace(sequence=order.sequence[asked[order.sequence]])
                modes = by_value.pick_modes(input, ids, spans.lo, spans.hi, some_rows, rank)
                partials = [
                    [(modes[0][mine], modes[1][mine])] * len(needs)
                    for needs, mine in zip(windows, slots, strict=True)
                ]
            else:
                for needs in windows:
                    needs.sort(key=_phi_of)
                phis = [[_phi_of(need) for need in needs] for needs in windows]
                ranks = Ranks([rows for _, rows in wanted], phis, *order)
                partials = by_value.pick(input, ids, spans.lo, spans.hi, ranks)
            for into, needs, some in zip(found, windows, partials, strict=True):
                into.update(zip(needs, some, strict=True))
        return found

    def _read(self, need: Need, spans: Spans) -> Partial:
        """The partial of one component over entries of runs."""
        if _merges(need):
            return self._runs.read(need, spans)
        parts = [self._fold(need, *ends, 1, None, *events) for ends, events in self._gathered(need, spans)]
        return parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))

    def _gathered(self, need: Need, spans: Spans) -> Iterator[tuple[tuple[Ints, Ints], tuple[Any, ...]]]:
        """The entries of all slots, as many slots at a time as memory can well hold."""
        edges = np.cumsum(spans.hi - spans.lo)
        begin = 0
        while begin < len(edges) or not begin:
            read = int(edges[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(edges, read + _AT_ONCE, side="right")), begin + 1)
            lo, hi, *events = self._runs.gather(need.input, Spans(*(each[begin:end] for each in spans)))
            yield (lo, hi), tuple(events)
            begin = end

    def _picks(self, need: Need) -> bool:
        """Whether a need is a quantile whose rank is found in 64 bits; phi may have more digits."""
        if need.component != "quantile":
            return False
        numerator, denominator = _phi_of(need).as_integer_ratio()
        return numerator * self._runs.capacity + denominator < 2**63

    def key_reader(self, window: Window, needs: Sequence[Need]) -> RunWindow | None:
        return RunWindow(self._runs, window, needs, self._is_ready) if all(map(_merges, needs)) else None

    @abstractmethod
    def _is_ready(self, window: Window, settled: int) -> bool:
        """Have the runs fed for a window of one key, looked up at an instant; False if it may be missing something."""


def _phi_of(need: Need) -> Fraction:
    return as_written(need.parameters[0])


def _merges(need: Need) -> bool:
    """Whether partials of a component merge, and need no order of texts, which only a look-up knows."""
    argument = need.input.argument
    is_by_text = argument is not None and need.component in COMPARING and is_text(argument.type)
    return not is_by_text and need.component not in HOLISTIC


class _Read:
    """One window of a look-up of points, as far as it has been read."""

    def __init__(self, window: Window, asked: Asked, many: int):
        self.window = window
        self.needs = asked.needs
        self.start, self.end = window.start(asked.instants), asked.instants - window.to
        self.lo, self.hi = np.empty((2, many), np.int64)
        self.partials: dict[Need, Partial] = {
            need: COMPONENTS[need.component].start(dtype_of(need), many)
            for need in asked.needs
            if _merges(need)
        }

    def points(self, runs: KeyRuns, ids: Ints, oldest: int, some: slice, shorter: Spans | None) -> Spans:
        """Read some of the points; `shorter` is where a window lies that has the same end."""
        begins = np.maximum(self.start[some], oldest)
        spans = (
            runs.extend(shorter, begins) if shorter else runs.locate_points(ids[some], begins, self.end[some])
        )
        self.lo[some], self.hi[some] = spans.lo, spans.hi
        for need, partial in self.partials.items():
            runs.read_into(need, spans, tuple(array[some] for array in partial))
        return spans


class ByKeyRuns(Rescan, ReadsRuns):
    """Time windows per key over a ring.

    Two keys: `[RANGE 3 SECONDS]` at second 6 holds the events with 3 <= ts < 6 of each.

    >>> from muntin import Engine
    >>> engine = Engine()
    >>> engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, x BIGINT) TIMESTAMP BY ts")
    >>> engine.register("SELECT k, SUM(x) AS total FROM s [RANGE 3 SECONDS] GROUP BY k", "last")
    >>> engine.push("s", {"ts": [1_000_000, 4_000_000, 5_000_000], "k": ["a", "a", "b"], "x": [6, 1, 2]})
    >>> engine.lookup("last", at=6_000_000)["total"].to_pylist()
    [1, 2]
    """

    name = "key_runs"

    def __init__(
        self, store: EventRing, where: Expression | None, keys: tuple[Expression, ...], text_order: TextOrder
    ):
        super().__init__(store, where, keys, text_order)
        self._runs = KeyRuns(store, where, keys)
        self._wasted = 0.0  # by scans since the runs were fed

    def fit(self, needs: Needs, changed: Collection[Need] | None = None) -> bool:
        """O(components)."""
        self._runs.fit(needs.components.keys())
        return super().fit(needs, changed)

    def insert(self) -> None:
        """O(1): runs are fed when they are read."""
        super().insert()
        self._runs.follow()

    def settle(self) -> None:
        self._runs.shed()

    def candidates(
        self, need: Need, window: Window, instant: int, settled: int, band: KeyBand
    ) -> Candidates | None:
        runs, events = self._runs, len(self.store)
        if 2 * runs.behind > events:  # they are not in use
            return self._candidates(need, window, instant, settled, band)
        visit = _READ if runs.counts_entries(need) else _READ + min(_MERGE, events / max(band.width, 1))
        return self._candidates(need, window, instant, settled, band, visit)

    def lookup(
        self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints | None, width: int
    ) -> Found:
        if ids is not None and len(instants) == 1 and self._are_at_hand(len(ids), wanted):
            return self._read_few(window, instants, wanted, ids)
        return self._look_up({window: Asked(instants, wanted)}, ids, width)[window]

    def _are_at_hand(self, many: int, wanted: Sequence[Need]) -> bool:
        """Whether so many keys are to be read from runs that are fed, without a doubt."""
        runs = self._runs
        return (
            not runs.behind
            and _READ * len(wanted) * many < _PASS * len(self.store)
            and all(map(_merges, wanted))
        )

    def _read_few(self, window: Window, instants: Ints, wanted: Sequence[Need], ids: Ints) -> Found:
        """A few keys at one instant: most of what this costs is steps, so there are few."""
        located = self.locate(window.start(instants), instants - window.to, instants)
        begin, end = np.maximum(located.start, self.store.at[0]), located.end
        spans = self._runs.locate_points(ids, begin.repeat(len(ids)), end.repeat(len(ids)))
        return self.found(window, located, {need: self._runs.read(need, spans) for need in wanted}, len(ids))

    def lookup_all(self, asked: Mapping[Window, Asked], width: int) -> dict[Window, Found]:
        return self._look_up(asked, None, width)

    def _look_up(self, asked: Mapping[Window, Asked], ids: Ints | None, width: int) -> dict[Window, Found]:
        located, saved, events = {}, 0.0, 0
        for window, (instants, wanted) in asked.items():
            here = located[window] = self.locate(window.start(instants), instants - window.to, instants)
            many = int((here.hi - here.lo).sum())
            events += many
            if ids is None:
                saved += many * sum(_SORT if need.component in HOLISTIC else 1.0 for need in wanted)
            else:
                saved += many * _PASS + (_DETOUR if len(ids) == 1 else 0.0)
            saved -= _READ * len(wanted) * len(instants) * width
        if not events or not self._pays(saved):
            self._wasted += max(saved, 0.0)
            return {
                window: super(ByKeyRuns, self).lookup(window, each.instants, each.needs, ids, width)
                for window, each in asked.items()
            }
        return self._read_located(located, asked, np.arange(width) if ids is None else ids)

    def _read_located(
        self, located: Mapping[Window, Located], asked: Mapping[Window, Asked], ids: Ints
    ) -> dict[Window, Found]:
        oldest = int(self.store.at[0])
        self._runs.catch_up(oldest)
        begins = np.maximum(np.concatenate([each.start for each in located.values()]), oldest)
        ends = np.concatenate([each.end for each in located.values()])
        spans = self._runs.locate(ids, begins, ends)
        wanted = [Wanted(each.needs, len(each.instants)) for each in asked.values()]
        read = self._read_all(wanted, ids, spans, Order.by_time(begins, ends, self.needs.reach("time")))
        return {
            window: self.found(window, here, partials, len(ids))
            for (window, here), partials in zip(located.items(), read, strict=True)
        }

    def lookup_points(self, asked: Mapping[Window, Asked], ids: Ints | None) -> dict[Window, Found]:
        """O(log n) each, or O(its window) if nothing merges. Some points at a time, so that the runs of their keys stay
        at hand for all windows and components."""
        assert ids is not None
        by_scans = sum(self._by_scans(window, each.instants) for window, each in asked.items())
        if not len(self.store) or (self._runs.behind and not self._pays(by_scans)):
            return super().lookup_points(asked, ids)
        oldest = int(self.store.at[0])
        self._runs.catch_up(oldest)
        reads = [
            _Read(window, asked[window], len(ids)) for window in sorted(asked, key=lambda each: each.size)
        ]
        for begin in range(0, len(ids), _TOGETHER):
            some = slice(begin, begin + _TOGETHER)
            ended: dict[tuple[int, Pace, bool], Spans] = {}  # of a shorter window with the same end
            for read in reads:
                end = (read.window.to, read.window.pace, read.window.since)
                ended[end] = read.points(self._runs, ids, oldest, some, ended.get(end))
        return {read.window: self._found_at(read, ids) for read in reads}

    def _found_at(self, read: _Read, ids: Ints) -> Found:
        start, end = read.start, read.end
        located = Located(read.lo, read.hi, start, end, self.store.is_whole(start, end))
        rest = [need for need in read.needs if need not in read.partials]
        partials = read.partials | {need: self._read(need, Spans(ids, read.lo, read.hi)) for need in rest}
        return self.found(read.window, located, partials, 1)

    def _by_scans(self, window: Window, instants: Ints) -> float:
        """What it would cost at least to scan the window at each instant that occurs."""
        some = np.unique(instants[:_SAMPLE])
        lo, hi = self.store.runs(window.start(some), some - window.to)
        return _PASS * float((hi - lo).sum()) + _DETOUR * len(some)

    def _is_ready(self, window: Window, settled: int) -> bool:
        start = window.start(settled)
        if start < self.store.forgotten_before:
            return False
        if self._runs.behind:
            lo, hi = self.store.run(start, settled - window.to)
            if not self._pays(_PASS * (hi - lo) + _DETOUR):
                return False
            self._runs.catch_up(int(self.store.at[0]))
        return True

    def _pays(self, saved: float) -> bool:
        """Whether runs are read by a look-up that saves so much over a scan, and fed first if need be."""
        if saved <= 0 or self._wasted + saved < _FEED * self._runs.behind:
            return False
        self._wasted = 0.0
        return True

    def renumber_keys(self, new_id: Ints) -> None:
        super().renumber_keys(new_id)
        self._runs.renumber(new_id)

    def rebuild(self) -> None:
        super().rebuild()
        self._runs.begin_again()

    def nbytes(self) -> int:
        return super().nbytes() + self._runs.nbytes()

    def __str__(self) -> str:
        behind = self._runs.behind
        runs = (
            "" if not len(self.store) else f"{behind:,} events to be fed" if behind else "runs of all events"
        )
        return "; ".join(filter(None, [runs, str(self._runs.by_value), super().__str__()]))

    def check(self) -> None:
        super().check()
        self._runs.check()
