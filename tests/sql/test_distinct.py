"""SELECT DISTINCT is GROUP BY without aggregates: the same query, keys and groups."""

from __future__ import annotations

import pytest

from muntin.errors import SqlError
from muntin.sql import parse_query
from muntin.stream import Stream

WINDOW = "[RANGE 5 MINUTES SLIDE 1 MINUTE]"


def parts(text: str, streams: dict[str, Stream]) -> tuple[object, ...]:
    query = parse_query(text, streams)
    return query.keys, query.where, query.window, query.calls, query.outputs, query.emits_changes


@pytest.mark.parametrize(
    ("distinct", "grouped"),
    [
        ("SELECT DISTINCT symbol FROM trades W", "SELECT symbol FROM trades W GROUP BY symbol"),
        (
            "SELECT DISTINCT side, symbol FROM trades W WHERE price > 3 EMIT CHANGES",
            "SELECT side, symbol FROM trades W WHERE price > 3 GROUP BY side, symbol EMIT CHANGES",
        ),
        (
            "SELECT DISTINCT shares % 10 AS last_digit FROM trades W",
            "SELECT shares % 10 AS last_digit FROM trades W GROUP BY shares % 10",
        ),
        (
            "SELECT DISTINCT t.symbol, SYMBOL AS again, 7 AS seven FROM trades W AS t",
            "SELECT symbol, symbol AS again, 7 AS seven FROM trades W GROUP BY symbol",
        ),
        (
            "SELECT DISTINCT symbol, MAX(price) FROM trades W GROUP BY symbol",
            "SELECT symbol, MAX(price) FROM trades W GROUP BY symbol",
        ),
        ("SELECT DISTINCT MAX(price) FROM trades [ROWS 3]", "SELECT MAX(price) FROM trades [ROWS 3]"),
    ],
)
def test_means_the_same_as_keys(distinct: str, grouped: str, streams: dict[str, Stream]) -> None:
    assert parts(distinct.replace("trades W", f"trades {WINDOW}"), streams) == parts(
        grouped.replace("trades W", f"trades {WINDOW}"), streams
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT DISTINCT 1 FROM trades W", "DISTINCT needs a column"),
        ("SELECT DISTINCT prize FROM trades W", "has no column 'prize'; did you mean 'price'?"),
        ("SELECT DISTINCT symbol FROM trades", "the query needs a window"),
        ("SELECT DISTINCT symbol FROM trades W HAVING COUNT(*) > 1", "list the columns in GROUP BY instead"),
        (
            "SELECT DISTINCT symbol, COUNT(*) FROM trades W",
            "'symbol' is neither a key nor inside an aggregate",
        ),
        ("SELECT DISTINCT COUNT(*) FROM trades W GROUP BY symbol", "a row for each key (symbol)"),
    ],
)
def test_refused_with_what_to_write(text: str, message: str, streams: dict[str, Stream]) -> None:
    with pytest.raises(SqlError) as refused:
        parse_query(text.replace("trades W", f"trades {WINDOW}"), streams)
    assert message in str(refused.value)
