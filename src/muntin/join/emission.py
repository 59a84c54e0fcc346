"""Push for joins: whole answers at every instant that closed, or the pairs that came and went.

A match is seen at the ticks after the later of its times, until the first of its events has left its window:
a range of ticks, computed from its times. So it is read once, however many instants an `advance` covers, and
silence costs nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.answer import to_instants
from muntin.arrays import LONG_AGO, Ints
from muntin.join.answer import answer, read_pairs
from muntin.join.cohorts import in_order
from muntin.join.from_cohorts import answers_from_cohorts
from muntin.join.group import JoinGroup, JoinRegistration
from muntin.join.lookup import answer_anew, earliest_instant
from muntin.shard.emit.portion import DEFAULT_ROWS, Answers, allot
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.left_out import LeftOut, tell

# Ticks: the instants at which a query is answered, numbered, so that visibility is a range of numbers.


@dataclass(frozen=True)
class Slides:
    """The multiples of a slide: tick `k` is at `k * slide`.

    >>> Slides(10).next_after(np.array([9, 10, 11]))
    array([1, 2, 2])
    """

    slide: int

    def next_after(self, instant: Ints) -> Ints:
        """Number of the first tick after each instant."""
        return instant // self.slide + 1

    def at(self, number: Ints) -> Ints:
        """Instants of some ticks."""
        return number * self.slide


@dataclass(frozen=True)
class Calls:
    """The instants that `advance` was called for, the last of them and perhaps the one before."""

    instants: Ints

    def next_after(self, instant: Ints) -> Ints:
        return np.searchsorted(self.instants, instant, "right")

    def at(self, number: Ints) -> Ints:
        return self.instants[number]


Ticks = Slides | Calls


_WORDS = pa.array(["leave", "enter"], pa.string())
_LOST = (
    "so long ago that their events are gone; call advance() more often, or give the engine more backlog_bytes"
)


class _Due(NamedTuple):
    """The ticks that a query owes, from `first` to `last`."""

    ticks: Ticks
    first: int
    last: int
    begins: int  # the first tick of all: what is seen there has just come

    more: bool = False  # whether ticks after the last one are left for the next portion

    @property
    def reached(self) -> int:
        """The instant of the last tick."""
        return int(self.ticks.at(np.array([self.last]))[0])


def emit(group: JoinGroup, until: int | None, rows: int = DEFAULT_ROWS) -> Answers:
    """Answers by query of windows that closed up to `until`, by default the group's watermark. About `rows` of
    them in all: what exceeds it is left for the next call.

    Nothing is marked as given out before all of it is there to be given.
    """
    target, first = group.watermark if until is None else until, group.first
    if target is None or first is None or target <= first:
        return Answers()
    answers = Answers()
    lost: dict[str, int] = {}
    left_out: dict[str, LeftOut] = {}
    complaints: list[str] = []
    reached = [
        (name, each)
        for name, each in group.registrations.items()
        if each.emitted_to is None or target > each.emitted_to
    ]
    dues: dict[str, _Due] = {}
    for name, registration in reached:
        after = first if registration.emitted_to is None else max(first, registration.emitted_to)
        slide = registration.query.slide
        if slide and target // slide == after // slide:  # most queries, most of the time
            continue
        dues[name], lost[name] = _due(group, registration, after, target)
        if lost[name]:
            complaints.append(f"query '{name}' has lost {lost[name]:,} windows that closed {_LOST}")
    dues = _cut(group, dues, rows)
    made = _from_cohorts(group, dues)
    for name, due in dues.items():
        if due.first <= due.last:
            found = made.get(name)
            if found is None:
                found = _answers(group, group.registrations[name], due)
            left_out[name] = found.left_out
            if found.table.num_rows:
                answers[name] = found.table
    for name, registration in reached:
        registration.emitted_to = dues[name].reached if name in dues and dues[name].more else target
        registration.missed += lost.get(name, 0)
        registration.emitted += answers[name].num_rows if name in answers else 0
    answers.more = any(due.more for due in dues.values())
    group.note_emitted()
    for complaint in complaints:
        warnings.warn(complaint, RuntimeWarning, stacklevel=4)
    for name, some in left_out.items():
        tell(name, group.registrations[name], some, stacklevel=4)
    return answers


def skip(group: JoinGroup) -> None:
    """As `emit` of all that closed, when the answers have been given out already."""
    target, first = group.watermark, group.first
    if target is None or first is None or target <= first:
        return
    for each in group.registrations.values():
        if each.emitted_to is None or target > each.emitted_to:
            each.emitted_to = target
    group.note_emitted()


def _due(group: JoinGroup, registration: JoinRegistration, after: int, target: int) -> tuple[_Due, int]:
    """What a query owes, and how many windows it cannot give any more."""
    slide, began_at = registration.query.slide, registration.began_at
    if not slide:
        before = [] if registration.emitted_to in (None, began_at) else [after]
        return _Due(Calls(np.array([*before, target])), len(before), len(before), 0), 0
    first, last = after // slide + 1, target // slide
    kept = min(-(-earliest_instant(group, registration) // slide), last + 1)
    begins = LONG_AGO if began_at is None else began_at // slide + 1
    return _Due(Slides(slide), max(first, kept), last, begins), max(0, kept - first)


def _cut(group: JoinGroup, dues: dict[str, _Due], rows: int) -> dict[str, _Due]:
    """What each query owes within its share of a portion. EMIT CHANGES is never cut: a pair comes and goes once."""
    owed = {name: _rows(group, name, due) for name, due in dues.items()}
    if sum(owed.values()) <= rows:
        return dues
    share = allot(list(owed.values()), rows)
    return {
        name: _shorten(group, name, due, share) if owed[name] > share else due for name, due in dues.items()
    }


def _shorten(group: JoinGroup, name: str, due: _Due, rows: int) -> _Due:
    """The first ticks of a query, at least one, that have so many rows at most; by bisection."""
    fits, exceeds = due.first, due.last
    while exceeds - fits > 1:
        middle = (fits + exceeds) // 2
        if _rows(group, name, due._replace(last=middle)) <= rows:
            fits = middle
        else:
            exceeds = middle
    return due._replace(last=fits, more=fits < due.last)


def _rows(group: JoinGroup, name: str, due: _Due) -> int:
    """How many rows a query has at most: one for each pair and tick that sees it, and one for each tick if it is
    answered in silence, too. O(matches)."""
    registration = group.registrations[name]
    if registration.query.emits_changes or due.first >= due.last:
        return 0
    if _is_always(registration):
        return due.last - due.first + 1
    begin, end = (int(instant) for instant in due.ticks.at(np.array([due.first, due.last])))
    chosen = group.matches.choose(*registration.ranges(begin, end), registration.since)
    comes, goes = _seen(group, registration, due.ticks, chosen)
    return int(np.maximum(np.minimum(goes, due.last + 1) - np.maximum(comes, due.first), 0).sum())


def _is_always(registration: JoinRegistration) -> bool:
    """An answer of aggregates without keys is there in silence, too."""
    return registration.query.fold is not None and not registration.query.keys


def _from_cohorts(group: JoinGroup, dues: Mapping[str, _Due]) -> dict[str, Answered]:
    """Answers of queries that owe one tick of a slide: most queries, most of the time."""
    single: list[str] = []
    asked: list[tuple[JoinRegistration, int, bool]] = []
    for name, due in dues.items():
        query = group.registrations[name].query
        if due.first == due.last and query.slide and not (query.emits_changes and due.first <= due.begins):
            single.append(name)
            asked.append((group.registrations[name], due.last, query.emits_changes))
    found = answers_from_cohorts(group, asked) if asked else []
    return {name: each for name, each in zip(single, found, strict=True) if each is not None}


def _answers(group: JoinGroup, registration: JoinRegistration, due: _Due) -> Answered:
    query, ticks = registration.query, due.ticks
    if query.emits_changes:
        return _answer_changes(group, registration, due)
    begin, end = (int(instant) for instant in ticks.at(np.array([due.first, due.last])))
    if begin == end:  # most of the time
        return answer_anew(group, registration, end)
    chosen = group.matches.choose(*registration.ranges(begin, end), registration.since)
    pairs = read_pairs(
        group, registration.query, in_order(group, registration, chosen), registration.query.where
    )
    comes, goes = _seen(group, registration, ticks, pairs.match)
    rows, numbers = _sightings(np.maximum(comes, due.first), np.minimum(goes, due.last + 1))
    instants = np.arange(due.first, due.last + 1) if _is_always(registration) else _each_once(numbers)
    if not len(instants):
        return Answered(query.emission_schema().empty_table())
    return answer(registration, pairs, rows, ticks.at(numbers), ticks.at(instants))


def _answer_changes(group: JoinGroup, registration: JoinRegistration, due: _Due) -> Answered:
    """The pairs that come or go; only those are read."""
    # at the first tick of all, what is seen has just come; at others, it was perhaps seen at the one before
    is_beginning = due.first <= due.begins
    begin, end = (int(each) for each in due.ticks.at(np.array([due.first - (not is_beginning), due.last])))
    new_from = LONG_AGO if is_beginning else begin
    chosen = group.matches.choose_changing(registration.visible_for, registration.since, new_from, begin, end)
    pairs = read_pairs(
        group, registration.query, in_order(group, registration, chosen), registration.query.where
    )
    comes, goes = _seen(group, registration, due.ticks, pairs.match)
    rows, numbers, enters = _changes(comes, goes, due)
    at = due.ticks.at(numbers)
    if isinstance(due.ticks, Slides):
        leaves_at = due.ticks.at(goes)
    else:
        left, right = (side[pairs.match] for side in group.matches.all[2:])
        leaves_at = registration.visible(left, right)[1] + 1
    answers = answer(registration, pairs, rows, at, at)
    if answers.gone is not None:
        rows, enters = rows[~answers.gone], enters[~answers.gone]
    change = _WORDS.take(pa.array(enters.astype(np.int8)))
    columns = [*answers.table.columns, change, to_instants(leaves_at[rows])]
    table = pa.Table.from_arrays(columns, schema=registration.query.emission_schema())
    return answers._replace(table=table)


def _seen(group: JoinGroup, registration: JoinRegistration, ticks: Ticks, match: Ints) -> tuple[Ints, Ints]:
    """The first tick that each match is seen at, and the first at which it is not any more."""
    all = group.matches.all
    after, until = registration.visible(all.left_at[match], all.right_at[match])
    return ticks.next_after(after), ticks.next_after(until)


def _sightings(comes: Ints, goes: Ints) -> tuple[Ints, Ints]:
    """Which pair is seen at which tick, tick by tick and in the order of pairs; O(sightings)."""
    times = np.maximum(goes - comes, 0)
    rows = np.repeat(np.arange(len(times)), times)
    offset = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    numbers = comes[rows] + offset
    order = np.argsort(numbers, kind="stable")
    return rows[order], numbers[order]


def _each_once(ascending: Ints) -> Ints:
    once: Ints = ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]
    return once


def _changes(comes: Ints, goes: Ints, due: _Due) -> tuple[Ints, Ints, np.ndarray]:
    """Which pairs go or come at which tick, and whether they come; at each tick those that go first."""
    comes = np.maximum(comes, due.begins)
    is_seen = goes > comes
    coming = np.flatnonzero(is_seen & (comes >= due.first) & (comes <= due.last))
    going = np.flatnonzero(is_seen & (goes >= due.first) & (goes <= due.last))
    rows = np.concatenate([coming, going])
    numbers = np.concatenate([comes[coming], goes[going]])
    enters = np.repeat([True, False], [len(coming), len(going)])
    order = np.lexsort((rows, enters, numbers))
    return rows[order], numbers[order], enters[order]
