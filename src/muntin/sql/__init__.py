"""From text to `Query`: the query language, with errors that point at the word."""

from muntin.sql.dialect import statement_texts
from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.parse import (
    parse_expression,
    parse_query,
    parse_statements,
    parse_view,
    shared_templates,
    tables_joined,
)
from muntin.sql.statement import (
    AlterView,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    DeleteRows,
    Describe,
    DropQuery,
    DropSink,
    DropStream,
    DropTable,
    DropView,
    Explain,
    ExplainView,
    InsertRows,
    RegisterQuery,
    RewindStream,
    Select,
    SelectTable,
    SelectView,
    Show,
    Skipped,
    Statement,
    TableStatement,
    ViewStatement,
)
from muntin.sql.template import Templates

__all__ = [
    "AlterView", "CreateSink", "CreateStream", "CreateTable", "CreateView", "DeleteRows", "Describe", "DropQuery",
    "DropSink", "DropStream", "DropTable", "DropView", "Explain", "ExplainView", "InsertRows", "RegisterQuery",
    "RewindStream", "Scope", "Select", "SelectTable", "SelectView", "Show", "Skipped", "Statement", "TableStatement",
    "Templates", "ViewStatement", "compile_expression", "parse_expression", "parse_query", "parse_statements",
    "parse_view", "shared_templates", "statement_texts", "tables_joined",
]  # fmt: skip
