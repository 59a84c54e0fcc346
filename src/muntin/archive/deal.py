"""Dealing out: new results to the parts they belong to, each part's in the order of its runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.indexing import Indexing, Number
from muntin.archive.sort import sort_rows


def deal_out(rows: pa.Table, indexing: Indexing, definition: Definition) -> dict[Number, pa.Table]:
    """The rows of each part that gets any; O(rows log rows), nothing per row in Python."""
    if not rows.num_rows:
        return {}
    if indexing.variant.layout.is_sorted:
        rows = sort_rows(rows, definition.order)
    number = indexing.number_of(rows[GENERATED].to_numpy(), rows[EXPIRES].to_numpy(), definition)
    by_number = np.argsort(number, kind="stable")
    rows, number = rows.take(pa.array(by_number)).combine_chunks(), number[by_number]
    numbers, starts = np.unique(number, return_index=True)
    stops = [*starts[1:].tolist(), len(number)]
    spans = zip(numbers.tolist(), starts.tolist(), stops, strict=True)
    return {number: rows.slice(start, stop - start) for number, start, stop in spans}
