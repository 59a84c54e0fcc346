"""Text: || CONCAT UPPER LOWER LENGTH TRIM SUBSTRING, counted in Unicode code points."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.sql.arithmetic import call_text
from muntin.sql.place import misfit
from muntin.sql.term import ATOM, CONCAT, Build, Builder, Datum, Operation, Term, apply, convert
from muntin.sql.type_name import type_name


def _texts(node: exp.Expr, terms: list[Term]) -> list[Term]:
    for term in terms:
        if term.kind not in ("text", "null"):
            raise misfit(node, f"{term.sql} is {type_name(term.type)}; write CAST({term.sql} AS VARCHAR)")
    return [convert(term, pa.string()) for term in terms]


def _joined(*values: Datum) -> Datum:
    return pc.binary_join_element_wise(*values, "", null_handling="emit_null")


def _joined_known(*values: Datum) -> Datum:
    # not null_handling="skip": with a NULL scalar that loses rows (pyarrow 26)
    return _joined(*[pc.coalesce(value, pa.scalar("", value.type)) for value in values])


def _pipe(node: exp.DPipe, build: Build) -> Term:
    left, right = build(node.left), build(node.right)
    sql = f"{left.within(CONCAT)} || {right.within(CONCAT)}"
    return apply(node, sql, CONCAT, _joined, _texts(node, [left, right]))


def _concat(node: exp.Concat, build: Build) -> Term:
    terms = [build(part) for part in node.expressions]
    return apply(node, call_text("CONCAT", terms), ATOM, _joined_known, _texts(node, terms))


def _length(value: Datum) -> Datum:
    return pc.cast(pc.utf8_length(value), pa.int64())


def _function(name: str, operation: Operation) -> Builder:
    def build(node: exp.Func, build: Build) -> Term:
        terms = [build(node.this)]
        return apply(node, call_text(name, terms), ATOM, operation, _texts(node, terms))

    return build


def _trimmed(value: Datum, position: str, characters: str) -> Datum:
    trim = {"LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}.get(position, pc.utf8_trim)
    return trim(value, characters=characters)


def _trim(node: exp.Trim, build: Build) -> Term:
    term = build(node.this)
    position, characters = str(node.args.get("position") or "BOTH"), " "
    if node.expression:
        given = build(node.expression)
        if given.constant is None or given.kind != "text":
            raise misfit(node.expression, "TRIM takes the characters to remove in quotes")
        characters = given.constant.as_py()
    quoted = characters.replace("'", "''")
    sql = f"TRIM({position} '{quoted}' FROM {term.sql})"
    return apply(node, sql, ATOM, _trimmed, _texts(node, [term]), position, characters)


def _sliced(value: Datum, start: int, stop: int | None) -> Datum:
    return pc.utf8_slice_codeunits(value, start, stop)


def _substring(node: exp.Substring, build: Build) -> Term:
    term = build(node.this)
    numbers = []
    for name, least in (("start", 1), ("length", 0)):
        part = node.args.get(name)
        if part is None:
            continue
        number = build(part)
        if number.constant is None or not pa.types.is_integer(number.type) or number.constant.as_py() < least:
            raise misfit(part, f"SUBSTRING takes a constant {name} of at least {least}")
        numbers.append(number.constant.as_py())
    if not numbers or "start" not in node.args:
        raise misfit(node, "SUBSTRING takes a text, a start (from 1) and perhaps a length")
    start, stop = numbers[0] - 1, sum(numbers) - 1 if len(numbers) > 1 else None
    sql = f"SUBSTRING({', '.join([term.sql, *map(str, numbers)])})"
    return apply(node, sql, ATOM, _sliced, _texts(node, [term]), start, stop)


TEXT: dict[type[exp.Expr], Builder] = {
    exp.DPipe: _pipe,
    exp.Concat: _concat,
    exp.Length: _function("LENGTH", _length),
    exp.Lower: _function("LOWER", pc.utf8_lower),
    exp.Upper: _function("UPPER", pc.utf8_upper),
    exp.Trim: _trim,
    exp.Substring: _substring,
}
