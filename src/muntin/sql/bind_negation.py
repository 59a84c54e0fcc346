"""From `SELECT … FROM a [RANGE …] EXCEPT SELECT k FROM b [RANGE …]` to a `NegationQuery`."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from muntin.errors import nearest
from muntin.expression import Expression, both
from muntin.fixed_point import MOST_DIGITS, is_decimal, is_kept
from muntin.join_query import JoinSide
from muntin.query import Output
from muntin.sql.bind import row_scope
from muntin.sql.bind_join import equality, pair_scope, unqualified
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.fold import bind_outputs, is_folded
from muntin.sql.logic import conjuncts
from muntin.sql.place import Misfit
from muntin.sql.sources import Sources, find_pushed, refuse_own_times
from muntin.sql.syntax import CreateViewSyntax, SelectSyntax, WindowedSelect
from muntin.view_query import HIDDEN, NegationQuery
from muntin.window import Window


def bind_negation(syntax: CreateViewSyntax, negated: SelectSyntax, streams: Sources) -> NegationQuery:
    """The negation a view keeps, or a `Misfit`. Columns after EXCEPT are compared with those of the same name."""
    (left, rows), (right, others) = negated_sides(syntax, negated, streams)
    outputs = bind_outputs(syntax.select, rows)
    by_name = {output.name.casefold(): output for output in outputs}
    on = []
    for output in bind_outputs(negated, others):
        ours = by_name.get(output.name.casefold())
        if ours is None:
            hint = nearest(output.name, [each.name for each in outputs])
            raise Misfit(f"'{output.name}' after EXCEPT is no column before it{hint}", negated.start)
        on.append((ours.name, _as_type(output, ours, negated)))
    wheres = _where(syntax.select, rows), _where(negated, others)
    every = every_of(syntax, (syntax.select.window, negated.window))
    return NegationQuery(left, right, outputs, wheres[0], tuple(on), wheres[1], every)


def negated_sides(
    syntax: CreateViewSyntax, negated: SelectSyntax, streams: Sources
) -> tuple[tuple[JoinSide, Scope], tuple[JoinSide, Scope]]:
    """Both streams of a negation, and the names of their columns."""
    return _side(syntax.select, streams), _side(negated, streams)


def _side(select: SelectSyntax, streams: Sources) -> tuple[JoinSide, Scope]:
    if select.join is not None or is_folded(select) or select.changes is not None or select.hint is not None:
        raise Misfit(
            "around EXCEPT or NOT EXISTS stand plain SELECTs of one stream: items, FROM with a window, WHERE",
            select.start,
        )
    stream = find_pushed(select.stream, streams)
    refuse_own_times(select.source)
    window = select.window
    if window is None or window.to or window.closes_by_events:
        raise select.stream.misfit(
            f"around EXCEPT or NOT EXISTS each stream needs a window such as {stream.name} [RANGE 5 MINUTES] or "
            f"{stream.name} [ROWS 100]"
        )
    name = select.alias.text if select.alias else stream.name
    scope = row_scope(stream, select.alias.text if select.alias else None)
    return JoinSide(name, stream, Window(window.unit, window.size), tuple(stream.schema.names)), scope


def every_of(syntax: CreateViewSyntax, windows: tuple[Window | None, ...]) -> int:
    """How often a view is updated: as EVERY says, or the one SLIDE of its time windows."""
    slides = {window.slide for window in windows if window is not None and window.is_time and window.slide}
    if syntax.every is not None:
        slides.add(syntax.every)
    if len(slides) > 1:
        raise syntax.name.misfit("EVERY and SLIDE disagree; leave one of them out")
    if not slides:
        raise syntax.name.misfit(
            "say how often the view is updated: add EVERY 1 MINUTE, or a SLIDE to a window"
        )
    return slides.pop()


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
    if is_decimal(output.expression.type) and not is_kept(output.expression.type):
        raise Misfit(
            f"'{ours.name}' has more than {MOST_DIGITS} digits, and no more are compared; CAST it on both sides",
            negated.start,
        )
    return output.expression


# From `SELECT … FROM a [RANGE …] WHERE NOT EXISTS (SELECT 1 FROM b […] WHERE b.k = a.k)` to a
# `NegationQuery`.


def not_exists(select: SelectSyntax) -> tuple[SelectSyntax, SelectSyntax] | None:
    """The SELECT without its NOT EXISTS, and the SELECT in there; None if it has none."""
    if select.where is None:
        return None
    trees = list(conjuncts(select.where))
    found = [each for tree in trees if (each := _negated(tree)) is not None]
    if len(found) > 1:
        raise Misfit("a view has one NOT EXISTS; make two views, or one stream of both", found[1].start)
    if not found:
        return None
    rest = [tree for tree in trees if _negated(tree) is None]
    return replace(select, where=exp.and_(*rest) if rest else None), found[0]


def _negated(tree: exp.Expr) -> SelectSyntax | None:
    tree = tree.unnest()
    if not isinstance(tree, exp.Not) or not isinstance(tree.this.unnest(), exp.Exists):
        return None
    inner = tree.this.unnest().this
    return inner.args["select"] if isinstance(inner, WindowedSelect) else None


def bind_not_exists(syntax: CreateViewSyntax, negated: SelectSyntax, streams: Sources) -> NegationQuery:
    """The negation a view keeps, or a `Misfit`; `syntax` is without the NOT EXISTS."""
    (left, rows), (right, others) = negated_sides(syntax, negated, streams)
    if left.name.casefold() == right.name.casefold():
        raise negated.stream.misfit(f"both streams are called '{right.name}'; give one another name with AS")
    pairs = pair_scope((left.name, right.name), (left.stream, right.stream), frozenset())
    outputs = list(bind_outputs(syntax.select, rows))
    on: list[tuple[str, Expression]] = []
    right_where: Expression | None = None
    for tree in conjuncts(negated.where) if negated.where is not None else ():
        forbid_calls(tree, "WHERE", "a view keeps events; aggregate when you read it")
        if pairs.sides_in(tree) <= {1}:
            condition = compile_expression(unqualified(tree, pairs), others, "WHERE")
            right_where = both(right_where, condition)
            continue
        equal = equality(tree, pairs, (rows, others))
        if equal is None:
            raise Misfit(
                f"NOT EXISTS compares the streams by equality, as in {right.name}.column = {left.name}.column; "
                "other conditions read one stream: that of NOT EXISTS in it, the other outside",
                negated.start,
            )
        on.append((_output_of(equal[0], outputs), equal[1]))
    if not on:
        raise Misfit(
            f"NOT EXISTS needs an equality such as {right.name}.column = {left.name}.column", negated.start
        )
    where = None
    if syntax.select.where is not None:
        forbid_calls(syntax.select.where, "WHERE", "a view keeps events; aggregate when you read it")
        where = compile_expression(syntax.select.where, rows, "WHERE")
    every = every_of(syntax, (syntax.select.window, negated.window))
    return NegationQuery(left, right, tuple(outputs), where, tuple(on), right_where, every)


def _output_of(value: Expression, outputs: list[Output]) -> str:
    """The output that is the value; one that readers do not see is added if there is none."""
    for output in outputs:
        if output.expression == value and output.expression.type == value.type:
            return output.name
    outputs.append(Output(f"{HIDDEN}on_{len(outputs)}", value))
    return outputs[-1].name
