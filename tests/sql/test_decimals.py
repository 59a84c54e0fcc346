"""Decimals in expressions: exact, typed as DuckDB types them, and refused where they lose something."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from muntin.errors import MuntinError, NoValue
from muntin.passing import PassingKeys, passing_text
from muntin.sql import parse_expression

KINDS = {
    "a": pa.decimal128(12, 2),
    "b": pa.decimal128(18, 6),
    "i": pa.int32(),
    "n": pa.int64(),
    "x": pa.float64(),
}
TYPES = {"a": "DECIMAL(12,2)", "b": "DECIMAL(18,6)", "i": "INTEGER", "n": "BIGINT", "x": "DOUBLE"}
RANDOM = random.Random(64)


def decimals(kind: pa.DataType, many: int) -> list[Decimal | None]:
    """Small and large ones, ties, zeros and NULL."""
    found: list[Decimal | None] = [None, Decimal(0).scaleb(-kind.scale)]
    while len(found) < many:
        most = 10 ** RANDOM.randint(1, kind.precision)
        found.append(Decimal(RANDOM.randrange(-most + 1, most)).scaleb(-kind.scale))
    return found


def columns(many: int = 300) -> dict[str, pa.Array]:
    return {
        "a": pa.array(decimals(KINDS["a"], many), KINDS["a"]),
        "b": pa.array(decimals(KINDS["b"], many), KINDS["b"]),
        "i": pa.array([RANDOM.randint(-50, 50) for _ in range(many)], pa.int32()),
        "n": pa.array([RANDOM.randint(-(10**9), 10**9) for _ in range(many)], pa.int64()),
        "x": pa.array([RANDOM.uniform(-1e6, 1e6) for _ in range(many)]),
    }


BATCH = columns()


@pytest.mark.parametrize(
    "sql",
    [
        "a + b",
        "a - b",
        "a * i",
        "a * 1.19",
        "a * -0.05",
        "a + i",
        "a - 7",
        "-a",
        "ABS(a)",
        "a / 3",
        "a / 7.5",
        "a + x",
        "a * x",
        "SIGN(a)",
        "SQRT(ABS(a))",
        "CASE WHEN a > 0 THEN a ELSE 0.125 END",
        "COALESCE(a, 0)",
        "COALESCE(a, b)",
        "NULLIF(a, 0)",
        "LEAST(a, b)",
        "GREATEST(a, 9.995)",
        "a > 9.995",
        "a = 9.99",
        "a <> 0",
        "a BETWEEN -9.995 AND 100",
        "a IN (0, 9.99, 0.001)",
        "a < b",
        "a >= i",
        "a > x",
        "a IS NULL",
        "a = 0.010",
        "9.995 >= a",
        "a > 100 * 1.19",
        "a > 1234567890123456789.125",
        "CAST(a AS DECIMAL(11, 1))",
        "CAST(b AS DECIMAL(18, 2))",
        "CAST(a AS BIGINT)",
        "CAST(a AS DOUBLE)",
        "CAST(a AS VARCHAR)",
        "CAST(CAST(a AS VARCHAR) AS DECIMAL(14, 1))",
        "CAST(i AS DECIMAL(12, 2))",
        "TRY_CAST(a AS DECIMAL(4, 1))",
        "TRY_CAST(a AS SMALLINT)",
        "TRY_CAST(n AS DECIMAL(8, 2))",
        "ROUND(a, 1)",
        "ROUND(a)",
        "ROUND(a, -2)",
        "ROUND(a, -10)",
        "COALESCE(ROUND(a, -11), 0)",
        "COALESCE(ROUND(a, -18), 0)",
        "ROUND(CAST(x / 1e7 AS DECIMAL(18, 18)), -1)",
        "FLOOR(a)",
        "CEIL(a)",
        "a + a * 2 - b",
    ],
)
def test_values_are_duckdbs(sql: str) -> None:
    made = parse_expression(sql, KINDS).evaluate(BATCH)
    batch = pa.table(BATCH)  # noqa: F841  DuckDB finds it by its name
    wanted = duckdb.sql(f"SELECT {sql} AS v FROM batch").to_arrow_table()
    assert [plain(each) for each in made.to_pylist()] == [plain(each) for each in wanted["v"].to_pylist()]


def plain(value: Any) -> Any:
    """Whatever the scale: 9.9 is 9.90."""
    return value.normalize() + 0 if isinstance(value, Decimal) else value


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("a + b", pa.decimal128(19, 6)),
        ("a * i", pa.decimal128(22, 2)),
        ("a * 1.19", pa.decimal128(15, 4)),
        ("a + 1", pa.decimal128(13, 2)),
        ("a * 1.190", pa.decimal128(15, 4)),
        ("a / 2", pa.float64()),
        ("a * x", pa.float64()),
        ("a * 1e0", pa.float64()),
        ("COALESCE(a, 0)", pa.decimal128(12, 2)),
        ("COALESCE(a, 0.125)", pa.decimal128(13, 3)),
        ("ROUND(a, 1)", pa.decimal128(12, 1)),
        ("FLOOR(a)", pa.decimal128(11, 0)),
        ("SIGN(a)", pa.int64()),
        ("CAST(a AS DECIMAL(38, 9)) + a", pa.decimal128(38, 9)),
        ("CAST(a AS DECIMAL)", pa.decimal128(18, 3)),
    ],
)
def test_types(sql: str, kind: pa.DataType) -> None:
    assert parse_expression(sql, KINDS).type == kind


def test_constants_keep_the_digits_they_are_written_with() -> None:
    kinds = {"a": pa.decimal128(18, 2)}
    batch = {"a": pa.array([Decimal("1234567890123456.78"), Decimal("1234567890123456.79")], kinds["a"])}
    first, second = (parse_expression(f"a = 1234567890123456.{cents}", kinds) for cents in (78, 79))
    assert first.sql != second.sql  # as DOUBLEs they would be one
    assert first.evaluate(batch).to_pylist() == [True, False]
    assert second.evaluate(batch).to_pylist() == [False, True]


@pytest.mark.parametrize(
    ("sql", "passing"),
    [
        ("a > 9.995", "a >= 10.00"),
        ("a >= 9.985 AND a < 9.995", "a BETWEEN 9.99 AND 9.99"),
        ("a = 9.995", "FALSE"),
        ("a <> 9.995", "a IS NOT NULL"),
        ("a < 10", "a <= 9.99"),
        ("a > 99999999999", "FALSE"),
        ("a = 7", "a = 7.00"),
        ("a IN (1, 0.005)", "a = 1.00"),
        ("NOT a > -0.5", "a <= -0.50"),
    ],
)
def test_conditions_end_where_constants_say(sql: str, passing: str) -> None:
    condition = parse_expression(sql, KINDS).condition
    told = passing.replace("a BETWEEN 9.99 AND 9.99", "a = 9.99")
    if not condition.parts:
        assert condition.is_never == (told == "FALSE")
        return
    ((attribute, found),) = condition.parts
    assert isinstance(found, PassingKeys)
    assert passing_text(attribute.sql, attribute.type, found) == told


def test_a_constant_with_an_exponent_is_a_double() -> None:
    assert parse_expression("a > 1e1", KINDS).evaluate(BATCH).to_pylist() == [
        None if each is None else float(each) > 10 for each in BATCH["a"].to_pylist()
    ]


def test_doubles_of_decimals_are_the_nearest() -> None:
    kind = pa.decimal128(18, 5)
    values = [each for each in decimals(kind, 2000) if each is not None]
    made = parse_expression("CAST(a AS DOUBLE)", {"a": kind}).evaluate({"a": pa.array(values, kind)})
    assert made.to_pylist() == [float(each) for each in values]


def test_text_has_all_digits() -> None:
    kind = pa.decimal128(18, 9)
    made = parse_expression("CAST(a AS VARCHAR)", {"a": kind}).evaluate(
        {"a": pa.array([Decimal("1e-9"), None], kind)}
    )
    assert made.to_pylist() == ["0.000000001", None]


def test_rounds_half_away_from_zero() -> None:
    kind = pa.decimal128(18, 3)
    values = [Decimal(each).scaleb(-3) for each in range(-2000, 2000, 5)]
    made = parse_expression("CAST(a AS DECIMAL(18, 2))", {"a": kind}).evaluate({"a": pa.array(values, kind)})
    assert made.to_pylist() == [each.quantize(Decimal("0.01"), ROUND_HALF_UP) for each in values]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("a % 2", "% is not for DECIMAL"),
        ("a // 2", "// is for integers; a is DECIMAL(12, 2)"),
        ("a & 1", "& is for integers"),
        ("CAST(a AS DECIMAL(38, 2)) * CAST(a AS DECIMAL(38, 2))", "a product of more than 76 digits"),
        ("CAST(a AS DECIMAL(39, 2))", "DECIMAL(39, 2) is none"),
        ("CAST(a AS DECIMAL(2, 3))", "DECIMAL(2, 3) is none"),
        ("a = 'x'", "cannot be compared or mixed"),
        ("CAST(a AS DATE)", "cannot become DATE"),
        (f"NULLIF({'1' * 40}.5, a)", "has more digits than the 38 of a DECIMAL"),
        (f"COALESCE(a, {'1' * 40}.5)", "has more digits than the 38 of a DECIMAL"),
        (f"a + {'1' * 40}.5", "has more digits than the 38 of a DECIMAL"),
        (f"a + 0.{'1' * 40}", "has 40 digits after the point"),
    ],
)
def test_what_is_refused_says_so(sql: str, message: str) -> None:
    with pytest.raises(MuntinError) as refused:
        parse_expression(sql, KINDS)
    assert message in str(refused.value)


def test_a_constant_that_fits_no_decimal_may_be_a_double() -> None:
    made = parse_expression("COALESCE(a, 1.5e40)", KINDS)
    assert made.type == pa.float64()
    assert made.evaluate({"a": pa.array([None], KINDS["a"])}).to_pylist() == [1.5e40]


def test_null_stays_null_beyond_the_first_digit() -> None:
    """DuckDB 2.0 has 0 there."""
    made = parse_expression("ROUND(a, -11)", KINDS).evaluate(BATCH)
    assert made.is_null().equals(BATCH["a"].is_null())


def test_what_does_not_fit_has_no_value() -> None:
    wide = {"a": pa.decimal128(38, 2)}
    most = pa.array([Decimal("9" * 36 + ".99")], wide["a"])
    for sql in ("a + a", "a * 10", "CAST(a AS DECIMAL(37, 2))"):
        with pytest.raises(NoValue, match="does not fit"):
            parse_expression(sql, wide).evaluate({"a": most})
