"""What may stand in a query over sessions: aggregates whose partials merge, over the session and nothing else."""

from __future__ import annotations

from sqlglot import exp

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import COMPARING, COMPONENTS
from muntin.aggregates.contract import is_text
from muntin.query import Call
from muntin.sql.place import misfit
from muntin.sql.syntax import SelectSyntax
from muntin.window import Window


def check_in_session(call: Call, node: exp.Expr, window: Window) -> None:
    """A fault at an aggregate that cannot be put together from the parts of a session."""
    if call.window != window:
        raise misfit(
            node, f"a query over {window} has no other windows; leave out OVER, or register a second query"
        )
    is_distinct, argument = call.function == "count_distinct", call.argument
    name = "COUNT(DISTINCT x)" if is_distinct else call.function.upper()
    components = AGGREGATES[call.function].components
    if any(each not in COMPONENTS for each in components):
        raise misfit(node, f"{name} needs single values, and a session keeps none: use COUNT, SUM, AVG, MIN, MAX, "
                           "FIRST, LAST, variances or ARG_MAX, or a time window")  # fmt: skip
    if argument is not None and is_text(argument.type) and any(each in COMPARING for each in components):
        raise misfit(node, f"{name} of text is not for sessions: the order of texts is known only at look-up; use "
                           f"FIRST({argument}) or LAST({argument})")  # fmt: skip


def refuse_joined_sessions(select: SelectSyntax) -> None:
    """A fault at a stream with a session in a join."""
    joins = () if select.join is None else (select.join, *select.join.further)
    for source in (select.source, *(join.source for join in joins)) if joins else ():
        if source.window is not None and source.window.is_session:
            raise source.stream.misfit(
                f"{source.window} is for queries over one stream; a join takes time windows, such as "
                f"{source.stream.text} [RANGE 5 MINUTES]"
            )
