"""Push: every window that closed since the last time, each once, for all queries together.

Time is walked through in stretches, all queries side by side, so that what one stretch found of a
window serves every query and is forgotten before the next.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.errors import MuntinError
from muntin.key_index.finders import Candidates
from muntin.shard.adapt.timed import timed
from muntin.shard.emit.changes import changes_at
from muntin.shard.emit.portion import DEFAULT_ROWS, Answers, allot
from muntin.shard.emit.silence import Silence, Spans
from muntin.shard.read.alike import answers_of_alike
from muntin.shard.read.evaluate import Answered, Rows, answer
from muntin.shard.read.left_out import NONE, LeftOut, tell
from muntin.shard.read.lookup import answers_among, answers_at, candidates
from muntin.shard.read.reading import Place, Reading, reading_of
from muntin.shard.read.stretch import Stretch
from muntin.shard.registration import Registration
from muntin.shard.state import State
from muntin.structure.synopsis import CountsEvents, Found
from muntin.window import Window

_NONE = np.zeros(0, np.int64)
_LONG_AGO = (
    "so long ago that their events are gone; call advance() more often, or give the engine more backlog_bytes"
)
_CROWD = 16  # queries that look at one window, to which visiting all keys once is cheaper than any index
# so many keys are visited for all windows of a group, which nest, by one scan: a crowd is theirs
_FEW_KEYS = 1 << 14
_SHORT = 1 << 14  # instants of all queries together that fit into any portion
_SLOTS = 4_000_000  # keys times windows of one stretch, if it has more than one instant: bounds memory
_MOST_SLOTS = 32_000_000  # keys times windows that are looked up together in any case


@dataclass
class _Due:
    """What one query owes: instants not yet answered, tables of those that are, windows given up.

    `ticks` are all that it owes, `instants` those of this portion.
    """

    name: str
    registration: Registration
    instants: Ints
    ticks: Spans | None = None  # if it follows time by a slide
    more: bool = False  # whether some of it is left for the next portion
    tables: list[pa.Table] = field(default_factory=list)
    inside: Ints | None = None  # EMIT CHANGES: the keys that qualified at the last instant answered
    missed: int = 0
    complaints: list[str] = field(default_factory=list)
    left_out: LeftOut = NONE  # rows of which a value does not exist

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)

    def draw(self, most: int) -> None:
        """Take the first instants that are owed into this portion."""
        if self.ticks is not None:
            self.instants = self.ticks.take(most) * self.registration.slide
            self.more = self.ticks.count > most

    def stop_after(self, instant: int) -> None:
        """Leave what comes after an instant to the next portion."""
        kept = int(self.instants.searchsorted(instant, "right"))
        self.more |= kept < len(self.instants)
        self.instants = self.instants[:kept]

    def take(
        self, state: State, instants: Ints, stretch: Stretch | None, among: Candidates | None = None
    ) -> None:
        """Add answers, among some keys or of all in a stretch; a window that has none must not hold up any other."""
        try:
            if self.inside is not None:
                ids = None if among is None else among.ids
                changes = changes_at(state, self.name, instants, self.inside, stretch, ids)
                self.inside, self.left_out = changes.inside, self.left_out.also(changes.left_out)
                self.tables += changes.tables
            elif among is not None:
                self.add(answers_among(state, self.name, instants, among))
            else:
                self.add(answers_at(state, self.name, instants, stretch=stretch))
        except (MuntinError, pa.ArrowException) as error:
            if len(instants) > 1:
                for instant in instants:
                    self.take(state, np.array([instant]), stretch, among)
                return
            self.missed += 1
            end = np.datetime64(int(instants[0]), "us")
            self.complaints.append(f"has no answer for the window that closed at {end}: {error}")

    def add(self, answers: Answered) -> None:
        self.tables.append(answers.table)
        if answers.left_out.rows:
            self.left_out = self.left_out.also(answers.left_out)


def emit(state: State, until: int, rows: int = DEFAULT_ROWS) -> Answers:
    """Answers by query of windows that closed up to `until`; queries without any are left out. About `rows` of
    them in all: what exceeds it is left for the next call.

    Nothing is marked as given out before all of it is there to be given.
    """
    answers = Answers()
    first = state.clock.first
    if first is None:
        return answers
    silence = Silence(state)
    dues, quiet = [], []
    for name, registration in state.registrations.items():
        after = registration.owes_after(first)
        if until <= after:
            continue
        slide = registration.slide
        if slide and until // slide == after // slide:  # most queries, most of the time
            quiet.append(registration)
        else:
            dues.append(_due(state, name, registration, after, until, silence))
    _draw(state, dues, rows)
    _answer_in_stretches(state, [due for due in dues if len(due.instants)], rows)
    for registration in quiet:
        registration.emitted_to = until
    for due in dues:
        due.registration.emitted_to = int(due.instants[-1]) if due.more else until
        answers.more |= due.more
        if due.inside is not None:
            due.registration.inside = due.inside
        due.registration.missed += due.missed
        if due.rows:
            answers[due.name] = due.tables[0] if len(due.tables) == 1 else pa.concat_tables(due.tables)
            due.registration.emitted += due.rows
    state.note_emitted()
    for due in dues:
        for complaint in due.complaints:
            warnings.warn(f"query '{due.name}' {complaint}", RuntimeWarning, stacklevel=4)
        state.overflows += due.left_out.rows
        tell(due.name, due.registration, due.left_out, stacklevel=4)
    return answers


def skip(state: State, until: int) -> None:
    """No window that closed up to `until` is owed any more; for queries that do not emit changes."""
    for registration in state.registrations.values():
        if registration.emitted_to is None or registration.emitted_to < until:
            registration.emitted_to = until
    state.note_emitted()


def _due(
    state: State, name: str, registration: Registration, after: int, until: int, silence: Silence
) -> _Due:
    query = registration.query
    if query.moves_by_rows:
        return _due_by_count(state, name, registration, until)
    inside = registration.inside if query.emits_changes else None
    slide = query.slide
    if not slide:
        return _Due(name, registration, np.array([until]), inside=inside)
    missed = _missed(state, name, slide, after)
    complaints = [f"has lost {missed:,} windows that closed {_LONG_AGO}"] if missed else []
    first, last = after // slide + missed + 1, until // slide
    ticks = silence.ticks(name, query, first, last) if first <= last else Spans.of(_NONE)
    return _Due(name, registration, _NONE, ticks, inside=inside, missed=missed, complaints=complaints)


def _draw(state: State, dues: list[_Due], rows: int) -> None:
    """Choose the instants of this portion: all that are owed, or as many as each query's share of `rows` lets
    it visit. An instant of a sketch counts as several: it takes as long."""
    counts = [0 if due.ticks is None else due.ticks.count for due in dues]
    most = [rows] * len(dues)
    if sum(counts) > min(rows, _SHORT):
        costs = [
            max(state.synopses[each].instant_cost for each in state.manager.placements[due.name].groups())
            for due in dues
        ]
        share = allot([count * cost for count, cost in zip(counts, costs, strict=True)], rows)
        most = [max(1, share // cost) for cost in costs]
    for due, some in zip(dues, most, strict=True):
        due.draw(some)


def _answer_in_stretches(state: State, dues: list[_Due], rows: int) -> None:
    """Answer what is due, stretch by stretch. Once there are more than `rows`, queries that have had their share
    of them stop."""
    if not dues:
        return
    everything = _merged({due.instants.tobytes(): due.instants for due in dues}.values())
    if len(everything) == 1:  # most of the time
        _answer_stretch(state, dues, everything[0], everything[0])
        return
    asked = {  # what is looked up for several queries takes room once
        (number, window, due.instants.tobytes()): due.instants
        for due in dues
        for number, window, _ in reading_of(state, due.name).places
    }
    looked_up = np.searchsorted(everything, np.concatenate(list(asked.values())))
    how_many = np.bincount(looked_up, minlength=len(everything))
    begin, width, slots = 0, _width(state), min(rows, _SLOTS)
    while begin < len(everything):
        windows = np.cumsum(how_many[begin : begin + slots])
        end = begin + max(1, int(np.searchsorted(windows * max(width, 1), slots, "right")))
        _answer_stretch(state, dues, everything[begin], everything[end - 1])
        if sum(due.rows for due in dues) > rows:
            for due in dues:
                if due.rows > rows // len(dues):
                    due.stop_after(everything[end - 1])
        begin = end


def _merged(ascending: Iterable[Ints]) -> Ints:
    """All of some instants, each once. A stable sort merges what is in order already: `np.unique` hashes, and
    multiples of a slide collide."""
    merged = np.sort(np.concatenate(list(ascending)), kind="stable")
    each_once: Ints = merged[np.append(True, merged[1:] != merged[:-1])]
    return each_once


def _answer_stretch(state: State, dues: list[_Due], first: int, last: int) -> None:
    """Answer what is due from `first` to `last`."""
    due_now = []
    parts: dict[bytes, Ints] = {}  # most queries are due at the same instants as others
    for due in dues:
        lo, hi = due.instants.searchsorted(first), due.instants.searchsorted(last, "right")
        if lo < hi:
            part = due.instants[lo:hi]
            due_now.append((due, parts.setdefault(part.tobytes(), part)))
    for portion in _portions(state, _answer_by_index(state, due_now)):
        _answer_portion(state, portion)


def _portions(state: State, due: list[tuple[_Due, Ints]]) -> Iterator[list[tuple[_Due, Ints]]]:
    """Queries whose windows are looked up together: nearly always all of them, unless memory could not hold it."""
    width = _width(state)
    # most of the time; a stretch of several instants has no more than `_SLOTS`
    if width * sum(len(_places(state, each)) for each in due) <= _MOST_SLOTS:
        yield due
        return
    portion: list[tuple[_Due, Ints]] = []
    places: set[tuple[int, Window, int]] = set()
    slots = 0
    # those of about the same size share most of a scan
    for each in sorted(due, key=lambda each: max(place.window.size for place in _places(state, each))):
        asked = {(number, window, id(each[1])) for number, window, _ in _places(state, each)}
        more = len(asked - places) * len(each[1]) * width
        if portion and more and slots + more > _MOST_SLOTS:
            yield portion
            portion, places, slots, more = [], set(), 0, len(asked) * len(each[1]) * width
        slots += more
        places |= asked
        portion.append(each)
    if portion:
        yield portion


def _width(state: State) -> int:
    """Slots that an instant of a window takes at most."""
    return max((len(keys) for keys in state.keys.values()), default=1)


def _places(state: State, due: tuple[_Due, Ints]) -> tuple[Place, ...]:
    return reading_of(state, due[0].name).places


def _answer_portion(state: State, due_now: list[tuple[_Due, Ints]]) -> None:
    stretch = Stretch(state)
    try:
        stretch.prefetch((reading_of(state, due.name), instants) for due, instants in due_now)
    except MuntinError:
        stretch = Stretch(state)  # one of them has no answer: each finds out for itself
    together = answers_of_alike(
        state, [(due.name, instants) for due, instants in due_now if due.inside is None], stretch
    )
    for due, instants in due_now:
        if due.name in together:
            due.tables.append(together[due.name])
        else:
            due.take(state, instants, stretch)


def _answer_by_index(state: State, dues: list[tuple[_Due, Ints]]) -> list[tuple[_Due, Ints]]:
    """Answer the queries whose keys an index finds; returns those that are left, to be answered for all keys."""
    found = [(due, instants, reading_of(state, due.name)) for due, instants in dues]
    sharers = Counter(_shared(reading) for *_, reading in found if reading.range is not None)
    left = []
    for due, instants, reading in found:
        among = None
        if reading.range is not None and len(instants) == 1:
            crowd = sharers[_shared(reading)]
            if crowd <= _CROWD or reading.range.is_forced:
                among = candidates(state, reading, int(instants[0]), crowd)
        if among is None:
            left.append((due, instants))
        else:
            due.take(state, instants, None, among)
    return left


def _shared(reading: Reading) -> tuple[Any, ...]:
    """What a query has in common with those that would share a visit to all keys."""
    assert reading.range is not None
    number, window, _ = reading.places[reading.range.part.place]
    return (number,) if reading.width <= _FEW_KEYS else (number, window)


def _due_by_count(state: State, name: str, registration: Registration, until: int) -> _Due:
    """Windows that close by count, all at once."""
    due = _Due(name, registration, _NONE)
    after = registration.emitted_to
    kept_from = max(state.synopses[number].kept_from for number in state.manager.placements[name].groups())
    since = state.clock.first if after is None else after
    if since is not None and since < state.forgotten_to and since < kept_from:
        after = kept_from  # what closed before may have lost events: better none than a wrong one
        due.missed += 1
        due.complaints.append(f"has lost windows that closed {_LONG_AGO}")
    try:
        due.add(_answer_moves(state, name, after, until))
    except (MuntinError, pa.ArrowException) as error:
        due.missed += 1
        due.complaints.append(f"has no answer for the windows that closed: {error}")
    return due


def _answer_moves(state: State, name: str, after: int | None, until: int) -> Answered:
    """Answers of windows that closed by count."""
    reading = reading_of(state, name)
    width = reading.width
    number, demand = state.manager.placements[name].presence[0]
    counted = state.synopses[number]
    assert isinstance(counted, CountsEvents)
    moves = counted.moves(demand.window.slide, after, until, width)
    if not len(moves.slot):
        return Answered(reading.schema.empty_table())

    def find(place: Place) -> Found:
        def count(synopsis: Any) -> Found:
            assert isinstance(synopsis, CountsEvents)
            return synopsis.lookup_counts(place.window, moves, place.needs, width)

        return timed(state, place.number, place.window, len(moves.seen), count)

    return answer(reading, Rows(1, moves.seen, moves.slot), find, state.texts)


def _missed(state: State, name: str, slide: int, after: int) -> int:
    """How many windows closed so long before anyone asked that their events had to be forgotten."""
    if after >= state.forgotten_to:
        return 0
    groups = state.manager.placements[name].groups()
    kept_from = max(state.synopses[number].kept_from for number in groups)
    return max(0, (kept_from - 1) // slide - after // slide)
