"""From statements about one table to what they mean: its definition, rows to insert or delete, a SELECT of rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from muntin.errors import SchemaError, nearest
from muntin.fixed_point import is_decimal
from muntin.sql.bind_view import answer_names, answer_order, key_bounds
from muntin.sql.call import forbid_calls
from muntin.sql.expressions import Scope, compile_expression, term_of
from muntin.sql.fold import bind_fold, bind_outputs, is_folded
from muntin.sql.place import Misfit, misfit
from muntin.sql.syntax import (
    ColumnSyntax,
    CreateTableSyntax,
    DeleteSyntax,
    InsertSyntax,
    Item,
    Name,
    SelectSyntax,
)
from muntin.sql.term import exact_value, kind_of
from muntin.sql.type_name import column_type, type_name
from muntin.sql.window_clause import duration_of
from muntin.table import Table
from muntin.table_query import RowsWhere, TableSelect

_NO_OVER = "OVER is not for tables: aggregates are of their rows"


def bind_columns(columns: tuple[ColumnSyntax, ...]) -> list[pa.Field]:
    """The columns that a CREATE declares."""
    fields: list[pa.Field] = []
    for column in columns:
        if column.name.text.casefold() in {field.name.casefold() for field in fields}:
            raise column.name.misfit(f"two columns are called '{column.name.text}'")
        fields.append(pa.field(column.name.text, column_type(column.type)))
    return fields


def find_column(name: Name, known: list[str], owner: str) -> str:
    """The column of that name; unquoted names match in any case."""
    for column in known:
        if column == name.text or (not name.is_quoted and column.casefold() == name.text.casefold()):
            return column
    raise name.misfit(f"{owner} has no column '{name.text}'{nearest(name.text, known)}")


def bind_create_table(syntax: CreateTableSyntax) -> Table:
    """The table a statement declares."""
    fields = bind_columns(syntax.columns)
    names = [field.name for field in fields]
    key = [find_column(name, names, "the table") for name in syntax.key]
    try:
        return Table(syntax.name.text, pa.schema(fields), tuple(key))
    except SchemaError as error:
        raise syntax.key[0].misfit(str(error)) from None


def table_scope(table: Table, alias: str | None = None) -> Scope:
    """The names that expressions over the rows of a table may use."""
    qualifiers = tuple(name.casefold() for name in (table.name, alias) if name)
    return Scope({field.name: field.type for field in table.schema}, table.label, qualifiers)


# Rows that are written in VALUES.


def bind_insert(syntax: InsertSyntax, table: Table) -> pa.RecordBatch:
    """The rows of an INSERT; columns that are not listed are NULL."""
    names = table.schema.names
    listed = [find_column(name, names, table.label) for name in syntax.columns] or names
    for name, column in zip(syntax.columns, listed, strict=False):
        if listed.count(column) > 1:
            raise name.misfit(f"column '{column}' stands twice")
    for row, place in zip(syntax.rows, syntax.places, strict=True):
        if len(row) != len(listed):
            raise Misfit(
                f"a row has {len(row)} values, and there are {len(listed)} columns: {', '.join(listed)}",
                place,
            )
    columns = []
    for field in table.schema:
        if field.name in listed:
            place_of = listed.index(field.name)
            columns.append(pa.array([_value(row[place_of], field) for row in syntax.rows], field.type))
        else:
            columns.append(pa.nulls(len(syntax.rows), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


_CONSTANTS = Scope({}, "VALUES, which takes constants,")


def _value(node: exp.Expr, field: pa.Field) -> pa.Scalar:
    """A constant in the type of its column."""
    forbid_calls(node, "VALUES", "write constants")
    found = compile_expression(node, _CONSTANTS).evaluate({"": pa.array([0])})[0]
    given, wanted = kind_of(found.type), kind_of(field.type)
    try:
        if found.as_py() is None:
            return pa.scalar(None, field.type)
        if given == "text" and wanted == "span":
            return pa.scalar(duration_of(found.as_py()), pa.int64()).cast(field.type)
        if given == "text" and wanted == "time":
            return pc.cast(pc.cast(found, pa.timestamp("us")), field.type)
        if is_decimal(field.type) and (exact := exact_value(term_of(node, _CONSTANTS))) is not None:
            return _decimal(exact, field, node)
        if given == wanted:
            return pc.cast(found, field.type)
    except (pa.ArrowException, ValueError) as error:
        raise misfit(node, f"it is no value of column '{field.name}': {str(error).splitlines()[0]}") from None
    raise misfit(node, f"{type_name(found.type)} where column '{field.name}' is {type_name(field.type)}")


def _decimal(exact: Decimal, field: pa.Field, node: exp.Expr) -> pa.Scalar:
    try:
        return pa.scalar(exact, field.type)
    except pa.ArrowInvalid:
        message = f"{exact:f} has more digits than column '{field.name}', a {type_name(field.type)}"
        raise misfit(node, message) from None


# Rows that are found.


def bind_delete(syntax: DeleteSyntax, table: Table) -> RowsWhere:
    """Which rows a DELETE removes."""
    return bind_rows(syntax.where, table, table_scope(table))


def bind_rows(where: exp.Expr | None, table: Table, scope: Scope) -> RowsWhere:
    """The rows that WHERE lets pass."""
    if where is None:
        return RowsWhere()
    forbid_calls(where, "WHERE", "use HAVING to compare aggregates")
    condition = compile_expression(where, scope, "WHERE")
    equal = key_bounds(where, scope, table.key).equal
    return RowsWhere(condition, equal if len(equal) == len(table.key) else None)


def bind_table_select(select: SelectSyntax, table: Table) -> TableSelect:
    """What a SELECT reads of a table, or a `Misfit`."""
    if select.window is not None:
        raise select.stream.misfit(f"'{table.name}' is a table, and has no window; leave it out")
    if select.changes is not None:
        raise Misfit("a table is read as it is now; EMIT CHANGES is for standing queries", select.changes)
    if select.hint is not None:
        raise Misfit("SYNOPSIS is not for tables; leave the hint out", select.start)
    select = _with_all_columns(select, table)
    rows = table_scope(table, select.alias.text if select.alias else None)
    where = bind_rows(select.where, table, rows)
    fold = bind_fold(select, rows, f"table {table.name}", _NO_OVER) if is_folded(select) else None
    outputs = bind_outputs(select, rows) if fold is None else fold.outputs[:-1]
    if select.order is None:
        return TableSelect(table, where, outputs, fold)
    order = answer_order(select, select.order, answer_names(outputs, fold))
    return TableSelect(table, where, outputs, fold, order, select.order.limit)


def _with_all_columns(select: SelectSyntax, table: Table) -> SelectSyntax:
    """Each column in the place of a star."""
    items = [
        each
        for item in select.items
        for each in (
            [Item(exp.column(name, quoted=True), None) for name in table.schema.names]
            if isinstance(item.tree, exp.Star)
            else [item]
        )
    ]
    return replace(select, items=tuple(items))


def refuse_star(select: SelectSyntax) -> None:
    """A fault if a SELECT that does not read a table alone has a star."""
    for item in select.items:
        if isinstance(item.tree, exp.Star):
            raise misfit(item.tree, "SELECT * is not supported; name the keys and aggregates")
