"""Answers: what look-ups return, as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.query import Query

_INSTANT = pa.timestamp("us")


@dataclass(frozen=True)
class Answers:
    """Rows of one query: keys and values, the window of each row, and whether it was covered."""

    query: Query
    keys: Sequence[pa.Array]
    values: Sequence[pa.Array]
    start: pa.Array
    end: pa.Array
    complete: npt.NDArray[np.bool_]

    def table(self) -> pa.Table:
        """Columns as `Query.answer_schema` says, rows in order."""
        arrays = [*self.keys, *self.values, self.start, self.end, pa.array(self.complete)]
        return pa.Table.from_arrays(arrays, schema=self.query.answer_schema())


def to_instants(at: npt.NDArray[np.int64], known: npt.NDArray[np.bool_] | bool = True) -> pa.Array:
    """Microseconds as timestamps; NULL where not `known`."""
    mask = None if np.all(known) else np.broadcast_to(~np.asarray(known), at.shape)
    return pa.array(at, pa.int64(), mask=mask).view(_INSTANT)


def no_answers(query: Query) -> pa.Table:
    """A table of no rows."""
    return query.answer_schema().empty_table()


def to_arrow(value: np.ndarray, valid: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Numbers as a synopsis keeps them, back in the type of the query."""
    mask = None if valid.all() else ~valid
    if pa.types.is_boolean(kind):
        return pa.array(value != 0, mask=mask)
    if pa.types.is_date32(kind):
        return pa.array(value.astype(np.int32), mask=mask).view(kind)
    if pa.types.is_temporal(kind):
        return pa.array(value, pa.int64(), mask=mask).view(kind)
    return pa.array(value, mask=mask).cast(kind)
