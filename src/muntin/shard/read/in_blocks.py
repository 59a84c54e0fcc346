"""In blocks: queries that keep all rows have their answers in common columns, of all their windows.

    SELECT k, SUM(n) AS sum FROM s [RANGE 60 SECONDS SLIDE 1 SECOND] GROUP BY k
    SELECT k, AVG(m) AS avg FROM s [RANGE 90 SECONDS SLIDE 1 SECOND] GROUP BY k

Ten thousand of these look at hundreds of windows. What was found of the windows lies one below the other: a *block*.
Keys, bounds and the answers of each aggregate are columns of the block, each made in one go. The table of a query is
a slice of some of them. One by one, Arrow and NumPy would cost more than the numbers do.

Which slices these are is found once for queries that are due together, and kept: a *layout*.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from muntin.answer import to_arrow, to_instants
from muntin.arrays import Bools, Ints, joined
from muntin.errors import MuntinError
from muntin.shard.read.left_out import evaluate_each
from muntin.shard.read.question import Question
from muntin.shard.read.reading import CallReading, Reading, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.store.needs import Need
from muntin.store.sequence import is_complete
from muntin.structure.synopsis import Found
from muntin.window import Window

_SLOTS = 1 << 22  # of one block: bounds memory
_KEPT = 64  # sets of queries that are due together: those of a few slides come in as many ways


def answers_in_blocks(
    state: State, questions: Sequence[Question], shared: SharedReads
) -> dict[str, pa.Table]:
    """Answers of those questions that keep all rows, by name of the query. Whoever lacks a value is not among them: it
    must find out for itself."""
    at: dict[int, list[Question]] = {}  # by instants
    for question in questions:
        if question.is_started and question.inside is None and question.only is None:
            at.setdefault(id(question.instants), []).append(question)
    answers: dict[str, pa.Table] = {}
    for some in at.values():
        if len(some) > 1:
            for family in _families(state, tuple([question.name for question in some])):
                answers |= family.answers(state, some[0], shared)
    return answers


def _families(state: State, names: tuple[str, ...]) -> list[_Family]:
    """Of some queries those that keep all rows, together if they have the same keys and kind of bounds."""
    known: dict[tuple[str, ...], list[_Family]] = state.prepared.families
    if names not in known:
        alike: dict[Hashable, list[tuple[str, Reading]]] = {}
        for name in names:
            reading = reading_of(state, name)
            if reading.keeps_all:
                what = (reading.query.key_expressions, reading.query.window is None)
                alike.setdefault(what, []).append((name, reading))
        if len(known) >= _KEPT:
            known.clear()
        known[names] = [_Family(some) for some in alike.values() if len(some) > 1]
    return known[names]


class _Family:
    """Queries that are due together, of the same keys."""

    def __init__(self, members: Sequence[tuple[str, Reading]]):
        self._members = members
        every = (window for _, reading in members for window in reading.windows)
        self._windows = {(each.number, each.window): each for each in every}
        self._layouts: dict[tuple[int, ...], _Layout] = {}
        self._halves: tuple[_Family, ...] = ()

    def answers(self, state: State, question: Question, shared: SharedReads) -> dict[str, pa.Table]:
        """A table for each of them that has all its values, asked the same `question` but for the name."""
        width, instants = self._members[0][1].width, question.instants
        try:
            found = [shared.find(window, question, width) for window in self._windows.values()]
        except (MuntinError, pa.ArrowException):
            return {}
        if not width or any(each.width != width for each in found):
            return {}
        # windows that differ in their slides alone have been found once, if all are due
        contents = {id(each.partials): each for each in found}
        if len(contents) * len(instants) * width > _SLOTS and len(self._members) > 1:
            some, middle = self._members, len(self._members) // 2
            self._halves = self._halves or (_Family(some[:middle]), _Family(some[middle:]))
            answers: dict[str, pa.Table] = {}
            for half in self._halves:
                answers |= half.answers(state, question, shared)
            return answers
        number = {content: place for place, content in enumerate(contents)}
        content_of = tuple([number[id(each.partials)] for each in found])
        if content_of not in self._layouts:
            places = dict(zip(self._windows, enumerate(content_of), strict=True))
            self._layouts = {content_of: _Layout(self._members, places)}
        return _Block(self._layouts[content_of], found, list(contents.values()), instants, width).tables()


Frame = tuple[
    int, Need
]  # what was found of a window, and what tells there which keys have rows: a part of the block
Covered = tuple[int, tuple[Need, ...]]  # a window, and what is read of it
Cover = tuple[int, tuple[int, ...]]  # a frame, and numbers of those that have to be covered
Request = tuple[Any, ...]  # the number of a frame, and for each part of a call what it is read from
Thing = TypeVar("Thing", bound=Hashable)


class _Lowered(NamedTuple):
    """Calls that are alike over windows of their own: columns that follow each other."""

    call: CallReading  # any of them
    frames: list[int]  # of each column
    parts: Sequence[
        tuple[tuple[int, Need], ...]
    ]  # of each part of the call what it is read from, for each column


class _Shown(NamedTuple):
    """A query, and the columns of its table."""

    name: str
    reading: Reading
    frame: int
    columns: list[int]  # of its calls
    cover: int
    same: int  # queries with the same number have the same table


class _Layout:
    """Of queries that are due together. `places` tell of each window its number, and that of what is found of it."""

    def __init__(
        self, members: Sequence[tuple[str, Reading]], places: Mapping[tuple[int, Window], tuple[int, int]]
    ):
        first = members[0][1]
        self.keys = first.keys
        self.is_own = first.query.window is None  # whether a row ends at the instant that is asked about
        frames, covers, covered = _Numbered[Frame](), _Numbered[Cover](), _Numbered[Covered]()
        calls: dict[int, dict[Request, CallReading]] = {}  # by kind
        same = _Numbered[int]()
        asked: list[tuple[_Shown, list[tuple[int, Request]]]] = []
        for name, reading in members:
            of = [places[window.number, window.window] for window in reading.windows]
            (presence,) = reading.presence
            frame = frames.number((of[presence.window][1], presence.need))
            parts = [
                covered.number((window, each.needs))
                for (window, _), each in zip(of, reading.windows, strict=True)
            ]
            requests = []
            for call in reading.calls:
                request = (frame, *[(of[part.window][1], part.need) for part in call.parts])
                calls.setdefault(call.kind, {}).setdefault(request, call)
                requests.append((call.kind, request))
            cover, alike = covers.number((frame, tuple(parts))), same.number(reading.same_answers)
            asked.append((_Shown(name, reading, frame, [], cover, alike), requests))
        self.frames, self.covers, self.covered = list(frames), list(covers), list(covered)
        self.lowered = []
        column = _Numbered[tuple[int, Request]]()
        for kind, some in calls.items():
            for request in some:
                column.number((kind, request))
            of_frame, *read = zip(*some, strict=True)
            self.lowered.append(_Lowered(next(iter(some.values())), list(of_frame), read))
        self.shown = [
            shown._replace(columns=[column.number(each) for each in requests]) for shown, requests in asked
        ]


class _Numbered(dict[Thing, int]):
    """Things in the order in which they came, with their numbers."""

    def number(self, thing: Thing) -> int:
        return self.setdefault(thing, len(self))


class _Block:
    """A layout filled with what was `found` of its windows at some instants."""

    def __init__(
        self, layout: _Layout, found: Sequence[Found], contents: Sequence[Found], instants: Ints, width: int
    ):
        self._layout, self._found, self._contents = layout, found, contents
        self._instants, self._width = instants, width
        self._size = len(instants) * width  # slots of a frame
        self._present = None if layout.keys is None else self._presence()
        # where the rows of each frame begin: those of its slots whose key has events
        self._rows: list[int] = list(range(0, self._size * (len(layout.frames) + 1), self._size))
        if self._present is not None:
            self._rows = [0, *np.cumsum(self._present.reshape(-1, self._size).sum(axis=1)).tolist()]

    def tables(self) -> dict[str, pa.Table]:
        """A table for each query that has all its values."""
        keys, bounds, covers, columns = self._keys(), self._bounds(), self._covers(), self._columns()
        made: dict[int, pa.Table | None] = {}
        answers: dict[str, pa.Table] = {}
        from_arrays = pa.Table.from_arrays
        for name, reading, frame, of, cover, same in self._layout.shown:
            if same not in made:
                called = [columns[number] for number in of]
                made[same] = None
                if self._rows[frame] == self._rows[frame + 1]:
                    made[same] = reading.schema.empty_table()
                elif (values := _values(reading, called, keys[frame])) is not None:
                    arrays = [*keys[frame], *values, *bounds[frame], covers[cover]]
                    made[same] = from_arrays(arrays, schema=reading.schema)
            if (table := made[same]) is not None:
                answers[name] = table
        return answers

    def _presence(self) -> Bools | None:
        """Of each slot whether its key has events; None if all have."""
        counts = joined([self._contents[content].partials[need][0] for content, need in self._layout.frames])
        present: Bools = counts > 0
        return None if present.all() else present

    def _of_frame(self, frame: int, slots: Any) -> Any:
        """Of all slots of a frame those that have rows."""
        if self._present is None:
            return slots
        kept = slots[self._present[frame * self._size : (frame + 1) * self._size]]
        return kept

    def _parts(self, columns: Sequence[pa.Array]) -> list[list[pa.Array]]:
        """Columns of the block, cut where frames begin."""
        return [[column.slice(lo, hi - lo) for column in columns] for lo, hi in pairwise(self._rows)]

    def _keys(self) -> list[list[pa.Array]]:
        """The key columns of each frame."""
        keys, many = self._layout.keys, len(self._layout.frames)
        if keys is None:
            return [[]] * many
        if self._present is None:
            return [keys.take(np.tile(np.arange(self._width), len(self._instants)))] * many
        return self._parts(keys.take(np.flatnonzero(self._present) % self._width))

    def _bounds(self) -> list[list[pa.Array]]:
        """Where the windows of each frame begin and end."""
        made: dict[Hashable, pa.Array] = {}  # many windows begin, or end, together
        bounds = []
        for frame, (content, _) in enumerate(self._layout.frames):
            found = self._contents[content]
            columns = []
            for side in (found.start, self._instants if self._layout.is_own else found.end):
                which = (side.tobytes(), None if self._present is None else frame)
                if which not in made:
                    made[which] = to_instants(self._of_frame(frame, side.repeat(self._width)))
                columns.append(made[which])
            bounds.append(columns)
        return bounds

    def _covers(self) -> list[pa.Array]:
        """Of each cover whether its windows were kept from their start."""
        layout = self._layout
        found = [self._found[window] for window, _ in layout.covered]
        since = [
            max([each.known_since[need] for need in needs])
            for each, (_, needs) in zip(found, layout.covered, strict=True)
        ]
        start, end, is_whole = (
            np.concatenate(side)
            for side in zip(*[(each.start, each.end, each.is_whole) for each in found], strict=True)
        )
        covered = is_complete(start, end, is_whole, np.repeat(since, len(self._instants)))
        if covered.all():
            always = pa.array(np.ones(self._size, np.bool_))
            return [always.slice(0, self._rows[frame + 1] - self._rows[frame]) for frame, _ in layout.covers]
        by_window = covered.reshape(len(found), -1)
        return [
            pa.array(self._of_frame(frame, by_window[list(some)].all(axis=0).repeat(self._width)))
            for frame, some in layout.covers
        ]

    def _columns(self) -> list[pa.Array | None]:
        """The answers of all calls; None in place of those that lack a value."""
        columns: list[pa.Array | None] = []
        for some in self._layout.lowered:
            columns += self._lowered(some)
        return columns

    def _lowered(self, some: _Lowered) -> Iterator[pa.Array | None]:
        """Answers of calls that are alike, over windows of their own."""
        present = None
        if self._present is not None:
            present = self._present.reshape(-1, self._size)[some.frames].ravel()
        partials = {}
        for part, read in zip(some.call.parts, some.parts, strict=True):
            arrays = [self._contents[content].partials[need] for content, need in read]
            whole = [joined(each) for each in zip(*arrays, strict=True)]
            partials[part.need.component] = tuple(
                each if present is None else each[present] for each in whole
            )
        try:
            value, valid, lost = some.call.aggregate.lower(partials)
        except MuntinError:  # a function of the user's own
            yield from [None] * len(some.frames)
            return
        column, end = to_arrow(value, valid, some.call.type), 0
        for frame in some.frames:
            begin, end = end, end + self._rows[frame + 1] - self._rows[frame]
            is_there = lost is None or not lost[begin:end].any()
            yield column.slice(begin, end - begin) if is_there else None


def _values(
    reading: Reading, called: Sequence[pa.Array | None], keys: Sequence[pa.Array]
) -> list[pa.Array] | None:
    """What SELECT makes of the answers of the calls; None if a value is missing."""
    if any(each is None for each in called):
        return None
    named: dict[str, pa.Array] = {}
    if not reading.shows_calls:
        named = {f"${number}": column for number, column in enumerate(called)}
        named |= {key.name: column for key, column in zip(reading.query.keys, keys, strict=True)}
    values = []
    for output in reading.outputs:
        if isinstance(output, int):
            values.append(called[output])
            continue
        if not output.columns:
            return None  # the length of its column follows from nothing
        try:
            made = evaluate_each(output, named)
        except MuntinError:  # of a function of the user's own
            return None
        if made.lost is not None and made.lost.any():
            return None
        values.append(made.column)
    return values
