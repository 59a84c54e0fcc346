"""Changes: which keys enter and which leave the answers of a query, from one instant to the next.

What `EMIT CHANGES` makes of a query. A key *enters* at the first instant at which it qualifies and did
not at the one before, and *leaves* at the first at which it no longer does: no more than that, so a
key that hovers about its threshold enters and leaves as often as it crosses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.shard.read.evaluate import Rows, Selected, always, answer, replace_lost, select, tabulate
from muntin.shard.read.left_out import NONE, LeftOut
from muntin.shard.read.lower import lower
from muntin.shard.read.question import Question
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.structure.synopsis import Found


class Changes(NamedTuple):
    """Tables of changes, the keys that qualify at the last instant, and the rows left out."""

    tables: list[pa.Table]
    inside: Ints
    left_out: LeftOut


def changes(state: State, question: Question, shared: SharedReads) -> Changes:
    """Changes at each instant, after one at which the keys `question.inside` qualified. O(keys) per instant for the
    selection, O(changes) for the tables.

    A key whose row cannot be told, since a value of it does not exist, stays as it was.
    """
    qualified = _qualifying(state, question, shared)
    return _at_once(state, question, qualified) or _one_by_one(state, question, qualified, shared)


def _at_once(state: State, question: Question, qualified: _Qualifying) -> Changes | None:
    """Changes at all instants in a table; None if a value may not exist, or a key that leaves has not been read.

    A key at an instant is one number, `instant * keys + key`. Who is in at an instant and moved on by one is who was in
    before the next. So the numbers that are in one of both, and not in the other, are the changes, in order of rows.
    """
    reading, rows, inside = reading_of(state, question.name), qualified.rows, question.inside
    assert inside is not None
    if question.ids is not None or question.moves is not None or any(map(len, qualified.unknown)):
        return None
    keys, last = 1 if reading.keys is None else len(reading.keys), len(question.instants) - 1
    counts = [len(each) for each in qualified.ids]
    now = np.concatenate(qualified.ids) + np.repeat(np.arange(last + 1) * keys, counts)
    before = np.concatenate([inside, now[: len(now) - counts[-1]] + keys])
    changed = np.setxor1d(now, before, assume_unique=True)
    if not len(changed):
        return Changes([], qualified.ids[-1], NONE)
    instant, id = np.divmod(changed, keys)
    places = id if rows.key is None else _places(rows, keys)[id]
    if not rows.width or places.min() < 0:
        return None
    slots = instant * rows.width + places
    lowered = [lower(call, qualified.found, slots, state.texts) for call in reading.calls]
    columns, losts = [column for column, _ in lowered], [lost for _, lost in lowered]
    answers = tabulate(reading, rows, qualified.found, Selected(slots, columns, losts, ()), always)
    if answers.gone is not None:
        return None
    enters = np.isin(changed, now, assume_unique=True)
    return Changes([_told(reading, answers.table, enters)], qualified.ids[-1], NONE)


def _places(rows: Rows, keys: int) -> Ints:
    """The place of each key among the slots of an instant, which are the same at all of them; -1 if it has none."""
    assert rows.key is not None
    places = np.full(keys, -1)
    places[rows.key[: rows.width]] = np.arange(rows.width)
    return places


def _one_by_one(state: State, question: Question, qualified: _Qualifying, shared: SharedReads) -> Changes:
    """Changes instant by instant, with a look-up of those that change at each."""
    reading, inside, left_out = reading_of(state, question.name), question.inside, qualified.left_out
    assert inside is not None
    tables: list[pa.Table] = []
    for instant, now, unsure in zip(question.instants, qualified.ids, qualified.unknown, strict=True):
        if len(unsure):
            now = np.union1d(now, np.intersect1d(inside, unsure, assume_unique=True))
        changed = np.setxor1d(inside, now, assume_unique=True)
        if len(changed):
            ids = changed if reading.keys is not None else None
            rows, find = shared.slots(Question(question.name, np.array([instant]), ids))
            answers = answer(reading, rows, find, state.texts, is_filtered=False)
            if answers.gone is not None:
                now = np.setxor1d(now, changed[answers.gone], assume_unique=True)
                changed = changed[~answers.gone]
                left_out = left_out.also(answers.left_out)
            tables.append(_told(reading, answers.table, np.isin(changed, now, assume_unique=True)))
        inside = now
    return Changes(tables, inside, left_out)


def _told(reading: Reading, answers: pa.Table, enters: Bools) -> pa.Table:
    change = pa.array(np.where(enters, "enter", "leave"), pa.string())
    return pa.Table.from_arrays([*answers.columns, change], schema=reading.query.emission_schema())


class _Qualifying(NamedTuple):
    """At each instant, the keys that pass HAVING, and those of which HAVING or ORDER BY has no value; ascending. With
    LIMIT, only the first of those that pass. Keys whose places others took as SELECT has no value are among them, too:
    such a key neither enters nor leaves."""

    ids: list[Ints]
    unknown: list[Ints]
    left_out: LeftOut
    rows: Rows  # all that were asked about
    found: Sequence[Found]


def _qualifying(state: State, question: Question, shared: SharedReads) -> _Qualifying:
    """The keys that qualify at each instant; without keys, 0 if the query has an answer."""
    reading = reading_of(state, question.name)
    rows, find = shared.slots(question)
    if not rows.width:
        nobody = [np.zeros(0, np.int64) for _ in question.instants]
        return _Qualifying(nobody, nobody, NONE, rows, ())
    found = [find(window) for window in reading.windows]
    once = always if question.ids is not None else shared.once
    chosen = select(reading, rows, found, state.texts, once)
    unknown, left_out = chosen.unknown, chosen.left_out
    slots = np.arange(len(rows)) if chosen.kept is None else chosen.kept
    if reading.query.top is not None:
        answers = tabulate(reading, rows, found, chosen, always)
        chosen, _, without, _ = replace_lost(reading, rows, found, state.texts, once, chosen, answers)
        assert chosen.kept is not None
        # LIMIT has an order of its own
        slots = np.union1d(chosen.kept, np.setdiff1d(without, unknown, assume_unique=True))
    return _Qualifying(_by_instant(rows, slots), _by_instant(rows, unknown), left_out, rows, found)


def _by_instant(rows: Rows, slots: Ints) -> list[Ints]:
    """The keys of some slots, instant by instant."""
    edges = np.searchsorted(slots, np.arange(len(rows.instants) + 1) * rows.width)
    return [rows.ids(slots[lo:hi]) for lo, hi in pairwise(edges)]
