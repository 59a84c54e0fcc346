"""Changes: which keys enter and which leave the answers of a query, from one instant to the next.

What `EMIT CHANGES` makes of a query. A key *enters* at the first instant at which it qualifies and did
not at the one before, and *leaves* at the first at which it no longer does: no more than that, so a
key that hovers about its threshold enters and leaves as often as it crosses it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.shard.read.evaluate import Rows, always, answer, select
from muntin.shard.read.left_out import NONE, LeftOut
from muntin.shard.read.question import Question
from muntin.shard.read.reading import reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State


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
    reading = reading_of(state, question.name)
    inside, schema = question.inside, reading.query.emission_schema()
    assert inside is not None
    tables: list[pa.Table] = []
    qualified, unknown, left_out = _qualifying(state, question, shared)
    for instant, now, unsure in zip(question.instants, qualified, unknown, strict=True):
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
            enters = np.isin(changed, now, assume_unique=True)
            change = pa.array(np.where(enters, "enter", "leave"), pa.string())
            tables.append(pa.Table.from_arrays([*answers.table.columns, change], schema=schema))
        inside = now
    return Changes(tables, inside, left_out)


class _Qualifying(NamedTuple):
    """At each instant, the keys that pass HAVING and those of which it has no value; ascending."""

    ids: list[Ints]
    unknown: list[Ints]
    left_out: LeftOut


def _qualifying(state: State, question: Question, shared: SharedReads) -> _Qualifying:
    """The keys that qualify at each instant; without keys, 0 if the query has an answer."""
    reading = reading_of(state, question.name)
    rows, find = shared.slots(question)
    if not rows.width:
        nobody = [np.zeros(0, np.int64) for _ in question.instants]
        return _Qualifying(nobody, nobody, NONE)
    found = [find(window) for window in reading.windows]
    chosen = select(reading, rows, found, state.texts, always if question.ids is not None else shared.once)
    slots = (
        np.arange(len(rows)) if chosen.kept is None else np.sort(chosen.kept)
    )  # LIMIT has an order of its own
    return _Qualifying(_by_instant(rows, slots), _by_instant(rows, chosen.unknown), chosen.left_out)


def _by_instant(rows: Rows, slots: Ints) -> list[Ints]:
    """The keys of some slots, instant by instant."""
    edges = np.searchsorted(slots, np.arange(len(rows.instants) + 1) * rows.width)
    return [rows.ids(slots[lo:hi]) for lo, hi in pairwise(edges)]
