"""Gathering: chosen rows of a table in chunks, in any order, as one chunk, copied once.

Arrow filters, joins chunks and takes rows in three copies. Rows of results are wide and an update copies all
that it touches, so columns of fixed width go straight from where they are mapped to where they belong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.kernels.gather import gather_rows, gather_values

_WORD = 8
_SMALL = 1 << 16  # bytes below which three copies cost less than looking at each chunk


def gather(table: pa.Table, rows: Any) -> pa.Table:
    """The rows of these numbers, in their order.

    >>> halves = pa.concat_tables([pa.table({"k": [1, 2]}), pa.table({"k": [3, 4]})])
    >>> gather(halves, np.array([3, 0, 2])).to_pydict()
    {'k': [4, 1, 3]}
    """
    if table.nbytes < _SMALL:
        return table.combine_chunks().take(pa.array(rows))
    plain = [field.name for field in table.schema if _is_plain(table.column(field.name))]
    bounds = _chunk_bounds(table, plain)
    if not plain or bounds is None:
        return table.combine_chunks().take(pa.array(rows))
    taken: dict[str, Any] = {name: _gathered(table.column(name), rows, bounds) for name in plain}
    rest = [name for name in table.column_names if name not in taken]
    if rest:
        other = table.select(rest).combine_chunks().take(pa.array(rows))
        taken |= {name: other.column(name) for name in rest}
    return pa.table([taken[name] for name in table.column_names], schema=table.schema)


def compile_gather() -> None:
    """Have compiled what large tables need, before somebody waits for it."""
    many = _SMALL // _WORD
    wide = pa.array([bytes(2 * _WORD)] * many, pa.binary(2 * _WORD))
    gather(pa.table({"word": np.arange(many), "wide": wide}), np.arange(1))


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Whether its values lie side by side, a whole number of words each, and none is NULL."""
    kind = column.type
    is_fixed = pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(is_fixed and kind.bit_width % (8 * _WORD) == 0 and not column.null_count)


def _chunk_bounds(table: pa.Table, names: list[str]) -> Any:
    """Where chunks begin and end; None if columns are not cut alike."""
    cuts = {tuple(len(chunk) for chunk in table.column(name).chunks) for name in names}
    return np.cumsum([0, *cuts.pop()]) if len(cuts) == 1 else None


def _gathered(column: pa.ChunkedArray, rows: Any, bounds: Any) -> pa.Array:
    words = column.type.bit_width // (8 * _WORD)
    out = np.empty((len(rows), words), np.uint64)
    chunk_of = np.searchsorted(bounds, rows, "right") - 1
    for number, chunk in enumerate(column.chunks):
        places = np.flatnonzero(chunk_of == number)
        if not len(places):
            continue
        source = np.frombuffer(chunk.buffers()[1], np.uint64)
        source = source[chunk.offset * words : (chunk.offset + len(chunk)) * words]
        source.flags.writeable = False  # so that all are of one type to the compiler
        if words == 1:
            gather_values(source, rows[places] - bounds[number], places, out[:, 0])
        else:
            gather_rows(source.reshape(-1, words), rows[places] - bounds[number], places, out)
    return pa.Array.from_buffers(column.type, len(rows), [None, pa.py_buffer(out)])
