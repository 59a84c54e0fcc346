"""Alike: queries that differ in nothing but the threshold of HAVING, or that and the window, are answered together.

A thousand screening rules ask for few things, over many windows and with many thresholds. What costs most of an
answer is the number of Arrow arrays made for it, not their length; those that are alike share theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Ints, joined
from muntin.band import Band
from muntin.errors import MuntinError
from muntin.shard.read.evaluate import Rows, Slots, answers_by_band, answers_by_slots
from muntin.shard.read.question import Question
from muntin.shard.read.ranked import FEW
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.store.needs import Need
from muntin.structure.synopsis import Found

_SLOTS = 1 << 21  # of several windows that are answered in one pass: bounds memory


class _Member(NamedTuple):
    question: Question
    reading: Reading

    @property
    def band(self) -> Band:
        having = self.reading.query.having
        assert having is not None
        assert having.band is not None
        return having.band

    @property
    def slots(self) -> int:
        return len(self.question.instants) * self.reading.width


def answers_of_alike(state: State, questions: Iterable[Question], shared: SharedReads) -> dict[str, pa.Table]:
    """Answers of those questions about all keys that others are alike, by name of the query; O(rows), and a binary
    search per query.

    Where one of them has no answer, none of its like is here: each must find out for itself.
    """
    of_window: dict[tuple[int, int], list[_Member]] = {}  # of one window
    families: dict[int, list[_Member]] = {}  # of many
    for question in questions:
        each = _Member(question, reading_of(state, question.name))
        if question.inside is not None:
            continue
        if each.reading.same_but_band is not None:
            of_window.setdefault((each.reading.same_but_band, id(question.instants)), []).append(each)
    answers: dict[str, pa.Table] = {}
    for some in of_window.values():
        family = some[0].reading.same_but_window
        if family is not None and len(some) <= FEW:
            families.setdefault(family, []).extend(some)
        elif len(some) > 1:
            answers.update(_of_one_window(state, some, shared))
    for some in families.values():
        for part in _parts(some):
            answers.update(_of_windows(state, part, shared))
    return answers


def _of_one_window(state: State, some: Sequence[_Member], shared: SharedReads) -> dict[str, pa.Table]:
    """Nothing if they have no answer together."""
    reading = some[0].reading
    rows, find = shared.slots(some[0].question)
    if rows.width == 0:
        return {}
    try:
        tables = answers_by_band(reading, [each.band for each in some], rows, find, state.texts, shared.once)
    except (MuntinError, pa.ArrowException):
        return {}
    return dict(zip((each.question.name for each in some), tables, strict=True))


def _parts(some: Sequence[_Member]) -> Iterator[list[_Member]]:
    """Queries whose slots are taken together, two or more of them."""
    part: list[_Member] = []
    slots = 0
    for each in some:
        slots += each.slots
        if slots > _SLOTS:
            if len(part) > 1:
                yield part
            part, slots = [], each.slots
        part.append(each)
    if len(part) > 1:
        yield part


def _of_windows(state: State, some: Sequence[_Member], shared: SharedReads) -> dict[str, pa.Table]:
    """Nothing if they have no answer together."""
    first = some[0].reading
    width = first.width
    if width == 0:
        return {}
    begins: dict[tuple[int, int], int] = {}  # where what was found of a window begins
    stacked: list[Found] = []
    instants: list[Ints] = []
    asked, slots = [], 0
    try:
        for each in some:
            (window,) = each.reading.windows
            found = shared.find(window, each.question, width)
            which = (id(found), id(each.question.instants))
            if which not in begins:
                begins[which] = slots
                stacked.append(found)
                instants.append(each.question.instants)
                slots += each.slots
            begin = begins[which]
            asked.append(Slots(begin, begin + each.slots, each.band))
        rows = Rows(width, np.concatenate(instants), None)
        tables = answers_by_slots(
            first, asked, rows, stacked_found(first.windows[0].needs, stacked), state.texts
        )
    except (MuntinError, pa.ArrowException):
        return {}
    return dict(zip((each.question.name for each in some), tables, strict=True))


def stacked_found(needs: Sequence[Need], some: Sequence[Found]) -> Found:
    """What was found of several windows, one below the other."""
    partials = {
        need: tuple(joined(arrays) for arrays in zip(*(each.partials[need] for each in some), strict=True))
        for need in needs
    }
    start, end, complete = (
        np.concatenate(parts)
        for parts in zip(*((each.start, each.end, each.complete(needs)) for each in some), strict=True)
    )
    return Found(partials, start, end, complete, dict.fromkeys(needs, LONG_AGO), some[0].width)
