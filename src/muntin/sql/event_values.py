"""What aggregates read of events beside values: pairs for ARG_MAX and ARG_MIN, hashes for APPROX_COUNT_DISTINCT.

Pairs are a column of structs: a value, and what it is compared by, in a field that is called `max` or `min` by what is
looked for. A pair of which one is NULL is NULL.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.sql.function_nodes import Hash, Pair
from muntin.sql.term import ATOM, COMPARE, Build, Builder, Datum, Term, apply
from muntin.store.words import hashes_of


def _paired(value: Datum, by: Datum, order: str) -> Datum:
    rows = next(len(each) for each in (value, by) if not isinstance(each, pa.Scalar))
    columns = [_whole(pa.repeat(each, rows) if isinstance(each, pa.Scalar) else each) for each in (value, by)]
    is_null = pc.or_(columns[0].is_null(), columns[1].is_null())
    return pa.StructArray.from_arrays(columns, ["value", order], mask=is_null)


def _hashed(value: Datum) -> Datum:
    if isinstance(value, pa.Scalar):
        return _hashed(pa.repeat(value, 1))[0]
    column = _whole(value)
    hashes = hashes_of([column]).view(np.int64)
    return pa.array(hashes, mask=np.asarray(column.is_null()) if column.null_count else None)


def _whole(column: Datum) -> Datum:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _pair(node: Pair, build: Build) -> Term:
    value, by, order = build(node.this), build(node.expression), node.args["order"]
    way = "" if order == "max" else " DOWN"
    sql = f"{value.within(COMPARE)} BY {by.within(COMPARE)}{way}"
    return apply(node, sql, ATOM, _paired, [value, by], order)


def _hash(node: Hash, build: Build) -> Term:
    value = build(node.this)
    return apply(node, f"HASH OF {value.within(COMPARE)}", ATOM, _hashed, [value])


EVENT_VALUES: dict[type[exp.Expr], Builder] = {Pair: _pair, Hash: _hash}
