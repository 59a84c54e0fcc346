"""JOIN: what a text means, and what is refused with the nearest form that works."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.errors import SqlError
from muntin.join_query import JoinQuery
from muntin.sql import parse_query, parse_statements
from muntin.stream import Stream
from muntin.window import Window

QUOTES = Stream(
    "quotes",
    pa.schema(
        [("ts", pa.timestamp("us")), ("symbol", pa.string()), ("bid", pa.float64()), ("size", pa.int32())]
    ),
    "ts",
)
SECOND = 1_000_000


@pytest.fixture
def both(streams: dict[str, Stream]) -> dict[str, Stream]:
    return {**streams, "quotes": QUOTES}


def joined(text: str, streams: dict[str, Stream]) -> JoinQuery:
    query = parse_query(text, streams)
    assert isinstance(query, JoinQuery)
    return query


def test_columns_windows_and_equalities(both: dict[str, Stream]) -> None:
    query = joined(
        "SELECT t.symbol, price, q.bid * 2 AS twice, T.ts FROM trades [RANGE 9 SECONDS SLIDE 3 SECONDS] AS t "
        "JOIN quotes [RANGE 5 SECONDS TO 1 SECOND] q ON q.symbol = t.symbol AND price > bid WHERE shares > 3",
        both,
    )
    assert [output.name for output in query.outputs] == ["symbol", "price", "twice", "ts"]
    assert [str(output.expression) for output in query.outputs] == [
        "t.symbol",
        "t.price",
        "q.bid * 2",
        "t.ts",
    ]
    assert query.left.window == Window("time", 9 * SECOND, slide=3 * SECOND)
    assert query.right.window == Window("time", 5 * SECOND, SECOND, 3 * SECOND)
    assert str(query.signature) == "trades JOIN quotes ON trades.symbol = quotes.symbol"
    assert str(query.where) == "t.price > q.bid AND t.shares > 3"
    assert query.left.columns == ("price", "shares", "symbol", "ts")
    assert query.right.columns == ("bid",)
    assert query.answer_schema().names == [
        "symbol", "price", "twice", "ts", "window_start", "window_end", "complete",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "SELECT bid FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] ON trades.symbol = quotes.symbol",
        "SELECT price FROM trades [RANGE 2 HOURS] AS x INNER JOIN quotes [RANGE 1 DAY] y ON y.symbol = x.symbol",
        "SELECT COUNT(*) FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (SYMBOL) WHERE size > 3",
    ],
)
def test_what_shares_matches(text: str, both: dict[str, Stream]) -> None:
    """Neither windows nor aliases, WHERE or SELECT part queries from each other."""
    other = "SELECT 1 AS one FROM trades [RANGE 1 DAY] JOIN quotes [RANGE 1 DAY] USING (symbol)"
    assert joined(text, both).signature == joined(other, both).signature


def test_values_are_brought_into_one_type(both: dict[str, Stream]) -> None:
    query = joined("SELECT price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] ON shares = bid", both)
    assert [each.type for each in query.on[0]] == [pa.float64()] * 2
    plain = parse_query("SELECT SUM(shares) FROM trades [RANGE 1 HOUR]", both)
    assert plain.outputs[0].expression.type == pa.int64()  # what a join made of it is its own


def test_bare_name_of_a_used_column(both: dict[str, Stream]) -> None:
    text = "SELECT symbol, COUNT(*) FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol) GROUP BY symbol"
    query = joined(text, both)
    assert [(key.name, str(key.expression)) for key in query.keys] == [("symbol", "trades.symbol")]


def test_in_scripts(both: dict[str, Stream]) -> None:
    join = "SELECT price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)"
    texts = f"{join}; REGISTER QUERY q AS {join} EMIT CHANGES; EXPLAIN {join}"
    assert [type(each.query) for each in parse_statements(texts, both)] == [JoinQuery] * 3  # type: ignore[union-attr]


# » stands before the word the error points at.
FAULTS = [
    ("SELECT price FROM trades [RANGE 1 HOUR] »LEFT JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "LEFT JOIN is not supported; write JOIN b [RANGE …] ON a.k = b.k"),
    ("SELECT price FROM trades [RANGE 1 HOUR] »CROSS JOIN quotes [RANGE 1 DAY]", "CROSS JOIN is not supported"),
    ("SELECT price FROM trades [RANGE 1 HOUR] »NATURAL JOIN quotes [RANGE 1 DAY]", "write JOIN b [RANGE …] USING (k)"),
    ("SELECT price FROM trades [RANGE 1 HOUR]», quotes [RANGE 1 DAY]", "a comma in FROM is not supported"),
    ("SELECT price FROM trades [RANGE 1 HOUR] WHERE TRUE »JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "JOIN is out of order; the order is FROM, JOIN, WHERE"),
    ("SELECT price FROM trades [RANGE 1 HOUR] INNER »quotes", "expected JOIN after INNER, found 'quotes'"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] »WHERE TRUE",
     "a join needs ON left.column = right.column, found 'WHERE'"),
    ("SELECT price FROM trades [RANGE 1 HOUR] »JOIN quotes [RANGE 1 DAY] ON price < bid",
     "a join needs an equality between its streams, such as ON trades.column = quotes.column"),
    ("SELECT price FROM trades [RANGE 1 HOUR] »JOIN quotes [RANGE 1 DAY] ON price = 3 AND bid = size",
     "a join needs an equality between its streams"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] ON »price = quotes.symbol",
     "price (DOUBLE) and symbol (VARCHAR) cannot be compared or mixed; use CAST"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN »quotes ON TRUE", "both streams of a join need a window"),
    ("SELECT price FROM »trades JOIN quotes [RANGE 1 DAY] ON TRUE", "both streams of a join need a window"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN »quotes [ROWS 5] USING (symbol)",
     "a join takes time windows, such as quotes [RANGE 5 MINUTES], not [ROWS 5]"),
    ("SELECT price FROM trades [RANGE 1 HOUR SLIDE 1 DAY] JOIN »quotes [RANGE 1 HOUR SLIDE 2 DAYS] USING (symbol)",
     "disagree on SLIDE; give both the same, or only one of them"),
    ("SELECT price FROM »trades [SINCE DAY] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "joins of streams and views take windows of a fixed length, such as [RANGE 1 DAY], not [SINCE DAY]"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN »quotes [RANGE 1 DAY SLIDE 1 DAY OFFSET 9 HOURS] USING (symbol)",
     "joins of streams and views move at multiples of their SLIDE; leave OFFSET out of"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN »trades [RANGE 1 DAY] USING (symbol)",
     "both sides are called 'trades'; give them different names with AS"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN »quots [RANGE 1 DAY] USING (symbol)",
     "unknown stream 'quots'; did you mean 'quotes'?"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (»price)",
     "stream 'quotes' has no column 'price'"),
    ("SELECT »symbol FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] ON trades.symbol = quotes.symbol",
     "'symbol' is in both streams; write trades.symbol or quotes.symbol"),
    ("SELECT »prize FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "neither stream has a column 'prize'; did you mean 'price'?"),
    ("SELECT »trades.bid FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "'trades' has no column 'bid'"),
    ("SELECT »x.bid FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "unknown qualifier 'x'; there are: trades, quotes"),
    ("SELECT price FROM trades [RANGE 1 HOUR] AS a JOIN trades [RANGE 1 DAY] AS b ON »trades.side = b.side",
     "unknown qualifier 'trades'"),
    ("SELECT »price, COUNT(*) FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "'trades.price' is neither a key nor inside an aggregate"),
    ("SELECT »COUNT(*) OVER [ROWS 3] FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "OVER is not for joins"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol) WHERE »MAX(bid) > 3",
     "an aggregate cannot stand in WHERE; use HAVING"),
    ("SELECT price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] ON »MAX(bid) = price",
     "an aggregate cannot stand in ON; use HAVING"),
    ("SELECT COUNT(*) FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol) »EMIT CHANGES",
     "EMIT CHANGES of a join gives the pairs that come and go; leave out aggregates"),
    ("SELECT price AS change FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol) »EMIT CHANGES",
     "EMIT CHANGES adds a column 'change'"),
    ("»SELECT /*+ SYNOPSIS(rescan) */ price FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "SYNOPSIS(rescan) is not for joins"),
    ("SELECT 1 FROM trades [RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol) »JOIN quotes AS q USING (symbol)",
     "a query joins two streams"),
    ("SELECT price FROM trades AS t »[RANGE 1 HOUR] JOIN quotes [RANGE 1 DAY] USING (symbol)",
     "the window stands directly after the stream"),
    ('SELECT price FROM trades [RANGE 1 HOUR] AS »"a.b" JOIN quotes [RANGE 1 DAY] USING (symbol)',
     "give 'a.b' a name without a dot with AS"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_refused_at_the_word(text: str, message: str, both: dict[str, Stream]) -> None:
    with pytest.raises(SqlError) as refused:
        parse_query(text.replace("»", ""), both)
    assert message in refused.value.message
    assert refused.value.column == text.index("»") + 1
