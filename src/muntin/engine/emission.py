"""Push: every window that closed since the last time, each once, for all queries together.

Time is walked through in stretches, all queries side by side, so that what one stretch found of a
window serves every query and is forgotten before the next.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from muntin.answer import no_answers
from muntin.engine.evaluate import Rows, answer
from muntin.engine.lookup import Memo, answers_at, key_expressions
from muntin.engine.registration import Registration
from muntin.engine.shard import Shard
from muntin.plan import Demand
from muntin.synopsis.contract import Found, Ints
from muntin.synopsis.moves import CountsEvents

_SLOTS = 250_000  # instants times keys of one stretch: bounds memory, costs nothing measurable


@dataclass
class _Due:
    """What one query owes: instants not yet answered, and tables of those that are."""

    name: str
    instants: Ints
    tables: list[pa.Table] = field(default_factory=list)


def emit(shard: Shard, until: int) -> dict[str, pa.Table]:
    """Answers by query of all windows that closed up to `until`; queries without any are left out."""
    first = shard.clock.first
    if first is None or until <= first:
        return {}
    dues = []
    for name, registration in shard.registrations.items():
        after = first if registration.emitted_to is None else max(first, registration.emitted_to)
        if registration.emitted_to is not None and until <= after:
            continue
        after = _skip_missed(shard, name, registration, after)
        due = _Due(name, _instants(shard, name, after, until))
        if registration.query.moves_by_rows:
            due.tables.append(_answer_moves(shard, name, registration.emitted_to, until))
        registration.emitted_to = until
        dues.append(due)
    shard.note_emitted()
    _answer_in_stretches(shard, dues)
    answers = {}
    for due in dues:
        rows = sum(table.num_rows for table in due.tables)
        if rows:
            answers[due.name] = pa.concat_tables(due.tables)
            shard.registrations[due.name].emitted += rows
    return answers


def _instants(shard: Shard, name: str, after: int, until: int) -> Ints:
    """When windows of a query closed in (after, until]."""
    query = shard.registrations[name].query
    if query.moves_by_rows:
        return np.zeros(0, np.int64)
    if not query.slide:
        return np.array([until])
    instants = np.arange(after - after % query.slide + query.slide, until + 1, query.slide)
    if query.keys:  # a keyed query has nothing to say of silence
        placement = shard.manager.placements[name]
        held = [
            shard.synopses[number].holds_events(each.window, instants) for number, each in placement.presence
        ]
        instants = instants[np.logical_or.reduce(held)]
    return instants


def _answer_in_stretches(shard: Shard, dues: list[_Due]) -> None:
    due_at = [due.instants for due in dues if len(due.instants)]
    if not due_at:
        return
    everything = np.unique(np.concatenate(due_at))
    widest = max((len(keys) for keys in shard.keys.values()), default=1)
    step = max(1, _SLOTS // max(widest, 1))
    for begin in range(0, len(everything), step):
        first, last = everything[begin], everything[min(begin + step, len(everything)) - 1]
        memo: Memo = {}
        for due in dues:
            part = due.instants[
                np.searchsorted(due.instants, first) : np.searchsorted(due.instants, last, "right")
            ]
            if len(part):
                due.tables.append(answers_at(shard, due.name, part, memo=memo))


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
        synopsis = shard.synopses[number]
        assert isinstance(synopsis, CountsEvents)
        return synopsis.lookup_counts(demand.window, moves, (demand.need,), width)

    return answer(query, placement, Rows(1, moves.seen, moves.slot), find, keys, shard.texts)


def _skip_missed(shard: Shard, name: str, registration: Registration, after: int) -> int:
    """Count windows whose events had to be forgotten before anyone asked; go on behind them."""
    kept_from = max(shard.synopses[number].kept_from for number in shard.manager.placements[name].groups())
    slide = registration.query.slide
    if not slide or kept_from - 1 <= after:
        return after
    if missed := (kept_from - 1) // slide - after // slide:
        registration.missed += missed
        warnings.warn(
            f"{missed:,} windows of query '{name}' closed so long ago that their events are gone; "
            "call advance() more often, or give the engine a larger backlog_bytes",
            RuntimeWarning,
            stacklevel=4,
        )
    return kept_from - 1
