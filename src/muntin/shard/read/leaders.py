"""Leaders: the keys among which are the first of a query with LIMIT, found without a visit to all keys.

ORDER BY … LIMIT is a HAVING whose threshold nobody knows. The heads of slices (`key_index/heads.py`) name some keys that
are probably first; these are read, and the last of the first that pass HAVING is a threshold: the heads tell which other
keys could reach it. Where that takes too many keys, all are visited.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from muntin.arrays import Ints
from muntin.key_index.heads import DEPTH
from muntin.shard.read.evaluate import always, select
from muntin.shard.read.question import Question
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State

_MORE, _TWICE = 8, 2  # cells of each slice that are looked at first, beyond as many as keys are looked for
_PART = 16  # if more than one key in so many is to be read, all had better be visited


def led(state: State, questions: Sequence[Question]) -> list[Question]:
    """The same questions; where heads name the keys that may come first, of those keys alone. Queries that differ in
    LIMIT alone are asked of the same keys."""
    ranked = [(number, reading) for number, each in enumerate(questions) if (reading := _led(state, each))]
    found: dict[Hashable, Ints | None] = {}
    asked = list(questions)
    for number, reading in sorted(ranked, key=lambda each: -_limit(each[1])):
        question = asked[number]
        what = (reading.lead, reading.windows, reading.query.having, int(question.instants[0]))
        if what not in found:
            found[what] = _leaders(state, question, reading)
        if (ids := found[what]) is not None:
            asked[number] = question._replace(ids=ids, is_led=True)
    return asked


def _led(state: State, question: Question) -> Reading | None:
    """The reading of a question whose first keys heads may name."""
    if question.ids is not None or len(question.instants) > 1 or not question.is_started:
        return None
    reading = reading_of(state, question.name)
    return None if reading.lead is None or _limit(reading) > DEPTH else reading


def _limit(reading: Reading) -> int:
    assert reading.query.top is not None
    return reading.query.top.limit


def _leaders(state: State, question: Question, reading: Reading) -> Ints | None:
    """Keys among which are the first; None if all have to be visited. O(slices) and O(keys named)."""
    assert reading.lead is not None
    call, part = reading.lead
    number, window = reading.windows[part.window][:2]
    instant, limit = window.settle(int(question.instants[0])), _limit(reading)
    heads = state.synopses[number].heads(part.need, window, instant, reading.width)
    if heads is None:
        return None
    depth = min(_TWICE * limit + _MORE, DEPTH)
    ids = heads.keys(depth)
    rows, find = SharedReads(state, is_alone=True).slots(question._replace(ids=ids))
    found = [find(each) for each in reading.windows]
    chosen = select(reading, rows, found, state.texts, always)
    if chosen.kept is None or len(chosen.kept) < limit or not chosen.columns[call][-1].is_valid:
        return None
    value = chosen.columns[call].cast("float64", safe=False)[-1].as_py()
    beyond = heads.depth_beyond(value)
    if beyond is not None and beyond > depth:
        ids = heads.keys(beyond)
    return None if beyond is None or len(ids) * _PART > reading.width else np.asarray(ids)
