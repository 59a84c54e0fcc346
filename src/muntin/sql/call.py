"""Aggregate calls: from `SUM(x) FILTER (WHERE …) OVER [RANGE …]` to a `Call`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.aggregates import AGGREGATES, Aggregate
from muntin.aggregates.approximate import WEIGHT_BITS
from muntin.aggregates.contract import is_text
from muntin.aggregates.part import part_name
from muntin.expression import Expression
from muntin.fixed_point import is_decimal, unit_of
from muntin.query import Call
from muntin.sql.expression_parser import Over
from muntin.sql.expressions import Scope, compile_expression, compile_kept, constant_number, term_of, typed
from muntin.sql.function_nodes import DecimalMean, DecimalSum, Hash, Pair
from muntin.sql.own_call import OWN, unknown
from muntin.sql.place import misfit
from muntin.sql.term import Term, exact_value
from muntin.sql.type_name import type_name
from muntin.sql.vocabulary import SYNONYMS, is_aggregate
from muntin.window import Window

# The item that APPROX_COUNT(x = v, eps) counts: a constant of the type of x, as state keeps it.


def bind_item(node: exp.Expr, rows: Scope, function: str) -> tuple[Expression, float | str]:
    """What is compared, and with which constant: text as it is, all else as a number."""
    node = node.unnest()
    if not isinstance(node, exp.EQ):
        raise misfit(node, f"{function} counts one item: write {function}(x = 7, 0.01)")
    compile_expression(node.copy(), rows)  # says what is wrong with types
    sides = [compile_kept(side, rows) for side in (node.this, node.expression)]
    varying = [side for side in sides if side.columns]
    if len(varying) != 1:
        raise misfit(node, f"{function} compares a column, or an expression of some, with a constant")
    (argument,) = varying
    (constant,) = (side for side in sides if side is not argument)
    value = constant.evaluate({"": pa.array([0])})
    if value.null_count:
        raise misfit(node, f"nothing equals NULL; count it with COUNT(*) FILTER (WHERE {argument} IS NULL)")
    try:
        if is_decimal(argument.type):
            return argument, _units(term_of(constant.tree, rows), argument.type.scale)
        return argument, _kept(pc.cast(value, argument.type)[0])
    except (pa.ArrowException, ValueError):
        raise misfit(
            node, f"{constant} is no {type_name(argument.type)}, so {argument} never equals it"
        ) from None


def _units(constant: Term, scale: int) -> int:
    value = exact_value(constant)
    if value is None:
        raise ValueError("a DOUBLE")
    return unit_of(value, scale)


def _kept(value: pa.Scalar) -> float | str:
    if is_text(value.type):
        return str(value.as_py())
    if pa.types.is_date32(value.type):
        return int(value.cast(pa.int32()).as_py())
    if pa.types.is_temporal(value.type):
        return int(value.value)
    number = value.as_py()
    return float(number) if isinstance(number, float) else int(number)


def is_call(node: exp.Expr) -> bool:
    """Whether a node is an aggregate call (or has FILTER or OVER, which only those may have)."""
    return isinstance(node, Over) or (isinstance(node, exp.Anonymous) and is_aggregate(node.name))


def calls_in(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregate calls of a tree."""
    if not isinstance(tree, exp.Column | exp.Literal):  # by far the most common, and walking is slow
        yield from filter(is_call, tree.walk())


def forbid_calls(tree: exp.Expr, where: str, instead: str) -> None:
    """A fault at the first aggregate in a tree that must not have any."""
    if found := next(calls_in(tree), None):
        raise misfit(found, f"an aggregate cannot stand in {where}; {instead}")


def bind_call(node: exp.Expr, rows: Scope, default: Window | None) -> Call:
    """The call a node means, over its own window or else the `default`."""
    over = node if isinstance(node, Over) else None
    function = over.this if over is not None else node
    if not isinstance(function, exp.Anonymous):
        raise misfit(node, "FILTER and OVER follow an aggregate, such as SUM(x)")
    if not is_call(function):
        if function.name.lower() in OWN:
            name = function.name.upper()
            raise misfit(node, f"{name} is no aggregate: FILTER and OVER follow one, such as SUM({name}(x))")
        raise unknown(function)
    weight = _weight_of(function)
    name, arguments, parameters = _arguments(function)
    for tree in [*arguments, *([weight] if weight is not None else [])]:
        forbid_calls(tree, "the argument of another", "nest queries by registering the inner one")
    argument: Expression | None = None
    condition = over.args.get("filter") if over is not None else None
    if condition is not None:
        forbid_calls(condition, "FILTER", "compare aggregates in HAVING")
    if AGGREGATES[name].compares:
        argument, item = bind_item(arguments[0], rows, function.name.upper())
        parameters = (item, *parameters)
    elif weight is not None:
        argument, counts = _bind_weighed(function, arguments[0], weight, rows)
        condition = counts if condition is None else exp.and_(condition, counts)
    elif AGGREGATES[name].order is not None:
        argument = _bind_pair(function, arguments, rows, AGGREGATES[name].order)
    elif arguments:
        tree, when = _taken_if(arguments[0])
        argument = compile_kept(Hash(this=tree.copy()) if AGGREGATES[name].hashes else tree, rows)
        if is_decimal(argument.type) and "m2" in AGGREGATES[name].components:
            # squares have more digits than are kept: variances are of the nearest DOUBLEs, as in DuckDB
            argument = compile_expression(exp.Cast(this=tree, to=exp.DataType.build("DOUBLE")), rows)
        if when is not None:
            condition = when if condition is None else exp.and_(condition, when)
    try:
        AGGREGATES[name].answer_type(argument.type if argument else None)
    except TypeError as error:
        given = f", and {argument} is {type_name(argument.type)}" if argument else ""
        raise misfit(node, f"{function.name.upper()} {error}{given}") from None
    kept = None if condition is None else compile_expression(condition, rows, "FILTER")
    window = (over.args.get("window") if over is not None else None) or default
    if window is None:
        raise misfit(
            node, f"{function.name.upper()} needs a window: FROM stream [RANGE 5 MINUTES], or OVER [RANGE …]"
        )
    if AGGREGATES[name].hashes and not (window.is_time or window.is_session):
        raise misfit(node, f"{function.name.upper()} goes by time, and {window} does not; use RANGE, or "
                           "COUNT(DISTINCT x), which is exact")  # fmt: skip
    return Call(name, argument, window, kept, parameters)


def parts_of(call: Call) -> tuple[type[exp.Func], list[Call]] | None:
    """What SUM and AVG of decimals are put together from, and by which function; None for other calls. The sum of the
    integers that are kept may exceed 64 bits: its parts say what it is."""
    if call.function not in ("sum", "avg") or call.argument is None or not is_decimal(call.argument.type):
        return None
    parts = [replace(call, function=part_name("sum", number)) for number in (0, 1)]
    if call.function == "sum":
        return DecimalSum, parts
    return DecimalMean, [*parts, replace(call, function="count")]


def _bind_pair(function: exp.Anonymous, given: list[exp.Expr], rows: Scope, order: str | None) -> Expression:
    """A value of each event and what it is compared by."""
    value, by = (compile_expression(each, rows) for each in given)
    if is_text(by.type):
        raise misfit(
            given[1],
            f"{function.name.upper()} compares by a number or a time, and {by} is {type_name(by.type)}",
        )
    if not value.columns and not by.columns:
        raise misfit(function, f"{function.name.upper()} of constants is the same for all events")
    first, second = (typed(tree, made).copy() for tree, made in zip(given, (value, by), strict=True))
    return compile_expression(Pair(this=first, expression=second, order=order), rows)


def _weight_of(function: exp.Anonymous) -> exp.Expr | None:
    """What follows `weight =>`, which is taken out of the arguments; None if there is no such thing."""
    named = [each for each in function.expressions if isinstance(each, exp.Kwarg)]
    if not named:
        return None
    written = function.name.upper()
    aggregate = AGGREGATES[SYNONYMS.get(written.lower(), (written.lower(), ()))[0]]
    for each in named:
        if not aggregate.takes_weight or each.name.lower() != "weight":
            known = "it takes weight => bytes" if aggregate.takes_weight else "arguments of it have no names"
            if aggregate.compares and function.expressions[0] is not each:
                known = f"write SUM({each.expression.sql()}) FILTER (WHERE {function.expressions[0].sql()})"
            raise misfit(each.expression, f"{written} takes no argument '{each.name}'; {known}")
    if len(named) > 1 or function.expressions[-1] is not named[0]:
        raise misfit(named[-1].expression, f"the weight is the last argument of {written}, and the only one")
    weight: exp.Expr = named[0].expression
    function.set("expressions", function.expressions[:-1])
    if len(function.expressions) > len(aggregate.arguments) + len(aggregate.parameters):
        raise misfit(function.expressions[-1], f"{written} with a weight has no delta: it never fails")
    return weight


def _bind_weighed(
    function: exp.Anonymous, item: exp.Expr, weight: exp.Expr, rows: Scope
) -> tuple[Expression, exp.Expr]:
    """Items with their weights, and the condition under which an event counts: that it has a weight which can be added
    up."""
    kind, counted = compile_expression(weight.copy(), rows).type, compile_expression(item.copy(), rows)
    if not pa.types.is_integer(kind) or pa.types.is_uint64(kind):
        hint = "; write CAST(… AS BIGINT)" if pa.types.is_uint64(kind) or is_decimal(kind) else ""
        raise misfit(
            weight, f"the weight of {function.name.upper()} is an integer, not {type_name(kind)}{hint}"
        )
    pair = Pair(this=typed(item.copy(), counted), expression=weight.copy(), order="max")
    return compile_expression(pair, rows), exp.Between(
        this=weight.copy(), low=exp.Literal.number(0), high=exp.Literal.number(2**WEIGHT_BITS - 1)
    )


def _taken_if(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """An argument, and the condition under which it is taken: aggregates leave out NULL, so that
    `SUM(CASE WHEN kind = 'a' THEN amount END)` is `SUM(amount) FILTER (WHERE kind = 'a')`. Of columns alone: anything
    else might have no value where the condition does not hold.
    """
    case = tree.unnest()
    if not isinstance(case, exp.Case) or case.this is not None or len(case.args["ifs"]) != 1:
        return tree, None
    (branch,), otherwise = case.args["ifs"], case.args.get("default")
    taken = branch.args["true"].unnest()
    is_null = otherwise is None or isinstance(otherwise.unnest(), exp.Null)
    return (taken, branch.this) if is_null and isinstance(taken, exp.Column) else (tree, None)


def _arguments(function: exp.Anonymous) -> tuple[str, list[exp.Expr], tuple[float | str, ...]]:
    """The aggregate's name, its argument (none for a star) and its constant parameters."""
    written, given = function.name.upper(), function.expressions
    name, implied = SYNONYMS.get(written.lower(), (written.lower(), ()))
    aggregate = AGGREGATES[name]
    if given and isinstance(given[0], exp.Star):
        if not aggregate.takes_star or len(given) > 1:
            raise misfit(function, f"{written}(*) is not supported; write {written}(column)")
        return name, [], ()
    wanted, many = aggregate.parameters[len(implied) :], len(aggregate.arguments)
    if not many + len(wanted) <= len(given) <= many + len(wanted) + len(aggregate.optional):
        words = [*aggregate.arguments, *wanted]
        also = "".join(f" [, {word}]" for word in aggregate.optional)
        form = f"{written}({', '.join(words)}{also})" + (f" or {written}(*)" if aggregate.takes_star else "")
        raise misfit(function, f"{written} takes {_count(many + len(wanted))}: write {form}")
    wanted = (*wanted, *aggregate.optional)[: len(given) - many]
    if isinstance(given[0], exp.Distinct):
        if name != "count":
            raise misfit(function, "DISTINCT stands only in COUNT(DISTINCT x)")
        if len(given[0].expressions) != 1:
            raise misfit(function, "COUNT(DISTINCT x) takes one value; of several write CONCAT(x, '/', y)")
        return "count_distinct", given[0].expressions, ()
    return name, given[:many], implied + _parameters(aggregate, wanted, given[many:])


def _parameters(aggregate: Aggregate, words: tuple[str, ...], nodes: list[exp.Expr]) -> tuple[float, ...]:
    values = []
    for word, node in zip(words, nodes, strict=True):
        number = constant_number(node)
        if number is None:
            raise misfit(node, f"{word} must be a constant number, such as 0.99")
        values.append(number)
    if values:
        try:
            aggregate.check_parameters(tuple(values))
        except ValueError as error:
            raise misfit(nodes[0], str(error)) from None
    return tuple(values)


def _count(arguments: int) -> str:
    return "1 argument" if arguments == 1 else f"{arguments} arguments"
