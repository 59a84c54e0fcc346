"""Parts of a join's answers: the partials of some of its pairs, and the answers that all parts come to.

A runtime may keep the pairs of one join in several places. If the pairs of one answer are in several of them, each
place gives out the partials of its own pairs, a row for each instant and key, and another step merges these rows:

    keys … | partials of components … | lost | window_start | window_end | complete

`lost` says that an argument of some pair has no value, so that the answer has none either. An instant without a row in
one place has no pair there.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import reduce

import numpy as np
import pyarrow as pa

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import BY_ARRIVAL, COMPONENTS
from muntin.aggregates.contract import Array, is_text
from muntin.answer import to_arrow
from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.join_query import PAIR_NUMBER, JoinQuery
from muntin.keys.key_dictionary import KeyDictionary
from muntin.plan.demand import needs_of
from muntin.query import Call, Query
from muntin.shard.intake import to_column
from muntin.shard.read.left_out import NONE, LeftOut, either, evaluate_each
from muntin.shard.read.reading import answer_type
from muntin.store.needs import Need, dtype_of

_LOST = "lost"
PART = b"muntin part"  # in the metadata of a table of parts: the text of its query


def can_merge(query: JoinQuery) -> bool:
    """Whether the answers of a query can be had from parts."""
    if query.fold is None:
        return False
    return all(
        need.component in COMPONENTS
        and need.component not in BY_ARRIVAL  # no place knows the order of another's pairs
        and (
            need.component == "count" or need.input.argument is None or not is_text(need.input.argument.type)
        )
        for need in _needs(query.fold)
    )


def _calls(fold: Query) -> tuple[Call, ...]:
    return fold.calls[:-1]  # the last one says which pair of a key was the first


def _needs(fold: Query) -> tuple[Need, ...]:
    return tuple(dict.fromkeys(need for call in _calls(fold) for need in needs_of(call, fold.stream)))


def part_schema(query: JoinQuery) -> pa.Schema:
    """Columns of a table of parts."""
    assert query.fold is not None
    fields = [(f"key {i}", key.type) for i, key in enumerate(query.fold.key_expressions)]
    for i, need in enumerate(_needs(query.fold)):
        identity = COMPONENTS[need.component].identity(dtype_of(need))
        fields += [(f"{i} {j}", pa.from_numpy_dtype(dtype)) for j, (dtype, _) in enumerate(identity)]
    fields.append((_LOST, pa.bool_()))
    bounds = list(query.answer_schema())[-3:]
    return pa.schema([*fields, *((each.name, each.type) for each in bounds)], {PART: query.text.encode()})


def part_columns(
    fold: Query, columns: Mapping[str, pa.Array], at: Ints, instants: Ints
) -> tuple[list[pa.Array], Ints, LeftOut]:
    """The columns of a part but for the last three, the instant of each row, and pairs without a key. `columns` are of
    pairs that are seen `at` some of the `instants`. O(pairs)."""
    given = {**columns, PAIR_NUMBER: pa.array(np.arange(len(at)))}
    keys = [evaluate_each(key, given) for key in fold.key_expressions]
    lost = reduce(either, (each.lost for each in keys), None)
    left_out = NONE
    values = [each.column for each in keys]
    if lost is not None:
        left_out = LeftOut(int(lost.sum()), next(each.reason for each in keys if each.reason))
        kept = pa.array(~lost)
        given, at = {name: column.filter(kept) for name, column in given.items()}, at[~lost]
        values = [value.filter(kept) for value in values]
    instant = np.searchsorted(instants, at)
    if values:
        ids = KeyDictionary([key.type for key in fold.key_expressions]).encode(values)
        found, one, cell = np.unique(
            instant * (int(ids.max(initial=0)) + 1) + ids, return_index=True, return_inverse=True
        )
        rows, cells = at[one], len(found)
        key_columns = [value.take(pa.array(one)) for value in values]
    else:
        rows, cell, cells, key_columns = instants, instant, len(instants), []
    inputs = _Inputs(given, len(at))
    arrays: list[pa.Array] = []
    lo, hi = np.zeros(1, np.int64), np.full(1, len(at))
    for need in _needs(fold):
        component = COMPONENTS[need.component]
        into = component.start(dtype_of(need), cells)
        component.fold(lo, hi, 0, cell, at, *inputs.column(need, at), into)
        arrays += [pa.array(array) for array in into]
    gone = np.zeros(cells, np.bool_)
    gone[cell[inputs.lost]] = True
    return [*key_columns, *arrays, pa.array(gone)], rows, left_out


class _Inputs:
    """Arguments and filters of aggregates, each evaluated once for all pairs."""

    def __init__(self, given: Mapping[str, pa.Array], count: int):
        self._given = given
        self._columns: dict[Expression, pa.Array] = {}
        self.lost: Bools = np.zeros(count, np.bool_)  # pairs for which one of them has no value

    def column(self, need: Need, at: Ints) -> tuple[Array, Bools]:
        """The values of a need's input, and which of them count."""
        argument, kept = need.input.argument, need.input.filter
        valid: Bools = np.ones(len(at), np.bool_)
        value: Array = at
        if argument is not None:
            array = self._evaluated(argument)
            if is_text(argument.type):  # only counted
                value, valid = np.zeros(len(at), np.int64), np.asarray(array.is_valid())
            else:
                value, valid = to_column(array)
        if kept is not None:
            valid = valid & np.asarray(self._evaluated(kept).fill_null(False))
        return value, valid

    def _evaluated(self, expression: Expression) -> pa.Array:
        if expression not in self._columns:
            column, lost, _ = evaluate_each(expression, self._given)
            self._columns[expression] = (
                column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            )
            if lost is not None:
                self.lost |= lost
        return self._columns[expression]


def merge_parts(query: JoinQuery, parts: pa.Table) -> pa.Table:
    """The answers of all windows that `parts` has rows of, without those that HAVING does not let pass or of which a
    value does not exist. O(rows)."""
    assert query.fold is not None
    fold, parts = query.fold, parts.combine_chunks()
    width = len(fold.keys)
    ends = _array(parts["window_end"])
    keys = [_array(parts.column(number)) for number in range(width)]
    ids = KeyDictionary([*(key.type for key in fold.key_expressions), pa.int64()]).encode(
        [*keys, ends.cast(pa.int64())]
    )
    found, one = np.unique(ids, return_index=True)
    lo, hi = np.zeros(1, np.int64), np.full(1, len(ids))
    partials = {}
    for i, need in enumerate(_needs(fold)):
        component = COMPONENTS[need.component]
        into = partials[need] = component.start(dtype_of(need), len(found))
        cells = tuple(np.array(parts[f"{i} {j}"]) for j in range(len(into)))
        component.merge(lo, hi, 0, ids, cells, into)
    lost = np.zeros(len(found), np.bool_)
    lost[ids[np.asarray(parts[_LOST])]] = True
    complete = np.ones(len(found), np.bool_)
    complete[ids[~np.asarray(parts["complete"])]] = False
    first = pa.array(one)
    named = {key.name: column.take(first) for key, column in zip(fold.keys, keys, strict=True)}
    for number, call in enumerate(_calls(fold)):
        of_call = {need.component: partials[need] for need in needs_of(call, fold.stream)}
        value, valid, overflown = AGGREGATES[call.function].lower(of_call)
        named[f"${number}"] = to_arrow(value, valid, answer_type(call))
        lost = lost if overflown is None else lost | overflown
    bounds = {
        "window_start": _array(parts["window_start"]).take(first), "window_end": ends.take(first),
        "complete": pa.array(complete),
    }  # fmt: skip
    table = _only(pa.table({**named, **{f" {name}": column for name, column in bounds.items()}}), ~lost)
    passing = {name: _array(table[name]) for name in named} or {"$": pa.array(np.zeros(table.num_rows))}
    if fold.having is not None:
        verdict = evaluate_each(fold.having, passing)
        lost = np.append(lost, verdict.lost if verdict.lost is not None else [])
        table = _only(table, np.asarray(verdict.column.fill_null(False)))
        passing = {name: _array(table[name]) for name in named} or {"$": pa.array(np.zeros(table.num_rows))}
    values = [evaluate_each(output.expression, passing) for output in query.outputs]
    gone = reduce(either, (each.lost for each in values), None)
    columns = [passing[key.name] for key in fold.keys] + [each.column for each in values]
    answers = pa.Table.from_arrays(
        [*columns, *(table[f" {name}"] for name in bounds)], schema=query.answer_schema()
    )
    many = int(np.count_nonzero(lost)) + (0 if gone is None else int(gone.sum()))
    if many:
        warnings.warn(
            f"{many:,} rows are left out, for which there is no value", RuntimeWarning, stacklevel=2
        )
    return answers if gone is None else _only(answers, ~gone)


def _only(table: pa.Table, kept: Bools) -> pa.Table:
    return table if kept.all() else table.filter(pa.array(kept))


def _array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
