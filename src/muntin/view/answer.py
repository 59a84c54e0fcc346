"""Answers from a view: results that its key names, WHERE, and what SELECT makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.answer import to_instants
from muntin.archive import Definition, View
from muntin.archive.view import is_inside
from muntin.arrays import Bools, Ints
from muntin.errors import NoValue
from muntin.join.answer import fold_pairs, select_pairs
from muntin.shard.read.left_out import NONE, LeftOut, evaluate_each
from muntin.view_select import ViewSelect

_LENGTH = "#"  # stands for the columns of results of which none is read


class Looked(NamedTuple):
    """Results of a view at the instants that they are `at`; `instants` are those at which there are answers."""

    rows: pa.Table
    at: Ints
    instants: Ints
    complete: Bools  # by instant


def make_answer(view: View, rows: pa.Table, select: ViewSelect, complete: bool) -> pa.Table:
    """The answer of a SELECT as of the view's last update, made of the results that its bounds allow."""
    now = view.now if view.now is not None else 1
    looked = Looked(rows, np.full(rows.num_rows, now), np.array([now]), np.array([complete]))
    answer, left_out = answer_at(looked, select, view.definition, view.epoch.liveness().counts)
    _tell(select, left_out)
    if view.now is None:
        nothing = pa.nulls(answer.num_rows, pa.timestamp("us"))
        for name in ("window_start", "window_end"):
            answer = answer.set_column(answer.column_names.index(name), name, nothing)
    return _first_rows(answer, select)


def answer_at(
    looked: Looked, select: ViewSelect, definition: Definition, counts: Sequence[int] = ()
) -> tuple[pa.Table, LeftOut]:
    """What a SELECT makes of results, instant by instant, and what it leaves out; `counts` are the events that were
    seen of each input, if windows count them."""
    rows, at, instants, complete = looked
    if select.sizes is not None:
        inside = is_inside(rows, select.sizes, definition, at, counts)
        rows, at = rows.filter(pa.array(inside)), at[inside]
    columns = {name: rows.column(name).combine_chunks() for name in select.view.columns.names}
    columns[_LENGTH] = pa.array(np.arange(rows.num_rows))
    left_out = NONE
    if select.where is not None and rows.num_rows:
        passing, lost, reason = evaluate_each(select.where, columns)
        left_out = NONE if lost is None else LeftOut(int(lost.sum()), reason)
        columns = {name: column.filter(passing) for name, column in columns.items()}
        at = at[np.asarray(passing.fill_null(False))]
    if select.fold is None:
        values, gone, more = select_pairs(select.outputs, columns, None)
        at = at if gone is None else at[~gone]
    else:
        seen = {name: columns[name] for name in select.fold.stream.schema.names if not name.startswith("#")}
        table, more, _ = fold_pairs(select.fold, seen, at, instants)
        values, at = table.columns[:-3], np.asarray(table["window_end"].cast(pa.int64()))
    bounds = bounds_at(at, complete[np.searchsorted(instants, at)], select, definition)
    schema = select.emission_schema()
    return pa.Table.from_arrays([*values, *bounds], schema=schema), left_out.also(more)


def bounds_at(at: Ints, complete: Bools, select: ViewSelect, definition: Definition) -> list[pa.Array]:
    """The last three columns of an answer, whose rows are at some instants."""
    size = max(select.sizes or definition.sizes or (definition.window,))
    start = pa.nulls(len(at), pa.timestamp("us")) if select.view.by_count else to_instants(at - size)
    return [start, to_instants(at), pa.array(complete)]


def _tell(select: ViewSelect, left_out: LeftOut) -> None:
    """Warn of rows left out; if there is only one row, it is refused."""
    if not left_out.rows:
        return
    if select.fold is not None and not select.keys:
        raise NoValue(f"the view has no answer: {left_out.reason}")
    warnings.warn(
        f"{left_out.rows:,} rows of the view are left out, for which there is no value: {left_out.reason}",
        RuntimeWarning,
        stacklevel=6,
    )


def read_results(view: View, select: ViewSelect) -> pa.Table:
    """The results that the key's bounds allow, in order, of the view's own windows; all, if there are no bounds."""
    low = select.equal if select.low is None else (*select.equal, select.low)
    high = select.equal if select.high is None else (*select.equal, select.high)
    if not low and not high:
        return view.read_all()
    return view.probe_range(low or None, high or None, through_high=True)


def _first_rows(answer: pa.Table, select: ViewSelect) -> pa.Table:
    """As ORDER BY and LIMIT ask; NULL comes last, and rows that are equal stay in the order of the key."""
    if select.order:
        ways = [(name, "descending" if descends else "ascending") for name, descends in select.order]
        answer = answer.take(pc.sort_indices(answer, sort_keys=ways))
    return answer if select.limit is None else answer.slice(0, select.limit)
