"""From a sqlglot tree to an `Expression` that runs on Arrow columns.

Each class of node has a builder, in the file of its subject (arithmetic, comparison, logic, text,
times, casts); this file has the leaves and the assembly. Nothing is evaluated as Python, and
nothing runs per row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import isinf
from types import MappingProxyType
from weakref import WeakValueDictionary

import pyarrow as pa
from sqlglot import exp

from muntin.errors import NoValue, nearest
from muntin.expression import Columns, Expression
from muntin.fixed_point import MOST_DIGITS, is_decimal, is_kept
from muntin.sql.arithmetic import ARITHMETIC, call_text
from muntin.sql.comoment import COMOMENT
from muntin.sql.comparison import COMPARISON
from muntin.sql.conditions import band_of, understand
from muntin.sql.decimals import OPERATIONS
from muntin.sql.event_values import EVENT_VALUES
from muntin.sql.functions import CASTS, TIMES
from muntin.sql.logic import LOGIC, as_array, truth
from muntin.sql.own_call import OWN_CALLS
from muntin.sql.place import mark, misfit, place
from muntin.sql.term import ATOM, Build, Builder, Datum, Term, apply, column, common, literal, reason
from muntin.sql.text import TEXT
from muntin.sql.vocabulary import ARGUMENT_REFUSALS, EXPRESSION_REFUSALS

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*|\$\d+")
# the answer of an aggregate call, or what is put together from the answers of a call's parts
_CALL = re.compile(r"\$DECIMAL_(SUM|MEAN)\((\$\d+)[^()]*\)|(\$\d+)")
_LONG = 2**63


class Scope:
    """The names an expression may use, and the expressions already compiled over them.

    `owner` is what the names belong to, for errors; a qualifier in `qualifiers` may precede them. `meanings` are what
    errors call names that users did not write: `MAX(n)` for `$0`.
    """

    def __init__(
        self,
        types: Mapping[str, pa.DataType],
        owner: str,
        qualifiers: tuple[str, ...] = (),
        meanings: Mapping[str, str] = MappingProxyType({}),
        left_out: tuple[tuple[str, str], ...] = (),
    ):
        self.types = dict(types)
        self.meanings = meanings
        self.left_out = {name.casefold(): why for name, why in left_out}
        self.owner = owner
        self.qualifiers = qualifiers
        self._by_fold: dict[str, list[str]] = {}
        for name in self.types:
            self._by_fold.setdefault(name.casefold(), []).append(name)
        # by canonical text, so that equal ones share `evaluate`; weak, so that it forgets dropped queries
        self.compiled: WeakValueDictionary[str, Expression] = WeakValueDictionary()

    def find(self, name: str, is_quoted: bool) -> str | None:
        """The declared spelling; unquoted names match in any case if just one does."""
        if name in self.types:
            return name
        matching = [] if is_quoted else self._by_fold.get(name.casefold(), [])
        return matching[0] if len(matching) == 1 else None

    def text(self, name: str) -> str:
        """A column as it stands in canonical text."""
        return quoted(name)

    def short(self, name: str) -> str:
        """What to call a column in an answer."""
        return name

    def resolve(self, node: exp.Column) -> str:
        """The column a node means, or a fault with the nearest name."""
        if node.table and (node.args.get("db") or node.table.casefold() not in self.qualifiers):
            raise misfit(node, f"unknown qualifier '{node.table}'{nearest(node.table, self.qualifiers)}")
        if not isinstance(node.this, exp.Identifier):
            raise misfit(node, EXPRESSION_REFUSALS["Star"])
        name = self.find(node.name, bool(node.this.quoted))
        if name is None:
            raise misfit(node, f"{self.owner} has no column '{node.name}'{self.hint(node.name)}")
        return name

    def hint(self, name: str) -> str:
        """Why a column is not there, if the stream left it out; else the nearest name."""
        why = self.left_out.get(name.casefold())
        return nearest(name, self.types) if why is None else f": {why}"


def compile_expression(tree: exp.Expr, scope: Scope, condition_of: str | None = None) -> Expression:
    """Compile a tree over the names of a scope; `condition_of` asks for a BOOLEAN and says for what.

    >>> from sqlglot import parse_one
    >>> scope = Scope({"price": pa.float64()}, "stream 'trades'")
    >>> cheap = compile_expression(parse_one("PRICE*2  <(10)"), scope)
    >>> cheap.sql, cheap.evaluate({"price": pa.array([4.0, 6.0, None])}).to_pylist()
    ('price * 2 < 10', [True, False, None])
    """
    tree = tree.unnest()
    if isinstance(tree, exp.Column) and not condition_of:
        known = scope.compiled.get(scope.text(scope.resolve(tree)))
        if known is not None:
            return known
    term = _compile(scope, tree)
    if condition_of:
        term = truth(tree, term, condition_of)
    return _expression(scope, term, tree)


def compile_typed(tree: exp.Expr, scope: Scope) -> Expression:
    """Of a value that needs a type, since it is kept or is a column of a stream: what is NULL for every event is a
    BIGINT."""
    made = compile_expression(tree, scope)
    return compile_expression(typed(tree, made), scope) if pa.types.is_null(made.type) else made


def typed(tree: exp.Expr, made: Expression) -> exp.Expr:
    """The tree that was compiled; a CAST of it if it has no type of its own."""
    return _cast(tree, exp.DataType.build("BIGINT")) if pa.types.is_null(made.type) else tree


def compile_kept(tree: exp.Expr, scope: Scope) -> Expression:
    """Of a value that state keeps: a DECIMAL of more than 18 digits is read as one of 18, and an event whose value
    does not fit is refused, as one with an integer that does not fit 64 bits is."""
    made = compile_typed(tree, scope)
    if not is_decimal(made.type) or is_kept(made.type):
        return made
    if made.type.scale > MOST_DIGITS:
        raise misfit(
            tree,
            f"{made} has {made.type.scale} digits after the point, and {MOST_DIGITS} are kept in all; write "
            f"CAST({made} AS DECIMAL({MOST_DIGITS}, 4))",
        )
    sizes = [exp.DataTypeParam(this=exp.Literal.number(size)) for size in (MOST_DIGITS, made.type.scale)]
    kind = exp.DataType(this=exp.DataType.Type.DECIMAL, expressions=sizes)
    return compile_expression(_cast(tree, kind), scope)


def _cast(tree: exp.Expr, kind: exp.DataType) -> exp.Cast:
    """A CAST that stands where the tree does."""
    cast = exp.Cast(this=tree.copy(), to=kind)
    if (span := place(tree)) is not None:
        mark(cast, *span)
    return cast


def compile_equal(node: exp.Expr, parts: Sequence[tuple[exp.Expr, Scope]]) -> list[Expression]:
    """Trees, each over a scope of its own, in one type: their values are compared, as `=` would."""
    terms = common(node, [_compile(scope, tree.unnest()) for tree, scope in parts])
    if is_decimal(terms[0].type) and not is_kept(terms[0].type):
        shown = " and ".join(term.sql for term in terms)
        raise misfit(
            node, f"{shown} have more than {MOST_DIGITS} digits together; CAST one to the type of the other"
        )
    # not kept in their scopes: there, the same text stands for the value in its own type
    return [
        Expression(term.sql, term.type, tuple(sorted(term.columns)), _evaluator(term, scope), tree)  # type: ignore[arg-type]
        for term, (tree, scope) in zip(terms, parts, strict=True)
    ]


def fill_expression(
    tree: exp.Expr,
    scope: Scope,
    condition_of: str | None,
    given: Callable[[exp.Expr], Term | None],
    written: Callable[[exp.Expr], exp.Expr],
) -> Expression:
    """`compile_expression` of a tree of which some terms are `given`. `written` copies a part of the tree with
    what was given in its place; it is called when somebody asks for such a tree."""
    term = _compile(scope, tree, given)
    if condition_of:
        term = truth(tree, term, condition_of)
    return _expression(scope, term, partial(written, tree), written)


def _as_it_is(tree: exp.Expr) -> exp.Expr:
    return tree


def _expression(
    scope: Scope,
    term: Term,
    tree: exp.Expr | Callable[[], exp.Expr],
    written: Callable[[exp.Expr], exp.Expr] = _as_it_is,
) -> Expression:
    """The expression of a term; `written` makes trees of the trees that its parts name."""
    known = scope.compiled.get(term.sql)
    if known is None or known.type != term.type:
        part = partial(_part, scope, written)
        known = Expression(
            term.sql,
            term.type,
            tuple(sorted(term.columns)),
            _evaluator(term, scope),
            tree,  # type: ignore[arg-type]
            None if term.says is None else band_of(term, part),
            partial(understand, term, tree, part) if pa.types.is_boolean(term.type) else None,
        )
        scope.compiled[term.sql] = known
    return known


def _part(
    scope: Scope,
    written: Callable[[exp.Expr], exp.Expr],
    term: Term,
    tree: exp.Expr | Callable[[], exp.Expr],
) -> Expression:
    """The expression of a part of a term."""
    known = scope.compiled.get(term.sql)
    if known is not None and known.type == term.type:
        return known  # and no tree is written
    return _expression(scope, term, written(tree).unnest() if isinstance(tree, exp.Expr) else tree, written)


def _evaluator(term: Term, scope: Scope) -> partial[pa.Array]:
    return partial(
        _evaluate, term.run, term.sql, scope.meanings
    )  # not the term: it holds more than is needed


def _evaluate(
    run: Callable[[Columns], Datum], sql: str, meanings: Mapping[str, str], columns: Columns
) -> pa.Array:
    try:
        value = run(columns)
    except pa.ArrowMemoryError:  # another time there may be a value
        raise
    except pa.ArrowException as error:
        raise NoValue(f"{with_meanings(sql, meanings)}: {reason(error)}") from error
    return as_array(value, len(next(iter(columns.values())))) if isinstance(value, pa.Scalar) else value


def with_meanings(text: str, meanings: Mapping[str, str]) -> str:
    """A text in which answers are called as users know them: `MAX(n)` for `$0`."""

    def told(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        shown = meanings.get(name, name)
        whole = {"SUM": "SUM", "MEAN": "AVG"}.get(found[1])
        return shown if whole is None else shown.replace("SUM:0", whole, 1)

    return _CALL.sub(told, text)


def _compile(scope: Scope, tree: exp.Expr, given: Callable[[exp.Expr], Term | None] | None = None) -> Term:
    def build(node: exp.Expr) -> Term:
        if given is not None and (term := given(node)) is not None:
            return term
        if isinstance(node, exp.Column):
            name = scope.resolve(node)
            node.this.set("this", name)  # in place, to keep its mark
            node.this.set("quoted", not _PLAIN_NAME.fullmatch(name))
            node.set("table", None)
            return column(name, scope.text(name), scope.types[name])
        builder = _BUILDERS.get(type(node))
        if builder is None:
            raise _refused(node)
        if any(node.args.get(extra) for extra in ARGUMENT_REFUSALS.get(type(node).__name__, ())):
            raise misfit(node, f"{type(node).__name__.upper()} does not take that argument")
        return builder(node, build)

    return build(tree)


def quoted(name: str) -> str:
    """A name as it must be written in canonical text."""
    return name if _PLAIN_NAME.fullmatch(name) else in_quotes(name)


def in_quotes(name: str) -> str:
    """A name as any text of SQL takes it, whatever is in it, and if it is a reserved word."""
    return '"' + name.replace('"', '""') + '"'


def _refused(node: exp.Expr) -> Exception:
    return misfit(
        node, EXPRESSION_REFUSALS.get(type(node).__name__, "this is not supported in an expression")
    )


def _literal(node: exp.Literal, build: Build) -> Term:
    return literal_term(node)


def term_of(tree: exp.Expr, scope: Scope) -> Term:
    """The term of a tree, or of a part of one."""
    return _compile(scope, tree)


def literal_term(node: exp.Literal) -> Term:
    """The term of a number or a string as it is written."""
    if node.is_string:
        return value_term(node.name)
    try:
        if node.name.isdigit():
            number = int(node.name)
            if number >= _LONG:
                raise misfit(node, f"{node.name} does not fit 64 bits; write {node.name}.0 for a DOUBLE")
            return value_term(number)
        real = float(node.name)
        if isinf(real):
            raise misfit(node, f"{node.name} does not fit a DOUBLE")
        if "e" in node.name.lower():
            return replace(
                value_term(real), exact=None
            )  # with an exponent it is a DOUBLE beside decimals, too
        exact = Decimal(node.name)
        if exact != Decimal(
            repr(real)
        ):  # more digits than a DOUBLE has: the text must tell it from its neighbours
            return literal(f"{exact:f}", pa.scalar(real, pa.float64()), exact=exact)
    except ValueError:
        raise misfit(node, f"'{node.name}' is not a number") from None
    return value_term(real)


def constant_number(node: exp.Expr) -> float | None:
    """The value of a number as it is written, with a minus or without; None if the node is something else."""
    number = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(number, exp.Literal) or number.is_string:
        return None
    constant = literal_term(number).constant
    assert constant is not None
    return float(-constant.as_py() if isinstance(node, exp.Neg) else constant.as_py())


def value_term(value: int | float | str) -> Term:
    """The term of a number that fits 64 bits, or of a string."""
    if isinstance(value, str):
        return literal("'" + value.replace("'", "''") + "'", pa.scalar(value))
    if isinstance(value, int):
        return literal(repr(value), pa.scalar(value, pa.int64()))
    return literal(repr(value), pa.scalar(value, pa.float64()), exact=Decimal(repr(value)))


def _boolean(node: exp.Boolean, build: Build) -> Term:
    return literal("TRUE" if node.this else "FALSE", pa.scalar(bool(node.this)))


def _of_parts(node: exp.Func, build: Build) -> Term:
    """SUM or AVG of decimals; the last argument is the scale."""
    *parts, scale = node.expressions
    terms = [build(part) for part in parts]
    sql = call_text(node.sql_name(), [*terms, build(scale)])
    return apply(node, sql, ATOM, OPERATIONS[type(node)], terms, int(scale.name))


def _null(node: exp.Null, build: Build) -> Term:
    return literal("NULL", pa.scalar(None))


def _paren(node: exp.Paren, build: Build) -> Term:
    return build(node.this)  # operands get the parentheses they need back from `Term.within`


_BUILDERS: dict[type[exp.Expr], Builder] = {
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Paren: _paren,
    **dict.fromkeys(OPERATIONS, _of_parts),
    **ARITHMETIC,
    **COMOMENT,
    **COMPARISON,
    **EVENT_VALUES,
    **LOGIC,
    **OWN_CALLS,
    **TEXT,
    **TIMES,
    **CASTS,
}
