"""From text to `Query`: the query language, with errors that point at the word."""

from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.statement import (
    AlterView,
    CreateStream,
    CreateView,
    DropQuery,
    DropStream,
    DropView,
    Explain,
    ExplainView,
    RegisterQuery,
    RewindStream,
    Select,
    SelectView,
    Statement,
    ViewStatement,
    parse_expression,
    parse_query,
    parse_statements,
    parse_view,
    shared_templates,
)
from muntin.sql.template import Templates

__all__ = [
    "AlterView", "CreateStream", "CreateView", "DropQuery", "DropStream", "DropView", "Explain", "ExplainView",
    "RegisterQuery", "RewindStream", "Scope", "Select", "SelectView", "Statement", "Templates", "ViewStatement",
    "compile_expression", "parse_expression", "parse_query", "parse_statements", "parse_view", "shared_templates",
]  # fmt: skip
