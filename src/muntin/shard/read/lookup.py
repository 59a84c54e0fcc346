"""Pull: the answers of one query at given instants, from every event so far."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Ints
from muntin.band import Band
from muntin.errors import MuntinError, NoValue
from muntin.key_index.finders import FEW, Candidates, KeyBand
from muntin.key_value import key_column
from muntin.query import Query
from muntin.shard.adapt.timed import timed, timed_single
from muntin.shard.read.evaluate import Answered, Finder, Rows, always, answer, select
from muntin.shard.read.key_point import UNREAD, key_reader_of
from muntin.shard.read.left_out import NONE, LeftOut, explained, tell
from muntin.shard.read.point import reader_of
from muntin.shard.read.reading import Place, Reading, reading_of
from muntin.shard.read.stretch import Stretch
from muntin.shard.state import State
from muntin.structure.synopsis import Found


def lookup(state: State, name: str, key: Any = None, at: int | None = None) -> pa.Table:
    """Answers at one instant: `at`, or just after the greatest event time seen.

    A row of which a value does not exist is left out, with a warning; if it is the only one asked for, it is refused.
    """
    if key is None and (reader := reader_of(state, name)):
        meter = state.meter
        meter.singles += 1
        try:
            if meter.singles < meter.next_timed:
                return reader.table(at)
            return timed_single(state, name, lambda reader: reader.table(at))
        except NoValue as error:
            raise _no_answer(name, key, explained(str(error), reader.query.calls)) from error
    table, left_out, _ = _all_or_some(state, name, key, at)
    if left_out.rows:
        registration = state.registrations[name]
        if not registration.query.keys or (key is not None and not isinstance(key, list)):
            raise _no_answer(name, key, left_out.reason)
        tell(name, registration, left_out, stacklevel=4)
    return table


def _no_answer(name: str, key: Any, reason: str) -> NoValue:
    whose = "" if key is None else f" for the key {key!r}"
    return NoValue(f"query '{name}' has no answer{whose}: {reason}")


def _all_or_some(state: State, name: str, key: Any, at: int | None) -> Answered:
    query = state.registrations[name].query
    ids = None if key is None else _ids_of(state, query, key)
    instant = at if at is not None else state.now_of(name)
    if instant is None:
        return (
            Answered(query.answer_schema().empty_table())
            if query.keys
            else answers_at(state, name, np.zeros(1, np.int64), is_started=False)
        )
    if query.slide:
        instant -= instant % query.slide
    if ids is None and (found := candidates(state, reading_of(state, name), instant)):
        return answers_among(state, name, np.array([instant]), found)
    return answers_at(state, name, np.array([instant]), ids)


def value(state: State, name: str, key: Any = None, at: int | None = None) -> Any:
    """The first value of one answer; None if it is NULL or the key has none."""
    if key is None and (reader := reader_of(state, name)):
        meter = state.meter
        meter.singles += 1
        try:
            if meter.singles < meter.next_timed:
                return reader.value(at)
            return timed_single(state, name, lambda reader: reader.value(at))
        except NoValue as error:
            raise _no_answer(name, key, explained(str(error), reader.query.calls)) from error
    query = state.registrations[name].query
    if query.keys and (key is None or isinstance(key, list)):
        raise MuntinError(f"query '{name}' has a value for each key; give one key")
    if key is not None and (key_reader := key_reader_of(state, name)):
        try:
            found = key_reader.value(key, at)
        except NoValue as error:
            raise _no_answer(name, key, str(error)) from error
        if found is not UNREAD:
            return found
    table = lookup(state, name, key, at)
    column = table.column(len(query.keys) if query.outputs else 0)
    return column[0].as_py() if table.num_rows else None


def answers_at(
    state: State,
    name: str,
    instants: Ints,
    ids: Ints | None = None,
    stretch: Stretch | None = None,
    is_started: bool = True,
    is_filtered: bool = True,
    band: Band | None = None,
) -> Answered:
    """Answers at several instants, in order; for the keys `ids`, or all; without those that are absent or
    do not pass HAVING (or the `band` in its place), if it is `filtered`, and without those of which a value
    does not exist.

    In a `stretch`, whatever the group keeps of a window is found once for all its queries.
    """
    reading = reading_of(state, name)
    rows, find = look(state, reading, instants, ids, stretch, is_started)
    if rows.width == 0:
        return Answered(reading.schema.empty_table())
    if stretch is None or not is_filtered:
        return answer(reading, rows, find, state.texts, always, is_filtered, band)
    make = partial(answer, reading, rows, find, state.texts, stretch.once)
    return stretch.once(("answers", reading.same_answers, id(instants)), make)


def answers_among(state: State, name: str, instants: Ints, found: Candidates) -> Answered:
    """Answers at one instant of those among some keys that pass HAVING; within its tolerance, if it has one."""
    return answers_at(state, name, instants, found.ids, band=reading_of(state, name).rough_band)


class Qualifying(NamedTuple):
    """At each instant, the keys that pass HAVING and those of which it has no value; ascending."""

    ids: list[Ints]
    unknown: list[Ints]
    left_out: LeftOut


def qualifying(
    state: State, name: str, instants: Ints, stretch: Stretch | None, ids: Ints | None
) -> Qualifying:
    """The keys that qualify at each instant; without keys, 0 if the query has an answer."""
    reading = reading_of(state, name)
    rows, find = look(state, reading, instants, ids, stretch)
    if not rows.width:
        nobody = [np.zeros(0, np.int64) for _ in instants]
        return Qualifying(nobody, nobody, NONE)
    found = [find(place) for place in reading.places]
    once = always if stretch is None else stretch.once
    chosen = select(reading, rows, found, state.texts, once)
    slots = np.arange(len(rows)) if chosen.kept is None else chosen.kept
    return Qualifying(_by_instant(rows, slots), _by_instant(rows, chosen.unknown), chosen.left_out)


def _by_instant(rows: Rows, slots: Ints) -> list[Ints]:
    """The keys of some slots, instant by instant."""
    edges = np.searchsorted(slots, np.arange(len(rows.instants) + 1) * rows.width)
    return [rows.ids(slots[lo:hi]) for lo, hi in pairwise(edges)]


def look(
    state: State,
    reading: Reading,
    instants: Ints,
    ids: Ints | None,
    stretch: Stretch | None,
    is_started: bool = True,
) -> tuple[Rows, Finder]:
    """The slots of a look-up of all keys (in a stretch) or of some, and how to find what is in them."""
    width = reading.width if ids is None or reading.keys is None else len(ids)

    def find(place: Place) -> Found:
        if stretch is not None:
            return stretch.find(place, instants, width)
        number, window, needs = place
        settled = window.settle(instants)
        return timed(
            state, number, window, len(settled),
            lambda synopsis: synopsis.lookup(window, settled, needs, ids, width),
        )  # fmt: skip

    rows = Rows(width, instants, None if ids is None else np.tile(ids, len(instants)), is_started)
    return rows, find


def _ids_of(state: State, query: Query, key: Any) -> Ints:
    """Ids of the known ones among the keys asked for, in order of first appearance."""
    if not query.keys:
        raise MuntinError("the query has no GROUP BY, so it has no keys to look up")
    parts = [
        each if isinstance(each, tuple) else (each,) for each in (key if isinstance(key, list) else [key])
    ]
    if any(len(part) != len(query.keys) for part in parts):
        names = ", ".join(each.name for each in query.keys)
        raise MuntinError(
            f"a key of this query is ({names}), so {key!r} is none; give {len(query.keys)} values"
        )
    columns = [
        key_column([part[position] for part in parts], each.expression.type, each.name)
        for position, each in enumerate(query.keys)
    ]
    found = state.keys[query.key_expressions].find(columns)
    return np.unique(found[found >= 0])


# Candidates: the keys that may pass a query's HAVING at an instant, found by an index.


def candidates(state: State, reading: Reading, instant: int, sharers: int = 1) -> Candidates | None:
    """All keys that pass HAVING and some that do not; None if all keys are to be visited.

    Whoever asks evaluates HAVING for them: then the answer is exact. `sharers` is how many queries would
    share one visit to all keys.
    """
    if reading.range is None or (reading.width < FEW and not reading.range.is_forced):
        return None
    part, low, high, is_forced, tolerance = reading.range
    number, window, _ = reading.places[part.place]
    watermark = state.clock.watermark
    return state.synopses[number].candidates(
        part.need,
        window,
        window.settle(instant),
        LONG_AGO if watermark is None else watermark,
        KeyBand(low, high, reading.width, sharers, is_forced, tolerance),
    )
