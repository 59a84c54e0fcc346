"""DISTINCT: the different values of a window, which are the keys of a query that asks for nothing else."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from muntin.query import Key
from muntin.sql.call import calls_in
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.place import Misfit
from muntin.sql.syntax import SelectSyntax


def distinct_values(select: SelectSyntax, rows: Scope) -> tuple[exp.Expr, ...]:
    """What a SELECT DISTINCT without aggregates lists, each once and without constants.

    These values are the keys of a query that asks for nothing else, as if GROUP BY listed them. So a value is there
    once, however often it came; it goes when its most recent occurrence does.
    """
    trees = [item.tree for item in select.items]
    if select.distinct is None or any(any(calls_in(tree)) for tree in trees):
        return ()
    if select.window is not None and select.window.is_session:
        raise Misfit(
            "DISTINCT takes a time window, such as [RANGE 5 MINUTES]; sessions of each value are those of "
            "GROUP BY, with COUNT(*)",
            select.distinct,
        )
    if select.window is not None and not select.window.is_time:
        raise Misfit(
            "DISTINCT takes a time window, such as [RANGE 5 MINUTES]; over ROWS, COUNT(DISTINCT x) says "
            "how many there are",
            select.distinct,
        )
    if select.having is not None:
        raise Misfit(
            "HAVING compares keys; list the columns in GROUP BY instead of DISTINCT", select.distinct
        )
    different: dict[str, exp.Expr] = {}
    for tree in trees:
        expression = compile_expression(tree.copy(), rows)
        if expression.columns:
            different.setdefault(expression.sql, tree.copy())
    if not different:
        raise Misfit("DISTINCT needs a column, such as SELECT DISTINCT symbol", select.distinct)
    return tuple(different.values())


def check_distinct(select: SelectSyntax, keys: Collection[Key], shown: int) -> None:
    """Beside GROUP BY, DISTINCT changes nothing if SELECT lists all keys (`shown` of them), since rows differ
    in them; otherwise it is refused, for the answer has them all the same."""
    if select.distinct is not None and select.keys and shown < len(keys):
        names = ", ".join(key.name for key in keys)
        raise Misfit(
            f"an answer has a row for each key ({names}), so DISTINCT has no effect; leave it out",
            select.distinct,
        )
