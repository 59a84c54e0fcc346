"""From `SELECT … FROM a [RANGE …] EXCEPT SELECT k FROM b [RANGE …]` to a `NegationQuery`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from muntin.errors import nearest
from muntin.expression import Expression
from muntin.join_query import JoinSide
from muntin.query import Output
from muntin.sql.bind import find_stream, row_scope
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.fold import bind_outputs, is_folded
from muntin.sql.place import Misfit
from muntin.sql.syntax import CreateViewSyntax, SelectSyntax
from muntin.stream import Stream
from muntin.view_query import NegationQuery


def bind_negation(
    syntax: CreateViewSyntax, negated: SelectSyntax, streams: Mapping[str, Stream]
) -> NegationQuery:
    """The negation a view keeps, or a `Misfit`. Columns after EXCEPT are compared with those of the same name."""
    sides, scopes = [], []
    for select in (syntax.select, negated):
        side, scope = _side(syntax, select, streams)
        sides.append(side)
        scopes.append(scope)
    outputs = bind_outputs(syntax.select, scopes[0])
    by_name = {output.name.casefold(): output for output in outputs}
    on = []
    for output in bind_outputs(negated, scopes[1]):
        ours = by_name.get(output.name.casefold())
        if ours is None:
            hint = nearest(output.name, [each.name for each in outputs])
            raise Misfit(f"'{output.name}' after EXCEPT is no column before it{hint}", negated.start)
        on.append((ours.name, _as_type(output, ours, negated)))
    return NegationQuery(
        sides[0], sides[1], outputs, _where(syntax.select, scopes[0]), tuple(on), _where(negated, scopes[1])
    )


def _side(
    syntax: CreateViewSyntax, select: SelectSyntax, streams: Mapping[str, Stream]
) -> tuple[JoinSide, Scope]:
    if select.join is not None or is_folded(select) or select.changes is not None or select.hint is not None:
        raise Misfit(
            "around EXCEPT stand plain SELECTs of one stream: items, FROM with a window, WHERE", select.start
        )
    stream = find_stream(select.stream, streams)
    window = select.window
    if window is None or not window.is_time or window.to:
        raise select.stream.misfit(
            f"around EXCEPT each stream needs a window such as {stream.name} [RANGE 5 MINUTES]"
        )
    every = syntax.every or window.slide or (syntax.select.window.slide if syntax.select.window else 0)
    if not every:
        raise syntax.name.misfit(
            "say how often the view is updated: add EVERY 1 MINUTE, or a SLIDE to a window"
        )
    if window.slide not in (0, every):
        raise syntax.name.misfit("EVERY and SLIDE disagree; leave one of them out")
    name = select.alias.text if select.alias else stream.name
    scope = row_scope(stream, select.alias.text if select.alias else None)
    return JoinSide(name, stream, replace(window, slide=every), tuple(stream.schema.names)), scope


def _where(select: SelectSyntax, scope: Scope) -> Expression | None:
    if select.where is None:
        return None
    forbid_calls(select.where, "WHERE", "a view keeps events; aggregate when you read it")
    return compile_expression(select.where, scope, "WHERE")


def _as_type(output: Output, ours: Output, negated: SelectSyntax) -> Expression:
    if output.expression.type != ours.expression.type:
        raise Misfit(
            f"'{ours.name}' is {ours.expression.type} before EXCEPT and {output.expression.type} after it; CAST one",
            negated.start,
        )
    return output.expression
