"""From a record batch to what synopses take in: every expression evaluated once, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregates.contract import is_text, kept_type
from muntin.arrays import Bools, Ints
from muntin.crew import ALONE, QUICK, Crew
from muntin.errors import MuntinError, SchemaError
from muntin.expression import Expression
from muntin.fixed_point import numbers_of
from muntin.keys.key_dictionary import Dictionary, KeyDictionary
from muntin.lane import Asked
from muntin.shard.lanes import Lanes
from muntin.store.batch import Batch, Column, KeysOfSome
from muntin.store.codes import ranks_of
from muntin.store.needs import storage

# What of a batch a stream takes in: events that are neither late nor ahead, in the order they came.


class Admitted(NamedTuple):
    """Events in the stream's schema, as its clock has judged them."""

    events: pa.RecordBatch
    at: Ints  # their times
    ascends: bool
    late_events: int  # how many others were late …
    ahead_events: int = 0  # … and how many were ahead


_GREATEST = 2**63 - 1
_MOST = 0.75  # of all events: to take those out takes as long as to evaluate a predicate for all


@dataclass(frozen=True)
class WantedColumns:
    """What the groups of a stream need of each event."""

    arguments: frozenset[Expression]
    predicates: frozenset[Expression]
    keys: frozenset[tuple[Expression, ...]]
    lanes: Mapping[Asked, Lanes] = field(default_factory=dict)
    # keys that only events of some lanes need, with these lanes
    laned_keys: Mapping[tuple[Expression, ...], frozenset[Asked]] = field(default_factory=dict)

    @cached_property
    def expressions(self) -> frozenset[Expression]:
        """All that is evaluated for every event."""
        parts = {part for some in self.keys for part in some}
        ends = {each for asked in self.lanes for each in asked.ends}
        of_lanes = {each for asked in self.lanes for each in asked.indexed}
        return self.arguments | self.predicates | (parts - ends) | of_lanes


def prepare(
    batch: pa.RecordBatch,
    at: Ints,
    ascends: bool,
    wanted: WantedColumns,
    texts: Mapping[Expression, Dictionary],
    keys: Mapping[tuple[Expression, ...], KeyDictionary],
    crew: Crew = ALONE,
) -> Batch:
    """Evaluate what is wanted, then encode.

    Everything that can fail comes before the first dictionary changes: what is left to do then are
    compiled loops over arrays that are there.
    """
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    crew = crew.fit_for(len(at) // QUICK)
    evaluating = [partial(evaluate, expression, given) for expression in wanted.expressions]
    computed = sum(not expression.is_column for expression in wanted.expressions)
    arrays = (crew if computed > 1 else ALONE).share(evaluating)
    evaluated = dict(zip(wanted.expressions, arrays, strict=True))
    passing = {predicate: _to_mask(evaluated[predicate]) for predicate in wanted.predicates}
    lane_of = {
        asked: lanes.find([evaluated[each] for each in asked.indexed])
        for asked, lanes in wanted.lanes.items()
    }
    for asked, lane in lane_of.items():
        passing[asked] = _passing_rest(asked.rest, lane >= 0, evaluated, given)
    columns = {
        argument: _column_of(argument, evaluated[argument]) for argument in wanted.arguments - texts.keys()
    }
    for text in wanted.arguments & texts.keys():
        columns[text] = to_column(evaluated[text], texts[text])
    ids = {
        some: keys[some].encode([evaluated[part] for part in some], crew)
        for some in wanted.keys
        if some not in wanted.laned_keys
    }
    in_lanes: dict[tuple[Expression, ...], KeysOfSome] = {}
    for some, of_lanes in wanted.laned_keys.items():
        in_lanes[some] = KeysOfSome()
        for asked in of_lanes:
            place = np.flatnonzero(passing[asked])
            key = ids[asked.keys][place] if asked.keys else None
            values_of = partial(_taken, [evaluated[each] for each in some if each not in asked.ends], place)
            pairs = wanted.lanes[asked].pair_ids(keys[some], key, lane_of[asked][place], values_of)
            in_lanes[some].of[asked] = place, pairs
    for asked, lanes in wanted.lanes.items():
        lanes.note(len(at), int(np.count_nonzero(passing[asked])))
    return Batch(at, {**ids, **in_lanes}, columns, passing, ascends)


def _taken(columns: Iterable[pa.Array], place: Ints, some: Ints) -> list[pa.Array]:
    at = pa.array(place[some])
    return [each.take(at) for each in columns]


def _passing_rest(
    rest: Iterable[Expression],
    passing: Bools,
    evaluated: dict[Expression, pa.Array],
    given: Mapping[str, pa.Array],
) -> Bools:
    """Which of the events that are in a lane pass the rest of a filter; O(events in a lane) for each part of it, unless
    these are most events: then a part is evaluated for all, and once for all lanes."""
    for each in rest:
        place = np.flatnonzero(passing)
        if each not in evaluated and _MOST * len(passing) <= len(place):
            # an event that is in no lane may have no value: that is not an error
            with suppress(MuntinError):
                evaluated[each] = evaluate(each, given)
        if each in evaluated:
            passing = passing & _to_mask(evaluated[each])
        elif len(place):
            at = pa.array(place)
            found = _to_mask(evaluate(each, {name: given[name].take(at) for name in each.columns}))
            passing = np.zeros(len(passing), np.bool_)
            passing[place[found]] = True
    return passing


def _column_of(argument: Expression, array: pa.Array) -> Column:
    try:
        return to_column(array)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        raise _uncomputed(argument, error) from None


def to_column(array: pa.Array, texts: Dictionary | None = None) -> Column:
    """Values as numbers, and which of them are not NULL; texts as codes of a dictionary."""
    valid, kind = _valid(array), array.type
    if pa.types.is_struct(kind):
        value, by = array.flatten()
        return Column(_pairs(value, by, kind, texts), valid)
    if texts is not None:
        return Column(texts.encode(array), valid)
    array = numbers_of(array)
    if array.null_count:
        array = array.fill_null(0)
    if pa.types.is_uint64(kind) and exceeds_storage(array).any():
        raise SchemaError(
            f"an integer is above {_GREATEST}: aggregates compute in 64 bits with a sign; such a UBIGINT can be a key, "
            "or write CAST(x AS DOUBLE)"
        )
    return Column(np.asarray(array).astype(storage(kind), copy=False), valid)


def _pairs(value: pa.Array, by: pa.Array, kind: pa.DataType, texts: Dictionary | None) -> np.ndarray:
    """Values and the ranks of what they are compared by."""
    if pa.types.is_uint64(by.type):  # all of them have a rank
        whole = np.asarray(by.fill_null(0)).view(np.int64) ^ ~_GREATEST
    else:
        whole = to_column(by).value
    pairs = np.empty(len(value), storage(kind))
    pairs["rank"] = ranks_of(whole, kind.field(1).name)
    pairs["value"] = to_column(value, texts).value
    return pairs


def exceeds_storage(array: pa.Array) -> Bools:
    """Which values no aggregate can compute with."""
    if pa.types.is_struct(array.type):
        array = array.flatten()[0]
    if not pa.types.is_uint64(array.type):
        return np.zeros(len(array), np.bool_)
    return np.asarray(array.fill_null(0) if array.null_count else array) > _GREATEST


def _to_mask(array: pa.Array) -> Bools:
    """Which events pass; NULL does not. Filling in what is not there would cost as much as the predicate."""
    return np.asarray(array.fill_null(False) if array.null_count else array)


def _valid(array: pa.Array) -> Bools:
    return np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)


def dictionaries_of_texts(
    arguments: Iterable[Expression], known: Mapping[Expression, Dictionary]
) -> dict[Expression, Dictionary]:
    """Those of the arguments whose values must be kept as codes: as known, or new ones."""
    of_text = sorted((each for each in arguments if is_text(each.type)), key=str)
    return {each: known[each] if each in known else Dictionary(kept_type(each.type)) for each in of_text}


def evaluate(expression: Expression, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The values of an expression for a batch, or an error that says why there are none."""
    try:
        array = expression.evaluate(columns)
    except (MuntinError, pa.ArrowMemoryError):
        raise
    except pa.ArrowException as error:
        raise _uncomputed(expression, error) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _uncomputed(expression: Expression, error: pa.ArrowException) -> SchemaError:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return SchemaError(f"{expression} cannot be computed for this batch: {why}")
