"""Sorting: rows in the order of some columns; runs already in order are merged, not sorted anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive.sorted_columns import numbers_of


def sort_rows(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """The rows in ascending order of some columns, NULL last; rows that are equal stay as they were.

    >>> sort_rows(pa.table({"k": [2, 1, 2], "e": [5, 9, 4]}), ["k", "e"]).to_pydict()
    {'k': [1, 2, 2], 'e': [9, 4, 5]}
    """
    table = table.combine_chunks()
    if table.num_rows < 2:
        return table
    columns = [numbers_of(table.column(name).chunk(0)) for name in order]
    if all(column is not None for column in columns):
        # NumPy's stable sort is a merge sort that finds runs in order.
        return table.take(pa.array(np.lexsort(columns[::-1])))
    keys = [(name, "ascending") for name in order]
    return table.take(pc.sort_indices(table, sort_keys=keys))
