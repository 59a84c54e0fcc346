"""Calls of the user's own functions of one row: Arrow arrays in, one Arrow array out, once for all rows of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from muntin.errors import FunctionError
from muntin.expression import Columns
from muntin.sql.arithmetic import call_text
from muntin.sql.logic import as_array
from muntin.sql.place import Misfit, misfit
from muntin.sql.term import ATOM, Build, Builder, Datum, Term, convert, kind_of, literal
from muntin.sql.type_name import type_name
from muntin.sql.vocabulary import unknown_function


@dataclass
class OwnFunction:
    """A function by name, with the types that its arguments are given in and its answer has."""

    name: str
    call: Callable[..., Any]
    takes: tuple[pa.DataType, ...]
    returns: pa.DataType
    is_used: bool = False

    def __call__(self, *values: Datum) -> pa.Array:
        """What the function gives for arguments of which some may be one value for all rows."""
        rows = next((len(each) for each in values if not isinstance(each, pa.Scalar)), 1)
        if rows == 0:
            return pa.array([], self.returns)
        given = [as_array(each, rows) for each in values]
        try:
            found = self.call(*(_whole(each) for each in given))
        except Exception as error:
            line = (str(error).splitlines() or [""])[0]
            raise FunctionError(f"function {self.name} has raised {type(error).__name__}: {line}") from error
        if not isinstance(found, pa.Array | pa.ChunkedArray):
            raise FunctionError(f"function {self.name} gives an Arrow array, not {type(found).__name__}")
        if found.type != self.returns:
            raise FunctionError(
                f"function {self.name} has given {type_name(found.type)}, and is declared to give "
                f"{type_name(self.returns)}"
            )
        if len(found) != rows:
            raise FunctionError(f"function {self.name} has given {len(found):,} values for {rows:,} rows")
        return _whole(found)


OWN: dict[str, OwnFunction] = {}  # by name, in small letters


def unknown(node: exp.Anonymous) -> Misfit:
    """A fault at a name that is no function, nor one of the user's own; to be raised."""
    return unknown_function(node, [each.name for each in OWN.values()])


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _own_call(node: exp.Anonymous, build: Build) -> Term:
    function = OWN.get(node.name.lower())
    if function is None:
        raise unknown(node)
    given = [build(each) for each in node.expressions]
    if len(given) != len(function.takes):
        wanted = ", ".join(map(type_name, function.takes))
        raise misfit(node, f"{function.name} takes {_count(function.takes)}: {function.name}({wanted})")
    function.is_used = True
    terms = [_as(function, *each) for each in zip(node.expressions, given, function.takes, strict=True)]
    sql, runs = call_text(function.name, given), [term.run for term in terms]
    if all(term.constant is not None for term in terms):
        return literal(sql, function(*[term.constant for term in terms])[0])

    def run(columns: Columns) -> Datum:
        return function(*[each(columns) for each in runs])

    columns = frozenset[str]().union(*[term.columns for term in terms])
    return Term(sql, ATOM, function.returns, run, columns)


def _as(function: OwnFunction, node: exp.Expr, term: Term, kind: pa.DataType) -> Term:
    """An argument in the type that is declared, if it can become that without a loss."""
    is_whole = pa.types.is_integer(kind) and not pa.types.is_integer(term.type)
    if term.kind not in (kind_of(kind), "null") or (is_whole and term.kind != "null") or (
        pa.types.is_date(kind) != pa.types.is_date(term.type) and term.kind == "time"
    ):  # fmt: skip
        raise misfit(node, f"{function.name} takes {type_name(kind)} here, and {term.sql} is {type_name(term.type)}; "
                           f"write CAST({term.sql} AS {type_name(kind)})")  # fmt: skip
    return convert(term, kind)


def _count(arguments: tuple[pa.DataType, ...]) -> str:
    return "1 argument" if len(arguments) == 1 else f"{len(arguments)} arguments"


OWN_CALLS: dict[type[exp.Expr], Builder] = {exp.Anonymous: _own_call}
