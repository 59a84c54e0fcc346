"""Composed aggregates: those that are written out in others when a query is bound.

COUNT_IF(c) is COUNT(*) FILTER (WHERE c), BOOL_AND(c) is MIN(c). COVAR_POP(y, x) is made of sums over the events in
which both are not NULL. So they need no component of their own, and share with whatever reads the same sums.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from muntin.sql.expression_parser import Over
from muntin.sql.function_nodes import Clipped, Comoment, Paired, ProductRest
from muntin.sql.logic import NEEDED_BY
from muntin.sql.place import mark, misfit, place
from muntin.sql.vocabulary import COMPOSED

_Call = Callable[..., exp.Expr]  # an aggregate by name, of an argument; with the FILTER and OVER of the whole


def expanded(node: exp.Expr) -> exp.Expr | None:
    """What a composed aggregate means; None if the node is none. Its parts stand where it does."""
    over = node if isinstance(node, Over) else None
    function = over.this if over is not None else node
    if not isinstance(function, exp.Anonymous) or function.name.lower() not in COMPOSED:
        return None
    names, make = COMPOSED[function.name.lower()], _MAKERS[function.name.lower()]
    given = function.expressions
    if len(given) != len(names) or any(isinstance(each, exp.Star | exp.Distinct) for each in given):
        written = function.name.upper()
        raise misfit(function, f"{written} takes {_count(names)}: write {written}({', '.join(names)})")
    window, kept = (over.args.get("window"), over.args.get("filter")) if over is not None else (None, None)

    def call(name: str, argument: exp.Expr, condition: exp.Expr | None = None) -> exp.Expr:
        made: exp.Expr = exp.Anonymous(this=name, expressions=[argument.copy()])
        conditions = [each.copy() for each in (kept, condition) if each is not None]
        if conditions or window is not None:
            both = exp.and_(*conditions) if conditions else None
            made = Over(this=made, filter=both, window=window)
        return made

    for condition, word in ((given[0], function.name.upper()), (kept, "FILTER")):
        if condition is not None:  # both may become parts of one condition
            condition.unnest().meta[NEEDED_BY] = word
    tree = make(call, *given)
    span = place(node)
    for part in tree.walk():
        if span is not None and place(part) is None:
            mark(part, *span)
    return tree


def _count(names: tuple[str, ...]) -> str:
    return "1 argument" if len(names) == 1 else f"{len(names)} arguments"


def _count_if(call: _Call, condition: exp.Expr) -> exp.Expr:
    return call("COUNT", exp.Star(), condition)


def _truth(condition: exp.Expr) -> exp.Expr:
    """Insists on a BOOLEAN, as MIN and MAX do not."""
    return exp.And(this=condition.copy(), expression=exp.Boolean(this=True))


def _bool_and(call: _Call, condition: exp.Expr) -> exp.Expr:
    return call("MIN", _truth(condition))


def _bool_or(call: _Call, condition: exp.Expr) -> exp.Expr:
    return call("MAX", _truth(condition))


# Of two values: y is said to depend on x, as in standard SQL.


def _of_both(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    return Paired(this=value.copy(), expression=other.copy())


def _product(y: exp.Expr, x: exp.Expr) -> exp.Expr:
    return exp.Mul(this=_of_both(y, x), expression=_of_both(x, y))


def _pairs(call: _Call, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    """How many events have both."""
    return call("COUNT", _of_both(y, x))


def _comoment(call: _Call, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    rest = ProductRest(this=y.copy(), expression=x.copy())
    parts = [
        call(f"SUM:{number}", each)
        for each in (_of_both(x, y), _of_both(y, x), _product(y, x), rest)
        for number in (0, 1)
    ]
    return Comoment(this=_pairs(call, y, x), expressions=parts)


def _squares(call: _Call, value: exp.Expr, other: exp.Expr) -> exp.Expr:
    """The sum of squared distances from the mean."""
    return call("M2:2", _of_both(value, other))


def _over(numerator: exp.Expr, denominator: exp.Expr) -> exp.Expr:
    return exp.Div(this=numerator, expression=exp.Paren(this=denominator))


def _covar_pop(call: _Call, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    return _over(_comoment(call, y, x), _pairs(call, y, x))


def _covar_samp(call: _Call, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    return _over(_comoment(call, y, x), exp.Sub(this=_pairs(call, y, x), expression=exp.Literal.number(1)))


def _corr(call: _Call, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    by_y = _over(_comoment(call, y, x), exp.Sqrt(this=_squares(call, y, x)))
    # roundings of the three may add up to more than 1
    return Clipped(this=_over(by_y, exp.Sqrt(this=_squares(call, x, y))))


def _slope(call: _Call, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    return _over(_comoment(call, y, x), _squares(call, x, y))


def _intercept(call: _Call, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    at_mean = exp.Mul(this=exp.Paren(this=_slope(call, y, x)), expression=call("AVG", _of_both(x, y)))
    return exp.Paren(this=exp.Sub(this=call("AVG", _of_both(y, x)), expression=at_mean))


_MAKERS: dict[str, Callable[..., exp.Expr]] = {
    "count_if": _count_if,
    "bool_and": _bool_and,
    "bool_or": _bool_or,
    "covar_pop": _covar_pop,
    "covar_samp": _covar_samp,
    "corr": _corr,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
}
