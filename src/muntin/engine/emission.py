"""Push: every window that closed since the last time, each once, for all queries together.

Time is walked through in stretches, all queries side by side, so that what one stretch found of a
window serves every query and is forgotten before the next.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import no_answers
from muntin.engine.evaluate import Rows, answer
from muntin.engine.lookup import Memo, answers_at, key_expressions
from muntin.engine.registration import Registration
from muntin.engine.shard import Shard
from muntin.engine.timed import timed
from muntin.errors import MuntinError
from muntin.plan import Demand
from muntin.synopsis.contract import Found, Ints
from muntin.synopsis.moves import CountsEvents

_NONE = np.zeros(0, np.int64)
_LONG_AGO = (
    "so long ago that their events are gone; call advance() more often, or give the engine more backlog_bytes"
)
_SLOTS = 250_000  # instants times keys of one stretch: bounds memory, costs nothing measurable


@dataclass
class _Due:
    """What one query owes: instants not yet answered, tables of those that are, windows given up."""

    name: str
    registration: Registration
    instants: Ints
    tables: list[pa.Table] = field(default_factory=list)
    missed: int = 0
    complaints: list[str] = field(default_factory=list)

    def take(self, shard: Shard, instants: Ints, memo: Memo) -> None:
        """Add answers; a window that has none (a sum beyond 64 bits) must not hold up any other."""
        try:
            self.tables.append(answers_at(shard, self.name, instants, memo=memo))
        except (MuntinError, pa.ArrowException) as error:
            if len(instants) > 1:
                for instant in instants:
                    self.take(shard, np.array([instant]), memo)
                return
            self.missed += 1
            end = np.datetime64(int(instants[0]), "us")
            self.complaints.append(f"has no answer for the window that closed at {end}: {error}")


def emit(shard: Shard, until: int) -> dict[str, pa.Table]:
    """Answers by query of all windows that closed up to `until`; queries without any are left out.

    Nothing is marked as given out before all of it is there to be given.
    """
    first = shard.clock.first
    if first is None or until <= first:
        return {}
    dues = [
        _due(shard, name, registration, first, until)
        for name, registration in shard.registrations.items()
        if registration.emitted_to is None or until > max(first, registration.emitted_to)
    ]
    _answer_in_stretches(shard, [due for due in dues if len(due.instants)])
    answers = {}
    for due in dues:
        due.registration.emitted_to = until
        due.registration.missed += due.missed
        rows = sum(table.num_rows for table in due.tables)
        if rows:
            answers[due.name] = pa.concat_tables(due.tables)
            due.registration.emitted += rows
    shard.note_emitted()
    for due in dues:
        for complaint in due.complaints:
            warnings.warn(f"query '{due.name}' {complaint}", RuntimeWarning, stacklevel=4)
    return answers


def _due(shard: Shard, name: str, registration: Registration, first: int, until: int) -> _Due:
    query = registration.query
    after = first if registration.emitted_to is None else max(first, registration.emitted_to)
    if query.moves_by_rows:
        return _due_by_count(shard, name, registration, until)
    if not query.slide:
        return _Due(name, registration, np.array([until]))
    if until // query.slide == after // query.slide:
        return _Due(name, registration, _NONE)  # most queries, most of the time
    missed = _missed(shard, name, query.slide, after)
    complaints = [f"has lost {missed:,} windows that closed {_LONG_AGO}"] if missed else []
    begin = (after // query.slide + missed + 1) * query.slide
    instants = np.arange(begin, until + 1, query.slide)
    if query.keys and len(instants):  # a keyed query has nothing to say of silence
        held = [
            shard.synopses[number].holds_events(each.window, instants)
            for number, each in shard.manager.placements[name].presence
        ]
        instants = instants[np.logical_or.reduce(held)]
    return _Due(name, registration, instants, missed=missed, complaints=complaints)


def _answer_in_stretches(shard: Shard, dues: list[_Due]) -> None:
    if not dues:
        return
    everything = np.unique(np.concatenate([due.instants for due in dues]))
    widest = max((len(keys) for keys in shard.keys.values()), default=1)
    step = max(1, _SLOTS // max(widest, 1))
    for begin in range(0, len(everything), step):
        first, last = everything[begin], everything[min(begin + step, len(everything)) - 1]
        memo: Memo = {}
        for due in dues:
            lo, hi = np.searchsorted(due.instants, first), np.searchsorted(due.instants, last, "right")
            if lo < hi:
                due.take(shard, due.instants[lo:hi], memo)


def _due_by_count(shard: Shard, name: str, registration: Registration, until: int) -> _Due:
    """Windows that close by count, all at once."""
    due = _Due(name, registration, _NONE)
    after = registration.emitted_to
    kept_from = max(shard.synopses[number].kept_from for number in shard.manager.placements[name].groups())
    since = shard.clock.first if after is None else after
    if since is not None and since < shard.forgotten_to and since < kept_from:
        after = kept_from  # what closed before may have lost events: better none than a wrong one
        due.missed += 1
        due.complaints.append(f"has lost windows that closed {_LONG_AGO}")
    try:
        due.tables.append(_answer_moves(shard, name, after, until))
    except (MuntinError, pa.ArrowException) as error:
        due.missed += 1
        due.complaints.append(f"has no answer for the windows that closed: {error}")
    return due


def _answer_moves(shard: Shard, name: str, after: int | None, until: int) -> pa.Table:
    """Answers of windows that closed by count."""
    query, placement = shard.registrations[name].query, shard.manager.placements[name]
    keys = shard.keys[key_expressions(query)] if query.keys else None
    width = len(keys) if keys is not None else 1
    number, demand = placement.presence[0]
    counted = shard.synopses[number]
    assert isinstance(counted, CountsEvents)
    moves = counted.moves(demand.window.slide, after, until, width)
    if not len(moves.slot):
        return no_answers(query)

    def find(number: int, demand: Demand) -> Found:
        def count(synopsis: Any) -> Found:
            assert isinstance(synopsis, CountsEvents)
            return synopsis.lookup_counts(demand.window, moves, (demand.need,), width)

        return timed(shard, number, demand.window, len(moves.seen), count)

    return answer(query, placement, Rows(1, moves.seen, moves.slot), find, keys, shard.texts)


def _missed(shard: Shard, name: str, slide: int, after: int) -> int:
    """How many windows closed so long before anyone asked that their events had to be forgotten."""
    if after >= shard.forgotten_to:
        return 0
    groups = shard.manager.placements[name].groups()
    kept_from = max(shard.synopses[number].kept_from for number in groups)
    return max(0, (kept_from - 1) // slide - after // slide)
