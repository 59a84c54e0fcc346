"""The functions of the language by name, and what to say about a name that is none."""

from __future__ import annotations

from sqlglot import exp

from muntin.aggregate import AGGREGATES
from muntin.errors import nearest
from muntin.sql.place import Misfit, misfit

# Functions of one row: with plain arguments, and with a grammar of their own.
PLAIN_FUNCTIONS = (
    "ABS", "COALESCE", "CONCAT", "DATE_TRUNC", "EXP", "GREATEST", "IFNULL", "LEAST", "LENGTH", "LN",
    "LOWER", "MOD", "NULLIF", "POW", "POWER", "ROUND", "SIGN", "SQRT", "SUBSTR", "UPPER",
)  # fmt: skip
SPECIAL_FUNCTIONS = ("CAST", "CEIL", "EXTRACT", "FLOOR", "SUBSTRING", "TRIM", "TRY_CAST")

# Other names of aggregates, with the parameters they imply.
SYNONYMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "median": ("quantile", (0.5,)),
    "variance": ("var_samp", ()),
    "stddev": ("stddev_samp", ()),
}
AGGREGATE_NAMES = frozenset(
    name.upper()
    for name in (*AGGREGATES, *SYNONYMS)
    if name != "count_distinct"  # is written COUNT(DISTINCT x)
)


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
    "PERCENTILE_CONT": "QUANTILE(x, 0.99)",
    "PERCENTILE_DISC": "QUANTILE(x, 0.99)",
    "MEAN": "AVG(x)",
    "STDEV": "STDDEV(x)",
    "COUNT_DISTINCT": "COUNT(DISTINCT x)",
    "IF": "CASE WHEN condition THEN a ELSE b END",
    "IIF": "CASE WHEN condition THEN a ELSE b END",
    "NOW": "a window: it ends at the instant of the look-up",
}


def unknown_function(node: exp.Anonymous) -> Misfit:
    """A fault with the nearest function, to be raised."""
    name = node.name.upper()
    if name in _ELSEWHERE:
        return misfit(node, f"unknown function '{name}'; use {_ELSEWHERE[name]}")
    names = [*sorted(AGGREGATE_NAMES), *PLAIN_FUNCTIONS, *SPECIAL_FUNCTIONS]
    return misfit(node, f"unknown function '{name}'{nearest(name, names)}")
