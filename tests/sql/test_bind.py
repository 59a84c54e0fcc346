"""From SELECT to Query: the screening queries, names, keys, aliases and sharing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.aggregates import AGGREGATES
from muntin.sql import parse_query
from muntin.stream import Stream
from muntin.window import Window

FALLING = """
    SELECT symbol, LAST(price) AS price, LAST(price) / FIRST(price) - 1 AS change
    FROM trades [RANGE 20 MINUTES]
    WHERE exchange = 'NASDAQ'
    GROUP BY symbol
    HAVING LAST(price) BETWEEN 20 AND 200
       AND LAST(price) < 0.98 * FIRST(price)
       AND SUM(shares) FILTER (WHERE side = 'ask') OVER [RANGE 2 MINUTES]
           >= 0.7 * SUM(shares) OVER [RANGE 2 MINUTES]"""

VOLATILE = """
    SELECT symbol, MAX(price) AS high, MIN(price) AS low, LAST(price) AS price
    FROM trades [RANGE 30 MINUTES]
    GROUP BY symbol
    HAVING LAST(price) BETWEEN 20 AND 200
       AND MAX(price) - MIN(price) > 0.03 * LAST(price)
       AND AVG(shares) OVER [RANGE 5 MINUTES] > 4 * AVG(shares) OVER [RANGE 30 MINUTES TO 5 MINUTES]"""

MINUTE = 60_000_000


def names(query):
    return [key.name for key in query.keys], [output.name for output in query.outputs]


def test_falling_prices(streams):
    query = parse_query(FALLING, streams)
    assert query.text == FALLING.strip()
    assert query.window == Window("time", 20 * MINUTE)
    assert query.where.sql == "exchange = 'NASDAQ'"
    assert [str(call) for call in query.calls] == [
        "LAST(price) OVER [RANGE 20 MINUTES]",
        "FIRST(price) OVER [RANGE 20 MINUTES]",
        "SUM(shares) FILTER (WHERE side = 'ask') OVER [RANGE 2 MINUTES]",
        "SUM(shares) OVER [RANGE 2 MINUTES]",
    ]
    assert names(query) == (["symbol"], ["price", "change"])
    assert [output.expression.sql for output in query.outputs] == ["$0", "$0 / $1 - 1"]
    assert query.having.sql == "$0 BETWEEN 20 AND 200 AND $0 < 0.98 * $1 AND $2 >= 0.7 * $3"
    answers = {
        "symbol": pa.array(["A", "B", "C", "D"]),
        "$0": pa.array([90.0, 99.0, 90.0, 10.0]),
        "$1": pa.array([100.0, 100.0, 100.0, 100.0]),
        "$2": pa.array([7, 9, 6, 9]),
        "$3": pa.array([10, 10, 10, 10]),
    }
    assert query.having.evaluate(answers).to_pylist() == [True, False, False, False]
    assert query.outputs[1].expression.evaluate(answers).to_pylist() == pytest.approx(
        [-0.1, -0.01, -0.1, -0.9]
    )


def test_volatile_prices(streams):
    query = parse_query(VOLATILE, streams)
    assert [str(call) for call in query.calls] == [
        "MAX(price) OVER [RANGE 30 MINUTES]",
        "MIN(price) OVER [RANGE 30 MINUTES]",
        "LAST(price) OVER [RANGE 30 MINUTES]",
        "AVG(shares) OVER [RANGE 5 MINUTES]",
        "AVG(shares) OVER [RANGE 30 MINUTES TO 5 MINUTES]",
    ]
    assert query.having.sql == "$2 BETWEEN 20 AND 200 AND $0 - $1 > 0.03 * $2 AND $3 > 4 * $4"
    assert query.answer_schema().names == [
        "symbol", "high", "low", "price", "window_start", "window_end", "complete",
    ]  # fmt: skip


FUNCTIONS = [
    ("SUM(shares)", "sum", (), pa.int64()),
    ("sum(price)", "sum", (), pa.float64()),
    ("COUNT(*)", "count", (), pa.int64()),
    ("COUNT(symbol)", "count", (), pa.int64()),
    ("COUNT(DISTINCT symbol)", "count_distinct", (), pa.int64()),
    ("AVG(shares)", "avg", (), pa.float64()),
    ("MIN(symbol)", "min", (), pa.string()),
    ("MAX(ts)", "max", (), pa.timestamp("us")),
    ("FIRST(price)", "first", (), pa.float64()),
    ("LAST(side)", "last", (), pa.string()),
    ("VAR_POP(price)", "var_pop", (), pa.float64()),
    ("VAR_SAMP(price)", "var_samp", (), pa.float64()),
    ("VARIANCE(price)", "var_samp", (), pa.float64()),
    ("STDDEV(price)", "stddev_samp", (), pa.float64()),
    ("STDDEV_POP(price)", "stddev_pop", (), pa.float64()),
    ("STDDEV_SAMP(price)", "stddev_samp", (), pa.float64()),
    ("QUANTILE(shares, 0.99)", "quantile", (0.99,), pa.int64()),
    ("MEDIAN(price)", "quantile", (0.5,), pa.float64()),
    ("MODE(symbol)", "mode", (), pa.string()),
    ("ARG_MAX(symbol, price)", "arg_max", (), pa.string()),
    ("MIN_BY(ts, shares)", "arg_min", (), pa.timestamp("us")),
]


@pytest.mark.parametrize(("text", "function", "parameters", "kind"), FUNCTIONS)
def test_functions(text, function, parameters, kind, streams):
    (call,) = (query := parse_query(f"SELECT {text} FROM trades [ROWS 5]", streams)).calls
    assert (call.function, call.parameters) == (function, parameters)
    assert query.outputs[0].expression.type == kind


def test_the_table_above_covers_the_exact_aggregates():
    exact = {name for name in AGGREGATES if not name.startswith("approx")}
    assert {function for _, function, _, _ in FUNCTIONS} == exact


def test_equal_calls_share_one_number_however_they_are_written(streams):
    query = parse_query(
        "SELECT SUM(price*2), sum( (PRICE) * 2 ), SUM(trades.price * 2) FILTER (WHERE TRUE), MEDIAN(price), "
        "QUANTILE(price, 0.50) FROM trades [ROWS 5]",
        streams,
    )
    assert [output.expression.sql for output in query.outputs] == ["$0", "$0", "$1", "$2", "$2"]


def test_equal_expressions_share_one_evaluate(streams):
    first = parse_query("SELECT SUM(price * 2) FROM trades [ROWS 5] WHERE side = 'ask'", streams)
    second = parse_query("SELECT AVG(Price*2) FROM trades [ROWS 9] WHERE (SIDE='ask')", streams)
    assert first.where is second.where
    assert first.calls[0].argument is second.calls[0].argument


def test_default_names(streams):
    query = parse_query(
        "SELECT symbol, SUM(shares), COUNT(*), COUNT(DISTINCT side), SUM(shares) OVER [ROWS 9], "
        "MAX(price) + 1, SUM(price * shares), MEDIAN(price) FROM trades [ROWS 5] GROUP BY symbol",
        streams,
    )
    assert names(query) == (
        ["symbol"],
        ["sum_shares", "count", "count_distinct_side", "sum_shares_2", "column_6", "sum", "median_price"],
    )


def test_aliases_with_and_without_as(streams):
    query = parse_query('SELECT COUNT(*) total, MAX(price) AS "High Price" FROM trades [ROWS 5]', streams)
    assert names(query) == ([], ["total", "High Price"])


def test_keys_come_first_and_in_group_by_order(streams):
    query = parse_query(
        "SELECT COUNT(*) AS n, side, symbol FROM trades [ROWS 5] GROUP BY symbol, side", streams
    )
    assert names(query) == (["symbol", "side"], ["n"])


def test_a_key_need_not_be_selected(streams):
    query = parse_query("SELECT COUNT(*) AS n FROM trades [ROWS 5] GROUP BY symbol", streams)
    assert names(query) == (["symbol"], ["n"])


def test_a_key_takes_its_alias(streams):
    query = parse_query(
        "SELECT symbol AS s, COUNT(*) FROM trades [ROWS 5] GROUP BY symbol HAVING symbol <> 'A' AND s <> 'B'",
        streams,
    )
    assert names(query) == (["s"], ["count"])
    assert query.having.sql == "s <> 'A' AND s <> 'B'"


def test_a_key_selected_twice_is_a_key_and_a_value(streams):
    query = parse_query(
        "SELECT symbol, symbol || '!' AS loud, symbol AS s FROM trades [ROWS 5] GROUP BY symbol", streams
    )
    assert names(query) == (["symbol"], ["loud", "s"])
    assert [output.expression.sql for output in query.outputs] == ["symbol || '!'", "symbol"]


@pytest.mark.parametrize("key", ["UPPER(symbol)", "upper( Symbol )", "u"])
def test_a_computed_key_is_named_by_its_alias(key, streams):
    query = parse_query(
        f"SELECT UPPER(symbol) AS u, COUNT(*) AS n, UPPER(symbol) || '!' AS loud FROM trades [ROWS 5] "
        f"GROUP BY {key} HAVING UPPER(symbol) <> 'A'",
        streams,
    )
    assert names(query) == (["u"], ["n", "loud"])
    assert query.keys[0].expression.sql == "UPPER(symbol)"
    assert query.outputs[1].expression.sql == "u || '!'"
    assert query.having.sql == "u <> 'A'"


def test_a_computed_key_without_alias(streams):
    query = parse_query(
        "SELECT COUNT(*) FROM trades [ROWS 5] GROUP BY shares % 10, DATE_TRUNC('day', ts)", streams
    )
    assert names(query)[0] == ["key_1", "key_2"]


def test_having_may_use_aliases(streams):
    query = parse_query(
        "SELECT LAST(price) AS price, SUM(shares) + 1 AS n FROM trades [ROWS 5] "
        "HAVING price > 3 AND n * 2 > 4",
        streams,
    )
    assert query.having.sql == "$0 > 3 AND ($1 + 1) * 2 > 4"


def test_having_without_group_by(streams):
    query = parse_query("SELECT COUNT(*) FROM trades [ROWS 5] HAVING COUNT(*) > 3", streams)
    assert query.keys == ()
    assert query.having.sql == "$0 > 3"


def test_having_may_need_calls_that_select_does_not(streams):
    query = parse_query("SELECT symbol FROM trades [ROWS 5] GROUP BY symbol HAVING MAX(price) > 3", streams)
    assert [call.function for call in query.calls] == ["max"]
    assert query.outputs == ()


def test_column_names_in_any_case_unless_quoted():
    schema = pa.schema(
        [("Ts", pa.timestamp("us")), ("Sym bol", pa.string()), ("a", pa.int64()), ("A", pa.int64())]
    )
    streams = {"Odd": Stream("Odd", schema, "Ts")}
    query = parse_query(
        'SELECT MAX(TS), SUM("A"), SUM(a), "Sym bol" FROM odd [ROWS 5] GROUP BY "Sym bol"', streams
    )
    assert [call.argument.sql for call in query.calls] == ["Ts", "A", "a"]
    assert query.keys[0].expression.sql == '"Sym bol"'
    assert query.keys[0].name == "Sym bol"
    assert query.keys[0].expression.is_column


def test_columns_named_like_words_of_the_language():
    words = [
        "first",
        "last",
        "count",
        "range",
        "rows",
        "date",
        "time",
        "timestamp",
        "key",
        "value",
        "filter",
        "slide",
    ]
    schema = pa.schema([("ts", pa.timestamp("us")), *((word, pa.int64()) for word in words)])
    streams = {"s": Stream("s", schema, "ts")}
    for word in words:
        query = parse_query(f"SELECT SUM({word}) FROM s [ROWS 5] WHERE {word} > 1 GROUP BY {word}", streams)
        assert query.calls[0].argument.columns == (word,)
        assert query.where.sql == f"{word} > 1"


def test_qualified_columns(streams):
    query = parse_query(
        "SELECT MAX(trades.price), MIN(t.price) FROM trades [ROWS 5] AS t WHERE T.shares > 1", streams
    )
    assert [call.argument.sql for call in query.calls] == ["price", "price"]


def test_hint(streams):
    query = parse_query("SELECT /*+ SYNOPSIS(r_int) */ SUM(shares) FROM trades [ROWS 5]", streams)
    assert query.hint == "r_int"
    assert query.text.startswith("SELECT /*+")


def test_text_without_the_semicolon(streams):
    query = parse_query("  -- first\n SELECT COUNT(*) FROM trades [ROWS 5] ;\n", streams)
    assert query.text == "SELECT COUNT(*) FROM trades [ROWS 5]"


def test_constant_arguments(streams):
    query = parse_query(
        "SELECT SUM(1) AS n, COUNT(*) FILTER (WHERE TRUE) FROM trades [ROWS 5] WHERE TRUE", streams
    )
    columns = {"price": pa.array([1.0, None, 3.0])}
    assert query.calls[0].argument.columns == ()
    assert query.calls[0].argument.evaluate(columns).to_pylist() == [1, 1, 1]
    assert query.where.evaluate(columns).to_pylist() == [True, True, True]


@pytest.mark.parametrize(
    "argument", ["NULL", "COALESCE(NULL, NULL)", "CASE WHEN shares > 1 THEN NULL END", "(NULL)"]
)
@pytest.mark.parametrize("aggregate", ["COUNT({})", "MIN({})", "LAST({})", "SUM({})", "COUNT(DISTINCT {})"])
def test_null_alone_is_a_bigint_where_it_is_kept(aggregate, argument, streams):
    query = parse_query(f"SELECT {aggregate.format(argument)} AS a FROM trades [ROWS 3]", streams)
    assert query.calls[0].argument.type == pa.int64()


@pytest.mark.parametrize(
    "call",
    ["ARG_MAX(NULL, price)", "ARG_MIN(shares, NULL)", "APPROX_FREQUENT(NULL, 0.5, 0.1, weight => shares)"],
)
def test_null_alone_is_a_bigint_in_a_pair(call, streams):
    kind = parse_query(f"SELECT {call} AS a FROM trades [ROWS 3]", streams).calls[0].argument.type
    assert not any(pa.types.is_null(field.type) for field in kind)


def test_null_alone_is_a_bigint_as_a_key(streams):
    text = "SELECT COUNT(*) AS n FROM trades [ROWS 3] GROUP BY CASE WHEN price > 1 THEN NULL END"
    assert parse_query(text, streams).keys[0].expression.type == pa.int64()


def test_a_condition_can_be_summed(streams):
    query = parse_query("SELECT SUM(price > 3) AS n FROM trades [ROWS 5]", streams)
    assert query.calls[0].argument.type == pa.bool_()
