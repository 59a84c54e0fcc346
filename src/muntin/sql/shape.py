"""The shape of a query's text: what is left of it without its windows, numbers and strings.

    SELECT SUM(x) FROM s [RANGE 60 SECONDS] WHERE y > 3 AND z = 'a'
    SELECT SUM(x) FROM s ▢                  WHERE y > ▢ AND z = ▢

Thousands of standing queries have a few dozen shapes. Which of the values taken out are equal belongs to
the shape as well: `SUM(x) OVER [ROWS 5]` written twice is one aggregate, with another window it is two.
A *blank* is an expression with holes in the place of some numbers and strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from muntin.aggregates import AGGREGATES
from muntin.expression import Deferred, Expression
from muntin.sql.call import is_call
from muntin.sql.expression_parser import Over
from muntin.sql.expressions import Scope, fill_expression, term_of, value_term
from muntin.sql.place import Misfit, Span, place
from muntin.sql.syntax import SelectSyntax
from muntin.sql.term import Term
from muntin.sql.vocabulary import COMPOSED, aggregate_name
from muntin.sql.window_clause import UNITS
from muntin.window import LANDMARKS, LONGEST_TIME, Unit, Window

_UNIT = "(" + "|".join(f"{unit}S?" for unit in UNITS) + ")"
_TIME = re.compile(
    rf"\[\s*RANGE\s+(\d{{1,15}})\s+{_UNIT}(?:\s+TO\s+(\d{{1,15}})\s+{_UNIT})?"
    rf"(?:\s+SLIDE\s+(\d{{1,15}})\s+{_UNIT}(?:\s+OFFSET\s+(\d{{1,15}})\s+{_UNIT})?)?\s*\]",
    re.IGNORECASE,
)
_SINCE = re.compile(
    rf"\[\s*SINCE\s+(HOUR|DAY|WEEK)(?:\s+SLIDE\s+(\d{{1,15}})\s+{_UNIT})?\s*\]", re.IGNORECASE
)
_ROWS = re.compile(
    r"\[\s*ROWS\s+(\d{1,15})(?:\s+TO\s+(\d{1,15}))?(?:\s+SLIDE\s+(\d{1,15}))?\s*\]", re.IGNORECASE
)
_SESSION = re.compile(rf"\[\s*SESSION\s+(\d{{1,15}})\s+{_UNIT}\s*\]", re.IGNORECASE)
_VALUE = re.compile(r"\[[^\[\]]*\]|(?<!\w)'[^']*'|(?<![\w.])\d{1,18}(?:\.\d{1,17})?(?![\w.])")
_OTHER = re.compile(r"--|/\*|[\"\\`{}@#]|''")  # comments, quoted names, escapes
_LEFT = re.compile(r"['\[\]]|(?<!\w)\.?\d|\.\d")  # a value in a notation that is not taken out
_LONGEST = 2**62

Value = Window | int | float | str


class Hole(NamedTuple):
    """A value that was taken out, and the characters it was written as."""

    value: Value
    start: int
    end: int


class Shape(NamedTuple):
    """`same[i]` is the number of the first hole with the value of hole `i`. Windows are of one kind if they
    count alike, and all or none of them slide."""

    pieces: tuple[str, ...]  # the text between the holes
    kinds: tuple[str, ...]
    same: tuple[int, ...]


def shape_of(text: str) -> tuple[Shape, list[Hole]] | None:
    """A text's shape and what was taken out; None if it is written in a way that needs the parser.

    >>> shape, holes = shape_of("SELECT MAX(x) FROM s [ROWS 5] WHERE x < 3 OR y < 3")
    >>> shape.pieces, shape.same
    (('SELECT MAX(x) FROM s ', ' WHERE x < ', ' OR y < ', ''), (0, 1, 1))
    >>> [hole.value for hole in holes]
    [[ROWS 5], 3, 3]
    """
    if _OTHER.search(text):
        return None
    pieces, kinds, same, end = [], [], [], 0
    holes: list[Hole] = []
    first: dict[tuple[str, Value], int] = {}
    for found in _VALUE.finditer(text):
        written, (start, after) = found[0], found.span()
        value: Value | None
        if written[0] == "[":
            value = read_window(written)
            if value is None:
                return None
            kind = f"{'since' if value.since else value.unit}{' slides' if value.slide else ''}"
        elif written[0] == "'":
            value, kind = written[1:-1], "text"
        else:
            value, kind = (float(written), "float") if "." in written else (int(written), "int")
            if kind == "float" and Decimal(written) != Decimal(repr(value)):
                return None  # beside a DECIMAL every digit counts
        pieces.append(text[end:start])
        kinds.append(kind)
        same.append(first.setdefault((kind, value), len(holes)))
        holes.append(Hole(value, start, after))
        end = after
    pieces.append(text[end:])
    return Shape(tuple(pieces), tuple(kinds), tuple(same)), holes


def has_values_left(shape: Shape) -> bool:
    """Whether values are left in the text, in a notation that was not taken out."""
    return any(_LEFT.search(piece) for piece in shape.pieces)


@lru_cache(maxsize=4096)
def read_window(text: str) -> Window | None:
    """The window of a clause in its plain form; None if it is written otherwise, or wrong.

    >>> read_window("[RANGE 1 HOUR SLIDE 30 SECONDS]"), read_window("[ROWS 0]")
    ([RANGE 1 HOUR SLIDE 30 SECONDS], None)
    """
    if found := _TIME.fullmatch(text):
        size, to, slide, offset = (_length(found, place) for place in (1, 3, 5, 7))
    elif found := _ROWS.fullmatch(text):
        size, to, slide = (int(found[i]) if found[i] else None for i in (1, 2, 3))
        offset = None
    elif found := _SINCE.fullmatch(text):
        slide = _length(found, 2)
        is_right = slide is None or 0 < slide <= LONGEST_TIME
        return Window("time", LANDMARKS[found[1].upper()], 0, slide or 0, since=True) if is_right else None
    elif found := _SESSION.fullmatch(text):
        gap = _length(found, 1)
        return Window("session", gap) if gap and gap <= LONGEST_TIME else None
    else:
        return None
    assert size is not None
    longest = LONGEST_TIME if found.re is _TIME else _LONGEST
    is_right = 0 < size <= longest and (to is None or to <= size) and (slide is None or 0 < slide <= longest)
    is_right &= not offset or offset < (slide or 0)
    unit: Unit = "time" if found.re is _TIME else "rows"
    return Window(unit, size, to or 0, slide or 0, offset=offset or 0) if is_right else None


def _length(found: re.Match[str], place: int) -> int | None:
    """The length of time whose number is a group, if it is there."""
    return int(found[place]) * UNITS[found[place + 1].upper().removesuffix("S")] if found[place] else None


_FIRST = 900_000_000_000_000_001  # numbers nobody writes; as floats they would lose their last digits


class HoledText(NamedTuple):
    """Canonical text with holes: what an expression is called, whatever numbers are filled in.

    `pieces` are what stands before each hole and after the last; `holes` are the numbers of values.
    """

    pieces: tuple[str, ...]
    holes: tuple[int, ...]

    def fill(self, values: Sequence[Value]) -> str:
        """
        >>> HoledText(("x > ", " AND y < ", ""), (1, 0)).fill([0.5, 3])
        'x > 3 AND y < 0.5'
        """
        parts = [self.pieces[0]]
        for hole, piece in zip(self.holes, self.pieces[1:], strict=True):
            parts += (repr(values[hole]), piece)
        return "".join(parts)


def find_holes(write: Callable[[Sequence[Value]], str], values: Sequence[Value]) -> HoledText:
    """The text with holes that gives what `write` does for all numbers of the types that `values` have.

    >>> find_holes(lambda values: f"x BETWEEN {values[0]} AND {values[0] + 0}", [3])
    HoledText(pieces=('x BETWEEN ', ' AND ', ''), holes=(0, 0))
    """
    probes = [_FIRST + i if isinstance(value, int) else i + 123456789.5 for i, value in enumerate(values)]
    hole_of = {repr(probe): hole for hole, probe in enumerate(probes)}
    pieces = re.split(rf"(?<![\w.])({'|'.join(map(re.escape, hole_of))})(?![\w.])", write(probes))
    return HoledText(tuple(pieces[::2]), tuple(hole_of[each] for each in pieces[1::2]))


# Nodes that compute with the values of their operands, whatever these are.
_OPERATORS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.And, exp.Or, exp.Not, exp.Paren,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg,
)  # fmt: skip
# Of these, those that take any number beside what is not constant.
_PLAIN = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.And, exp.Or, exp.Not, exp.Paren, exp.Add,
    exp.Sub, exp.Mul,
)  # fmt: skip
_WIDEST = (pa.int64(), pa.float64(), pa.bool_())  # what other types become depends on the numbers beside them
_MOST = 1024  # expressions that are remembered


class Blank:
    """What is filled in is compiled like any expression, so the result is the one that parsing gives. Terms of the
    parts without a hole are made once."""

    def __init__(
        self,
        expression: Expression,
        tree: exp.Expr,
        hole_of: dict[int, int],
        scope: Scope,
        condition_of: str | None,
        values: Sequence[Value],
    ):
        self._type = expression.type
        self._tree = tree
        self._hole_of = hole_of  # by the id of a literal in the tree
        self._scope = scope
        self._condition_of = condition_of
        self._with_holes = {
            id(node) for node in tree.walk() if any(id(each) in hole_of for each in literals(node))
        }
        self._holes = sorted(set(hole_of.values()))
        self._terms: dict[int, Term] = {}  # of parts without a hole, by the id of the node
        self._made: dict[tuple[Value, ...], Expression] = {}  # by the values in its holes
        self._text: HoledText | None = None
        if self._is_plain(tree, values):
            self._columns = self._make(values).columns
            self._text = find_holes(lambda some: self._make(some).sql, values)

    def fill(self, values: Sequence[Value]) -> Expression:
        """The expression with these values; a `Misfit` if it has none, or one of another type."""
        if self._text is not None:
            return Deferred(self._text.fill(values), self._type, self._columns, partial(self._make, values))
        asked = tuple(values[hole] for hole in self._holes)
        made = self._made.get(asked)
        if made is None:
            if len(self._made) >= _MOST:
                self._made.clear()
            made = self._made[asked] = self._make(values)
        return made

    def _is_plain(self, node: exp.Expr, values: Sequence[Value]) -> bool:
        """Whether nothing but its text depends on the numbers in its holes, neither type nor fault nor whether it is
        constant: each number meets something that is not, in one of the widest types."""
        if id(node) in self._hole_of:
            return isinstance(values[self._hole_of[id(node)]], int | float)
        if id(node) not in self._with_holes:
            term = self._term(node)
            return term.constant is None and term.type in _WIDEST
        parts = list(node.iter_expressions())
        is_constant = all(id(part) in self._hole_of for part in parts)
        return (
            isinstance(node, _PLAIN)
            and not is_constant
            and all(self._is_plain(part, values) for part in parts)
        )

    def _term(self, node: exp.Expr) -> Term:
        """Of a part without a hole; made once."""
        if id(node) not in self._terms:
            self._terms[id(node)] = term_of(node, self._scope)
        return self._terms[id(node)]

    def _make(self, values: Sequence[Value]) -> Expression:
        def given(node: exp.Expr) -> Term | None:
            number = self._hole_of.get(id(node))
            if number is not None:
                value = values[number]
                assert not isinstance(value, Window)
                return value_term(value)
            return None if id(node) in self._with_holes else self._term(node)

        written = partial(self._written, values)
        made = fill_expression(self._tree, self._scope, self._condition_of, given, written)
        if made.type != self._type:
            raise Misfit("the type depends on the value", None)
        return made

    def _written(self, values: Sequence[Value], node: exp.Expr) -> exp.Expr:
        return self._copy(node, values) if id(node) in self._with_holes else node

    def _copy(self, node: exp.Expr, values: Sequence[Value]) -> exp.Expr:
        number = self._hole_of.get(id(node))
        if number is not None:
            return _literal(values[number])
        return type(node)(**{name: self._copy_part(part, values) for name, part in node.args.items()})

    def _copy_part(self, part: Any, values: Sequence[Value]) -> Any:
        if isinstance(part, list):
            return [self._copy_part(each, values) for each in part]
        return self._copy(part, values) if isinstance(part, exp.Expr) else part


def _literal(value: Value) -> exp.Literal:
    return exp.Literal(this=str(value), is_string=isinstance(value, str))


def literals(tree: exp.Expr) -> Iterator[exp.Literal]:
    """All literals of a tree."""
    yield from tree.find_all(exp.Literal)


def operands(select: SelectSyntax) -> set[Span]:
    """Where the literals of a SELECT stand that are nothing but operands, of an operator or in the argument or
    filter of an aggregate; not yet bound."""
    trees = [*(item.tree for item in select.items), select.where, *select.keys, select.having]
    return {span for tree in trees if tree is not None for span in _operands(tree)}


def _operands(node: exp.Expr) -> Iterator[Span]:
    if isinstance(node, exp.Literal):
        span = place(node)
        if span is not None:
            yield span
    elif isinstance(node, _OPERATORS):
        for child in node.iter_expressions():
            yield from _operands(child)
    elif isinstance(node, Over):
        yield from _operands(node.this)
        if node.args.get("filter") is not None:
            yield from _operands(node.args["filter"])
    elif isinstance(node, exp.Anonymous) and node.expressions and _has_free_argument(node):
        yield from _operands(node.expressions[0])


def _has_free_argument(node: exp.Anonymous) -> bool:
    """Whether the first argument stays an expression. The item of APPROX_COUNT(x = 7, 0.01) becomes a parameter."""
    name = node.name.upper()
    if name.lower() in COMPOSED:  # it stands in several places, or becomes a filter
        return False
    if name == "APPROX" or not is_call(node):
        return name == "APPROX"
    aggregate = AGGREGATES[aggregate_name(name)]
    is_weighted = isinstance(node.expressions[-1], exp.Kwarg)
    return not (aggregate.compares or aggregate.hashes or aggregate.order or is_weighted)
