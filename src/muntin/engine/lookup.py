"""Pull: the answers of one query at given instants, from every event so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import no_answers
from muntin.engine.evaluate import Rows, answer
from muntin.engine.point import reader_of
from muntin.engine.shard import Shard
from muntin.engine.timed import timed, timed_single
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.plan import Demand
from muntin.query import Query
from muntin.synopsis.contract import Found, Ints

# what was found for all keys, by group, window and instants; shared by the queries of one advance
Memo = dict[tuple[int, object, bytes], Found]


def lookup(shard: Shard, name: str, key: Any = None, at: int | None = None) -> pa.Table:
    """Answers at one instant: `at`, or just after the greatest event time seen."""
    query = shard.registrations[name].query
    if key is None and (reader := reader_of(shard, name)):
        meter = shard.meter
        meter.singles += 1
        if meter.singles < meter.next_timed:
            return reader.table(at)
        return timed_single(shard, name, lambda reader: reader.table(at))
    ids = None if key is None else _ids_of(shard, query, key)
    instant = at if at is not None else shard.clock.now
    if instant is None:
        return (
            no_answers(query)
            if query.keys
            else answers_at(shard, name, np.zeros(1, np.int64), is_started=False)
        )
    if query.slide:
        instant -= instant % query.slide
    return answers_at(shard, name, np.array([instant]), ids)


def value(shard: Shard, name: str, key: Any = None, at: int | None = None) -> Any:
    """The first value of one answer; None if it is NULL or the key has none."""
    query = shard.registrations[name].query
    if key is None and (reader := reader_of(shard, name)):
        meter = shard.meter
        meter.singles += 1
        if meter.singles < meter.next_timed:
            return reader.value(at)
        return timed_single(shard, name, lambda reader: reader.value(at))
    if query.keys and (key is None or isinstance(key, list)):
        raise MuntinError(f"query '{name}' has a value for each key; give one key")
    table = lookup(shard, name, key, at)
    column = table.column(len(query.keys) if query.outputs else 0)
    return column[0].as_py() if table.num_rows else None


def answers_at(
    shard: Shard,
    name: str,
    instants: Ints,
    ids: Ints | None = None,
    memo: Memo | None = None,
    is_started: bool = True,
) -> pa.Table:
    """Answers at several instants, in order; for the keys `ids`, or all.

    With a `memo`, whatever the group keeps of a window is found once for all its queries.
    """
    query, placement = shard.registrations[name].query, shard.manager.placements[name]
    keys = shard.keys[key_expressions(query)] if query.keys else None
    width, slots = 1, None
    if keys is not None:
        width = len(keys) if ids is None else len(ids)
        if ids is not None:
            slots = np.full(len(keys), -1)
            slots[ids] = np.arange(width)
    if width == 0:
        return no_answers(query)

    def find(number: int, demand: Demand) -> Found:
        window = demand.window
        settled = instants - instants % window.slide if window.slide and window.is_time else instants
        if memo is None:
            return timed(shard, number, window, len(settled),
                         lambda synopsis: synopsis.lookup(window, settled, (demand.need,), slots, width))  # fmt: skip
        place = (number, window, settled.tobytes())
        if place not in memo:
            wanted = tuple(shard.manager.groups[number].needs.windows[window])
            memo[place] = timed(shard, number, window, len(settled),
                                lambda synopsis: synopsis.lookup(window, settled, wanted, slots, width))  # fmt: skip
        return memo[place]

    rows = Rows(width, instants, np.tile(np.arange(width) if ids is None else ids, len(instants)), is_started)
    return answer(query, placement, rows, find, keys, shard.texts)


def key_expressions(query: Query) -> tuple[Expression, ...]:
    return tuple(key.expression for key in query.keys)


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
    columns = []
    for position, each in enumerate(query.keys):
        try:
            columns.append(pa.array([part[position] for part in parts], each.expression.type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            raise MuntinError(
                f"{key!r} is not a value of key '{each.name}' ({each.expression.type})"
            ) from None
    found = shard.keys[key_expressions(query)].find(columns)
    return np.unique(found[found >= 0])
