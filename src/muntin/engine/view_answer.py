"""Answers from a view: results that its key names, WHERE, and what SELECT makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import to_instants
from muntin.archive import View
from muntin.engine.fold_pairs import fold_pairs
from muntin.view_query import ViewSelect

_LENGTH = "#"  # stands for the columns of results of which none is read


def answer_from(view: View, select: ViewSelect, complete: bool) -> pa.Table:
    """The answer of a SELECT as of the view's last update, in the order of its key."""
    rows = _read(view, select)
    columns = {name: rows.column(name).combine_chunks() for name in select.view.columns.names}
    columns[_LENGTH] = pa.array(np.arange(rows.num_rows))
    if select.where is not None and rows.num_rows:
        passing = pa.array(np.flatnonzero(np.asarray(select.where.evaluate(columns).fill_null(False))))
        columns = {name: column.take(passing) for name, column in columns.items()}
    now = view.now if view.now is not None else 1
    if select.fold is None:
        values = [output.expression.evaluate(columns) for output in select.outputs]
        names = [output.name for output in select.outputs]
    else:
        seen = {name: columns[name] for name in select.fold.stream.schema.names if not name.startswith("#")}
        table = fold_pairs(select.fold, seen, np.full(len(columns[_LENGTH]), now), np.array([now]))
        values, names = table.columns[:-3], table.column_names[:-3]
    return _with_bounds(values, names, view, select, complete)


def _read(view: View, select: ViewSelect) -> pa.Table:
    """The results that the key's bounds allow, in order; of all, if there are none."""
    low = select.equal if select.low is None else (*select.equal, select.low)
    high = select.equal if select.high is None else (*select.equal, select.high)
    if not low and not high:
        return view.read_all(select.sizes)
    return view.probe_range(low or None, high or None, through_high=True, sizes=select.sizes)


def _with_bounds(values: Any, names: list[str], view: View, select: ViewSelect, complete: bool) -> pa.Table:
    rows = len(values[0])
    size = max(select.sizes or select.view.sizes or (view.definition.window,))
    if view.now is None:
        bounds = [pa.nulls(rows, pa.timestamp("us"))] * 2
    else:
        bounds = [to_instants(np.full(rows, instant)) for instant in (view.now - size, view.now)]
    made = [*values, *bounds, pa.array(np.full(rows, complete))]
    return pa.Table.from_arrays(made, names=[*names, "window_start", "window_end", "complete"])
