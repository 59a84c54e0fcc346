"""Answers: how every question is answered, one or a million.

    narrow     an index may name the keys that can pass HAVING          question.py
               heads of slices, those that come first by ORDER BY       leaders.py
    settle     each window stands at a multiple of its slide            shared.py
    locate     where the windows lie in their stores                    store/sequence.py
    read       partials of all windows of a group together              shared.py, structure/
    lower      partials become values, by the aggregates                evaluate.py
    HAVING     rows that pass; those of queries alike found together    evaluate.py, alike.py
    SELECT     tables of the few rows left; or what changed             evaluate.py, changes.py
    blocks     who keeps all rows has slices of common columns          in_blocks.py

A question that has no answer gets an error in its place, and no other question suffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.shard.read.alike import answers_of_alike
from muntin.shard.read.changes import Changes, changes
from muntin.shard.read.evaluate import Answered, answer
from muntin.shard.read.in_blocks import answers_in_blocks
from muntin.shard.read.leaders import lead
from muntin.shard.read.question import Question, narrowed
from muntin.shard.read.reading import GroupWindow, reading_of
from muntin.shard.read.shared import SharedReads
from muntin.shard.state import State
from muntin.window import Window

MOST_SLOTS = 32_000_000  # keys times windows that are looked up together in any case

Outcome = Answered | Changes | Exception  # MuntinError or pa.ArrowException


def answer_one(state: State, question: Question, is_narrowed: bool = False) -> Answered:
    """The answer of one question; raises if it has none."""
    (outcome,) = answer_all(state, [question], is_narrowed)
    if isinstance(outcome, Exception):
        raise outcome
    assert isinstance(outcome, Answered)
    return outcome


def answer_all(
    state: State, questions: Sequence[Question], are_narrowed: bool = False, shared: SharedReads | None = None
) -> list[Outcome]:
    """What becomes of each question, in their order. Questions with the same array of instants share most. Of those
    that `are_narrowed`, indexes have been asked already. What others have read at the same instants may be `shared`."""
    asked = questions if are_narrowed else narrowed(state, questions, shared.visited if shared else ())
    asked, answers = lead(state, asked)
    outcomes: dict[int, Outcome] = {**answers}
    if shared is None and len(asked) == 1 and not outcomes and _shares_nothing(state, asked[0]):
        return [_outcome(state, asked[0], SharedReads(state, is_alone=True))]
    among_all: list[tuple[int, Question]] = []
    for number, question in enumerate(asked):
        if number in outcomes:
            continue
        if question.ids is None and question.moves is None:
            among_all.append((number, question))
        else:
            outcomes[number] = _outcome(state, question, SharedReads(state, is_alone=True))
    for portion in _portions(state, among_all) if among_all else ():
        is_all = len(portion) == len(among_all)  # otherwise memory could not hold what has been read as well
        outcomes.update(_answer_portion(state, portion, shared if is_all else None))
    return [outcomes[number] for number in range(len(questions))]


def _answer_portion(
    state: State, asked: list[tuple[int, Question]], shared: SharedReads | None
) -> dict[int, Outcome]:
    """Answers about all keys, whose windows are looked up together."""
    questions = [question for _, question in asked]
    shared = shared or SharedReads(state, is_alone=len(asked) == 1)
    try:
        shared.prefetch(questions)
    except MuntinError:
        shared = SharedReads(state)  # one of them has no answer: each finds out for itself
    together = answers_of_alike(state, questions, shared) | answers_in_blocks(state, questions, shared)
    return {
        number: Answered(together[question.name])
        if question.name in together
        else _outcome(state, question, shared)
        for number, question in asked
    }


def _shares_nothing(state: State, question: Question) -> bool:
    """Whether no two windows of a question are read from one group."""
    windows = _windows(state, question)
    return len(windows) == 1 or len({each.number for each in windows}) == len(windows)


def _outcome(state: State, question: Question, shared: SharedReads) -> Outcome:
    """What becomes of a question on its own."""
    try:
        if question.inside is not None:
            return changes(state, question, shared)
        return _answer(state, question, shared)
    except (MuntinError, pa.ArrowException) as error:
        return error


def _answer(state: State, question: Question, shared: SharedReads) -> Answered:
    reading = reading_of(state, question.name)
    rows, find = shared.slots(question)
    if not rows.width:
        return Answered(reading.schema.empty_table())
    if shared.is_alone or question.ids is not None or question.moves is not None:
        return answer(reading, rows, find, state.texts, band=question.band, only=question.only)
    same = ("answers", reading.same_answers, id(question.instants))
    return shared.once(same, lambda: answer(reading, rows, find, state.texts, shared.once))


def _portions(state: State, asked: list[tuple[int, Question]]) -> Iterator[list[tuple[int, Question]]]:
    """Questions whose windows are looked up together: nearly always all of them, unless memory could not hold it."""
    # most of the time; who asks for several instants at once sees to it that they are not too many
    seen = {(reading_of(state, each.name).same_windows, id(each.instants)): each for _, each in asked}
    if sum(len(_windows(state, each)) * _width(state, each) for each in seen.values()) <= MOST_SLOTS:
        yield asked
        return
    portion: list[tuple[int, Question]] = []
    looked_up: set[tuple[int, Window, int]] = set()
    slots = 0
    # those of about the same size share most of a scan
    for each in sorted(asked, key=lambda each: max(one.window.size for one in _windows(state, each[1]))):
        width = _width(state, each[1])
        wanted = {(one.number, one.window, id(each[1].instants)) for one in _windows(state, each[1])}
        more = len(wanted - looked_up) * len(each[1].instants) * width
        if portion and more and slots + more > MOST_SLOTS:
            yield portion
            portion, looked_up, slots, more = [], set(), 0, len(wanted) * len(each[1].instants) * width
        slots += more
        looked_up |= wanted
        portion.append(each)
    if portion:
        yield portion


def widest(state: State) -> int:
    """Slots that an instant of a window takes at most."""
    return max((len(keys) for keys in state.keys.values()), default=1)


def _width(state: State, question: Question) -> int:
    return reading_of(state, question.name).width


def _windows(state: State, question: Question) -> tuple[GroupWindow, ...]:
    return reading_of(state, question.name).windows
