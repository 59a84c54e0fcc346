"""Functions of texts: || CONCAT UPPER LOWER LENGTH TRIM SUBSTRING LEFT RIGHT REPLACE SPLIT_PART STARTS_WITH REGEXP_….

Characters are Unicode code points. Patterns are those of RE2, which take time in the length of the text alone, whatever
they are. What says how a text is changed is a constant: Arrow's kernels take one for a whole batch.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.sql.arithmetic import call_text
from muntin.sql.function_nodes import Left, RegexpExtract, RegexpMatches, Replace, Right, SplitPart
from muntin.sql.place import misfit
from muntin.sql.term import ATOM, CONCAT, Build, Builder, Datum, Operation, Term, apply, convert, reason
from muntin.sql.type_name import type_name

_MOST_GROUPS = 9  # of a pattern that can be asked for: RE2 names them by one digit
_NOTHING = pa.scalar("")
_ENDLESS = 2**31 - 1  # characters no text has
_OPTIONS = {"c": "", "i": "i", "s": "s"}  # of a pattern, with RE2's flags


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
        if given.known is None or given.kind != "text":
            raise misfit(node.expression, "TRIM takes the characters to remove in quotes")
        characters = given.known
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
        if number.known is None or not pa.types.is_integer(number.type) or number.known < least:
            raise misfit(part, f"SUBSTRING takes a constant {name} of at least {least}")
        numbers.append(number.known)
    if not numbers or "start" not in node.args:
        raise misfit(node, "SUBSTRING takes a text, a start (from 1) and perhaps a length")
    start, stop = numbers[0] - 1, sum(numbers) - 1 if len(numbers) > 1 else None
    sql = f"SUBSTRING({', '.join([term.sql, *map(str, numbers)])})"
    return apply(node, sql, ATOM, _sliced, _texts(node, [term]), start, stop)


def _constant_text(node: exp.Expr, build: Build, wanted: str) -> Term:
    """The term of a text in quotes."""
    term = build(node)
    if term.known is None or term.kind != "text":
        raise misfit(node, f"{wanted} in quotes")
    return term


def _constant_integer(node: exp.Expr, build: Build, wanted: str) -> Term:
    """The term of a whole number as it is written."""
    term = build(node)
    if term.known is None or not pa.types.is_integer(term.type):
        raise misfit(node, f"{wanted}, a whole number that is constant")
    return term


def _first(value: Datum, characters: int) -> Datum:
    return pc.utf8_slice_codeunits(value, 0, characters)


def _last(value: Datum, characters: int) -> Datum:
    # of 0 characters Python's slice would be the whole text
    return pc.utf8_slice_codeunits(value, -characters if characters else _ENDLESS)


def _end(name: str, operation: Operation) -> Builder:
    def build(node: Left | Right, build: Build) -> Term:
        terms = [
            build(node.this),
            _constant_integer(node.expression, build, f"{name} takes a text and how many"),
        ]
        sql = call_text(name, terms)
        return apply(node, sql, ATOM, operation, _texts(node, terms[:1]), terms[1].known)

    return build


def _replaced(value: Datum, part: str, by: str) -> Datum:
    return pc.replace_substring(value, part, by) if part else value


def _replace(node: Replace, build: Build) -> Term:
    given = [
        _constant_text(part, build, "REPLACE takes what to replace, and by what,")
        for part in (node.expression, node.args["replacement"])
    ]
    term = build(node.this)
    sql = call_text("REPLACE", [term, *given])
    return apply(node, sql, ATOM, _replaced, _texts(node, [term]), *(each.known for each in given))


def _begins(value: Datum, part: str) -> Datum:
    return pc.starts_with(value, part)


def _starts_with(node: exp.StartsWith, build: Build) -> Term:
    term = build(node.this)
    part = _constant_text(node.expression, build, "STARTS_WITH takes the beginning")
    sql = call_text("STARTS_WITH", [term, part])
    return apply(node, sql, ATOM, _begins, _texts(node, [term]), part.known)


def _part(value: Datum, separator: str, number: int) -> Datum:
    """A part that is not there is an empty text."""
    if isinstance(value, pa.Scalar):
        return _part(pa.array([value.as_py()], value.type), separator, number)[0]
    if not separator:  # every character is a part
        start, stop = (number - 1, number) if number > 0 else (number, number + 1 or None)
        return pc.utf8_slice_codeunits(value, start, stop) if number else _emptied(value)
    parts = pc.split_pattern(value, separator)
    first, end = parts.offsets[:-1], parts.offsets[1:]
    at = pc.add(pc.cast(first if number > 0 else end, pa.int64()), number - 1 if number > 0 else number)
    is_there = pc.and_(pc.greater_equal(at, first), pc.less(at, end))
    found = parts.values.take(pc.if_else(is_there, at, pa.scalar(None, pa.int64())))
    return pc.coalesce(found, _emptied(value)) if number else _emptied(value)


def _emptied(value: Datum) -> Datum:
    return pc.utf8_slice_codeunits(value, 0, 0)


def _split_part(node: SplitPart, build: Build) -> Term:
    term = build(node.this)
    separator = _constant_text(node.expression, build, "SPLIT_PART takes the separator")
    number = _constant_integer(node.args["number"], build, "SPLIT_PART takes the number of a part")
    sql = call_text("SPLIT_PART", [term, separator, number])
    return apply(node, sql, ATOM, _part, _texts(node, [term]), separator.known, number.known)


def _pattern(node: RegexpMatches | RegexpExtract, build: Build) -> tuple[str, list[Term]]:
    """The pattern with its options in RE2's way; and the terms of both as they are written."""
    written = [_constant_text(node.expression, build, f"{node.sql_name()} takes a pattern")]
    pattern = written[0].known
    if (options := node.args.get("options")) is not None:
        written.append(_constant_text(options, build, f"{node.sql_name()} takes options"))
        if unknown := set(written[1].known) - set(_OPTIONS):
            raise misfit(options, f"unknown option '{min(unknown)}' of a pattern; there are c, i and s")
        flags = "".join(_OPTIONS[each] for each in written[1].known)
        pattern = f"(?{flags}:{pattern})" if flags else pattern
    try:
        _is_found(_NOTHING, pattern)  # Arrow reads it when it meets the first text
    except pa.ArrowInvalid as error:
        raise misfit(node.expression, reason(error)) from None
    return pattern, written


def _is_found(value: Datum, pattern: str) -> Datum:
    return pc.match_substring_regex(value, pattern)


def _regexp_matches(node: RegexpMatches, build: Build) -> Term:
    term = build(node.this)
    pattern, written = _pattern(node, build)
    sql = call_text("REGEXP_MATCHES", [term, *written])
    return apply(node, sql, ATOM, _is_found, _texts(node, [term]), pattern)


def _extracted(value: Datum, pattern: str, group: int) -> Datum:
    """By replacing all of a text by the group: Arrow's own extraction wants every group to have a name. What stands
    before the match is as short as it can be, so the match is the first one."""
    whole = f"({pattern})" if group == 0 else f"(?:{pattern})"
    replaced = pc.replace_substring_regex(value, rf"\A(?s:.*?){whole}(?s:.*)\z", rf"\{group or 1}")
    return pc.if_else(pc.match_substring_regex(value, pattern), replaced, _emptied(value))


def _regexp_extract(node: RegexpExtract, build: Build) -> Term:
    term = build(node.this)
    pattern, written = _pattern(node, build)
    number = 0
    if (group := node.args.get("group")) is not None:
        of = _constant_integer(group, build, "REGEXP_EXTRACT takes the number of a group")
        number = of.known
        if not 0 <= number <= _MOST_GROUPS:
            raise misfit(group, f"a group has a number from 0 (the whole match) to {_MOST_GROUPS}")
        try:
            _extracted(_NOTHING, pattern, number)
        except pa.ArrowInvalid:
            raise misfit(group, f"the pattern has no group {number}") from None
        written.insert(1, of)
    sql = call_text("REGEXP_EXTRACT", [term, *written])
    return apply(node, sql, ATOM, _extracted, _texts(node, [term]), pattern, number)


TEXT: dict[type[exp.Expr], Builder] = {
    exp.DPipe: _pipe,
    exp.Concat: _concat,
    exp.Length: _function("LENGTH", _length),
    exp.Lower: _function("LOWER", pc.utf8_lower),
    exp.Upper: _function("UPPER", pc.utf8_upper),
    exp.Trim: _trim,
    exp.Substring: _substring,
    exp.StartsWith: _starts_with,
    Left: _end("LEFT", _first),
    Right: _end("RIGHT", _last),
    Replace: _replace,
    SplitPart: _split_part,
    RegexpMatches: _regexp_matches,
    RegexpExtract: _regexp_extract,
}
