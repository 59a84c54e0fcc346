"""Look-ups: one answer, asked for by name. Here a look-up takes the short path, if there is one.

The general way to an answer is `answers.py`. A single answer in plain numbers need not take it: a query without keys
is read by `point.py`, the first value of one key by `key_point.py` and all its columns by `key_row.py`, one lane by
`lane_point.py`, the first values of many queries by `bundle.py`, and the keys that an index names by `key_filter.py`.
Short paths and the general way give the same answers (`tests/engine/test_short_paths.py`,
`tests/engine/test_key_filter.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.aggregates.algebraic import TOO_LARGE
from muntin.arrays import Ints
from muntin.errors import MuntinError, NoValue
from muntin.key_value import key_column
from muntin.query import Key, Query
from muntin.shard.adapt.timed import timed_many, timed_single
from muntin.shard.moving import refuse_before_move
from muntin.shard.read.answers import answer_one
from muntin.shard.read.bundle import Bundle
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.key_filter import key_filter_of
from muntin.shard.read.key_point import UNREAD, key_reader_of
from muntin.shard.read.key_row import NOBODY, key_row_reader_of
from muntin.shard.read.lane_point import LanePointReader, lane_reader_of
from muntin.shard.read.left_out import LeftOut, tell
from muntin.shard.read.point import PointReader, reader_of
from muntin.shard.read.question import Question
from muntin.shard.state import State
from muntin.shard.table_join.table_join import join_of

_MANY = 64  # keys
_BUNDLES = 16  # lists of names that lookup_many has prepared

T = TypeVar("T")


def lookup(state: State, name: str, key: Any = None, at: int | None = None) -> pa.Table:
    """Answers at one instant: `at`, or just after the greatest event time seen.

    A row of which a value does not exist is left out, with a warning; if it is the only one asked for, it is refused.
    """
    if at is not None:
        refuse_before_move(state, name, at)
    registration = state.registrations[name]
    is_plain = registration.joined is None and key is None
    if is_plain and (reader := reader_of(state, name)):
        return _read_point(state, name, reader, PointReader.table, at)
    if is_plain and (row := _read_lane(state, name, LanePointReader.table, at)) is not None:
        return row
    if registration.joined is None and (row := _read_key(state, name, key, at)) is not None:
        return row
    table, left_out, _ = _answered(state, name, key, at)
    if left_out.rows:
        if not registration.asked.keys or (key is not None and not isinstance(key, list)):
            raise _no_answer(name, key, left_out.reason)
        tell(name, registration, left_out, stacklevel=4)
    return table


def rows(state: State, name: str, key: Any = None, at: int | None = None) -> list[dict[str, Any]]:
    """What `lookup` gives, as Python objects: for one key in less time than it takes to make a table."""
    if at is not None:
        refuse_before_move(state, name, at)
    is_one = key is not None and not isinstance(key, list) and state.registrations[name].joined is None
    if is_one and (reader := key_row_reader_of(state, name)) is not None:
        with suppress(NoValue, OverflowError):  # rare: the general way says which value it is
            if (found := reader.plain(key, at)) is not None:
                return [] if found is NOBODY else [found]
    given: list[dict[str, Any]] = lookup(state, name, key, at).to_pylist()
    return given


def value(state: State, name: str, key: Any = None, at: int | None = None) -> Any:
    """The first value of one answer; None if it is NULL or the key has none."""
    if at is not None:
        refuse_before_move(state, name, at)
    registration = state.registrations[name]
    is_plain, query = registration.joined is None, registration.asked
    if is_plain and key is None and (reader := reader_of(state, name)):
        return _read_point(state, name, reader, PointReader.value, at)
    if is_plain and key is None and (first := _read_lane(state, name, LanePointReader.value, at)) is not None:
        return first[0]
    if query.keys and (key is None or isinstance(key, list)):
        raise MuntinError(f"query '{name}' has a value for each key; give one key")
    if is_plain and key is not None and (key_reader := key_reader_of(state, name)):
        try:
            found = key_reader.value(key, at)
        except NoValue as error:
            raise _no_answer(name, key, str(error)) from error
        if found is not UNREAD:
            return found
    table = lookup(state, name, key, at)
    column = table.column(len(query.keys) if query.outputs else 0)
    return column[0].as_py() if table.num_rows else None


def lookup_many(state: State, names: tuple[str, ...], at: int | None = None) -> pa.Table:
    """The first values of many un-keyed queries, a row for each."""
    if at is not None:
        for name in names:
            refuse_before_move(state, name, at)
    instant = state.clock.now if at is None else at
    if instant is None:  # the stream has not begun, but histories may have
        instant = max((now for name in names if (now := state.now_of(name)) is not None), default=None)
    table, lost = timed_many(state, names, lambda: _bundle(state, names).table(instant))
    for name, rows in Counter(lost).items():
        tell(name, state.registrations[name], LeftOut(rows, TOO_LARGE), stacklevel=4)
    return table


def _bundle(state: State, names: tuple[str, ...]) -> Bundle:
    bundles = state.prepared.bundles
    if names not in bundles:
        if len(bundles) >= _BUNDLES:
            bundles.clear()
        bundles[names] = Bundle(state, names)
    bundle: Bundle = bundles[names]
    return bundle


def _read_point(
    state: State, name: str, reader: PointReader, ask: Callable[[PointReader, int | None], T], at: int | None
) -> T:
    """Ask the reader of a query without keys; now and then with the time that it takes."""
    meter = state.meter
    meter.singles += 1
    try:
        if meter.singles < meter.next_timed:
            return ask(reader, at)
        return timed_single(state, name, lambda reader: ask(reader, at))
    except NoValue as error:
        raise _no_answer(name, None, str(error)) from error


def _read_lane(
    state: State, name: str, ask: Callable[[LanePointReader, int | None], T | None], at: int | None
) -> T | None:
    """Ask the reader of a query that reads a lane; None if there is none, or it cannot tell."""
    reader = lane_reader_of(state, name)
    try:
        return None if reader is None else ask(reader, at)
    except NoValue as error:
        raise _no_answer(name, None, str(error)) from error


def _read_key(state: State, name: str, key: Any, at: int | None) -> pa.Table | None:
    """Ask the reader of one key; None if there is none, or it cannot tell."""
    if key is None or isinstance(key, list) or (reader := key_row_reader_of(state, name)) is None:
        return None
    try:
        return reader.table(key, at)
    except NoValue:  # rare: the general way says which value it is
        return None


def _no_answer(name: str, key: Any, reason: str) -> NoValue:
    whose = "" if key is None else f" for the key {key!r}"
    return NoValue(f"query '{name}' has no answer{whose}: {reason}")


def _answered(state: State, name: str, key: Any, at: int | None) -> Answered:
    query = state.registrations[name].query
    instant = at if at is not None else state.now_of(name)
    if (join := join_of(state, name)) is not None:
        columns = None if key is None else key_columns(join.query.keys, key)
        return join.lookup(state, None if instant is None else query.pace.floor(instant), columns)
    ids = None if key is None else _ids_of(state, query, key)
    if instant is None and query.keys:
        return Answered(query.answer_schema().empty_table())
    if instant is None:
        return answer_one(state, Question(name, np.zeros(1, np.int64), is_started=False))
    instant = query.pace.floor(instant)
    if key is None and (key_filter := key_filter_of(state, name)):
        passing = key_filter.ask(instant)
        return (
            Answered(passing)
            if isinstance(passing, pa.Table)
            else answer_one(state, passing, is_narrowed=True)
        )
    if query.top is not None:
        return answer_one(state, Question(name, np.array([instant]), only=ids))
    return answer_one(state, Question(name, np.array([instant]), ids))


def _ids_of(state: State, query: Query, key: Any) -> Ints:
    """Ids of the known ones among the keys asked for, ascending."""
    columns = key_columns(query.keys, key)
    found = state.keys[query.key_expressions].find(columns)
    if len(found) > _MANY:
        return np.unique(found[found >= 0])
    # a set of a few costs less than any call of NumPy's
    return np.array(sorted({id for id in found.tolist() if id >= 0}), np.int64)


def key_columns(keys: Sequence[Key], key: Any) -> list[pa.Array]:
    """The keys asked for, as columns of GROUP BY."""
    if not keys:
        raise MuntinError("the query has no GROUP BY, so it has no keys to look up")
    if len(keys) == 1 and isinstance(key, list) and tuple not in set(map(type, key)):
        return [key_column(key, keys[0].expression.type, keys[0].name)]
    parts = [
        each if isinstance(each, tuple) else (each,) for each in (key if isinstance(key, list) else [key])
    ]
    if any(len(part) != len(keys) for part in parts):
        names = ", ".join(each.name for each in keys)
        raise MuntinError(f"a key of this query is ({names}), so {key!r} is none; give {len(keys)} values")
    return [
        key_column([part[position] for part in parts], each.expression.type, each.name)
        for position, each in enumerate(keys)
    ]
