"""From text to `Query`: the query language, with errors that point at the word."""

from muntin.sql.expressions import Scope, compile_expression
from muntin.sql.statement import (
    CreateStream,
    DropQuery,
    DropStream,
    Explain,
    RegisterQuery,
    Select,
    Statement,
    parse_expression,
    parse_query,
    parse_statements,
)

__all__ = [
    "CreateStream", "DropQuery", "DropStream", "Explain", "RegisterQuery", "Scope", "Select", "Statement",
    "compile_expression", "parse_expression", "parse_query", "parse_statements",
]  # fmt: skip
