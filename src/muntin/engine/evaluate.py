"""From partials to answers: lower the calls of a query, apply HAVING and SELECT to the few rows left."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregate import AGGREGATES
from muntin.answer import Answers, no_answers, to_arrow, to_instants
from muntin.engine.keys import Dictionary, KeyDictionary
from muntin.expression import Expression
from muntin.plan.demand import PRESENCE, Demand, needs_of
from muntin.plan.manager import Placement
from muntin.query import Call, Query
from muntin.synopsis.contract import Bools, Found, Ints

# a look-up of one demand's window in one group, at the instants (or counts) at hand
Finder = Callable[[int, Demand], Found]
# makes a thing unless it was made before for the same `Hashable`
Once = Callable[[Hashable, Callable[[], Any]], Any]


@dataclass(frozen=True)
class Rows:
    """The slots of a look-up: instant by instant, key by key (or one by one, for windows by count)."""

    width: int  # slots per instant
    instants: Ints  # one per `width` slots
    key: Ints | None  # key id of each slot; None if slots are all keys, in order, at every instant
    is_after_first_event: bool = True  # otherwise there is no instant yet

    def __len__(self) -> int:
        return self.width * len(self.instants)

    def ids(self, kept: Ints | None) -> Ints:
        """Key ids of some slots, None for all."""
        if self.key is not None:
            return self.key if kept is None else self.key[kept]
        return np.tile(np.arange(self.width), len(self.instants)) if kept is None else kept % self.width


def always(what: Hashable, make: Callable[[], Any]) -> Any:
    """For answers that share nothing with others."""
    return make()


def answer(query: Query, placement: Placement, rows: Rows, find: Finder, keys: KeyDictionary | None,
           texts: Mapping[Expression, Dictionary], once: Once = always) -> pa.Table:  # fmt: skip
    """Answers of a query for all slots of `rows` whose key is present."""
    presence = [find(number, demand) for number, demand in placement.presence]
    calls = [_together([find(number, demand) for number, demand in call]) for call in placement.calls]
    place = tuple(map(id, presence))  # of rows and their keys: what was found outlives what is made of it
    kept: Ints | None = None  # slots; None: all
    if query.keys:
        kept = once(("present", place), lambda: _present(presence))
        if kept is not None and not len(kept):
            return no_answers(query)
    columns: dict[str, pa.Array] = {}
    for position, (call, found) in enumerate(zip(query.calls, calls, strict=True)):
        parts = tuple(id(found.partials[need]) for need in needs_of(call))
        make = partial(lower, call, found, kept, texts)
        columns[f"${position}"] = once(("lower", place, call.function, parts), make)
    if query.having is None:
        key_columns = _key_columns(query, keys, lambda: rows.ids(kept), ("keys", place), once)
    else:
        passed = _passing(query, columns, keys, rows, kept)
        if not passed.any():
            return no_answers(query)
        chosen = pa.array(passed)
        columns = {name: pc.filter(column, chosen) for name, column in columns.items()}
        kept = np.flatnonzero(passed) if kept is None else kept[passed]
        place, once = (), always  # of this query alone
        key_columns = _key_columns(query, keys, lambda: rows.ids(kept), place, once)
    columns |= key_columns
    values = [output.expression.evaluate(columns) for output in query.outputs]
    start, end = once(("bounds", place, query.window), lambda: _bounds(query, presence, rows, kept))
    complete = _complete(query, presence, calls, kept, len(start))
    return Answers(query, list(key_columns.values()), values, start, end, complete).table()


def _present(presence: Sequence[Found]) -> Ints | None:
    held = np.logical_or.reduce([found.partials[PRESENCE][0] > 0 for found in presence])
    return None if held.all() else np.flatnonzero(held)


def _together(found: Sequence[Found]) -> Found:
    """What several groups found of one window, as one."""
    if len(found) == 1 or all(each is found[0] for each in found):
        return found[0]
    partials = {need: partial for each in found for need, partial in each.partials.items()}
    known_since = {need: since for each in found for need, since in each.known_since.items()}
    is_whole = np.logical_and.reduce([each.is_whole for each in found])
    return found[0]._replace(partials=partials, known_since=known_since, is_whole=is_whole)


def lower(call: Call, found: Found, kept: Ints | None, texts: Mapping[Expression, Dictionary]) -> pa.Array:
    """Answers of one call for the slots that are kept; O(kept)."""
    aggregate = AGGREGATES[call.function]
    few = {
        need.component: found.partials[need]
        if kept is None
        else tuple(array[kept] for array in found.partials[need])
        for need in needs_of(call)
    }
    value, valid = aggregate.lower(few)
    kind = aggregate.answer_type(None if call.argument is None else call.argument.type)
    if call.argument is not None and call.argument in texts and kind == call.argument.type:
        codes = pa.array(np.where(valid, value, 0), pa.int64(), mask=None if valid.all() else ~valid)
        return texts[call.argument].values.take(codes).cast(kind)
    return to_arrow(value, valid, kind)


def _passing(
    query: Query, columns: Mapping[str, pa.Array], keys: KeyDictionary | None, rows: Rows, kept: Ints | None
) -> Bools:
    """Which of the kept slots pass HAVING."""
    having = query.having
    assert having is not None
    if any(name[0] != "$" for name in having.columns) and keys is not None:
        columns = {**columns, **_key_columns(query, keys, lambda: rows.ids(kept), (), always)}
    count = len(rows) if kept is None else len(kept)
    return np.asarray(having.evaluate(columns or _one(count)).fill_null(False))


def _bounds(
    query: Query, presence: Sequence[Found], rows: Rows, kept: Ints | None
) -> tuple[pa.Array, pa.Array]:
    if query.window is not None:
        (found,) = presence
        start, end = (_spread(side, found.width, kept) for side in (found.start, found.end))
        known = ((end > start) | query.window.is_time) & rows.is_after_first_event
        return to_instants(start, known), to_instants(end, known)
    end = _spread(rows.instants, rows.width, kept)
    start = np.minimum.reduce([_spread(found.start, found.width, kept) for found in presence])
    by_time = all(call.window.is_time for call in query.calls)
    return (
        to_instants(start, rows.is_after_first_event and by_time),
        to_instants(end, rows.is_after_first_event),
    )


def _complete(
    query: Query, presence: Sequence[Found], calls: Sequence[Found], kept: Ints | None, count: int
) -> Bools:
    covered = [(found, found.complete(PRESENCE)) for found in presence]
    for call, found in zip(query.calls, calls, strict=True):
        covered += [(found, found.complete(need)) for need in needs_of(call)]
    if all(each.all() for _, each in covered):
        return np.ones(count, np.bool_)
    spread = [_spread(each, found.width, kept) for found, each in covered]
    return np.asarray(np.logical_and.reduce(spread))


def _spread(per_instant: Any, width: int, kept: Ints | None) -> Any:
    """What is known of each instant, for each of the slots that are kept."""
    return np.repeat(per_instant, width) if kept is None else per_instant[kept // width]


def _key_columns(
    query: Query, keys: KeyDictionary | None, ids: Callable[[], Ints], place: Hashable, once: Once
) -> dict[str, pa.Array]:
    if keys is None:
        return {}
    columns = once((place, id(keys)), lambda: keys.take(ids()))
    return {key.name: column for key, column in zip(query.keys, columns, strict=True)}


def _one(length: int) -> dict[str, pa.Array]:
    """Something to take the length from, for expressions without a column."""
    return {"$": pa.array(np.zeros(length, np.int64))}
