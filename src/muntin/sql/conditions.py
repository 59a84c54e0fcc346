"""From what terms say to conditions, and to bands.

A term notes what it says (`Term.says`) and nothing is made of it until somebody asks. A condition is found from the
outside in: where is the predicate TRUE (or, below a NOT, FALSE)? For AND that is where all operands are TRUE; for OR,
FALSE where all operands are FALSE. A comparison is TRUE, and FALSE, in a passing set each. NULL is in neither of them,
so three-valued logic needs no more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.band import GREATEST, LEAST, Band, narrowed, sort_key, sort_value
from muntin.condition import ALWAYS, NEVER, Condition, ConditionPart, condition_of
from muntin.expression import Columns, Expression
from muntin.fixed_point import is_decimal, is_kept, unit_of
from muntin.passing import Passing, PassingKeys, PassingTexts, Range, union
from muntin.sql.term import COMPARE, Compared, Connected, Datum, Negated, Term

Written = exp.Expr | Callable[[], exp.Expr]
Make = Callable[[Term, Written], Expression]  # the expression of a term and its tree

_BOOLEAN = pa.bool_()
_TRUTH = {wanted: PassingKeys.between(wanted, wanted, _BOOLEAN) for wanted in (False, True)}


def understand(term: Term, tree: Written, make: Make) -> Condition:
    """Where a predicate is TRUE. One that is nested too deep for the interpreter's stack is all rest."""
    try:
        return _Reader(make).condition(term, tree, True)
    except RecursionError:
        return condition_of([(make(term, tree), _TRUTH[True])])


class _Reader:
    """Reads one predicate; `make` is for attributes and for predicates that belong to the rest."""

    def __init__(self, make: Make):
        self._make = make
        self._sides: dict[
            int, list[Condition]
        ] = {}  # by the id of a predicate, whose sides are asked for often

    def condition(self, term: Term, tree: Written, wanted: bool) -> Condition:
        """Where a predicate is TRUE, or FALSE, whichever is wanted."""
        parts: list[ConditionPart] = []
        return condition_of(parts) if self._collect(term, tree, wanted, parts) else NEVER

    def _collect(self, term: Term, tree: Written, wanted: bool, parts: list[ConditionPart]) -> bool:
        """Add to `parts` what must hold for a predicate to be as wanted; False if it never is."""
        if term.constant is not None:
            return term.constant.as_py() is wanted
        says = term.says
        if isinstance(says, Connected):
            if (says.word == "AND") == wanted:
                pairs = zip(says.parts, says.trees, strict=True)
                return all(self._collect(*pair, wanted, parts) for pair in pairs)
            return self._add(self._any_of(term, tree, wanted), parts)
        if isinstance(says, Negated):
            return self._collect(says.part, says.tree, not wanted, parts)
        passing = None if says is None else passing_of(says, wanted)
        if says is None or passing is None:
            parts.append((self._make(term, tree), _TRUTH[wanted]))
        elif says.attribute.says is not None:
            return self._add(self._of_predicate(says, passing), parts)
        else:
            parts.append((self._make(says.attribute, says.tree), passing))
        return True

    @staticmethod
    def _add(condition: Condition, parts: list[ConditionPart]) -> bool:
        parts += condition.parts
        return not condition.is_never

    def _of_predicate(self, says: Compared, truths: Passing) -> Condition:
        """Where the value of a predicate is among `truths`, as in `(x > 3) IS NOT TRUE`."""
        predicate, tree = says.attribute, says.tree
        if truths in (_TRUTH[True], _TRUTH[False]):
            return self.condition(predicate, tree, truths == _TRUTH[True])
        sides = self._sides.get(id(predicate))
        if sides is None:
            sides = [self.condition(predicate, tree, wanted) for wanted in (False, True)]
            self._sides[id(predicate)] = sides
        attributes = {part[0] for side in sides for part in side.parts}
        if len(attributes) > 1:
            return condition_of([(self._make(predicate, tree), truths)])
        nothing = _nothing(next(iter(attributes)).type if attributes else _BOOLEAN)
        false, true = (
            side.parts[0][1] if side.parts else nothing if side.is_never else ~nothing for side in sides
        )
        found = [~(false | true)] if truths.has_null else [nothing]
        found += [
            side
            for side, truth in zip((false, true), _TRUTH.values(), strict=True)
            if truth & truths == truth
        ]
        passing = union(found)
        if attributes:
            return condition_of([(attributes.pop(), passing)])
        return NEVER if passing.is_empty else ALWAYS

    def _any_of(self, term: Term, tree: Written, wanted: bool) -> Condition:
        """Where one of several predicates is as wanted. Those of one attribute become one passing set."""
        of_one: dict[Expression, list[Passing]] = {}
        found: dict[Condition, None] = {}
        for each in _alternatives(term, tree, wanted):
            condition = self.condition(*each)
            if condition.is_always:
                return ALWAYS
            if len(condition.parts) == 1:
                expression, passing = condition.parts[0]
                of_one.setdefault(expression, []).append(passing)
            elif not condition.is_never:
                found[condition] = None
        found.update((condition_of([(each, union(sets))]), None) for each, sets in of_one.items())
        if ALWAYS in found:
            return ALWAYS
        if len(found) < 2:
            return next(iter(found), NEVER)
        # IS TRUE: the operands as they are written here may be NULL where the predicate is FALSE
        text = f"({' OR '.join(sorted(map(str, found)))}) IS TRUE"
        either = Term(text, COMPARE, _BOOLEAN, _true_where(term, wanted), term.columns)
        return condition_of(
            [(self._make(either, lambda: _is_true(self._make(term, tree).tree, wanted)), _TRUTH[True])]
        )


def _alternatives(term: Term, tree: Written, wanted: bool) -> Iterator[tuple[Term, Written, bool]]:
    """a, b, c of `a OR (b OR c)`, and of `NOT (NOT a AND NOT b AND NOT c)`."""
    says = term.says
    if isinstance(says, Negated):
        yield from _alternatives(says.part, says.tree, not wanted)
    elif isinstance(says, Connected) and (says.word == "OR") == wanted:
        for part in zip(says.parts, says.trees, strict=True):
            yield from _alternatives(*part, wanted)
    else:
        yield term, tree, wanted


def _true_where(term: Term, wanted: bool) -> Callable[[Columns], Datum]:
    run, no = term.run, pa.scalar(False)
    if wanted:
        return lambda columns: pc.coalesce(run(columns), no)
    return lambda columns: pc.coalesce(pc.invert(run(columns)), no)


def _is_true(tree: exp.Expr, wanted: bool) -> exp.Expr:
    inside = tree.copy() if wanted else exp.Not(this=exp.paren(tree))
    return exp.Is(this=exp.paren(inside, copy=False), expression=exp.Boolean(this=True))


# Comparisons: the values for which one is TRUE.

_OPPOSITES = {
    "=": "<>", "<": ">=", "<=": ">", "BETWEEN": "NOT BETWEEN", "IN": "NOT IN", "IS NULL": "IS NOT NULL",
    "IS TRUE": "IS NOT TRUE", "IS FALSE": "IS NOT FALSE", "IS NOT DISTINCT FROM": "IS DISTINCT FROM",
}  # fmt: skip
_OPPOSITES |= {opposite: symbol for symbol, opposite in _OPPOSITES.items()}


def passing_of(says: Compared, wanted: bool = True) -> Passing | None:
    """The values for which a comparison is TRUE, or FALSE; None if that cannot be said by a passing set."""
    symbol = says.symbol if wanted else _OPPOSITES[says.symbol]
    return _passing(says.attribute.type, symbol, says.constants)


def _nothing(kind: pa.DataType) -> Passing:
    return PassingTexts(frozenset()) if _is_text(kind) else PassingKeys.at((), kind)


def _is_text(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind))


def _passing(kind: pa.DataType, symbol: str, constants: Sequence[Term]) -> Passing | None:
    if symbol in _ONE_SIDED or symbol == "<>":
        return _compared(kind, symbol, constants[0])
    if symbol.startswith("IS "):
        return _distinct(kind, symbol, constants)
    if symbol in ("BETWEEN", "NOT BETWEEN"):
        words = (">=", "<=") if symbol == "BETWEEN" else ("<", ">")
        low, high = (_compared(kind, word, each) for word, each in zip(words, constants, strict=True))
        if low is None or high is None:
            return None
        return low & high if symbol == "BETWEEN" else low | high
    known = [each for each in constants if each.constant is not None and each.constant.is_valid]
    if symbol == "NOT IN" and len(known) < len(constants):
        return _nothing(kind)  # x NOT IN (1, NULL) is FALSE or NULL
    sets = [_compared(kind, "=", each) for each in known]
    found = [each for each in sets if each is not None]
    if len(found) < len(sets):
        return None
    among = union([_nothing(kind), *found])
    return among if symbol == "IN" else among.complement


def _distinct(kind: pa.DataType, symbol: str, constants: Sequence[Term]) -> Passing | None:
    """Of IS [NOT] NULL, TRUE, FALSE and DISTINCT FROM, which are never NULL."""
    constant = constants[0].constant if constants else None
    if symbol.endswith(("TRUE", "FALSE")):
        alike: Passing | None = _TRUTH[symbol.endswith("TRUE")]
        is_alike = "NOT" not in symbol
    elif constant is None or not constant.is_valid:  # NULL
        alike = ~(~_nothing(kind)).known
        is_alike = symbol in ("IS NULL", "IS NOT DISTINCT FROM")
    else:
        alike = _compared(kind, "=", constants[0])
        is_alike = symbol == "IS NOT DISTINCT FROM"
    return alike if is_alike or alike is None else ~alike


def _compared(kind: pa.DataType, symbol: str, constant: Term) -> Passing | None:
    """Of an attribute of a type with one constant."""
    value = constant.constant
    if value is None or not value.is_valid:
        return _nothing(kind)
    if _is_text(kind):
        if symbol not in ("=", "<>"):
            return None
        return PassingTexts(frozenset((value.as_py(),)), is_all_but=symbol == "<>")
    ends = ends_of(kind, "=" if symbol == "<>" else symbol, constant)
    if ends is None:
        return None
    found = PassingKeys.between(*ends, kind)
    return found.complement if symbol == "<>" else found


# Ends: a comparison as a range of sort keys.

_DAY = 86_400_000_000
_EXACT = 2.0**53  # integers up to there are all DOUBLEs

_ONE_SIDED: dict[str, Callable[[int], Range]] = {
    "=": lambda key: (key, key),
    "<": lambda key: (LEAST, key - 1),
    "<=": lambda key: (LEAST, key),
    ">": lambda key: (key + 1, GREATEST),
    ">=": lambda key: (key, GREATEST),
}


def ends_of(kind: pa.DataType, symbol: str, constant: Term) -> Range | None:
    """The sort keys of an attribute's type between which `attribute symbol constant` is TRUE, some of them perhaps
    beyond 64 bits; None if values of the type, or the constant, have none, or if both are compared as something else.
    """
    value = _key(constant)
    key_of = _keys_as(kind, constant.type)
    if value is None or key_of is None:
        return None
    low, high = _ONE_SIDED[symbol](value)
    if key_of is _itself:
        return low, high
    return (
        low if low == LEAST else _first_from(key_of, low),
        high if high == GREATEST else _first_from(key_of, high + 1) - 1,
    )


def _key(constant: Term) -> int | None:
    """The sort key of a constant; None if it has none, or is NULL."""
    value = constant.constant
    if value is None or not value.is_valid or not _has_keys(constant.type):
        return None
    if pa.types.is_temporal(value.type):
        return int(value.value)
    if is_decimal(value.type):
        return unit_of(value.as_py(), value.type.scale)
    return int(sort_key(value.as_py()))


def _has_keys(kind: pa.DataType) -> bool:
    """Whether values of a type are kept in a way that their sort keys can be told."""
    is_ = pa.types
    if is_.is_integer(kind):
        return not is_.is_uint64(kind)
    return bool(
        is_.is_floating(kind) or is_.is_timestamp(kind) or is_.is_date32(kind) or is_.is_boolean(kind)
        or is_.is_decimal(kind)
    )  # fmt: skip


def _itself(key: int) -> int:
    return key


def _rounded(key: int) -> int:
    """Of an integer compared as a DOUBLE, which rounds large ones."""
    return sort_key(float(key))


def _midnight(key: int) -> int:
    """Of a date compared as a timestamp."""
    return key * _DAY


def _rescaled(by: int, key: int) -> int:
    """Of a decimal compared as one with more digits after the point."""
    return key * by


def _keys_as(attribute: pa.DataType, common: pa.DataType) -> Callable[[int], int] | None:
    """From the attribute's sort keys to those of the type in which it is compared; ascending."""
    is_ = pa.types
    if not _has_keys(attribute) or (is_decimal(attribute) and not is_kept(attribute)):
        return None
    if is_decimal(common) and is_.is_integer(attribute):
        return partial(_rescaled, 10**common.scale)
    if is_decimal(common) and is_decimal(attribute) and common.scale >= attribute.scale:
        return partial(_rescaled, 10 ** (common.scale - attribute.scale))
    if attribute == common or (is_.is_floating(attribute) and is_.is_floating(common)):
        return _itself
    if is_.is_integer(attribute):
        return _itself if is_.is_integer(common) else _rounded
    if is_.is_date32(attribute) and common == pa.timestamp("us"):
        return _midnight
    return None


def _first_from(key_of: Callable[[int], int], bound: int) -> int:
    """The least key whose image is `bound` or more; one past the greatest if there is none."""
    low, high = LEAST, GREATEST + 1
    if key_of is _rounded and low < bound < high and abs(number := sort_value(bound)) < _EXACT:
        return math.ceil(number)
    while low < high:
        middle = (low + high) // 2
        if key_of(middle) < bound:
            low = middle + 1
        else:
            high = middle
    return low


# Bands: comparisons of one attribute with constants, all of which must hold.


def band_of(term: Term, make: Make) -> Band | None:
    """The band of a predicate that is written as one: by = < <= > >= and BETWEEN, and by AND."""
    comparisons = _comparisons(term)
    if not comparisons or len({each.attribute.sql for each in comparisons}) > 1:
        return None
    attribute, low, high = comparisons[0].attribute, LEAST, GREATEST
    if pa.types.is_boolean(attribute.type):
        return None
    for _, _, symbol, constants in comparisons:
        for word, each in zip((">=", "<=") if symbol == "BETWEEN" else (symbol,), constants, strict=True):
            ends = ends_of(attribute.type, word, each)
            if ends is None:
                return None
            low, high = max(low, ends[0]), min(high, ends[1])
    return Band(make(attribute, comparisons[0].tree), *narrowed(low, high))


def _comparisons(term: Term) -> list[Compared] | None:
    """All comparisons that a predicate consists of; None if there is anything else."""
    says = term.says
    if isinstance(says, Compared):
        return [says] if says.symbol in _ONE_SIDED or says.symbol == "BETWEEN" else None
    if not isinstance(says, Connected) or says.word != "AND":
        return None
    found: list[Compared] = []
    for part in says.parts:
        comparisons = _comparisons(part)
        if comparisons is None:
            return None
        found += comparisons
    return found
