"""Conditions: they pass exactly the rows for which the predicate is TRUE, and do not depend on how it is written."""

from __future__ import annotations

import math
import random
from datetime import date, datetime
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.band import sort_key
from muntin.condition import Condition, condition_of
from muntin.expression import Expression, both
from muntin.passing import Passing, PassingKeys, PassingTexts, domain_of
from muntin.sql import conditions, parse_expression, parse_query, shared_templates
from muntin.stream import Stream

TYPES = {
    "n": pa.int64(), "i": pa.int32(), "x": pa.float64(), "f": pa.float32(), "b": pa.bool_(), "c": pa.bool_(),
    "s": pa.string(), "t": pa.timestamp("us"), "d": pa.date32(), "big": pa.uint64(), "tiny": pa.int8(),
}  # fmt: skip
REALS = [0.0, -0.0, 1.0, 1.5, 2.0, 3.0, 5e-324, -5e-324, 1e300, math.inf, -math.inf, math.nan, 2.0**53]
VALUES: dict[str, list[Any]] = {
    "n": [0, 1, 2, 3, -3, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "i": [0, 1, 2, 3, 2**31 - 1, -(2**31)],
    "x": REALS,
    "f": [0.0, -0.0, 0.1, 1.5, 2.0, 3.0, math.inf, -math.inf, math.nan],
    "b": [True, False],
    "c": [True, False],
    "s": ["", "a", "A", "b", "it's", "a OR b"],
    "t": [datetime(2024, 2, 29), datetime(2024, 2, 29, 12, 0, 0, 1), datetime(1950, 1, 1)],
    "d": [date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1)],
    "big": [0, 3, 2**64 - 1],
    "tiny": [-128, -1, 0, 1, 127],
}
CHOICE = random.Random(18)
ROWS = pa.table(
    {
        name: pa.array([CHOICE.choice([None, *VALUES[name]]) for _ in range(250)], kind)
        for name, kind in TYPES.items()
    }
)
COLUMNS = {name: ROWS[name].combine_chunks() for name in TYPES}

NUMBERS = (
    "0", "1", "2", "3", "-3", "1.5e0", "-0.0e0", "0.1e0", "5e-324", "1e300", "-1e300", "3000000000", "NULL",
    "9007199254740993", "9007199254740992e0", "9223372036854775807", "-9223372036854775808", "9.3e18",
    "CAST('NaN' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "CAST('-inf' AS DOUBLE)",
)  # fmt: skip
TIMES = (
    "'2024-02-29'",
    "'1969-12-31'",
    "DATE '2024-03-01'",
    "TIMESTAMP '2024-02-29 12:00:00.000001'",
    "NULL",
)
TEXTS = ("'a'", "'b'", "''", "'it''s'", "'a OR b'", "NULL")
CONSTANTS = {
    "n": NUMBERS, "i": NUMBERS, "x": NUMBERS, "f": NUMBERS, "b": ("TRUE", "FALSE", "NULL"), "s": TEXTS, "t": TIMES,
    "d": TIMES, "CAST(i AS BIGINT) + 1": NUMBERS, "UPPER(s)": TEXTS, "COALESCE(b, c)": ("TRUE", "FALSE", "NULL"),
    "big": ("3", "NULL"), "x * 2": NUMBERS,
}  # fmt: skip
FORMS = (
    "{a} {o} {b}", "{b} {o} {a}", "{a} BETWEEN {b} AND {c}", "{a} NOT BETWEEN {b} AND {c}", "{a} IN ({b}, {c}, {d})",
    "{a} NOT IN ({b}, {c})", "{a} IS NULL", "{a} IS NOT NULL", "{a} IS NOT DISTINCT FROM {b}",
    "{a} IS DISTINCT FROM {b}",
)  # fmt: skip
OTHERS = (
    "b", "c", "COALESCE(b, FALSE)", "s LIKE 'a%'", "s NOT LIKE 'a%'", "n < i", "x >= f", "s > 'a'", "TRUE", "FALSE",
    "1 = 1", "1 > 2", "n > NULL", "b = c",
)  # fmt: skip
AROUND = (
    "NOT ({p})", "({p}) IS TRUE", "({p}) IS NOT TRUE", "({p}) IS FALSE", "({p}) IS NOT FALSE", "({p}) IS NULL",
    "({p}) IS NOT NULL", "({p}) = TRUE", "FALSE = ({p})", "({p}) IN (FALSE, NULL)", "({p}) <> TRUE",
)  # fmt: skip


@st.composite
def comparisons(draw: st.DrawFn, attributes: tuple[str, ...] = tuple(CONSTANTS)) -> str:
    attribute = draw(st.sampled_from(attributes))
    b, c, d = (draw(st.sampled_from(CONSTANTS[attribute])) for _ in range(3))
    symbol = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    return draw(st.sampled_from(FORMS)).format(a=attribute, b=b, c=c, d=d, o=symbol)


def predicates(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from([" AND ", " OR "]), st.lists(inner, min_size=2, max_size=4)).map(
                lambda drawn: drawn[0].join(f"({each})" for each in drawn[1])
            ),
            st.tuples(st.sampled_from(AROUND), inner).map(lambda drawn: drawn[0].format(p=drawn[1])),
        ),
        max_leaves=8,
    )


ANY = predicates(st.one_of(comparisons(), comparisons(), st.sampled_from(OTHERS)))


def compiled(sql: str) -> Expression:
    return parse_expression(sql, TYPES)


def passes(passing: Passing, value: Any) -> bool:
    """Naively, from what the set holds; times come as integers."""
    if value is None:
        return passing.has_null
    if isinstance(passing, PassingTexts):
        return (value in passing.texts) != passing.is_all_but
    assert isinstance(passing, PassingKeys)
    key = sort_key(value) if isinstance(value, float) else int(value)
    return any(low <= key <= high for low, high in passing.ranges)


def values(expression: Expression) -> list[Any]:
    value = expression.evaluate(COLUMNS)
    if pa.types.is_timestamp(value.type):
        value = value.cast(pa.int64())
    elif pa.types.is_date32(value.type):
        value = value.cast(pa.int32())
    return value.to_pylist()


def rows_of(condition: Condition) -> list[bool]:
    """The rows that a condition passes."""
    found = [not condition.is_never] * len(ROWS)
    for attribute, passing in condition.attributes:
        found = [was and passes(passing, value) for was, value in zip(found, values(attribute), strict=True)]
    if condition.rest is not None:
        found = [was and value is True for was, value in zip(found, values(condition.rest), strict=True)]
    return found


def check_canonical(condition: Condition) -> None:
    """All that a canonical form promises."""
    texts = [expression.sql for expression, _ in condition.parts]
    assert texts == sorted(set(texts))
    assert not (condition.is_never and condition.parts)
    for expression, passing in condition.parts:
        assert not passing.is_empty
        assert not passing.is_everything
        if isinstance(passing, PassingKeys):
            assert passing.domain == domain_of(expression.type)
            ends = [end for each in passing.ranges for end in each]
            assert ends == sorted(ends)
            assert all(high + 1 < low for high, low in zip(ends[1::2], ends[2::2], strict=False))
            assert not ends or (passing.domain[0] <= ends[0] and ends[-1] <= passing.domain[1])


@given(ANY)
def test_condition_passes_where_the_predicate_is_true(sql: str) -> None:
    predicate = compiled(sql)
    condition = predicate.condition
    check_canonical(condition)
    assert rows_of(condition) == [value is True for value in values(predicate)]
    assert predicate.condition is condition


@cache
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("given", ROWS)
    connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return connection


@given(ANY)
def test_duckdb_agrees(sql: str) -> None:
    """A second opinion on three-valued logic, NaN, and types that are compared with others."""
    answer = database().execute(f"SELECT ({sql}) IS TRUE FROM rows").fetchall()
    assert rows_of(compiled(sql).condition) == [row[0] for row in answer]


@given(ANY)
def test_text_is_sql_that_means_the_same(sql: str) -> None:
    """To read a condition's text gives that condition."""
    condition = compiled(sql).condition
    assert str(compiled(str(condition)).condition) == str(condition)
    if "OR" not in str(condition):  # the rest of an OR has other columns if something fell away
        assert compiled(str(condition)).condition == condition


@given(ANY, ANY)
def test_equal_conditions_pass_the_same_rows(one: str, other: str) -> None:
    """And `both` makes the condition of what AND joins."""
    left, right = compiled(one), compiled(other)
    joined, written = both(left, right), compiled(f"({one}) AND ({other})")
    assert joined is not None
    assert joined.condition == written.condition
    assert hash(joined.condition) == hash(written.condition)
    assert str(joined.condition) == str(written.condition)
    if left.condition == right.condition:
        assert hash(left.condition) == hash(right.condition)
        assert rows_of(left.condition) == rows_of(right.condition)


TINY = st.one_of(
    st.builds(
        "tiny {} {}".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), st.sampled_from(
            ["-200", "-128", "-1", "0", "0.5", "1", "2", "126", "127", "200", "NULL"]
        )
    ),
    st.builds("tiny BETWEEN {} AND {}".format, st.integers(-130, 130), st.integers(-130, 130)),
    st.lists(st.sampled_from(["0", "1", "2", "127", "128", "1.5", "NULL"]), min_size=1).map(
        lambda drawn: f"tiny IN ({', '.join(drawn)})"
    ),
    st.sampled_from(["tiny IS NULL", "tiny IS NOT NULL", "tiny > NULL", "TRUE", "FALSE", "1 > NULL"]),
)  # fmt: skip


@given(predicates(TINY))
def test_one_form_for_each_set(sql: str) -> None:
    """Of a type with few values: the passing set is made of the values for which the predicate is TRUE, whatever it
    looks like. So predicates that pass the same values have one condition."""
    every = [None, *range(-128, 128)]
    predicate, attribute = compiled(sql), compiled("tiny")
    truths = predicate.evaluate({"tiny": pa.array(every, pa.int8())}).to_pylist()
    passing = [value for value, truth in zip(every, truths, strict=True) if truth is True]
    known = [(value, value) for value in passing if value is not None]
    expected = condition_of([(attribute, PassingKeys.at(known, pa.int8(), None in passing))])
    assert predicate.condition == expected
    assert str(predicate.condition) == str(expected)


SAME = [
    ("5 < n", "n > 5", "NOT n <= 5", "n >= 6", "n > 5.5", "n BETWEEN 6 AND 9223372036854775807"),
    ("n = 3", "3 = n", "n IN (3, 3, NULL)", "n >= 3 AND n <= 3", "NOT n <> 3", "n BETWEEN 3 AND 3", "n = 3.0"),
    ("n IN (1, 2, 3)", "n BETWEEN 1 AND 3", "n = 2 OR n = 1 OR n = 3", "n > 0 AND n < 4 AND n IS NOT NULL"),
    ("b", "b = TRUE", "b IS TRUE", "NOT NOT b", "b <> FALSE", "b IN (TRUE)", "TRUE = b", "b AND TRUE", "b OR FALSE"),
    ("NOT b", "b = FALSE", "b IS FALSE", "NOT (b = TRUE)"),
    ("b IS NOT TRUE", "b IS NULL OR NOT b", "b IS DISTINCT FROM TRUE"),
    ("b IN (TRUE, FALSE)", "b IS NOT NULL", "b OR NOT b", "b <= TRUE"),
    ("x < 0", "x < -0.0", "NOT x >= 0.0", "x <= -5e-324"),
    ("x >= 0", "x > -5e-324"),
    ("x = CAST('NaN' AS DOUBLE)", "x > CAST('inf' AS DOUBLE)", "NOT x <= CAST('inf' AS DOUBLE)"),
    ("x IS NOT NULL", "x <= CAST('NaN' AS DOUBLE)", "x < 0 OR x >= 0", "x <> 1 OR x = 1", "x <= -5e-324 OR x > -5e-324",
     "x <= CAST('inf' AS DOUBLE) OR x = CAST('NaN' AS DOUBLE)"),
    ("x <= CAST('inf' AS DOUBLE)", "x <> CAST('NaN' AS DOUBLE)", "x < CAST('NaN' AS DOUBLE)"),
    ("s = 'a'", "s IN ('a')", "NOT s <> 'a'", "s IN ('a', 'b') AND s <> 'b'", "s = 'a' AND s <> 'b'"),
    ("s <> 'a' AND s <> 'b'", "s NOT IN ('b', 'a')", "NOT (s = 'a' OR s = 'b')", "NOT s IN ('a', 'b', 'a')"),
    ("n > 1 AND s = 'a'", "s = 'a' AND 1 < n", "NOT (s <> 'a' OR n <= 1)", "(n > 1 AND s = 'a') IS TRUE"),
    ("n = 1 OR s = 'a'", "s = 'a' OR 1 = n", "NOT (n <> 1 AND s <> 'a')", "s IN ('a') OR (n = 1 OR s = 'a') OR FALSE"),
    ("(n = 1 OR s = 'a') AND i = 2", "i = 2 AND (s = 'a' OR n IN (1))"),
    ("n < i", "NOT NOT n < i", "(n < i) IS TRUE", "(n < i) = TRUE", "n < i AND n < i"),
    ("n < i AND s LIKE 'a%'", "s LIKE 'a%' AND n < i"),
    ("t >= '2024-02-29'", "t > TIMESTAMP '2024-02-28 23:59:59.999999'", "NOT t < DATE '2024-02-29'"),
    ("d > '2024-02-28'", "d >= DATE '2024-02-29'", "d > TIMESTAMP '2024-02-28 12:00:00'",
     "NOT d <= '2024-02-28'"),
    ("(i + 1) = 3", "3 = i + 1", "i + 1 IN (3)"),
    ("(n > 3) IS NULL", "n IS NULL", "(n = 3) IS NULL AND TRUE", "n IS NOT DISTINCT FROM NULL"),
    ("n > 3 AND n < 3", "FALSE", "n > NULL", "NULL = n", "n = 1 AND n = 2", "1 = 2", "s = 'a' AND s = 'b'",
     "n < i AND NOT n < i", "i > 3000000000", "n IN (NULL)", "n NOT IN (1, NULL)", "n BETWEEN 5 AND 2", "b AND NOT b",
     "n = 2.5", "tiny = 200", "n > 9223372036854775807", "FALSE OR n > NULL", "NOT TRUE AND b"),
    ("TRUE", "1 = 1", "n IS NULL OR n IS NOT NULL", "(n > 3) IS NOT NULL OR n IS NULL", "b OR TRUE", "NOT FALSE",
     "b IS NULL OR b OR NOT b", "n = 1 OR s = 'a' OR s <> 'a' OR s IS NULL"),
]  # fmt: skip


@pytest.mark.parametrize("texts", SAME, ids=lambda texts: texts[0])
def test_spelling_does_not_matter(texts: tuple[str, ...]) -> None:
    conditions = {compiled(text).condition for text in texts}
    assert len(conditions) == 1, {text: str(compiled(text).condition) for text in texts}
    assert len({str(condition) for condition in conditions}) == 1


def test_others_differ() -> None:
    """No two of the conditions above are one, and none of these is another."""
    texts = [*(texts[0] for texts in SAME), "n > 6", "n >= 5", "i > 5", "x > 5", "x < 1e-320", "x <= 0", "s = 'A'",
             "s <> 'a'", "n = 1 AND s = 'a'", "n <> 3", "n IS NOT NULL", "n <> 3 OR n IS NULL", "n < i OR n = 1",
             "s LIKE 'b%'", "NOT n < i", "(n < i) IS NULL", "c", "s = 'n = 1 OR s = ''a'''", "n + 1 = 3"]  # fmt: skip
    conditions = [compiled(text).condition for text in texts]
    assert len(set(conditions)) == len(texts)
    assert len(set(map(str, conditions))) == len(texts)


@pytest.mark.parametrize(
    ("sql", "attributes", "rest"),
    [
        ("n > 5 AND s LIKE 'a%' AND n < i", ["n"], "n < i AND s LIKE 'a%'"),
        ("big > 3 AND big IS NOT NULL", ["big"], "big > 3"),
        ("s > 'a' AND s <> 'b'", ["s"], "s > 'a'"),
        ("s = 'a' AND (n = 1 OR i = 2)", ["s"], "(i = 2 OR n = 1) IS TRUE"),
        ("NOT (n < i) AND b", ["b"], "NOT (n < i)"),
        ("(n < i) IS NULL AND (x < f) IS NOT FALSE", [], "(n < i) IS NULL AND NOT ((x < f) IS FALSE)"),
        ("COALESCE(b, c) = TRUE", [], "COALESCE(b, c)"),
        ("d > TIMESTAMP '2024-01-01'", ["d"], None),
        ("UPPER(s) = 'A' AND i + 1 > 3", ["UPPER(s)", "i + 1"], None),
    ],
)
def test_what_is_rest(sql: str, attributes: list[str], rest: str | None) -> None:
    """And what the rest computes and is written as, for runtimes with an evaluator of their own."""
    condition = compiled(sql).condition
    assert [attribute.sql for attribute, _ in condition.attributes] == attributes
    assert (None if condition.rest is None else condition.rest.sql) == rest
    if condition.rest is not None:
        again = compiled(condition.rest.tree.sql())
        assert values(again) == values(condition.rest)
        assert condition.rest.condition.rest == condition.rest


def test_points_and_band() -> None:
    """What indexes ask a passing set for."""
    few = compiled("n IN (3, 1, 2, 9)").condition.attributes[0][1]
    assert (few.points(), few.points(3), few.band) == ((1, 2, 3, 9), None, None)
    texts = compiled("s IN ('b', 'a') OR s IS NULL").condition.of(compiled("s"))
    assert texts is not None
    assert (texts.points(), texts.points(1), texts.has_null) == (("a", "b"), None, True)
    assert texts.known.points() == ("a", "b")
    assert not texts.known.has_null
    assert texts.complement.points() is None
    band = compiled("NOT n > 5").condition.band
    assert band is not None
    assert (band.attribute, band.low, band.high) == (compiled("n"), -(2**63), 5)
    for sql in ("n <= 5 OR n IS NULL", "n <> 3", "b", "s = 'a'", "n = 1 AND i = 1", "n < i", "TRUE", "FALSE"):
        assert compiled(sql).condition.band is None


def test_integers_compared_as_double_are_rounded() -> None:
    """2**53 + 3 and 2**53 + 5 are no DOUBLE: both become 2**53 + 4, to which they are equal."""
    equal, above = (compiled(f"n {symbol} 9007199254740996e0").condition.parts[0][1] for symbol in "=>")
    assert equal.points() == (2**53 + 3, 2**53 + 4, 2**53 + 5)
    assert above.band == (2**53 + 6, 2**63 - 1)


def test_expression_without_truth_value_has_none() -> None:
    with pytest.raises(TypeError, match=r"n \+ 1 is no predicate"):
        _ = compiled("n + 1").condition


def test_nested_deep() -> None:
    """Both sides of a predicate are asked for at every level, and found once."""
    deep = "n > 1"
    for _ in range(40):
        deep = f"({deep}) IS NULL"
    assert compiled(deep).condition.is_never


def test_nested_too_deep_is_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A predicate that could be read has a condition, also with less of the stack left."""

    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(conditions._Reader, "condition", fail)
    predicate = compiled("n > 1 AND s = 'a'")
    assert (predicate.condition.attributes, predicate.condition.rest) == ((), predicate)


def test_warm_is_cold() -> None:
    """A query of a known shape has the condition that parsing its text gives."""
    streams = {"s": Stream("s", pa.schema([("ts", pa.timestamp("us")), *TYPES.items()]), "ts")}
    templates = shared_templates()
    patterns = ("s = '{t}' AND n > {v}", "n + {v} > {v} AND x < {v}.5", "n BETWEEN {v} AND 7 OR s = '{t}'",
                "NOT (n <= {v} OR i = {v}) AND (b OR n + {v} = 3)", "n IN ({v}, 3, 8)", "tiny = {v}")  # fmt: skip
    for pattern in patterns:
        for at in range(8):
            where = pattern.format(t=f"t{at}", v=at * 40)
            text = f"SELECT COUNT(*) FROM s [RANGE {at + 1} MINUTES] WHERE {where}"
            warm, cold = parse_query(text, streams, templates), parse_query(text, streams)
            assert warm.where is not None
            assert cold.where is not None
            assert warm.where.condition == cold.where.condition, text
            assert warm.where.condition == compiled(where).condition
            for (one, _), (other, _) in zip(
                warm.where.condition.parts, compiled(where).condition.parts, strict=True
            ):
                assert one.tree.sql() == other.tree.sql()
