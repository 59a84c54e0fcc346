"""A question: one row of what is asked. Look-ups, `advance` and EMIT CHANGES all ask questions.

Which keys may pass HAVING is narrowed here: if HAVING compares one aggregate with constants, an index may name the
*candidates*, and only those are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from muntin.arrays import LONG_AGO, Ints
from muntin.band import Band
from muntin.key_index.finders import KeyBand
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.state import State
from muntin.structure.synopsis import Moves

MANY = 16  # queries that look at one window, to which visiting all keys once is cheaper than any index
# so many keys are visited for all windows of a group, which nest, by one scan: many share it
FEW_KEYS = 1 << 14


class Question(NamedTuple):
    """The answers of a query at some instants of its own, which ascend; of all keys, or of some."""

    name: str
    instants: Ints
    ids: Ints | None = None  # of keys, ascending; None: all
    is_started: bool = True  # whether there has been an event; otherwise there is no instant yet
    band: Band | None = None  # what HAVING lets pass, if not what its text says
    inside: Ints | None = None  # EMIT CHANGES: the keys that qualified at the instant before the first
    moves: Moves | None = None  # of windows that close by count: these, instead of instants
    only: Ints | None = None  # of a query with LIMIT: of its rows those of these keys, ascending


def narrowed(state: State, questions: Sequence[Question], visited: Collection[int] = ()) -> list[Question]:
    """The same questions; where an index finds the keys that may pass HAVING, of those keys alone.

    HAVING is evaluated for each candidate, so the answers are the same. Of HAVING APPROX, candidates pass within its
    tolerance. All keys of the groups that are `visited` have been read, so that no index would spare anything.
    """
    ranges = [_range_of(state, each) for each in questions]
    if not any(ranges):
        return list(questions)
    places = [None if reading is None else _shared(reading) for reading in ranges]
    sharers = Counter(places)
    sharers.update({place: MANY for place in sharers if place is not None and place[0] in visited})
    return [
        question if reading is None else _narrow(state, question, reading, sharers[place])
        for question, reading, place in zip(questions, ranges, places, strict=True)
    ]


def _range_of(state: State, question: Question) -> Reading | None:
    """The reading of a question that an index might narrow."""
    if question.ids is not None or question.moves is not None:
        return None
    reading = reading_of(state, question.name)
    return None if reading.range is None else reading


def _narrow(state: State, question: Question, reading: Reading, sharers: int) -> Question:
    """`sharers` is how many questions would share one visit to all keys."""
    assert reading.range is not None
    part, low, high, is_forced, tolerance = reading.range
    if len(question.instants) > 1 or not question.is_started:
        return question
    if sharers > MANY and not is_forced:
        return question
    number, window = reading.windows[part.window][:2]
    watermark = state.clock.watermark
    found = state.synopses[number].candidates(
        part.need,
        window,
        window.settle(int(question.instants[0])),
        LONG_AGO if watermark is None else watermark,
        KeyBand(low, high, reading.width, sharers, is_forced, tolerance),
    )
    if found is None:
        return question
    return question._replace(ids=found.ids, band=None if question.inside is not None else reading.rough_band)


def _shared(reading: Reading) -> tuple[Any, ...]:
    """What a query has in common with those that would share a visit to all keys."""
    assert reading.range is not None
    number, window = reading.windows[reading.range.part.window][:2]
    return (number,) if reading.width <= FEW_KEYS else (number, window)
