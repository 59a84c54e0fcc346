"""Answers from a view: results that its key names, WHERE, and what SELECT makes of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.answer import to_instants
from muntin.archive import View
from muntin.errors import NoValue
from muntin.join.answer import fold_pairs, select_pairs
from muntin.shard.read.left_out import NONE, LeftOut, evaluate_each
from muntin.view_query import ViewSelect

_LENGTH = "#"  # stands for the columns of results of which none is read


def make_answer(view: View, rows: pa.Table, select: ViewSelect, complete: bool) -> pa.Table:
    """The answer of a SELECT as of the view's last update, made of the results that its bounds allow."""
    rows = rows if select.sizes is None else view.inside(rows, select.sizes)
    columns = {name: rows.column(name).combine_chunks() for name in select.view.columns.names}
    columns[_LENGTH] = pa.array(np.arange(rows.num_rows))
    left_out = NONE
    if select.where is not None and rows.num_rows:
        passing, lost, reason = evaluate_each(select.where, columns)
        left_out = NONE if lost is None else LeftOut(int(lost.sum()), reason)
        columns = {name: column.filter(passing) for name, column in columns.items()}
    now = view.now if view.now is not None else 1
    if select.fold is None:
        values, _, more = select_pairs(select.outputs, columns, None)
        names = [output.name for output in select.outputs]
    else:
        seen = {name: columns[name] for name in select.fold.stream.schema.names if not name.startswith("#")}
        table, more, _ = fold_pairs(select.fold, seen, np.full(len(columns[_LENGTH]), now), np.array([now]))
        values, names = table.columns[:-3], table.column_names[:-3]
    _tell(select, left_out.also(more))
    return _first_rows(_with_bounds(values, names, view, select, complete), select)


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


def _with_bounds(values: Any, names: list[str], view: View, select: ViewSelect, complete: bool) -> pa.Table:
    rows = len(values[0])
    size = max(select.sizes or view.definition.sizes or (view.definition.window,))
    nothing = pa.nulls(rows, pa.timestamp("us"))
    bounds = [nothing, nothing]
    if view.now is not None:
        start = nothing if select.view.by_count else to_instants(np.full(rows, view.now - size))
        bounds = [start, to_instants(np.full(rows, view.now))]
    made = [*values, *bounds, pa.array(np.full(rows, complete))]
    return pa.Table.from_arrays(made, names=[*names, "window_start", "window_end", "complete"])
