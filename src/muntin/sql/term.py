"""A term: part of an expression, typed and ready to run.

Builders make terms of terms. A term knows its canonical text and its type before any event is
there; the type of an operation is found once per combination of types, by running it on empty
arrays. What depends on no column is computed at once and kept as an Arrow scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.expression import Columns
from muntin.fixed_point import WIDEST, is_decimal
from muntin.sql.decimal_type import Digits, digits_needed, digits_of, type_compared, type_mixed, type_of
from muntin.sql.decimals import to_real
from muntin.sql.place import misfit
from muntin.sql.type_name import type_name

Datum = Any  # pa.Array, or pa.Scalar for what is the same in every row
Operation = Callable[..., Datum]
Kind = Literal["number", "text", "boolean", "time", "span", "null", "other"]

# How tightly an operator binds, for canonical text with no more parentheses than needed.
OR, AND, NOT, COMPARE, CONCAT, ADD, MULTIPLY, SIGN, ATOM = range(1, 10)
BITS = (
    CONCAT  # & and || bind alike, from left to right; they never meet, since one takes numbers and one texts
)

_DOUBLE = pa.float64()
_FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True, slots=True)
class Term:
    """Two terms mean the same if their texts are equal."""

    sql: str
    strength: int  # of its outermost operator, OR … ATOM
    type: pa.DataType
    run: Callable[[Columns], Datum]
    columns: frozenset[str] = frozenset()
    constant: pa.Scalar | None = None
    says: Compared | Connected | Negated | None = None  # of a predicate that `conditions.py` understands
    exact: Decimal | None = (
        None  # of a constant that is written with a point: a DOUBLE, but a DECIMAL beside decimals
    )

    @property
    def kind(self) -> Kind:
        return kind_of(self.type)

    @property
    def known(self) -> Any:
        """The value of a constant as Python has it; None of NULL, and of what is no constant."""
        return None if self.constant is None else self.constant.as_py()

    def within(self, strength: int) -> str:
        """Its text as an operand, in parentheses if it binds less tightly than that."""
        return self.sql if self.strength >= strength else f"({self.sql})"


class Compared(NamedTuple):
    """`attribute symbol constants`, as in `x BETWEEN 1 AND 2`; constants are in the type in which both are compared."""

    attribute: Term
    tree: exp.Expr  # the attribute's
    symbol: str
    constants: Sequence[Term] = ()


class Connected(NamedTuple):
    """Predicates connected by one word."""

    word: str  # AND or OR
    parts: Sequence[Term]
    trees: Sequence[exp.Expr]  # of the parts


class Negated(NamedTuple):
    """NOT of a predicate."""

    part: Term
    tree: exp.Expr


Build = Callable[[exp.Expr], Term]  # compiles a child
Builder = Callable[[Any, Build], Term]  # compiles one class of node


@lru_cache(maxsize=256)
def kind_of(kind: pa.DataType) -> Kind:
    """The class of values a type belongs to; only values of one class compare or mix."""
    is_ = pa.types
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind):
        return "number"
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return "text"
    if is_.is_boolean(kind):
        return "boolean"
    if is_.is_timestamp(kind) or is_.is_date(kind):
        return "time"
    if is_.is_duration(kind):
        return "span"
    return "null" if is_.is_null(kind) else "other"


def literal(sql: str, value: pa.Scalar, strength: int = ATOM, exact: Decimal | None = None) -> Term:
    return Term(sql, strength, value.type, lambda columns: value, constant=value, exact=exact)


def is_exact(term: Term) -> bool:
    """Whether a number can be a DECIMAL without losing anything."""
    return term.exact is not None or pa.types.is_integer(term.type) or is_decimal(term.type)


def exact_value(term: Term) -> Decimal | None:
    """Of a constant that is exact, and not NULL."""
    if term.exact is not None or term.constant is None or not term.constant.is_valid or not is_exact(term):
        return term.exact
    return Decimal(term.constant.as_py())


def digits(term: Term) -> Digits:
    """How many digits an exact number may have."""
    value = exact_value(term)
    if value is not None and not is_decimal(term.type):
        return digits_needed(value)
    return digits_of(term.type)


def as_decimals(node: exp.Expr, terms: Sequence[Term]) -> list[Term]:
    """Exact numbers, each in a decimal type of its own; NULL is one of all."""
    try:
        kinds = [pa.decimal128(1, 0) if term.kind == "null" else type_of(digits(term)) for term in terms]
    except ValueError as error:
        raise misfit(node, f"a constant {error}; write it with an exponent for a DOUBLE") from None
    return [_as_decimal(node, *each) for each in zip(terms, kinds, strict=True)]


def _as_decimal(node: exp.Expr, term: Term, kind: pa.DataType) -> Term:
    """A number in a decimal type; a fault of a constant that has more digits than fit any."""
    try:
        return convert(term, kind)
    except pa.ArrowInvalid:
        raise misfit(
            node,
            f"{term.sql} has more digits than the {WIDEST} of a DECIMAL; write it with an exponent for a DOUBLE",
        ) from None


def are_decimals(terms: Sequence[Term]) -> bool:
    """Whether numbers meet as decimals: one is, and none is a DOUBLE."""
    numbers = [term for term in terms if term.kind != "null"]
    return any(is_decimal(term.type) for term in numbers) and all(map(is_exact, numbers))


def column(name: str, sql: str, kind: pa.DataType) -> Term:
    def run(columns: Columns) -> Datum:
        return columns[name]

    def run_decoded(columns: Columns) -> Datum:
        values = columns[name]  # a batch may bring plain values even where the schema says dictionary
        return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values

    if pa.types.is_dictionary(kind):
        return Term(sql, ATOM, kind.value_type, run_decoded, frozenset((name,)))
    return Term(sql, ATOM, kind, run, frozenset((name,)))


def apply(
    node: exp.Expr,
    sql: str,
    strength: int,
    operation: Operation,
    terms: Sequence[Term],
    *options: Any,
    says: Compared | Connected | Negated | None = None,
) -> Term:
    """`operation` on the values of `terms`; `options` are further, constant arguments. `says` is what a predicate says.

    `operation` must be a module-level function (types are remembered by it), `options` hashable.
    """
    try:
        if all(term.constant is not None for term in terms):
            value = operation(*[term.constant for term in terms], *options)
            return literal(sql, value, strength)
        kind = _type_of(operation, tuple(term.type for term in terms), options)
    except _FAILURES as error:
        raise misfit(node, f"{sql}: {reason(error)}") from error
    columns = terms[0].columns.union(*[term.columns for term in terms[1:]])
    return Term(sql, strength, kind, _runner(operation, terms, options), columns, None, says)


def _runner(
    operation: Operation, terms: Sequence[Term], options: tuple[Any, ...]
) -> Callable[[Columns], Datum]:
    if len(terms) == 2 and not options:  # by far the most common: spare the generic call
        left, right = terms[0].run, terms[1].run
        return lambda columns: operation(left(columns), right(columns))
    runs = [term.run for term in terms]
    return lambda columns: operation(*[run(columns) for run in runs], *options)


@lru_cache(maxsize=4096)
def _type_of(operation: Operation, types: tuple[pa.DataType, ...], options: tuple[Any, ...]) -> pa.DataType:
    return operation(*[pa.array([], kind) for kind in types], *options).type


def reason(error: Exception) -> str:
    """The first line of an Arrow error, without the names of kernels."""
    line = (str(error).splitlines() or ["cannot be computed"])[0]
    return "an integer exceeds 64 bits" if line == "overflow" else line


def convert(term: Term, kind: pa.DataType) -> Term:
    """The same value in another type of its class; the text stays as it is."""
    if term.type == kind:
        return term
    if term.constant is not None:
        if (
            kind == _DOUBLE and pa.types.is_integer(term.type) and term.constant.is_valid
        ):  # most, and quicker so
            return literal(term.sql, pa.scalar(float(term.constant.as_py()), kind), term.strength)
        if is_decimal(kind) and (value := exact_value(term)) is not None:
            return literal(term.sql, pa.scalar(value, kind), term.strength)
        if is_decimal(term.type) and kind == _DOUBLE:
            return literal(term.sql, to_real(term.constant, kind), term.strength)
        return literal(term.sql, pc.cast(term.constant, kind, safe=False), term.strength)
    run = term.run
    if is_decimal(term.type) and pa.types.is_floating(kind):
        return Term(term.sql, term.strength, kind, lambda columns: to_real(run(columns), kind), term.columns)
    # rounding a BIGINT to the nearest DOUBLE is meant, wrapping an integer is not
    safe = pa.types.is_integer(kind) or is_decimal(kind)
    return Term(
        term.sql, term.strength, kind, lambda columns: pc.cast(run(columns), kind, safe=safe), term.columns
    )


def common(node: exp.Expr, terms: Sequence[Term], are_compared: bool = False) -> list[Term]:
    """The terms in one type, or a fault that names the two that do not mix. That they are compared, and no more, may
    take a type that is wider than any value that is kept."""
    known = [term for term in terms if term.kind != "null"]
    if not known:
        return list(terms)
    time_term = next((term for term in known if term.kind == "time"), None)
    if time_term:  # a string constant beside a time is a time
        known = [_as_time(node, term, time_term) for term in known]
    for term in known:
        if term.kind != known[0].kind or (term.kind == "other" and term.type != known[0].type):
            first, second = (f"{t.sql} ({type_name(t.type)})" for t in (known[0], term))
            raise misfit(node, f"{first} and {second} cannot be compared or mixed; use CAST")
    if are_decimals(known):
        wanted = type_compared if are_compared else type_mixed
        try:
            kind = wanted(map(digits, known))
        except ValueError as error:
            raise misfit(node, f"{' and '.join(term.sql for term in known)}: one {error}") from None
        known = [_as_decimal(node, term, kind) for term in known]
    else:
        kind = _common_type(known)
    by_identity = iter(known)
    return [convert(term if term.kind == "null" else next(by_identity), kind) for term in terms]


def _as_time(node: exp.Expr, term: Term, time_term: Term) -> Term:
    if term.kind != "text" or term.constant is None:
        return term
    plain = pa.timestamp("us")  # what names no zone is in UTC, even beside a column that has one
    for through in (time_term.type, plain):
        try:
            return literal(term.sql, pc.cast(pc.cast(term.constant, through), time_term.type))
        except pa.ArrowException:
            continue
    raise misfit(node, f"{term.sql} is not a {type_name(time_term.type)}")


def _common_type(terms: Sequence[Term]) -> pa.DataType:
    types = {term.type for term in terms}
    if len(types) == 1:
        return types.pop()
    kind = terms[0].kind
    if kind == "number":
        return _common_number(terms)
    if kind == "text":
        of_columns = {term.type for term in terms if term.constant is None}
        return of_columns.pop() if len(of_columns) == 1 else pa.string()
    if kind == "time":
        zones = [t.tz for t in types if pa.types.is_timestamp(t) and t.tz]
        return pa.timestamp("us", tz=zones[0] if zones else None)
    return pa.duration("us")


def _common_number(terms: Sequence[Term]) -> pa.DataType:
    if not all(pa.types.is_integer(term.type) for term in terms):
        return pa.float64()
    of_columns = {term.type for term in terms if term.constant is None}
    if len(of_columns) == 1:
        kind = of_columns.pop()  # keep a narrow column narrow if every constant fits it
        if all(_fits(term.constant, kind) for term in terms if term.constant is not None):
            return kind
    return pa.int64()


def _fits(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        pc.cast(value, kind)
    except pa.ArrowInvalid:
        return False
    return True
