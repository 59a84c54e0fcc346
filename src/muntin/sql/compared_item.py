"""The item that APPROX_COUNT(x = v, eps) counts: a constant of the type of x, as state keeps it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.aggregate.contract import is_text
from muntin.expression import Expression
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.place import misfit
from muntin.sql.type_name import type_name


def bind_item(node: exp.Expr, rows: Scope, function: str) -> tuple[Expression, float | str]:
    """What is compared, and with which constant: text as it is, all else as a number."""
    node = node.unnest()
    if not isinstance(node, exp.EQ):
        raise misfit(node, f"{function} counts one item: write {function}(x = 7, 0.01)")
    compile_expression(node.copy(), rows)  # says what is wrong with types
    sides = [compile_expression(side, rows) for side in (node.this, node.expression)]
    varying = [side for side in sides if side.columns]
    if len(varying) != 1:
        raise misfit(node, f"{function} compares a column, or an expression of some, with a constant")
    (argument,) = varying
    (constant,) = (side for side in sides if side is not argument)
    value = constant.evaluate({"": pa.array([0])})
    if value.null_count:
        raise misfit(node, f"nothing equals NULL; count it with COUNT(*) FILTER (WHERE {argument} IS NULL)")
    try:
        return argument, _kept(pc.cast(value, argument.type)[0])
    except pa.ArrowException:
        raise misfit(
            node, f"{constant} is no {type_name(argument.type)}, so {argument} never equals it"
        ) from None


def _kept(value: pa.Scalar) -> float | str:
    if is_text(value.type):
        return str(value.as_py())
    if pa.types.is_date32(value.type):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_temporal(value.type):
        return int(value.value)
    number = value.as_py()
    return float(number) if isinstance(number, float) else int(number)
