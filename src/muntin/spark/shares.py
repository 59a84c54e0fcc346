"""Shares: exact queries without keys whose events travel as they are, answered by all shards together.

Each shard has a share of the events, and tells of every window the parts that the answer is made of
(`aggregates/part.py`): of AVG, say, a count and a sum with what its roundings have lost. A last step merges the parts
of a window as cells are merged, and only then come HAVING and SELECT. Events are dealt out as they come; for a
COUNT(DISTINCT x) by the value of x, so that no two shards count the same one.

Where cells are enough for a query, tasks fold its events, and what is left for one shard is little
(docs/decisions/0042-history-on-spark.md): it has no shares.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from muntin.aggregates import AGGREGATES, Partial
from muntin.aggregates.component import COMPONENTS
from muntin.aggregates.contract import is_text
from muntin.aggregates.part import merging_rules, part_name
from muntin.answer import to_arrow
from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.query import Call, Output, Query
from muntin.shard.read.left_out import Values, either, evaluate_each, no_sum
from muntin.shard.read.reading import answer_type, call_of
from muntin.sql.expressions import Scope, compile_expression
from muntin.store.needs import storage

_TOGETHER = 1024  # windows of a query that are sent on together


def has_shares(query: Query) -> bool:
    """Whether all shards can answer an exact query together, each from some of the events."""
    return (
        not query.keys
        and query.hint is None
        and not query.emits_changes
        and bool(query.calls)
        and all(call.window.is_time and _merges(call) for call in query.calls)
        and len(_counted(query)) <= 1
    )


def _merges(call: Call) -> bool:
    return set(AGGREGATES[call.function].components) <= COMPONENTS.keys() | {"distinct"}


def _counted(query: Query) -> list[Expression]:
    """What it counts the different values of."""
    counted = (call.argument for call in query.calls if call.function == "count_distinct")
    return list(dict.fromkeys(each for each in counted if each is not None))


def dealt_by(query: Query) -> tuple[Expression, ...]:
    """Events with the same values of these must be in one share."""
    return tuple(_counted(query))


def share_of(query: Query) -> Query:
    """The query that each shard answers for its share of the events."""
    calls = tuple(dict.fromkeys(part for call in query.calls for part in _parts(call)))
    types = {f"${number}": answer_type(call) for number, call in enumerate(calls)}
    scope = Scope(types, "the share")
    outputs = tuple(
        Output(f"p{number}", compile_expression(exp.column(name, quoted=True), scope))
        for number, name in enumerate(types)
    )
    return replace(query, calls=calls, outputs=outputs, having=None, tolerance=None)


def _parts(call: Call) -> Iterator[Call]:
    for component in AGGREGATES[call.function].components:
        for number in range(len(merging_rules(component).identity(_dtype(call)))):
            yield replace(call, function=part_name(component, number))


def _dtype(call: Call) -> np.dtype:
    return np.dtype(np.int64) if call.argument is None else storage(call.argument.type)


# Between shards and the last step: what was said of several windows travels together.


def split_shares(query: Query, answers: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """What a shard said, cut where all shards cut it, each piece with its number."""
    ends = np.asarray(answers["window_end"].combine_chunks().view(pa.int64()))
    number = ends // (query.slide * _TOGETHER) if query.slide else ends
    edges = np.flatnonzero(np.diff(number, prepend=number[:1] - 1, append=number[-1:] + 1))
    for lo, hi in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield int(number[lo]), answers.slice(lo, hi - lo)


class _Windows(NamedTuple):
    """The rows of shares by window: those of window `i` are `order[lo[i]:hi[i]]`, in order of the shards."""

    order: Ints
    lo: Ints
    hi: Ints


def whole_answers(query: Query, shares: Sequence[pa.Table]) -> pa.Table:
    """The answers of all windows that shards, in their order, told of; O(rows). A row for which HAVING or a value does
    not exist is left out."""
    told = pa.concat_tables(shares).combine_chunks()
    ends = np.asarray(told["window_end"].combine_chunks().view(pa.int64()))
    order = np.argsort(ends, kind="stable")
    lo = np.flatnonzero(np.diff(ends[order], prepend=ends[order[:1]] - 1))
    windows = _Windows(order, lo, np.append(lo[1:], len(order)))
    share = share_of(query)
    names = {call: output.name for call, output in zip(share.calls, share.outputs, strict=True)}
    calls = [
        _lower(call, {part: told[names[part]] for part in _parts(call)}, windows) for call in query.calls
    ]
    first = pa.array(order[lo])
    bounds = [_one(told[side]).take(first) for side in ("window_start", "window_end")]
    known = np.asarray(_one(told["complete"]))[order]
    complete = pa.array(np.logical_and.reduceat(known, lo))
    return _answers(query, calls, [*bounds, complete])


def _lower(call: Call, parts: Mapping[Call, pa.ChunkedArray], windows: _Windows) -> Values:
    """The answer of a call for each window."""
    aggregate, kind = AGGREGATES[call.function], answer_type(call)
    columns, texts = iter(parts.values()), None
    partials: dict[str, Partial] = {}
    for component in aggregate.components:
        rules, dtype = merging_rules(component), _dtype(call)
        cells = []
        for wanted, empty in rules.identity(dtype):
            column = _one(next(columns)).take(pa.array(windows.order))
            if is_text(column.type):
                texts, codes = np.unique(
                    np.array(column.fill_null("").to_pylist(), object), return_inverse=True
                )
                column = pa.array(codes, pa.int64(), mask=np.asarray(column.is_null()))
            cells.append(np.asarray(column.fill_null(pa.scalar(empty, column.type))).astype(wanted))
        into = rules.start(dtype, len(windows.lo))
        rules.merge(windows.lo, windows.hi, 1, np.zeros(len(windows.order), np.int64), tuple(cells), into)
        partials[component] = into
    value, valid, lost = aggregate.lower(partials)
    if texts is None:
        return Values(to_arrow(value, valid, kind), lost)
    places = pa.array(np.where(valid, value, 0), mask=~valid)
    return Values(pa.array(texts.tolist(), kind).take(places), lost)


def _answers(query: Query, calls: Sequence[Values], rest: Sequence[pa.Array]) -> pa.Table:
    """HAVING and SELECT over the answers of calls."""
    named = {f"${number}": each.column for number, each in enumerate(calls)}
    kept = np.ones(len(rest[-1]), np.bool_)
    gone: Bools | None = None
    if query.having is not None:
        verdict = evaluate_each(query.having, named)
        gone = either(_unknown(query.having, calls), verdict.lost)
        kept = np.asarray(verdict.column.fill_null(False)) & ~_or_none(gone, kept)
    values = []
    for output in query.outputs:
        number = call_of(output.expression)
        value = calls[number] if isinstance(number, int) else evaluate_each(output.expression, named)
        lost = either(_unknown(output.expression, calls), value.lost)
        gone = either(gone, None if lost is None else lost & kept)
        values.append(value.column)
    missing = _or_none(gone, kept)
    if missing.any():
        sums = [no_sum(call) for call, each in zip(query.calls, calls, strict=True) if each.lost is not None]
        reason = (sums or ["a value of HAVING or SELECT does not exist"])[0]
        warnings.warn(
            f"{int(missing.sum()):,} rows are left out, for which there is no value: {reason}",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip
    table = pa.Table.from_arrays([*values, *rest], schema=query.answer_schema())
    return table.filter(pa.array(kept & ~missing))


def _unknown(expression: Expression, calls: Sequence[Values]) -> Bools | None:
    """The rows for which a call that an expression reads has no value."""
    found: Bools | None = None
    for name in expression.columns:
        found = either(found, calls[int(name[1:])].lost)
    return found


def _or_none(some: Bools | None, like: Bools) -> Bools:
    return np.zeros(len(like), np.bool_) if some is None else some


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
