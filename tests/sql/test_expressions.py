"""Expressions mean what DuckDB means, on random columns with NULL, NaN and extremes."""

from __future__ import annotations

import math
import random
import re
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

from muntin.errors import MuntinError, SqlError
from muntin.sql import parse_expression

ROWS = 400
WORDS = [
    "",
    "a",
    "A",
    "ab",
    "aB%",
    "a_b",
    "  ab ",
    "été",
    "ÉTÉ",
    "x\\y",
    "line\nbreak",
    "AAPL",
    "apple",
    "100%",
]


def _events() -> pa.Table:
    rng = random.Random(7)

    def maybe(draw):
        return [None if rng.random() < 0.15 else draw() for _ in range(ROWS)]

    def real():
        special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5]
        return rng.choice(special) if rng.random() < 0.3 else rng.uniform(-50, 50)

    def instant():
        return datetime(1969, 1, 1) + timedelta(microseconds=rng.randrange(2_000_000_000_000_000))

    def integer():
        return rng.choice([0, 1, -1, 7, -7, rng.randrange(-1000, 1000)])

    return pa.table(
        {
            "i": pa.array(maybe(integer), pa.int64()),
            "j": pa.array(maybe(integer), pa.int64()),
            "n": pa.array(maybe(integer), pa.int16()),
            "x": pa.array(maybe(real), pa.float64()),
            "y": pa.array(maybe(real), pa.float64()),
            "s": pa.array(maybe(lambda: rng.choice(WORDS)), pa.string()),
            "u": pa.array(maybe(lambda: rng.choice(WORDS)), pa.string()),
            "num": pa.array(maybe(lambda: rng.choice(["1", "-20", "abc", "9223372036854775808", "", "7"]))),
            "b": pa.array(maybe(lambda: rng.random() < 0.5), pa.bool_()),
            "c": pa.array(maybe(lambda: rng.random() < 0.5), pa.bool_()),
            "ts": pa.array(maybe(instant), pa.timestamp("us")),
            "t2": pa.array(maybe(instant), pa.timestamp("us")),
            "d": pa.array(maybe(lambda: instant().date()), pa.date32()),
        }
    )


EVENTS = _events()
TYPES = {field.name: field.type for field in EVENTS.schema}
COLUMNS = {name: EVENTS[name].combine_chunks() for name in EVENTS.column_names}

SAME_AS_DUCKDB = """
i + j
i - j * 2
i * j
-i
-x + y
i + n
x * i - y
i / j
x / y
i / 0
i % j
n % 7
-7 % i
x % 3.5
(i + j) * (i - j)
i + j - (i - j)
1 + 2 * 3
i = j
i <> j
i != 7
i < j
i <= j
x < y
x <= y
x > y
x >= y
x = y
x <> y
x > 10
x >= 0.5
x < 0.5
10 > x
x = i
i > 0.5
n < 100
n > 100000
s < u
s = 'ab'
'a' <= s
ts < t2
ts >= TIMESTAMP '2000-01-01 00:00:00'
ts > '2000-06-01'
d < DATE '2000-01-01'
d = '2001-01-01'
d <= ts
b = c
i BETWEEN -5 AND j
x BETWEEN y AND 10
x NOT BETWEEN -1 AND 1
s BETWEEN 'a' AND 'b'
i IN (1, 7, -7)
i NOT IN (1, 7, -7)
i IN (1, NULL)
i NOT IN (1, NULL)
i IN (j, 7)
x IN (0.5, 1.5, 0)
x IN (y, 2)
s IN ('a', 'AAPL', 'it''s')
s NOT IN ('a')
i IN (NULL)
s LIKE 'a%'
s LIKE '%b%'
s LIKE '_b'
s NOT LIKE 'a%'
s LIKE 'x\\y'
s LIKE '100!%' ESCAPE '!'
s LIKE 'a!_%' ESCAPE '!'
s LIKE '%'
s LIKE 'line%break'
s ILIKE 'a%'
s NOT ILIKE 'A_'
i IS NULL
i IS NOT NULL
NOT i IS NULL
b IS TRUE
b IS NOT TRUE
b IS FALSE
x > 0 IS TRUE
i IS DISTINCT FROM j
i IS NOT DISTINCT FROM j
x IS NOT DISTINCT FROM y
s IS DISTINCT FROM u
b AND c
b OR c
NOT b
NOT b AND c
b AND NULL
b OR NULL
NOT (b OR c) AND i > 0
i > 0 AND x < 0 OR s = 'a'
i > 0 AND (x < 0 OR s = 'a')
CASE WHEN i > 0 THEN 1 WHEN i < 0 THEN -1 ELSE 0 END
CASE WHEN i > 0 THEN x END
CASE i WHEN 1 THEN 'one' WHEN j THEN 'same' ELSE s END
CASE WHEN b THEN NULL WHEN c THEN i ELSE x END
CASE WHEN i BETWEEN -99 AND 99 THEN i * 92233720368547758 ELSE 0 END
CAST(i AS DOUBLE)
CAST(n AS BIGINT) * 1000
CAST(b AS BIGINT)
CAST(i AS BOOLEAN)
CAST(i AS VARCHAR)
CAST(s AS VARCHAR)
CAST(CASE WHEN x BETWEEN -50 AND 50 THEN x END AS BIGINT)
i::DOUBLE / 2
CAST('12' AS BIGINT) + i
CAST(ts AS DATE)
CAST(d AS TIMESTAMP)
CAST(TIMESTAMP '2020-02-03 04:05:06' AS DATE)
TRY_CAST(num AS BIGINT)
TRY_CAST(num AS DOUBLE)
TRY_CAST(x AS BIGINT)
TRY_CAST(s AS BOOLEAN)
COALESCE(i, j, 0)
COALESCE(x, i)
COALESCE(s, u, 'none')
NULLIF(i, j)
NULLIF(x, 0.5)
NULLIF(s, 'a')
ABS(i)
ABS(x)
ROUND(x)
ROUND(x, 1)
ROUND(i)
ROUND(i, -1)
FLOOR(x)
CEIL(x)
CEILING(x)
SQRT(ABS(x))
LN(NULLIF(ABS(x), 0))
EXP(x / 100)
POWER(i, 2)
POWER(ABS(x), 0.5)
POW(x, 2)
SIGN(i)
MOD(i, 7)
LEAST(i, j, 3)
GREATEST(i, j)
LEAST(x, y)
GREATEST(x, y, 0)
GREATEST(s, u)
UPPER(s)
LOWER(s)
LENGTH(s)
TRIM(s)
TRIM(BOTH 'a' FROM s)
TRIM(LEADING ' ' FROM s)
TRIM(TRAILING FROM s)
SUBSTRING(s, 2)
SUBSTRING(s, 1, 2)
SUBSTRING(s FROM 2 FOR 1)
SUBSTR(s, 3, 10)
s || u
s || '-' || u
CONCAT(s, '-', u)
CONCAT(s, NULL)
s || NULL
UPPER(s) || LOWER(u) = 'AA'
EXTRACT(YEAR FROM ts)
EXTRACT(month FROM ts)
EXTRACT(day FROM ts)
EXTRACT(hour FROM ts)
EXTRACT(minute FROM ts)
EXTRACT(second FROM ts)
EXTRACT(dow FROM ts)
EXTRACT(week FROM ts)
EXTRACT(quarter FROM ts)
EXTRACT(millisecond FROM ts)
EXTRACT(microsecond FROM ts)
EXTRACT(year FROM d)
EXTRACT(dow FROM d)
DATE_TRUNC('second', ts)
DATE_TRUNC('minute', ts)
DATE_TRUNC('hour', ts)
DATE_TRUNC('day', ts)
DATE_TRUNC('week', ts)
DATE_TRUNC('month', ts)
DATE_TRUNC('year', ts)
DATE_TRUNC('month', d)
ts + INTERVAL '5 minutes'
ts - INTERVAL 90 SECOND
ts + INTERVAL '1' DAY
INTERVAL '1 hour 30 minutes' + ts
ts - t2 > INTERVAL '1 day'
ts BETWEEN t2 - INTERVAL '30 days' AND t2
d + INTERVAL '1 hour'
d - INTERVAL 36 HOUR
i // j
-7 // i
n // 3
i // 0
i // 2 * 2 + i % 2
i & j
i | j
XOR(i, j)
~i
~i + 1
(~i) + 1
~(i & j) | n & 3
n & 255
i & j + 1
ABS(i) << 3
ABS(i) << ABS(j) % 50
i >> j
i >> 2
-8 >> 70
1 << 2 + 1 > i
XOR(i, NULL)
LOG(NULLIF(ABS(x), 0))
LOG(2, NULLIF(ABS(i), 0))
LOG(NULLIF(ABS(x), 0), 1 + ABS(i))
LEFT(s, 2)
LEFT(s, 0)
LEFT(s, -1)
LEFT(s, -20)
RIGHT(s, 2)
RIGHT(s, 20)
RIGHT(s, 0)
RIGHT(s, -1)
RIGHT(s, -20)
LEFT(s, 1) || RIGHT(u, 1)
REPLACE(s, 'a', 'été')
REPLACE(s, 'a', '')
REPLACE(s, '', 'x')
REPLACE(s, 'été', '.')
STARTS_WITH(s, 'a')
STARTS_WITH(s, '')
STARTS_WITH(s, 'é')
NOT STARTS_WITH(s, 'A')
SPLIT_PART(s, 'b', 1)
SPLIT_PART(s, 'b', 2)
SPLIT_PART(s, 'A', -1)
SPLIT_PART(s, 'A', -3)
SPLIT_PART(s, 'é', 2)
SPLIT_PART(s, ' ', 0)
SPLIT_PART(s, 'pp', 9)
SPLIT_PART(s, '', 2)
SPLIT_PART(s, '', -1)
SPLIT_PART(s, '', -2)
SPLIT_PART(s, '', 0)
REGEXP_MATCHES(s, '^a.')
REGEXP_MATCHES(s, 'A', 'i')
REGEXP_MATCHES(s, 'A', 'c')
REGEXP_MATCHES(s, 'line.break')
REGEXP_MATCHES(s, 'LINE.break$', 'is')
REGEXP_MATCHES(s, '')
REGEXP_MATCHES(s, '[[:upper:]]|%')
REGEXP_EXTRACT(s, '[a-z]+')
REGEXP_EXTRACT(s, '(.)(.)', 2)
REGEXP_EXTRACT(s, 'p(l)?', 1)
REGEXP_EXTRACT(s, 'a*?(b|p)+', 1)
REGEXP_EXTRACT(s, '(A)|(p)', 2)
REGEXP_EXTRACT(s, 'E(.)|A', 0, 'i')
REGEXP_EXTRACT(s, '')
REGEXP_EXTRACT(s, 'break$')
REGEXP_EXTRACT('k=v', '(.)=(.)', 2) = s
TIME_BUCKET(INTERVAL '7 minutes', ts)
TIME_BUCKET(INTERVAL '1 day', ts)
TIME_BUCKET(INTERVAL '1 week', ts)
TIME_BUCKET(INTERVAL '3 microseconds', ts)
TIME_BUCKET(INTERVAL '2 hours', ts, INTERVAL '30 minutes')
TIME_BUCKET(INTERVAL '2 hours', ts, INTERVAL '-30 minutes')
TIME_BUCKET(INTERVAL '90 minutes', ts, TIMESTAMP '2031-01-01 01:05:00')
TIME_BUCKET(INTERVAL '5 days', d)
TIME_BUCKET(INTERVAL '7 hours', d)
TIME_BUCKET(INTERVAL '1 hour', TIMESTAMP '2020-01-01 00:05:00') < ts
TRUE
1
'text'
NULL IS NULL
NULL = i
i + NULL
"x" > 0 and S is null
""".strip().splitlines()


def same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) or isinstance(theirs, float):
        if ours is None or theirs is None:
            return ours is theirs
        if math.isnan(float(ours)) or math.isnan(float(theirs)):
            return math.isnan(float(ours)) and math.isnan(float(theirs))
        return math.isclose(float(ours), float(theirs), rel_tol=1e-12, abs_tol=1e-12)
    return ours == theirs


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.execute("SET error_on_division_by_zero = false; SET ieee_floating_point_ops = false")
        connection.register("arrow_events", EVENTS)
        connection.execute("CREATE TABLE events AS SELECT * FROM arrow_events")
        yield connection


@pytest.mark.parametrize("text", SAME_AS_DUCKDB)
def test_same_as_duckdb(text, duck):
    expression = parse_expression(text, TYPES)
    ours = expression.evaluate(COLUMNS)
    assert ours.type == expression.type
    assert len(ours) == ROWS
    theirs = [row[0] for row in duck.execute(f"SELECT {text} FROM events").fetchall()]
    wrong = [
        (o, t, n) for n, (o, t) in enumerate(zip(ours.to_pylist(), theirs, strict=True)) if not same(o, t)
    ]
    assert not wrong[:5], f"{len(wrong)} rows differ (ours, DuckDB's, row)"


@pytest.mark.parametrize("text", SAME_AS_DUCKDB)
def test_canonical_text_parses_back_to_itself(text):
    expression = parse_expression(text, TYPES)
    again = parse_expression(expression.sql, TYPES)
    assert again == expression
    pairs = zip(again.evaluate(COLUMNS).to_pylist(), expression.evaluate(COLUMNS).to_pylist(), strict=True)
    assert all(same(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize("text", SAME_AS_DUCKDB)
def test_no_rows(text):
    expression = parse_expression(text, TYPES)
    empty = expression.evaluate({name: values.slice(0, 0) for name, values in COLUMNS.items()})
    assert (len(empty), empty.type) == (0, expression.type)


def values(text, **columns):
    arrays = {
        name: value if isinstance(value, pa.Array) else pa.array(value) for name, value in columns.items()
    }
    expression = parse_expression(text, {name: array.type for name, array in arrays.items()})
    result = expression.evaluate(arrays)
    assert result.type == expression.type
    return result.to_pylist()


def test_what_has_no_value_is_null():
    assert values("x / y", x=[1.0, 0.0, None], y=[0.0, 0.0, 0.0]) == [None, None, None]
    assert values("i / j", i=[1, 3], j=[0, 2]) == [None, 1.5]
    assert values("i % j", i=[1, 7, -7], j=[0, 4, 4]) == [None, 3, -3]
    assert values("x % y", x=[1.0, 7.5], y=[0.0, 2.0]) == [None, 1.5]
    assert values("i % -1", i=[-(2**63), 5]) == [0, 0]
    assert values("SQRT(x)", x=[-1.0, 4.0, None]) == [None, 2.0, None]
    assert values("LN(x)", x=[-1.0, 0.0, 1.0]) == [None, None, 0.0]


def test_operations_on_bits_take_64_of_them():
    assert values("i << 62", i=[1, 0, None]) == [2**62, 0, None]
    assert values("i << 64", i=[0, None]) == [0, None]
    assert values("i >> j", i=[-(2**63), -1, 8, 8], j=[63, 64, -1, 3]) == [-1, 0, 0, 1]
    assert values("~i", i=[2**63 - 1]) == [-(2**63)]
    assert values("XOR(u, 1)", u=pa.array([255], pa.uint8())) == [254]
    for text in ("i << 63", "i << 64", "i << 1000", "(i + 1) << 62", "i // -1 - 1 + i * 9223372036854775807"):
        with pytest.raises(MuntinError, match="exceeds 64 bits"):
            values(text, i=[1, None] if "<<" in text else [-2])
    for text in ("-i << 1", "i << -1", "-i << 0"):
        with pytest.raises(MuntinError, match="<< takes no negative numbers"):
            values(text, i=[1])
    with pytest.raises(MuntinError, match="exceeds 64 bits"):
        values("i // -1", i=[-(2**63)])


def test_what_duckdb_refuses_is_null():
    assert values("LOG(x)", x=[0.0, -1.0, 1000.0]) == [None, None, pytest.approx(3)]
    assert values("LOG(b, x)", b=[1.0, 0.0, -2.0, 2.0], x=[8.0, 8.0, 8.0, 8.0]) == [None, None, None, 3.0]


def test_time_buckets_of_other_units_are_in_microseconds():
    assert values("TIME_BUCKET(INTERVAL '1 hour', t)", t=pa.array([3_599, None], pa.timestamp("s"))) == [
        datetime(1970, 1, 1),
        None,
    ]
    zoned = pa.array([3_600_000_001], pa.timestamp("us", tz="UTC"))
    kind = parse_expression("TIME_BUCKET(INTERVAL '1 hour', t)", {"t": zoned.type}).type
    assert kind == zoned.type


def test_nan_is_above_all_numbers_and_equal_to_itself():
    columns = {"x": [math.nan, math.inf, 1.0], "y": [math.nan, math.nan, math.nan]}
    assert values("x > 5", **columns) == [True, True, False]
    assert values("x <= 5", **columns) == [False, False, True]
    assert values("x = y", **columns) == [True, False, False]
    assert values("x < y", **columns) == [False, True, True]
    assert values("x BETWEEN 0 AND 9", **columns) == [False, False, True]


def test_three_valued_logic():
    three = [True, False, None]
    a, b = [x for x in three for _ in three], three * 3
    assert values("a AND b", a=a, b=b) == [True, False, None, False, False, False, None, False, None]
    assert values("a OR b", a=a, b=b) == [True, True, True, True, False, None, True, None, None]
    assert values("NOT a", a=three) == [False, True, None]


@pytest.mark.parametrize(
    "text", ["i + 1", "i * 2", "-(-i - 1)", "i - -1", "ABS(-i - 1)", "CAST(i AS INTEGER)"]
)
def test_an_integer_that_does_not_fit_is_an_error_of_the_push(text):
    with pytest.raises(MuntinError, match="^" + re.escape(parse_expression(text, {"i": pa.int64()}).sql)):
        values(text, i=[1, 2**63 - 1])


def test_narrow_integers_compute_in_64_bits():
    assert values("n * 1000 + n", n=pa.array([32767, None], pa.int16())) == [32_799_767, None]
    assert parse_expression("n", {"n": pa.int16()}).type == pa.int16()


def test_a_cast_that_fails_is_an_error_and_try_cast_is_null():
    with pytest.raises(MuntinError, match="CAST"):
        values("CAST(s AS BIGINT)", s=["1", "x"])
    texts = [" 1", "+2", "x", "9223372036854775807", "9223372036854775808", "1.5", None]
    assert values("TRY_CAST(s AS BIGINT)", s=texts) == [1, 2, None, 2**63 - 1, None, None, None]
    assert values("TRY_CAST(s AS DOUBLE)", s=["1e3", "-.5", "x"]) == [1000.0, -0.5, None]
    assert values("TRY_CAST(i AS SMALLINT)", i=[1, 40_000]) == [1, None]
    assert values("TRY_CAST(s AS TIMESTAMP) IS NULL", s=["2020-02-29", "2020-02-30", "soon"]) == [
        False,
        True,
        True,
    ]


def test_case_shields_its_branches():
    big = [3, 2**62, None]
    assert values("CASE WHEN i < 100 THEN i * i ELSE -1 END", i=big) == [9, -1, -1]
    assert values("CASE i WHEN 3 THEN i * i WHEN 4 THEN 0 END", i=big) == [9, None, None]
    with pytest.raises(MuntinError):
        values("CASE WHEN i > 0 THEN i * i END", i=big)


def test_constants_fill_the_batch():
    assert values("1 + 2 * 3", x=[None, None]) == [7, 7]
    assert values("'a' || 'b'", x=[1.0]) == ["ab"]
    assert values("NULL", x=[1.0, 2.0]) == [None, None]
    assert values("CASE WHEN TRUE THEN 1 END", x=[1.0]) == [1]


def test_columns_of_other_arrow_types():
    symbols = pa.array(["a", "b", None]).dictionary_encode()
    assert values("s = 'a'", s=symbols) == [True, False, None]
    assert values("UPPER(s)", s=symbols) == ["A", "B", None]
    assert values("s = 'a'", s=pa.array(["a", "b"], pa.large_string())) == [True, False]
    instants = pa.array([0, 3_600_000_000_000], pa.timestamp("ns"))
    assert values("t + INTERVAL '1 hour' > TIMESTAMP '1970-01-01 01:30:00'", t=instants) == [False, True]
    zoned = pa.array([0, 3_600_000_000], pa.timestamp("us", tz="UTC"))
    assert values("t >= '1970-01-01T01:00:00Z'", t=zoned) == [False, True]
    assert values("t >= '1970-01-01 01:00:00'", t=zoned) == [False, True]
    assert values("t >= TIMESTAMP '1970-01-01 01:00:00'", t=zoned) == [False, True]
    assert values("x * 2", x=pa.array([1.5], pa.float32())) == [3.0]
    assert values("u > 5", u=pa.array([2**64 - 1, 3], pa.uint64())) == [True, False]


def test_differences_of_times():
    first, last = datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 5)
    assert values("b - a", a=[first], b=[last]) == [timedelta(minutes=5)]
    assert values("b - a >= INTERVAL '1 minute' * 5", a=[first], b=[last]) == [True]
    assert values("-(b - a)", a=[first], b=[last]) == [timedelta(minutes=-5)]


CANONICAL = [
    ("PRICE*2>3", "price * 2 > 3"),
    ("((price))", "price"),
    ("(price > 1) and ((shares < 2) AND TRUE)", "price > 1 AND shares < 2 AND TRUE"),
    ("(price > 1 or shares < 2) and true", "(price > 1 OR shares < 2) AND TRUE"),
    ("price-(shares-1)", "price - (shares - 1)"),
    ("(price-shares)-1", "price - shares - 1"),
    ("not(price>1)", "NOT price > 1"),
    ("price!=1", "price <> 1"),
    ("price == 1.50", "price = 1.5"),
    ("-(-price)", "-(-price)"),
    ("symbol in('a','it''s')", "symbol IN ('a', 'it''s')"),
    ("symbol not like 'a%'", "symbol NOT LIKE 'a%'"),
    ("price is not null", "price IS NOT NULL"),
    ("cast(price as int)", "CAST(price AS INTEGER)"),
    ("price::bigint", "CAST(price AS BIGINT)"),
    ("ts+interval 300 second", "ts + INTERVAL '5 MINUTES'"),
    ("ceiling(price)", "CEIL(price)"),
    ("mod(shares,7)", "shares % 7"),
    ("ifnull(price,0)", "COALESCE(price, 0)"),
    ("extract(Hour from ts)", "EXTRACT(HOUR FROM ts)"),
    ("case when price>1 then 1 end", "CASE WHEN price > 1 THEN 1 ELSE NULL END"),
    ("price > 1 -- cheap", "price > 1"),
]


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical_text(text, canonical):
    types = {"ts": pa.timestamp("us"), "symbol": pa.string(), "price": pa.float64(), "shares": pa.int64()}
    assert parse_expression(text, types).sql == canonical


def test_the_columns_an_expression_reads():
    expression = parse_expression("y > x + y", {"x": pa.int64(), "y": pa.int64(), "z": pa.int64()})
    assert expression.columns == ("x", "y")
    assert not expression.is_column
    assert parse_expression("(x)", {"x": pa.int64()}).is_column


def test_wrong_types_are_found_without_any_event():
    with pytest.raises(SqlError, match="cannot be compared"):
        parse_expression("s > 3", {"s": pa.string()})


def test_a_long_list_of_conditions():
    text = " OR ".join(f"i = {n}" for n in range(700))
    assert values(text, i=[3, 699, 700, None]) == [True, True, False, None]


FORMS = """
{} + {}
{} - {}
{} * {}
{} / {}
{} % {}
-{}
({})
{} = {}
{} < {}
{} >= {}
{} IS NULL
{} IS NOT NULL
{} IS DISTINCT FROM {}
{} BETWEEN {} AND {}
{} IN ({}, {})
{} LIKE 'a%'
{} AND {}
{} OR {}
NOT {}
CASE WHEN {} THEN {} ELSE {} END
CASE {} WHEN {} THEN {} END
COALESCE({}, {})
NULLIF({}, {})
LEAST({}, {})
GREATEST({}, {}, {})
ABS({})
ROUND({}, 1)
FLOOR({})
SQRT({})
POWER({}, {})
SIGN({})
UPPER({})
LENGTH({})
SUBSTRING({}, 2)
LEFT({}, 2)
SPLIT_PART({}, 'a', -1)
REGEXP_EXTRACT({}, 'a(.)', 1)
{} // {}
{} & {}
~{}
{} << {}
XOR({}, {})
LOG({}, {})
TIME_BUCKET(INTERVAL '5 days', {})
{} || {}
CONCAT({}, {})
EXTRACT(hour FROM {})
DATE_TRUNC('day', {})
CAST({} AS BIGINT)
TRY_CAST({} AS DOUBLE)
TRY_CAST({} AS VARCHAR)
TRY_CAST({} AS TIMESTAMP)
TRY_CAST({} AS BOOLEAN)
""".strip().splitlines()


def _random_expression(rng, depth):
    if depth == 0:
        return rng.choice(
            [*TYPES, "1", "0", "2.5", "'a'", "'2020-01-01'", "NULL", "TRUE", "INTERVAL '1 day'"]
        )

    def part():
        return _random_expression(rng, depth - rng.choice([1, 1, 2]) if depth > 1 else 0)

    form = rng.choice(FORMS)
    return form.format(*[part() for _ in range(form.count("{}"))])


def test_random_expressions_fail_only_as_they_should():
    """Wrong types at parse time; at run time nothing but values that do not fit."""
    rng = random.Random(3)
    good = 0
    for _ in range(1_500):
        text = _random_expression(rng, rng.choice([1, 1, 2, 3]))
        try:
            expression = parse_expression(text, TYPES)
        except SqlError:
            continue
        good += 1
        assert parse_expression(expression.sql, TYPES) == expression, text
        try:
            result = expression.evaluate(COLUMNS)
        except MuntinError as error:
            fits = ("exceeds 64 bits", "CAST", "<< takes no negative")
            assert any(each in str(error) for each in fits), f"{text}: {error}"
            continue
        assert result.type == expression.type, text
        assert len(result) == ROWS, text
    assert good > 200
