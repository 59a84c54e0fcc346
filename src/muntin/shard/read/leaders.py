"""Leaders: the first keys of queries with LIMIT, found without a visit to all keys.

ORDER BY … LIMIT is a HAVING whose threshold nobody knows. The heads of slices (`key_index/heads.py`) name some keys
that are probably first; these are read, and the last of the first that pass HAVING is a threshold: the heads tell which
other keys could reach it. Where that takes too many keys, all are visited. Queries that differ in LIMIT and window
alone are answered together: their windows stand below each other, as the instants of one query do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.errors import MuntinError
from muntin.key_index import finders
from muntin.key_index.foremost import Foremost
from muntin.key_index.heads import DEPTH, WindowHeads
from muntin.shard.read.alike import stacked_found
from muntin.shard.read.evaluate import Answered, Rows, Selected, always, select, tabulate
from muntin.shard.read.question import Question
from muntin.shard.read.reading import GroupWindow, Reading, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.structure.synopsis import Found

_TWICE, _MORE = 2, 8  # cells of each slice that are looked at first: so many times LIMIT, and so many more
_PART = 16  # if more than one key in so many is to be read, all had better be visited


class _Member(NamedTuple):
    number: int  # among the questions
    question: Question
    reading: Reading

    @property
    def limit(self) -> int:
        assert self.reading.query.top is not None
        return self.reading.query.top.limit

    @property
    def window(self) -> GroupWindow:
        (window,) = self.reading.windows
        return window


def lead(state: State, questions: Sequence[Question]) -> tuple[list[Question], dict[int, Answered]]:
    """The same questions, and the answers of some of them, by their numbers. Of some others all but the first keys are
    left out."""
    families: dict[tuple[int | None, int], list[_Member]] = {}
    for number, question in enumerate(questions):
        if question.ids is not None or len(question.instants) > 1 or not question.is_started:
            continue
        reading = reading_of(state, question.name)
        if reading.lead is not None:
            what = (reading.same_but_limit, int(question.instants[0]))
            families.setdefault(what, []).append(_Member(number, question, reading))
    asked, answers = list(questions), dict[int, Answered]()
    for some in families.values():
        try:
            found = list(_answered(state, sorted(some, key=lambda each: -each.limit)))
        except (MuntinError, pa.ArrowException):
            continue  # one of them has no answer: each finds out for itself
        for each, first in found:
            if each.question.inside is None and each.question.only is None:
                answers[each.number] = first.answer
            else:
                # who is inside stays while HAVING does not exist, wherever the key would stand
                inside = first.ids[:0] if each.question.inside is None else each.question.inside
                asked[each.number] = each.question._replace(ids=np.union1d(first.ids, inside))
    return asked, answers


class _First(NamedTuple):
    """The first keys of one window, in order, and their rows."""

    ids: Ints
    answer: Answered


def _answered(state: State, some: Sequence[_Member]) -> Iterator[tuple[_Member, _First]]:
    """Those queries whose first keys are found. They come in the order of LIMIT, the greatest first."""
    told = set()
    for each, first in _by_heads(state, some):
        told.add(each.number)
        yield each, first
    if rest := [each for each in some if each.number not in told]:
        yield from _by_one_component(state, rest)


def _by_heads(state: State, some: Sequence[_Member]) -> Iterator[tuple[_Member, _First]]:
    """O(slices) and O(keys named) for each window."""
    reading, question, limit = some[0].reading, some[0].question, some[0].limit
    heads = {} if limit > DEPTH else _heads_of(state, some)
    if not heads:
        return
    depth = min(_TWICE * limit + _MORE, DEPTH)
    ids = np.unique(np.concatenate([each.keys(depth) for each in heads.values()]))
    if not len(ids):
        return
    tried = _Tried(state, reading, list(heads), question, ids)
    beyond = {
        window: head.depth_beyond(float(last))
        for window, head in heads.items()
        if (last := tried.last(window, limit)) is not None
    }
    enough = {window: each for window, each in beyond.items() if each is not None}
    deeper = [heads[window].keys(each) for window, each in enough.items() if each > depth]
    if deeper:
        ids = np.unique(np.concatenate([ids, *deeper]))
        if len(ids) * _PART > reading.width:
            return
        tried = _Tried(state, reading, list(heads), question, ids)
    yield from tried.first(some, enough)


def _by_one_component(state: State, some: Sequence[_Member]) -> Iterator[tuple[_Member, _First]]:
    """Where no key stands out in the slices: what keys are ordered by is read of all of them, all else of the few that
    come first. O(cells of the longest window), and O(keys) for each window."""
    reading, question, limit = some[0].reading, some[0].question, some[0].limit
    many = _TWICE * limit + _MORE
    if reading.width < finders.FEW or many * _PART > reading.width:
        return
    foremost = _foremost_of(state, some, many)
    if not foremost:
        return
    ids = np.unique(np.concatenate([each.keys for each in foremost.values()]))
    if len(ids) * _PART > reading.width:  # too many are equal
        return
    tried = _Tried(state, reading, list(foremost), question, ids)
    enough = [
        window
        for window, each in foremost.items()
        if (last := tried.last(window, limit)) is not None and each.holds(last)
    ]
    yield from tried.first(some, enough)


def _heads_of(state: State, some: Sequence[_Member]) -> dict[GroupWindow, WindowHeads]:
    """The heads of each window that one of the queries looks at, if it has any."""
    found: dict[GroupWindow, WindowHeads] = {}
    for window in dict.fromkeys(each.window for each in some):
        reading = some[0].reading
        assert reading.lead is not None
        instant = window.window.settle(int(some[0].question.instants[0]))
        need = reading.lead[1].need
        heads = state.synopses[window.number].heads(need, window.window, instant, reading.width)
        if heads is not None:
            found[window] = heads
    return found


def _foremost_of(state: State, some: Sequence[_Member], many: int) -> dict[GroupWindow, Foremost]:
    """What comes first in each window that one of the queries looks at, as far as one component tells."""
    reading, instant = some[0].reading, int(some[0].question.instants[0])
    assert reading.lead is not None
    windows = list(dict.fromkeys(each.window for each in some))
    found = state.synopses[windows[0].number].foremost(
        reading.lead[1].need,
        {each.window: each.window.settle(instant) for each in windows},
        reading.width,
        many,
    )
    return {each: found[each.window] for each in windows if each.window in found}


class _Tried:
    """Some keys in several windows: those that come first in each of them."""

    def __init__(
        self, state: State, reading: Reading, windows: Sequence[GroupWindow], question: Question, ids: Ints
    ):
        asked, shared = question._replace(ids=ids), SharedReads(state, is_alone=True)
        self._reading = reading
        self._place = {window: number for number, window in enumerate(windows)}
        self._found: Found = stacked_found(
            windows[0].needs, [shared.find(window, asked, len(ids)) for window in windows]
        )
        self._rows = Rows(len(ids), np.repeat(question.instants, len(windows)), np.tile(ids, len(windows)))
        self._chosen: Selected = select(reading, self._rows, [self._found], state.texts, always)
        assert self._chosen.kept is not None
        self._ids = self._rows.ids(self._chosen.kept)
        # where the keys of each window begin
        self._edges: Ints = np.searchsorted(self._chosen.kept // len(ids), np.arange(len(windows) + 1))

    def last(self, window: GroupWindow, limit: int) -> Any:
        """What the last of the first keys of a window is ordered by; None if there are fewer keys, or it is NULL."""
        assert self._reading.lead is not None
        lo, hi = self._edges[self._place[window] :][:2]
        return None if hi - lo < limit else self._chosen.columns[self._reading.lead[0]][int(hi) - 1].as_py()

    def first(
        self, some: Sequence[_Member], windows: Collection[GroupWindow]
    ) -> Iterator[tuple[_Member, _First]]:
        """The rows of those queries that look at some of the windows."""
        made = tabulate(self._reading, self._rows, [self._found], self._chosen, always)
        if made.left_out.rows or self._chosen.left_out.rows:  # others take the places of these rows
            return
        for each in some:
            if each.window in windows:
                lo, hi = self._edges[self._place[each.window] :][:2]
                many = min(int(hi - lo), each.limit)
                yield each, _First(self._ids[lo : lo + many], Answered(made.table.slice(int(lo), many)))
