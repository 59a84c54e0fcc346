"""The least sum of decimals that HAVING lets pass, in units of the last digit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.sql import parse_query
from muntin.sql.decimal_threshold import least_sum
from muntin.stream import Stream

STREAM = Stream(
    "s",
    pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("d", pa.decimal128(12, 2)), ("n", pa.int64())]),
    "ts",
    0,
)


@pytest.mark.parametrize(
    ("having", "least"),
    [
        ("SUM(d) > 30", 3001),
        ("SUM(d) >= 30", 3000),
        ("SUM(d) > 30.005", 3001),
        ("SUM(d) >= 30.005", 3001),
        ("30.01 < SUM(d)", 3002),
        ("30.01 <= (SUM(d))", 3001),
        ("SUM(d) < 30", None),
        ("SUM(d) > 3e1", None),  # compared as a DOUBLE
        ("SUM(d) > 30 AND COUNT(*) > 1", None),
        ("SUM(d) > SUM(n)", None),
        ("SUM(n) > 30", None),  # integers have a band of their own
        ("AVG(d) > 30", None),
    ],
)
def test_least_sum(having: str, least: int | None) -> None:
    text = f"SELECT k, COUNT(*) AS v FROM s [RANGE 1 SECOND] GROUP BY k HAVING {having}"
    query = parse_query(text, {"s": STREAM})
    found = least_sum(query)
    assert (found and found[1]) == least
    if found is not None:
        call = query.calls[found[0]]
        assert (call.function, str(call.argument)) == ("sum:0", "d")
