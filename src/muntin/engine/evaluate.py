"""From partials to answers: lower the calls of a query, apply HAVING and SELECT to the few rows left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.aggregate import AGGREGATES
from muntin.answer import Answers, no_answers, to_arrow, to_instants
from muntin.engine.keys import Dictionary, KeyDictionary
from muntin.expression import Expression
from muntin.plan.demand import PRESENCE, Demand
from muntin.plan.manager import Placement
from muntin.query import Call, Query
from muntin.synopsis.contract import Found, Ints, Need

# a look-up of one demand's window in one group, at the instants (or counts) at hand
Finder = Callable[[int, Demand], Found]


@dataclass(frozen=True)
class Rows:
    """The slots of a look-up: instant by instant, key by key (or one by one, for windows by count)."""

    width: int  # slots per instant
    instants: Ints  # one per `width` slots
    key: Ints  # key id of each slot
    is_after_first_event: bool = True  # otherwise there is no instant yet


def answer(query: Query, placement: Placement, rows: Rows, find: Finder, keys: KeyDictionary | None,
           texts: Mapping[Expression, Dictionary]) -> pa.Table:  # fmt: skip
    """Answers of a query for all slots of `rows` whose key is present."""
    presence = [find(number, demand) for number, demand in placement.presence]
    needs = [[demand.need for _, demand in parts] for parts in placement.calls]
    calls = [
        _together([find(number, demand) for number, demand in parts], some)
        for parts, some in zip(placement.calls, needs, strict=True)
    ]
    kept = np.arange(len(rows.key))
    if query.keys:
        kept = np.flatnonzero(np.any([found.partials[PRESENCE][0] > 0 for found in presence], axis=0))
        if not len(kept):
            return no_answers(query)
    columns: dict[str, pa.Array] = {}
    for position, (call, found) in enumerate(zip(query.calls, calls, strict=True)):
        columns[f"${position}"] = lower(call, needs[position], found, kept, texts)
    if query.having is not None:
        having = query.having
        if any(name[0] != "$" for name in having.columns) and keys is not None:
            columns |= _key_columns(query, keys, rows.key[kept])
        passed = np.asarray(having.evaluate(columns or _one(len(kept))).fill_null(False))
        kept = kept[passed]
        chosen = pa.array(passed)
        columns = {name: pc.filter(column, chosen) for name, column in columns.items() if name[0] == "$"}
        if not len(kept):
            return no_answers(query)
    key_columns = _key_columns(query, keys, rows.key[kept]) if keys is not None else {}
    columns |= key_columns
    values = [output.expression.evaluate(columns) for output in query.outputs]
    start, end = _bounds(query, presence, rows, kept)
    covered = [found.complete(PRESENCE)[kept // found.width] for found in presence]
    for some, found in zip(needs, calls, strict=True):
        covered += [found.complete(need)[kept // found.width] for need in some]
    complete = np.logical_and.reduce(covered)
    return Answers(query, list(key_columns.values()), values, start, end, complete).table()


def _together(found: Sequence[Found], needs: Sequence[Need]) -> Found:
    """What several groups found of one window, one need each, as one."""
    if len(found) == 1:
        return found[0]
    pairs = list(zip(found, needs, strict=True))  # others may have been found along: not to be copied
    partials = {need: each.partials[need] for each, need in pairs}
    known_since = {need: each.known_since[need] for each, need in pairs}
    is_whole = np.logical_and.reduce([each.is_whole for each in found])
    return found[0]._replace(partials=partials, known_since=known_since, is_whole=is_whole)


def lower(
    call: Call, needs: Sequence[Need], found: Found, kept: Ints, texts: Mapping[Expression, Dictionary]
) -> pa.Array:
    """Answers of one call, which reads `needs`, for the slots that are kept; O(kept)."""
    aggregate = AGGREGATES[call.function]
    few = {need.component: tuple(array[kept] for array in found.partials[need]) for need in needs}
    value, valid = aggregate.lower(few)
    kind = aggregate.answer_type(None if call.argument is None else call.argument.type)
    if call.argument is not None and call.argument in texts and kind == call.argument.type:
        codes = pa.array(np.where(valid, value, 0), pa.int64(), mask=None if valid.all() else ~valid)
        return texts[call.argument].values.take(codes).cast(kind)
    return to_arrow(value, valid, kind)


def _bounds(query: Query, presence: Sequence[Found], rows: Rows, kept: Ints) -> tuple[pa.Array, pa.Array]:
    if query.window is not None:
        (found,) = presence
        at = kept // found.width
        start, end = found.start[at], found.end[at]
        known = ((end > start) | query.window.is_time) & rows.is_after_first_event
        return to_instants(start, known), to_instants(end, known)
    end = rows.instants[kept // rows.width]
    start = np.minimum.reduce([found.start[kept // found.width] for found in presence])
    by_time = all(call.window.is_time for call in query.calls)
    return (
        to_instants(start, rows.is_after_first_event and by_time),
        to_instants(end, rows.is_after_first_event),
    )


def _key_columns(query: Query, keys: KeyDictionary, ids: Ints) -> dict[str, pa.Array]:
    return {key.name: column for key, column in zip(query.keys, keys.take(ids), strict=True)}


def _one(length: int) -> dict[str, pa.Array]:
    """Something to take the length from, for expressions without a column."""
    return {"$": pa.array(np.zeros(length, np.int64))}
