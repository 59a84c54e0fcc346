"""ROUND, SIGN and CAST of floats at the ends of what a float can be: no push is refused, and DuckDB says the same."""

from __future__ import annotations

import math
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from muntin.sql import parse_expression

GREATEST, LEAST = 1.7976931348623157e308, 5e-324
ENDS = [0.49999999999999994, 0.5, 1.005, 2.675, 1e300, GREATEST, LEAST, 2.0**52, 2.0**53, math.inf, 0.0]
FLOATS = [*ENDS, *(-each for each in ENDS), math.nan, None]


def answers(text: str) -> list[object]:
    column = pa.array(FLOATS, pa.float64())
    found: list[object] = parse_expression(text, {"x": column.type}).evaluate({"x": column}).to_pylist()
    return found


@pytest.mark.parametrize(
    "text", ["ROUND(x)", "ROUND(x, 2)", "ROUND(x, 15)", "ROUND(x, -1)", "ROUND(x, -18)", "SIGN(x)"]
)
def test_the_ends_are_as_in_duckdb(text: str) -> None:
    table = pa.table({"x": pa.array(FLOATS, pa.float64())})
    with duckdb.connect() as connection:
        connection.register("numbers", table)
        meant = [each for (each,) in connection.execute(f"SELECT {text} FROM numbers").fetchall()]
    assert list(map(_same, answers(text))) == list(map(_same, meant))


def _same(value: object) -> object:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def test_a_float_that_no_decimal_holds_is_null() -> None:
    fitting = [x for x in FLOATS if x is not None and abs(x) < 100]
    found = answers("TRY_CAST(x AS DECIMAL(4, 2))")
    assert [each is not None for each in found] == [x in fitting for x in FLOATS]
    assert found[1] == Decimal("0.50")
