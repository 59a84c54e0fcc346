"""Matching rows: which rows of two tables agree on some values, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.store.codes import with_one_of_equals


def match_rows(left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, Any]:
    """Numbers of the rows of each pair that is equal in all columns; NULL equals nothing, NaN itself.

    O((rows + others) log others + pairs).

    >>> match_rows([pa.array([1, 2, None, 2])], [pa.array([2, 3, None, 1])])
    (array([0, 1, 3]), array([3, 0, 0]))
    """
    rows = len(left[0])
    code, is_missing = np.zeros(rows + len(right[0]), np.int64), np.zeros(rows + len(right[0]), bool)
    for ours, theirs in zip(left, right, strict=True):
        encoded = _encoded(ours, theirs)
        is_missing |= encoded < 0
        code = code * (encoded.max(initial=0) + 1) + encoded
        code = np.unique(code, return_inverse=True)[1]  # so that columns may be many
    code[is_missing] = -1
    ours, theirs = code[:rows], code[rows:]
    in_order = np.argsort(theirs, kind="stable")
    first = np.searchsorted(theirs[in_order], ours, "left")
    many = np.searchsorted(theirs[in_order], ours, "right") - first
    many[ours < 0] = 0
    at_left = np.repeat(np.arange(rows), many)
    nth = np.arange(len(at_left)) - np.repeat(np.cumsum(many) - many, many)
    return at_left, in_order[np.repeat(first, many) + nth]


def _encoded(ours: Any, theirs: Any) -> Any:
    """A number for each value of both, the same for equal ones; -1 for NULL."""
    parts = [chunk for each in (ours, theirs) for chunk in getattr(each, "chunks", [each])]
    values = with_one_of_equals(pa.chunked_array(parts, type=ours.type))
    indices = values.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1)).astype(np.int64)
