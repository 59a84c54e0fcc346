"""ORDER BY and LIMIT of a standing query: which of its keys are in the answer, checked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from muntin.expression import Expression
from muntin.query import Key, Top
from muntin.sql.place import Misfit, misfit
from muntin.sql.syntax import OrderSyntax, SelectSyntax


def check_order(select: SelectSyntax, order: OrderSyntax, keys: Collection[Key], is_rough: bool) -> int:
    """How many keys ORDER BY and LIMIT keep; a fault if they do not say which. `is_rough` is HAVING APPROX."""
    if not keys:
        raise Misfit(
            f"{order.word} ranks keys, and this query has none: it has one row; add GROUP BY", order.place
        )
    if order.limit is None:
        raise Misfit(
            "ORDER BY needs LIMIT, such as LIMIT 10; the rows of a whole answer are sorted by whoever reads them",
            order.place,
        )
    if not order.by:
        raise Misfit(
            "LIMIT needs ORDER BY, which says what keys are kept: ORDER BY n DESC LIMIT 10", order.place
        )
    if not order.limit:
        raise Misfit("LIMIT keeps 1 row or more", order.limit_place)
    if is_rough:
        raise Misfit("ORDER BY needs to know exactly which keys pass HAVING; leave out APPROX", order.place)
    window = select.window
    if window is not None and window.closes_by_events:
        raise Misfit(
            f"ORDER BY ranks keys at one instant; a query over {window} moves by events, each key at its own",
            order.place,
        )
    return order.limit


def top_of(order: OrderSyntax, limit: int, by: Sequence[Expression]) -> Top:
    """The first keys in the order of some expressions over answers; a fault if they have none."""
    for expression, (tree, _) in zip(by, order.by, strict=True):
        if not expression.columns or pa.types.is_null(expression.type):
            raise misfit(tree, "ORDER BY takes values that differ between keys, not a constant")
        if pa.types.is_nested(expression.type):
            raise misfit(tree, f"ORDER BY takes numbers, texts and times; {tree.sql()} is a list")
    return Top(tuple((each, descends) for each, (_, descends) in zip(by, order.by, strict=True)), limit)
