"""Key bounds: what WHERE says of a view's key, so that results outside need not be read.

Only conjuncts that compare a key column with a constant are used, and only as far as the constant is a value
of the column's type; WHERE is applied to whatever is read, so leaving one out costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.sql.conjuncts import conjuncts
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.place import Misfit

_MIRRORED = {exp.EQ: exp.EQ, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}


class KeyBounds(NamedTuple):
    """Values of the first key columns, and the ends (included; None is open) of the next one."""

    equal: tuple[Any, ...]
    low: Any
    high: Any


def key_bounds(where: exp.Expr | None, scope: Scope, key: tuple[str, ...]) -> KeyBounds:
    """What all conjuncts of WHERE allow."""
    found: dict[str, list[tuple[type, Any]]] = {name: [] for name in key}
    for tree in conjuncts(where) if where is not None else ():
        for name, kind, value in _compared(tree, scope):
            if name in found:
                found[name].append((kind, value))
    equal: list[Any] = []
    for name in key:
        same = [value for kind, value in found[name] if kind is exp.EQ]
        if not same:
            lows = [value for kind, value in found[name] if kind in (exp.GT, exp.GTE)]
            highs = [value for kind, value in found[name] if kind in (exp.LT, exp.LTE)]
            return KeyBounds(tuple(equal), max(lows, default=None), min(highs, default=None))
        equal.append(same[0])
    return KeyBounds(tuple(equal), None, None)


def _compared(tree: exp.Expr, scope: Scope) -> Iterator[tuple[str, type, Any]]:
    """Columns, comparisons and constants of one condition."""
    parts: list[tuple[exp.Expr, type, exp.Expr]]
    if isinstance(tree, exp.Between):
        parts = [(tree.this, exp.GTE, tree.args["low"]), (tree.this, exp.LTE, tree.args["high"])]
    elif isinstance(tree, exp.Binary) and type(tree) in _MIRRORED:
        parts = [(tree.left, type(tree), tree.right), (tree.right, _MIRRORED[type(tree)], tree.left)]
    else:
        return
    for column, kind, constant in parts:
        if isinstance(column, exp.Column):
            name = scope.resolve(column)
            value = _constant(constant, scope.types[name])
            if value is not None:
                yield name, kind, value


def _constant(tree: exp.Expr, wanted: pa.DataType) -> Any:
    """The value of a constant expression, if it is one that the column can have."""
    try:
        expression = compile_expression(tree, Scope({}, "a constant"))
        value = expression.evaluate({"#": pa.array([0])})
        value = value.cast(wanted) if value.type != wanted else value
        is_same = pc.equal(value.cast(expression.type), expression.evaluate({"#": pa.array([0])}))
    except (Misfit, pa.ArrowException):
        return None
    return value[0].as_py() if is_same[0].as_py() else None
