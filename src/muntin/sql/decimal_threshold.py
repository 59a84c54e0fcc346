"""HAVING SUM(amount) > 100.00: the least sum of decimals that passes, in units, as an index of integers looks for it.

A sum of decimals is put together from parts of an integer sum (`decimals.py`), so that HAVING compares an expression.
An index only names candidates: those whose integers add up to enough; HAVING is evaluated for each of them.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from muntin.query import Query
from muntin.sql.function_nodes import DecimalSum


def least_sum(query: Query) -> tuple[int, int] | None:
    """The number of the call that adds up the integers, and the least sum of these that passes; None if HAVING does
    not compare a sum of decimals with one exact number from below."""
    tree = None if query.having is None else query.having.tree.unnest()
    if isinstance(tree, exp.GT | exp.GTE):
        total, constant = tree.this.unnest(), tree.expression.unnest()
    elif isinstance(tree, exp.LT | exp.LTE):
        total, constant = tree.expression.unnest(), tree.this.unnest()
    else:
        return None
    if not isinstance(total, DecimalSum) or not isinstance(constant, exp.Literal) or constant.is_string:
        return None
    if "e" in constant.this.lower():  # a DOUBLE: the sum is compared as one
        return None
    part, *_, scale = total.expressions
    units = Fraction(constant.this) * 10 ** int(scale.this)
    is_open = isinstance(tree, exp.GT | exp.LT)
    return int(part.name[1:]), floor(units) + 1 if is_open else ceil(units)
