"""The functions of the language by name, and what to say about a name that is none."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from muntin.aggregates import AGGREGATES
from muntin.errors import nearest
from muntin.sql.place import Misfit, misfit

# Functions of one row by name: how each is written, and what it gives. The docs show them so.
FUNCTIONS: dict[str, tuple[str, str]] = {
    "ABS": ("ABS(x)", "x without its sign"),
    "CAST": ("CAST(x AS TYPE)", "x in another type; what cannot be converted is an error of the push"),
    "CEIL": ("CEIL(x)`, `CEILING(x)", "the least whole number that is not below x"),
    "COALESCE": ("COALESCE(x, y, …)", "the first that is not NULL"),
    "CONCAT": ("CONCAT(x, y, …)", "the texts one after another; NULL is left out"),
    "DATE_TRUNC": ("DATE_TRUNC('hour', ts)", "the beginning of the hour, day, week, … in which a time lies"),
    "EXP": ("EXP(x)", "e to the power of x"),
    "EXTRACT": ("EXTRACT(hour FROM ts)", "a field of a time"),
    "FLOOR": ("FLOOR(x)", "the greatest whole number that is not above x"),
    "GREATEST": ("GREATEST(x, y, …)", "the greatest; NULL is left out"),
    "IFNULL": ("IFNULL(x, y)", "x, or y if that is NULL"),
    "LEAST": ("LEAST(x, y, …)", "the least; NULL is left out"),
    "LEFT": ("LEFT(text, n)", "the first n characters; with n below 0, all but the last -n"),
    "LENGTH": ("LENGTH(text)", "how many characters it has"),
    "LN": ("LN(x)", "the natural logarithm; NULL of 0 and less"),
    "LOG": ("LOG(x)`, `LOG(base, x)", "the logarithm to base 10, or another; NULL of 0 and less"),
    "LOWER": ("LOWER(text)", "in small letters"),
    "MOD": ("MOD(x, y)", "x % y"),
    "NULLIF": ("NULLIF(x, y)", "NULL if both are equal, else x"),
    "POW": ("POW(x, y)", "POWER(x, y)"),
    "POWER": ("POWER(x, y)", "x to the power of y"),
    "REGEXP_EXTRACT": (
        "REGEXP_EXTRACT(text, 'pattern', 1, 'i')",
        "the first match of a group of the pattern, by default 0, all of it; '' if there is none",
    ),
    "REGEXP_MATCHES": ("REGEXP_MATCHES(text, 'pattern', 'i')", "whether the pattern is found anywhere in it"),
    "REPLACE": ("REPLACE(text, 'part', 'by')", "every occurrence of a part replaced"),
    "RIGHT": ("RIGHT(text, n)", "the last n characters; with n below 0, all but the first -n"),
    "ROUND": ("ROUND(x, digits)", "the nearest number with so many digits, by default 0; ties away from 0"),
    "SIGN": ("SIGN(x)", "-1, 0 or 1"),
    "SPLIT_PART": (
        "SPLIT_PART(text, 'separator', n)",
        "the n-th part from 1, with n below 0 from the end; '' if there is none",
    ),
    "SQRT": ("SQRT(x)", "the square root; NULL of numbers below 0"),
    "STARTS_WITH": ("STARTS_WITH(text, 'part')", "whether it begins with the part"),
    "SUBSTR": ("SUBSTR(text, start, length)", "SUBSTRING(text, start, length)"),
    "SUBSTRING": (
        "SUBSTRING(text, start, length)",
        "from a character, counted from 1, on; also FROM … FOR …",
    ),
    "TIME_BUCKET": (
        "TIME_BUCKET(INTERVAL '5 minutes', ts, origin)",
        "the beginning of the bucket of that length in which a time lies; one begins at `origin`, or at 2000-01-03 "
        "shifted by it if it is an INTERVAL",
    ),
    "TRIM": ("TRIM(BOTH 'x' FROM text)", "without these characters at its ends, by default spaces"),
    "TRY_CAST": ("TRY_CAST(x AS TYPE)", "as CAST, and NULL for what cannot be converted"),
    "UPPER": ("UPPER(text)", "in capital letters"),
    "XOR": ("XOR(i, j)", "the bits in which two integers differ"),
}
# Of these, those with a grammar of their own.
SPECIAL_FUNCTIONS = ("CAST", "CEIL", "EXTRACT", "FLOOR", "SUBSTRING", "TRIM", "TRY_CAST")

# Other names of aggregates, with the parameters they imply.
SYNONYMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "median": ("quantile", (0.5,)),
    "variance": ("var_samp", ()),
    "stddev": ("stddev_samp", ()),
    "max_by": ("arg_max", ()),
    "min_by": ("arg_min", ()),
}
# Aggregates that are written out in others (`composed.py`).
COMPOSED: dict[str, tuple[str, ...]] = {  # with the names of their arguments
    "count_if": ("condition",), "bool_and": ("condition",), "bool_or": ("condition",), "covar_pop": ("y", "x"),
    "covar_samp": ("y", "x"), "corr": ("y", "x"), "regr_slope": ("y", "x"), "regr_intercept": ("y", "x"),
}  # fmt: skip
_DISTINCT = "count_distinct"  # is written COUNT(DISTINCT x)


def aggregate_names() -> list[str]:
    """The names by which aggregates are called."""
    return sorted(name.upper() for name in {*AGGREGATES, *SYNONYMS, *COMPOSED} - {_DISTINCT})


def is_aggregate(written: str) -> bool:
    """Whether a name in a query is that of an aggregate.

    >>> is_aggregate("Median"), is_aggregate("ABS")
    (True, False)
    """
    name = written.lower()
    if name in COMPOSED or ":" in name:  # parts of aggregates, which no text can name
        return True
    return (name in AGGREGATES or name in SYNONYMS) and name != _DISTINCT


def aggregate_name(written: str) -> str:
    """The aggregate that a name in a query means.

    >>> aggregate_name("MEDIAN"), aggregate_name("sum")
    ('quantile', 'sum')
    """
    name = written.lower()
    return SYNONYMS[name][0] if name in SYNONYMS else name


# Functions of other systems, with what to write here.
_ELSEWHERE = {
    "FIRST_VALUE": "FIRST(x)",
    "LAST_VALUE": "LAST(x)",
    "ANY_VALUE": "FIRST(x)",
    "ARBITRARY": "FIRST(x)",
    "LATEST": "LAST(x)",
    "EARLIEST": "FIRST(x)",
    "PERCENTILE_CONT": "QUANTILE(x, 0.99)",
    "PERCENTILE_DISC": "QUANTILE(x, 0.99)",
    "PERCENTILE": "QUANTILE(x, 0.99)",
    "QUANTILE_CONT": "QUANTILE(x, 0.99)",
    "APPROX_PERCENTILE": "APPROX_QUANTILE(x, 0.99, 0.01)",
    "PERCENTILE_APPROX": "APPROX_QUANTILE(x, 0.99, 0.01)",
    "APPROX_MEDIAN": "APPROX_QUANTILE(x, 0.5, 0.01)",
    "APPROX_DISTINCT": "APPROX_COUNT_DISTINCT(x)",
    "HLL": "APPROX_COUNT_DISTINCT(x)",
    "COUNT_DISTINCT": "COUNT(DISTINCT x)",
    "DISTINCT_COUNT": "COUNT(DISTINCT x)",
    "UNIQ": "COUNT(DISTINCT x)",
    "ARGMAX": "ARG_MAX(value, by)",
    "ARGMIN": "ARG_MIN(value, by)",
    "COUNTIF": "COUNT_IF(condition)",
    "SUM_IF": "SUM(x) FILTER (WHERE condition)",
    "SUMIF": "SUM(x) FILTER (WHERE condition)",
    "AVG_IF": "AVG(x) FILTER (WHERE condition)",
    "AVGIF": "AVG(x) FILTER (WHERE condition)",
    "P50": "QUANTILE(x, 0.5)",
    "P90": "QUANTILE(x, 0.9)",
    "P95": "QUANTILE(x, 0.95)",
    "P99": "QUANTILE(x, 0.99)",
    "P999": "QUANTILE(x, 0.999)",
    "TOP": "ORDER BY x DESC LIMIT 10 for the first keys, or APPROX_FREQUENT(x, 0.05, 0.01) for frequent values",
    "TOPK": "APPROX_FREQUENT(x, 0.05, 0.01)",
    "TOP_K": "APPROX_FREQUENT(x, 0.05, 0.01)",
    "APPROX_TOP_K": "APPROX_FREQUENT(x, 0.05, 0.01)",
    "APPROX_TOP_COUNT": "APPROX_FREQUENT(x, 0.05, 0.01)",
    "EMA": "AVG(x) OVER [RANGE …]: averages are of windows, none is exponential",
    "EWMA": "AVG(x) OVER [RANGE …]: averages are of windows, none is exponential",
    "EVERY": "BOOL_AND(condition)",
    "LOGICAL_AND": "BOOL_AND(condition)",
    "LOGICAL_OR": "BOOL_OR(condition)",
    "MEAN": "AVG(x)",
    "AVERAGE": "AVG(x)",
    "STDEV": "STDDEV(x)",
    "STD": "STDDEV(x)",
    "VAR": "VARIANCE(x)",
    "RANGE": "MAX(x) - MIN(x)",
    "IF": "CASE WHEN condition THEN a ELSE b END",
    "IIF": "CASE WHEN condition THEN a ELSE b END",
    "NVL": "COALESCE(x, y)",
    "ISNULL": "x IS NULL, or COALESCE(x, y)",
    "LEN": "LENGTH(text)",
    "CHAR_LENGTH": "LENGTH(text)",
    "LOG10": "LOG(x)",
    "LOG2": "LOG(2, x)",
    "TRUNC": "FLOOR(x), or DATE_TRUNC('hour', ts)",
    "PREFIX": "STARTS_WITH(text, 'part')",
    "REGEXP_LIKE": "REGEXP_MATCHES(text, 'pattern')",
    "REGEXP_SUBSTR": "REGEXP_EXTRACT(text, 'pattern')",
    "SPLIT": "SPLIT_PART(text, ',', 1)",
    "BIT_XOR": "XOR(i, j) of two numbers; there is none over events",
    "DATE_BIN": "TIME_BUCKET(INTERVAL '5 minutes', ts)",
    "CONTAINS": "text LIKE '%part%'",
    "DATE_PART": "EXTRACT(hour FROM ts)",
    "YEAR": "EXTRACT(year FROM ts)",
    "MONTH": "EXTRACT(month FROM ts)",
    "DAY": "EXTRACT(day FROM ts)",
    "HOUR": "EXTRACT(hour FROM ts)",
    "MINUTE": "EXTRACT(minute FROM ts)",
    "SECOND": "EXTRACT(second FROM ts)",
    "DATEDIFF": "one time minus another, such as ts - TIMESTAMP '2024-01-01'",
    "NOW": "a window: it ends at the instant of the look-up",
    "CURRENT_TIMESTAMP": "a window: it ends at the instant of the look-up",
    "TUMBLE": "a window after the stream: FROM stream [RANGE 5 MINUTES SLIDE 5 MINUTES]",
    "HOP": "a window after the stream: FROM stream [RANGE 5 MINUTES SLIDE 1 MINUTE]",
}
# What no function here means; letters would suggest another one.
_NOWHERE = {
    "ARRAY_AGG": "lists are not kept", "LIST": "lists are not kept", "STRING_AGG": "texts are not joined over events",
    "GROUP_CONCAT": "texts are not joined over events", "LISTAGG": "texts are not joined over events",
    "LAG": "a query does not see single events", "LEAD": "a query does not see single events",
    "ROW_NUMBER": "a query does not see single events", "RANK": "a query does not see single events",
    "RAND": "answers depend on events alone", "RANDOM": "answers depend on events alone",
    "REGEXP_REPLACE": "REPLACE takes no pattern",
    "REGR_R2": "write POWER(CORR(y, x), 2)",
    "ROLLUP": "GROUP BY takes columns; register a query for each level",
    "CUBE": "GROUP BY takes columns; register a query for each level",
}  # fmt: skip


def unknown_function(node: exp.Anonymous, own: Iterable[str] = ()) -> Misfit:
    """A fault with the nearest function, to be raised; `own` are those of the user's own."""
    name = node.name.upper()
    if name in _ELSEWHERE:
        return misfit(node, f"unknown function '{name}'; use {_ELSEWHERE[name]}")
    if name in _NOWHERE:
        return misfit(node, f"there is no function '{name}': {_NOWHERE[name]}")
    names = [*aggregate_names(), *FUNCTIONS, *own]
    return misfit(node, f"unknown function '{name}'{nearest(name, names)}")


# What the language leaves out, each with the nearest form that works.

STATEMENTS = (
    "CREATE STREAM, CREATE TABLE, CREATE MATERIALIZED VIEW, SELECT, REGISTER QUERY, CREATE OR REPLACE QUERY, EXPLAIN, "
    "INSERT INTO, DELETE FROM, CREATE SINK, DROP QUERY, DROP STREAM, DROP TABLE, DROP SINK, REWIND STREAM, SHOW or "
    "DESCRIBE"
)

# By the first word of a statement.
STATEMENT_REFUSALS = {
    "UPDATE": "write INSERT INTO, which replaces the row of a table with the same key; events do not change",
    "UPSERT": "write INSERT INTO, which replaces the row with the same key",
    "MERGE": "write INSERT INTO, which replaces the row with the same key",
    "TRUNCATE": "write DELETE FROM name, which removes all rows of a table",
    "WITH": "WITH is not supported; write CREATE STREAM name AS SELECT …, or CREATE STREAM name FROM QUERY …",
    "UNREGISTER": "write DROP QUERY name",
    "DEREGISTER": "write DROP QUERY name",
    "(": "parentheses around a statement are not supported; begin with SELECT",
}

_INNER = "write JOIN b [RANGE …] ON a.k = b.k, which gives the pairs that match"

# By the word that stands where JOIN could.
JOIN_REFUSALS = {
    **{
        word: f"{word} JOIN is not supported; {_INNER}"
        for word in ("RIGHT", "FULL", "OUTER", "ASOF", "SEMI", "ANTI")
    },
    "CROSS": "CROSS JOIN is not supported; write JOIN b [RANGE …] ON a.k = b.k: pairs must agree on something",
    "NATURAL": "NATURAL JOIN is not supported; write JOIN b [RANGE …] USING (k)",
    ",": "a comma in FROM is not supported; write JOIN b [RANGE …] ON a.k = b.k",
}

LEFT_REFUSAL = f"LEFT JOIN is not supported; {_INNER}; only a table is joined so"

# By the word (or token text) that stands where a clause of SELECT could begin.
_DECLARED = "{0} stands where a stream is declared with its columns; what is made of a stream has its {0}: leave it out"
LATENESS = {word: _DECLARED.format(word) for word in ("DELAY", "AHEAD")}
CLAUSE_REFUSALS = {
    **LATENESS,
    ".": "a stream has no schema; write its name alone",
    "SORT BY": "SORT BY is not supported: answers are ordered by the first appearance of their key",
    "OFFSET": "OFFSET is not supported; slice the answer table",
    "FETCH": "FETCH is not supported; write ORDER BY n DESC LIMIT 10",
    "QUALIFY": "QUALIFY is not supported; write the condition in HAVING",
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
    "BitwiseXor": "^ is not supported; write POWER(a, b), or XOR(a, b) for bits",
    "Subquery": "subqueries are not supported; filter with WHERE or FILTER, or write CREATE STREAM name AS SELECT …",
    "Exists": "NOT EXISTS (SELECT …) is for CREATE MATERIALIZED VIEW, joined to WHERE by AND",
    "Tuple": "rows of values are not supported; compare the columns one by one",
    "Placeholder": "a parameter is written $name",
    "Parameter": "a parameter is written $name",
    "RegexpLike": "write REGEXP_MATCHES(text, 'pattern')",
    "SimilarTo": "SIMILAR TO is not supported; write REGEXP_MATCHES(text, 'pattern')",
    "IgnoreNulls": "IGNORE NULLS is not needed: aggregates skip NULL",
    "RespectNulls": "RESPECT NULLS is not supported: aggregates skip NULL",
    "AtTimeZone": "AT TIME ZONE is not supported; event time is UTC",
    "Order": "ORDER BY inside an aggregate is not supported; FIRST and LAST go by event time",
}
