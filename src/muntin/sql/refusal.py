"""What the language leaves out, each with the nearest form that works."""

from __future__ import annotations

STATEMENTS = (
    "CREATE STREAM, CREATE MATERIALIZED VIEW, SELECT, REGISTER QUERY, CREATE OR REPLACE QUERY, EXPLAIN, "
    "DROP QUERY, DROP STREAM or REWIND STREAM"
)

# By the first word of a statement.
STATEMENT_REFUSALS = {
    "INSERT": "INSERT is not supported; events enter a stream with engine.push",
    "UPDATE": "UPDATE is not supported; the events of a stream do not change",
    "DELETE": "DELETE is not supported; events leave when no window needs them",
    "WITH": "WITH is not supported; filter with WHERE or FILTER, or push its answers as a stream",
    "SHOW": "SHOW is not supported; EXPLAIN lists queries, and engine.streams and engine.queries are what is there",
    "DESCRIBE": "DESCRIBE is not supported; engine.streams has the columns of each stream",
    "UNREGISTER": "write DROP QUERY name",
    "DEREGISTER": "write DROP QUERY name",
    "(": "parentheses around a statement are not supported; begin with SELECT",
}

_INNER = "write JOIN b [RANGE …] ON a.k = b.k, which gives the pairs that match"

# By the word that stands where JOIN could.
JOIN_REFUSALS = {
    **{
        word: f"{word} JOIN is not supported; {_INNER}"
        for word in ("LEFT", "RIGHT", "FULL", "OUTER", "ASOF", "SEMI", "ANTI")
    },
    "CROSS": "CROSS JOIN is not supported; write JOIN b [RANGE …] ON a.k = b.k: pairs must agree on something",
    "NATURAL": "NATURAL JOIN is not supported; write JOIN b [RANGE …] USING (k)",
    ",": "a comma in FROM is not supported; write JOIN b [RANGE …] ON a.k = b.k",
}

# By the word (or token text) that stands where a clause of SELECT could begin.
CLAUSE_REFUSALS = {
    ".": "a stream has no schema; write its name alone",
    "ORDER BY": "ORDER BY is only for SELECTs from a view: answers are ordered by the first appearance of their key",
    "SORT BY": "SORT BY is not supported: answers are ordered by the first appearance of their key",
    "LIMIT": "LIMIT is only for SELECTs from a view; keep fewer keys with HAVING, or slice the answer table",
    "OFFSET": "OFFSET is not supported; slice the answer table",
    "FETCH": "FETCH is not supported; keep fewer keys with HAVING, or slice the answer table",
    "QUALIFY": "QUALIFY is not supported; write the condition in HAVING",
    "WINDOW": "named windows are not supported; write OVER [RANGE …] after each aggregate",
    "UNION": "UNION is not supported; register the two queries under names of their own",
    "INTERSECT": "INTERSECT is not supported; register the two queries under names of their own",
    "EXCEPT": "EXCEPT is for CREATE MATERIALIZED VIEW; register the two queries under names of their own",
    "TABLESAMPLE": "TABLESAMPLE is not supported; filter with WHERE",
    "(": "a window stands in brackets: write [RANGE 5 MINUTES] or [ROWS 100]",
    "RANGE": "a window stands in brackets: write [RANGE 5 MINUTES]",
    "ROWS": "a window stands in brackets: write [ROWS 100]",
}

# Arguments sqlglot accepts for the sake of other dialects, by the class name of the node.
ARGUMENT_REFUSALS = {
    "Cast": ("format", "action", "default"),
    "TryCast": ("format", "action", "default"),
    "Ceil": ("decimals", "to"),
    "Floor": ("decimals", "to"),
    "Round": ("truncate",),
    "Length": ("binary", "encoding"),
    "Trim": ("collation",),
    "DateTrunc": ("zone",),
    "TimestampTrunc": ("zone",),
}

# By the class name of a sqlglot node in an expression.
EXPRESSION_REFUSALS = {
    "Star": "* stands only in COUNT(*); name the columns",
    "Distinct": "DISTINCT stands only after SELECT and in COUNT(DISTINCT x)",
    "BitwiseXor": "^ is not supported; write POWER(a, b)",
    "BitwiseAnd": "operations on bits are not supported",
    "BitwiseOr": "operations on bits are not supported",
    "BitwiseNot": "operations on bits are not supported",
    "IntDiv": "integer division is not supported; write FLOOR(a / b)",
    "Subquery": "subqueries are not supported; filter with WHERE or FILTER, or push its answers as a stream",
    "Exists": "NOT EXISTS (SELECT …) is for CREATE MATERIALIZED VIEW, joined to WHERE by AND",
    "Tuple": "rows of values are not supported; compare the columns one by one",
    "Placeholder": "parameters are not supported; put the value into the text",
    "Parameter": "parameters are not supported; put the value into the text",
    "RegexpLike": "regular expressions are not supported; use LIKE",
    "SimilarTo": "regular expressions are not supported; use LIKE",
    "IgnoreNulls": "IGNORE NULLS is not needed: aggregates skip NULL",
    "RespectNulls": "RESPECT NULLS is not supported: aggregates skip NULL",
    "AtTimeZone": "AT TIME ZONE is not supported; event time is UTC",
    "Order": "ORDER BY inside an aggregate is not supported; FIRST and LAST go by event time",
}
