"""A table of one row, made for one query: the same types and columns again and again."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import pyarrow as pa

from muntin.operator.reading import answer_type
from muntin.query import Query

_INSTANT = pa.timestamp("us")
_FORMATS = {pa.int64(): "q", pa.float64(): "d"}
_NO_INSTANT = pa.array([None], _INSTANT)
_COMPLETE = {is_complete: pa.array([is_complete]) for is_complete in (True, False)}


class SingleRow:
    """Packs the answers of all calls, and the bounds of the window, into one buffer of 8 bytes each.

    Arrow arrays made from Python values cost 5 us apiece, views of a buffer 2.
    """

    def __init__(self, query: Query, call_of: Sequence[int | None]):
        """`call_of` says which call each output is nothing but the answer of; None: an expression."""
        self._query = query
        self._schema = query.answer_schema()
        self._call_of = call_of
        self._types = [answer_type(call) for call in query.calls]
        self._pack = Struct("=" + "".join(_FORMATS[kind] for kind in self._types) + "qq").pack
        self._null = [pa.array([None], kind) for kind in self._types]
        self._is_plain = all(call is not None for call in call_of)

    def table(self, values: Sequence[Any], start: int | None, end: int | None, is_complete: bool) -> pa.Table:
        """The row with these answers of the calls, None for NULL."""
        packed = self._pack(*[0 if value is None else value for value in values], start or 0, end or 0)
        buffers = [None, pa.py_buffer(packed)]
        calls = [
            null if value is None else pa.Array.from_buffers(kind, 1, buffers, 0, number)
            for number, (value, kind, null) in enumerate(zip(values, self._types, self._null, strict=True))
        ]
        many = len(values)
        bounds = [
            _NO_INSTANT if side is None else pa.Array.from_buffers(_INSTANT, 1, buffers, 0, many + number)
            for number, side in enumerate((start, end))
        ]
        return pa.Table.from_arrays(
            [*self._outputs(calls), *bounds, _COMPLETE[is_complete]], schema=self._schema
        )

    def _outputs(self, calls: Sequence[pa.Array]) -> list[pa.Array]:
        columns = {} if self._is_plain else {f"${number}": array for number, array in enumerate(calls)}
        return [
            output.expression.evaluate(columns) if call is None else calls[call]
            for call, output in zip(self._call_of, self._query.outputs, strict=True)
        ]
