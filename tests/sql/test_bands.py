"""Predicates that are bands: recognised, and passing exactly the events that the predicate passes."""

from __future__ import annotations

import math
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

from muntin.band import sort_keys
from muntin.expression import Expression, both
from muntin.shard.intake import to_column
from muntin.sql.expressions import Scope, compile_expression

TYPES = {
    "n": pa.int64(), "i": pa.int8(), "x": pa.float64(), "f": pa.float32(), "t": pa.timestamp("us"),
    "u": pa.timestamp("ms", tz="UTC"), "d": pa.date32(), "w": pa.string(), "big": pa.uint64(),
}  # fmt: skip
SCOPE = Scope(TYPES, "stream 's'")
LARGE = [2**53 + 1, 2**53, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62 + 1]
DAYS = [date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1)]
MOMENTS = [datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 500_000), datetime(1950, 1, 1)]
REALS = [0.0, -0.0, 1.5, 2.0, 3.0, 0.1, 1e300, -1e300, math.inf, -math.inf, math.nan, 9007199254740993.0]
VALUES = {
    "n": [None, 0, 1, 2, 3, -3, *LARGE],
    "i": [None, -128, -1, 0, 1, 2, 3, 127],
    "x": [None, *REALS],
    "f": [None, 0.0, 0.1, 1.5, 2.0, 3.0, math.inf, -math.inf, math.nan],
    "t": [None, *MOMENTS],
    "u": [None, *MOMENTS],
    "d": [None, *DAYS],
}
NUMBERS = (
    "0", "1", "2", "3", "-3", "1.5", "0.1", "200", "1e300", "-1e300", "9007199254740993", "9007199254740992.0",
    "9223372036854775807", "9.3e18", "-9.3e18", "CAST('NaN' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "1 + 1",
)  # fmt: skip
INSTANTS = ("'2024-02-29'", "'1969-12-31'", "DATE '2024-03-01'", "TIMESTAMP '2024-02-29 12:00:00.5'")
CONSTANTS = {name: INSTANTS if name in "tud" else NUMBERS for name in VALUES}
FORMS = ["{a} > {b}", "{a} >= {b}", "{a} < {b}", "{a} <= {b}", "{a} = {b}", "{b} < {a}", "{b} >= {a}",
         "{a} BETWEEN {b} AND {c}", "{a} > {b} AND {a} <= {c}", "({a} < {c}) AND {b} <= {a} AND {a} > {b}"]  # fmt: skip


def compiled(sql: str) -> Expression:
    return compile_expression(parse_one(sql), SCOPE, "WHERE")


def passes(predicate: Expression, columns: dict[str, pa.Array]) -> list[bool]:
    """By the band: sort keys of the attribute between its ends."""
    band = predicate.band
    assert band is not None
    value, valid = to_column(band.attribute.evaluate(columns))
    keys = sort_keys(value)
    return [bool(each) for each in valid & (keys >= band.low) & (keys <= band.high)]


@given(data=st.data())
def test_band_passes_what_the_predicate_passes(data: st.DataObject) -> None:
    """NULL, NaN, infinities and integers beyond doubles included, whatever the types of both sides."""
    name = data.draw(st.sampled_from(list(VALUES)))
    low, high = (data.draw(st.sampled_from(CONSTANTS[name])) for _ in range(2))
    is_zoned_mix = name == "u" and ("DATE" in low + high or "TIMESTAMP" in low + high)
    predicate = compiled(data.draw(st.sampled_from(FORMS)).format(a=name, b=low, c=high))
    if predicate.band is None:
        assert is_zoned_mix, predicate.sql  # compared in another unit than it is kept in
        return
    columns = {name: pa.array(VALUES[name], TYPES[name])}
    assert passes(predicate, columns) == predicate.evaluate(columns).fill_null(False).to_pylist()


@pytest.mark.parametrize("attribute", ["n", "n + 1", "x * 2", "CAST(f AS DOUBLE)", "ABS(i)", "t", "d"])
def test_attribute_is_any_expression(attribute: str) -> None:
    """Of numbers or times; its text is canonical, so that all bands of it meet."""
    constant = "'2024-01-01'" if attribute in "td" else "3"
    band = compiled(f"{constant} <= ({attribute})").band
    assert band is not None
    assert band.attribute == compiled_plain(attribute)


def compiled_plain(sql: str) -> Expression:
    return compile_expression(parse_one(sql), SCOPE)


@pytest.mark.parametrize(
    "sql",
    ["n <> 3", "n > 1 OR n < 0", "n > x", "n > 1 AND x > 1", "w > 'a'", "NOT n > 3", "n IS NULL", "n > NULL",
     "n IN (1, 2)", "3 BETWEEN 1 AND n", "n BETWEEN 1 AND x", "big > 3", "TRUE", "1 < 2"],
)  # fmt: skip
def test_others_are_none(sql: str) -> None:
    """What is not one stretch of one attribute's values is evaluated as ever."""
    assert compiled(sql).band is None


def test_spelling_does_not_matter() -> None:
    """A constant on the left is written on the right."""
    assert compiled("3 < n") is compiled("n > 3")
    assert compiled("3 >= n AND 'a' = w").sql == "n <= 3 AND w = 'a'"


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [("n > 1", "n < 5", "n > 1 AND n < 5"), ("n > 1", "n > 1", "n > 1"),
     ("n > 1 OR x > 1", "w = 'a'", "(n > 1 OR x > 1) AND w = 'a'"),
     ("w = 'a'", "n > 1 AND x > 2", "w = 'a' AND n > 1 AND x > 2")],
)  # fmt: skip
def test_both_is_what_and_would_be(left: str, right: str, text: str) -> None:
    """The conjunction of two predicates has the text, the values and the band of the one written with AND."""
    joined, written = both(compiled(left), compiled(right)), compiled(text)
    assert joined is not None
    assert (joined.sql, joined.columns) == (written.sql, written.columns)
    assert (joined.band is None) == (written.band is None)
    columns = {name: pa.array([None, 0, 2, 6], TYPES[name]) for name in "nx"} | {
        "w": pa.array(["a", "b", "a", None])
    }
    assert joined.evaluate(columns).to_pylist() == written.evaluate(columns).to_pylist()
    if joined.band is not None:
        assert joined.band == written.band
        assert np.all(passes(joined, columns) == written.evaluate(columns).fill_null(False).to_numpy(False))
