"""Push: every window that closed since the last time, each once, for all queries together.

Time is walked through in stretches, all queries side by side, so that what one stretch found of a
window serves every query and is forgotten before the next.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.errors import FunctionError
from muntin.shard.emit.crowd_emission import Pause, ReadAt, emit_crowds, no_pause
from muntin.shard.emit.emitted import Emitted
from muntin.shard.emit.gathering import gather
from muntin.shard.emit.portion import DEFAULT_ROWS, allot
from muntin.shard.emit.silence import Silence, Spans
from muntin.shard.emit.table_emission import answer_joined
from muntin.shard.read.answers import Outcome, answer_all, widest
from muntin.shard.read.changes import Changes
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.left_out import NONE, LeftOut, tell
from muntin.shard.read.question import Question
from muntin.shard.read.reading import reading_of
from muntin.shard.registration import Registration
from muntin.shard.state import State
from muntin.shard.table_join.past import release_past
from muntin.structure.synopsis import CountsEvents, Moves
from muntin.table_query import TableQuery
from muntin.window import Pace

_NONE = np.zeros(0, np.int64)
_LONG_AGO = (
    "so long ago that their events are gone; call advance() more often, or give the engine more backlog_bytes"
)
_SHORT = 1 << 14  # instants of all queries together that fit into any portion
_SLOTS = 4_000_000  # keys times windows of one stretch, if it has more than one instant: bounds memory


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
    overflows: int = 0  # how many of these were told of, if nobody else counts them

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)

    def draw(self, most: int, drawn: dict[tuple[int, Pace, int], Ints]) -> None:
        """Take the first instants that are owed into this portion; the same array as others that owe the same."""
        if self.ticks is not None:
            same = (id(self.ticks), self.registration.pace, most)
            if same not in drawn:
                drawn[same] = self.registration.pace.at(self.ticks.take(most))
            self.instants = drawn[same]
            self.more = self.ticks.count > most

    def stop_after(self, instant: int) -> None:
        """Leave what comes after an instant to the next portion."""
        kept = int(self.instants.searchsorted(instant, "right"))
        self.more |= kept < len(self.instants)
        self.instants = self.instants[:kept]

    def question(self, instants: Ints) -> Question:
        return Question(self.name, instants, inside=self.inside)

    def take(self, state: State, question: Question, outcome: Outcome) -> None:
        """Add the answers of a question; a window that has none must not hold up any other."""
        if isinstance(outcome, Changes):
            self.inside = outcome.inside
            self.tables += outcome.tables
            self.left_out = self.left_out.also(outcome.left_out)
        elif isinstance(outcome, Answered):
            self.tables.append(outcome.table)
            if outcome.left_out.rows:
                self.left_out = self.left_out.also(outcome.left_out)
        elif isinstance(outcome, FunctionError):
            raise outcome  # its windows are owed until the function, or the query, is put right
        elif question.moves is not None:
            self.give_up(f"has no answer for the windows that closed: {outcome}")
        elif len(question.instants) > 1:
            for instant in question.instants:
                alone = self.question(np.array([instant]))
                self.take(state, alone, *answer_all(state, [alone]))
        else:
            end = np.datetime64(int(question.instants[0]), "us")
            self.give_up(f"has no answer for the window that closed at {end}: {outcome}")

    def give_up(self, complaint: str, windows: int = 1) -> None:
        self.missed += windows
        self.complaints.append(complaint)


def emit(state: State, until: int, rows: int = DEFAULT_ROWS, pause: Pause = no_pause) -> Emitted:
    """Answers of windows that closed up to `until`; queries without any are left out. About `rows` of them in
    all: what exceeds it is left for the next call. `pause` is called between its steps, for look-ups that wait.

    Nothing is marked as given out before all of it is there to be given.
    """
    answers = Emitted()
    first = state.clock.first
    if first is None:
        return answers
    gather(state, first, until)
    pause()
    emissions, rest, read = emit_crowds(state, until, rows, pause)
    silence = Silence(state)
    dues, quiet = [], []
    for name, registration in state.crowds.alone.items():
        after = registration.owes_after(first)
        if until <= after:
            continue
        slide, offset = registration.pace
        if slide and (until - offset) // slide == (after - offset) // slide:  # most queries, most of the time
            quiet.append(registration)
        else:
            dues.append(_due(state, name, registration, after, until, silence))
    _draw(state, dues, rest)
    asked = [due for due in dues if len(due.instants)]
    pause()
    _answer_in_stretches(state, [due for due in asked if due.registration.joined is None], rest, read)
    answer_joined(state, [due for due in asked if due.registration.joined is not None], rest)
    pause()
    for emission in emissions:
        if (given := emission.give_out()) is not None:
            answers.shared.append(given)
        answers.more |= emission.more
    for registration in quiet:
        registration.emitted_to = until
    for due in dues:
        due.registration.emitted_to = int(due.instants[-1]) if due.more else until
        answers.more |= due.more
        if due.inside is not None:
            due.registration.inside = due.inside
        due.registration.missed += due.missed
        if many := due.rows:
            answers.alone[due.name] = due.tables[0] if len(due.tables) == 1 else pa.concat_tables(due.tables)
            due.registration.emitted += many
    state.note_emitted()
    release_past(state)
    for due in dues:
        _warn(due)
        state.overflows += due.left_out.rows
        tell(due.name, due.registration, due.left_out, stacklevel=4)
    return answers


def closed(state: State, name: str, after: int | None, until: int, rows: int) -> Iterator[pa.Table]:
    """Answers of one query's windows that closed after an instant and up to another, about `rows` at a time. Nothing is
    marked as given out."""
    registration, first = state.registrations[name], state.clock.first
    if first is None:
        return
    begin, more = first if after is None else max(first, after), True
    while more:
        due = _due(state, name, registration, begin, until, Silence(state))
        _draw(state, [due], rows)
        if len(due.instants) and registration.joined is None:
            _answer_in_stretches(state, [due], rows, None)
        elif len(due.instants):
            answer_joined(state, [due], rows)
        yield from due.tables
        _warn(due)
        tell(name, due, due.left_out, stacklevel=5)  # not counted as left out by advance
        more = due.more
        if more:
            begin = int(due.instants[-1])


def _warn(due: _Due) -> None:
    for complaint in due.complaints:
        warnings.warn(f"query '{due.name}' {complaint}", RuntimeWarning, stacklevel=5)


def skip(state: State, until: int) -> None:
    """No window that closed up to `until` is owed any more; for queries that do not emit changes."""
    state.crowds.dissolve_all()
    for registration in state.registrations.values():
        if registration.emitted_to is None or registration.emitted_to < until:
            registration.emitted_to = until
    state.note_emitted()


def _due(
    state: State, name: str, registration: Registration, after: int, until: int, silence: Silence
) -> _Due:
    query, joined = registration.query, registration.joined
    if query.moves_by_events:
        return _due_by_count(state, name, registration, until)
    inside = registration.inside if query.emits_changes else None
    pace = query.pace
    if not pace.every:
        return _Due(name, registration, np.array([until]), inside=inside)
    missed = _missed(state, name, pace, after)
    complaints = [f"has lost {missed:,} windows that closed {_LONG_AGO}"] if missed else []
    first, last = pace.tick(after) + missed + 1, pace.tick(until)
    ticks = Spans.of(_NONE)
    if first <= last:
        if joined is None:
            ticks = silence.ticks(name, query, first, last)
        else:
            ticks = _joined_ticks(state, name, joined, silence, first, last)
    return _Due(name, registration, _NONE, ticks, inside=inside, missed=missed, complaints=complaints)


def _joined_ticks(
    state: State, name: str, joined: TableQuery, silence: Silence, first: int, last: int
) -> Spans:
    """The ticks at which a query that joins tables may have rows: those of its source, and those at which a change of a
    table takes effect."""
    if (joined.is_table_first or not joined.keys) and not joined.emits_changes:
        return Spans.between(first, last)  # it has rows in silence, too
    asked = replace(joined.source, emits_changes=joined.emits_changes)
    found = silence.ticks(name, asked, first, last)
    if not joined.emits_changes:
        return found
    changed = [
        joined.pace.tick(since) + 1
        for table in joined.tables
        for since in state.tables[table.name].changed_at(state.stream.name)
    ]
    after = np.array([each for each in changed if first <= each <= last], np.int64)
    return Spans.union([(found.first, found.last), (after, after)])


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
    drawn: dict[tuple[int, Pace, int], Ints] = {}
    for due, some in zip(dues, most, strict=True):
        due.draw(some, drawn)


def _answer_in_stretches(state: State, dues: list[_Due], rows: int, read: ReadAt | None) -> None:
    """Answer what is due, stretch by stretch; crowds have `read` at one instant. Once there are more than `rows`,
    queries that have had their share of them stop."""
    if not dues:
        return
    everything = _merged({id(due.instants): due.instants for due in dues}.values())
    if len(everything) == 1:  # most of the time
        _answer_stretch(state, dues, everything[0], everything[0], read)
        return
    asked = {  # what is looked up for several queries takes room once
        (each.number, each.window, due.instants.tobytes()): due.instants
        for due in dues
        for each in reading_of(state, due.name).windows
    }
    looked_up = np.searchsorted(everything, np.concatenate(list(asked.values())))
    how_many = np.bincount(looked_up, minlength=len(everything))
    begin, width, slots = 0, widest(state), min(rows, _SLOTS)
    while begin < len(everything):
        windows = np.cumsum(how_many[begin : begin + slots])
        end = begin + max(1, int(np.searchsorted(windows * max(width, 1), slots, "right")))
        _answer_stretch(state, dues, everything[begin], everything[end - 1], read)
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


def _answer_stretch(state: State, dues: list[_Due], first: int, last: int, read: ReadAt | None) -> None:
    """Answer what is due from `first` to `last`."""
    due_now, questions = [], []
    parts: dict[int, Ints] = {}  # most queries are due at the same instants as others
    equal: dict[bytes, Ints] = {}
    for due in dues:
        part = parts.get(id(due.instants))
        if part is None:
            lo, hi = due.instants.searchsorted(first), due.instants.searchsorted(last, "right")
            part = due.instants[lo:hi]
            part = parts[id(due.instants)] = equal.setdefault(part.tobytes(), part)
        if len(part):
            due_now.append(due)
            questions.append(due.question(part))
    shared = None if read is None or not first <= read.instant <= last else read.shared
    outcomes = answer_all(state, questions, shared=shared)
    for due, question, outcome in zip(due_now, questions, outcomes, strict=True):
        due.take(state, question, outcome)


def _due_by_count(state: State, name: str, registration: Registration, until: int) -> _Due:
    """Windows that close by events, all at once."""
    due = _Due(name, registration, _NONE)
    after = registration.emitted_to
    kept_from = max(state.synopses[number].kept_from for number in state.manager.placements[name].groups())
    since = state.clock.first if after is None else after
    if since is not None and since < state.forgotten_to and since < kept_from:
        after = kept_from  # what closed before may have lost events: better none than a wrong one
        due.give_up(f"has lost windows that closed {_LONG_AGO}")
    if moves := _moves(state, name, after, until):
        question = Question(name, moves.seen, moves=moves)
        due.take(state, question, *answer_all(state, [question]))
    return due


def _moves(state: State, name: str, after: int | None, until: int) -> Moves | None:
    """The windows of a query that closed by count; None if there are none."""
    number, demand = state.manager.placements[name].presence[0]
    counted = state.synopses[number]
    assert isinstance(counted, CountsEvents)
    moves = counted.moves(demand.window, after, until, reading_of(state, name).width)
    return moves if len(moves.slot) else None


def _missed(state: State, name: str, pace: Pace, after: int) -> int:
    """How many windows closed so long before anyone asked that their events had to be forgotten."""
    if after >= state.forgotten_to:
        return 0
    placement = state.manager.placements[name]
    kept_from = max(state.synopses[number].kept_from for number in placement.groups())
    kept_from = max(kept_from, placement.answers_from)
    return max(0, pace.tick(kept_from - 1) - pace.tick(after))
