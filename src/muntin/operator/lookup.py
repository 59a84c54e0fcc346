"""Pull: the answers of one query at given instants, from every event so far."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.band import Band
from muntin.errors import MuntinError, NoValue
from muntin.key_index.finders import Candidates
from muntin.key_value import key_column
from muntin.operator.candidates import candidates
from muntin.operator.evaluate import Answered, Finder, Rows, always, answer, select
from muntin.operator.key_point import UNREAD, key_reader_of
from muntin.operator.left_out import NONE, LeftOut, explained, tell
from muntin.operator.point import reader_of
from muntin.operator.reading import Place, Reading, reading_of
from muntin.operator.shard import Shard
from muntin.operator.stretch import Stretch
from muntin.operator.timed import timed, timed_single
from muntin.query import Query
from muntin.structure.synopsis import Found


def lookup(shard: Shard, name: str, key: Any = None, at: int | None = None) -> pa.Table:
    """Answers at one instant: `at`, or just after the greatest event time seen.

    A row of which a value does not exist is left out, with a warning; if it is the only one asked for, it is refused.
    """
    if key is None and (reader := reader_of(shard, name)):
        meter = shard.meter
        meter.singles += 1
        try:
            if meter.singles < meter.next_timed:
                return reader.table(at)
            return timed_single(shard, name, lambda reader: reader.table(at))
        except NoValue as error:
            raise _no_answer(name, key, explained(str(error), reader.query.calls)) from error
    table, left_out, _ = _all_or_some(shard, name, key, at)
    if left_out.rows:
        registration = shard.registrations[name]
        if not registration.query.keys or (key is not None and not isinstance(key, list)):
            raise _no_answer(name, key, left_out.reason)
        tell(name, registration, left_out, stacklevel=4)
    return table


def _no_answer(name: str, key: Any, reason: str) -> NoValue:
    whose = "" if key is None else f" for the key {key!r}"
    return NoValue(f"query '{name}' has no answer{whose}: {reason}")


def _all_or_some(shard: Shard, name: str, key: Any, at: int | None) -> Answered:
    query = shard.registrations[name].query
    ids = None if key is None else _ids_of(shard, query, key)
    instant = at if at is not None else shard.now_of(name)
    if instant is None:
        return (
            Answered(query.answer_schema().empty_table())
            if query.keys
            else answers_at(shard, name, np.zeros(1, np.int64), is_started=False)
        )
    if query.slide:
        instant -= instant % query.slide
    if ids is None and (found := candidates(shard, reading_of(shard, name), instant)):
        return answers_among(shard, name, np.array([instant]), found)
    return answers_at(shard, name, np.array([instant]), ids)


def value(shard: Shard, name: str, key: Any = None, at: int | None = None) -> Any:
    """The first value of one answer; None if it is NULL or the key has none."""
    if key is None and (reader := reader_of(shard, name)):
        meter = shard.meter
        meter.singles += 1
        try:
            if meter.singles < meter.next_timed:
                return reader.value(at)
            return timed_single(shard, name, lambda reader: reader.value(at))
        except NoValue as error:
            raise _no_answer(name, key, explained(str(error), reader.query.calls)) from error
    query = shard.registrations[name].query
    if query.keys and (key is None or isinstance(key, list)):
        raise MuntinError(f"query '{name}' has a value for each key; give one key")
    if key is not None and (key_reader := key_reader_of(shard, name)):
        try:
            found = key_reader.value(key, at)
        except NoValue as error:
            raise _no_answer(name, key, str(error)) from error
        if found is not UNREAD:
            return found
    table = lookup(shard, name, key, at)
    column = table.column(len(query.keys) if query.outputs else 0)
    return column[0].as_py() if table.num_rows else None


def answers_at(
    shard: Shard,
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
    reading = reading_of(shard, name)
    rows, find = look(shard, reading, instants, ids, stretch, is_started)
    if rows.width == 0:
        return Answered(reading.schema.empty_table())
    if stretch is None or not is_filtered:
        return answer(reading, rows, find, shard.texts, always, is_filtered, band)
    make = partial(answer, reading, rows, find, shard.texts, stretch.once)
    return stretch.once(("answers", reading.same_answers, id(instants)), make)


def answers_among(shard: Shard, name: str, instants: Ints, found: Candidates) -> Answered:
    """Answers at one instant of those among some keys that pass HAVING; within its tolerance, if it has one."""
    return answers_at(shard, name, instants, found.ids, band=reading_of(shard, name).rough_band)


class Qualifying(NamedTuple):
    """At each instant, the keys that pass HAVING and those of which it has no value; ascending."""

    ids: list[Ints]
    unknown: list[Ints]
    left_out: LeftOut


def qualifying(
    shard: Shard, name: str, instants: Ints, stretch: Stretch | None, ids: Ints | None
) -> Qualifying:
    """The keys that qualify at each instant; without keys, 0 if the query has an answer."""
    reading = reading_of(shard, name)
    rows, find = look(shard, reading, instants, ids, stretch)
    if not rows.width:
        nobody = [np.zeros(0, np.int64) for _ in instants]
        return Qualifying(nobody, nobody, NONE)
    found = [find(place) for place in reading.places]
    once = always if stretch is None else stretch.once
    chosen = select(reading, rows, found, shard.texts, once)
    slots = np.arange(len(rows)) if chosen.kept is None else chosen.kept
    return Qualifying(_by_instant(rows, slots), _by_instant(rows, chosen.unknown), chosen.left_out)


def _by_instant(rows: Rows, slots: Ints) -> list[Ints]:
    """The keys of some slots, instant by instant."""
    edges = np.searchsorted(slots, np.arange(len(rows.instants) + 1) * rows.width)
    return [rows.ids(slots[lo:hi]) for lo, hi in pairwise(edges)]


def look(
    shard: Shard,
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
            shard, number, window, len(settled),
            lambda synopsis: synopsis.lookup(window, settled, needs, ids, width),
        )  # fmt: skip

    rows = Rows(width, instants, None if ids is None else np.tile(ids, len(instants)), is_started)
    return rows, find


def _ids_of(shard: Shard, query: Query, key: Any) -> Ints:
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
    found = shard.keys[query.key_expressions].find(columns)
    return np.unique(found[found >= 0])
