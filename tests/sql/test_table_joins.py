"""Joins of a stream with tables: what they are taken apart into, and what is refused (» stands before the word)."""

from __future__ import annotations

import pytest

from muntin.errors import SqlError
from muntin.sql import CreateStream, CreateTable, parse_query, parse_statements
from muntin.sql.determined import Determined
from muntin.sql.sources import Sources
from muntin.table_query import RowSpan, TableQuery

DECLARED = """
CREATE STREAM payments (ts TIMESTAMP, account BIGINT, amount DOUBLE, kind VARCHAR, region VARCHAR) TIMESTAMP BY ts;
CREATE STREAM trades (ts TIMESTAMP, symbol VARCHAR, shares BIGINT, side VARCHAR) TIMESTAMP BY ts;
CREATE TABLE limits (account BIGINT, daily DOUBLE, tier VARCHAR, PRIMARY KEY (account));
CREATE TABLE tiers (tier VARCHAR, factor DOUBLE, PRIMARY KEY (tier));
CREATE TABLE regions (region VARCHAR, factor DOUBLE, PRIMARY KEY (region));
CREATE TABLE rules (id BIGINT, symbol VARCHAR, span INTERVAL, floor BIGINT, PRIMARY KEY (id));
CREATE TABLE parts (symbol VARCHAR, part BIGINT, least BIGINT, PRIMARY KEY (symbol, part));
"""
DAY, MINUTE, SECOND = 86_400_000_000, 60_000_000, 1_000_000


def declared() -> Sources:
    found = {}
    for statement in parse_statements(DECLARED, {}):
        assert isinstance(statement, CreateStream | CreateTable)
        each = statement.stream if isinstance(statement, CreateStream) else statement.table
        found[each.name] = each
    return found


SOURCES = declared()
P = "payments [RANGE 1 DAY SLIDE 1 MINUTE] AS p"
ON = "ON p.account = l.account"


def bound(text: str) -> TableQuery:
    query = parse_query(text, SOURCES)
    assert isinstance(query, TableQuery)
    return query


def source_keys(query: TableQuery) -> dict[str, str]:
    return {key.name: key.expression.sql for key in query.source.keys}


def test_a_threshold_of_each_key() -> None:
    query = bound(
        f"SELECT p.account, SUM(p.amount) AS spent, l.daily FROM {P} JOIN limits AS l {ON} "
        "WHERE l.tier = 'gold' AND p.kind <> 'x' GROUP BY p.account HAVING SUM(p.amount) > l.daily EMIT CHANGES"
    )
    assert source_keys(query) == {"p.account": "account"}
    assert (str(query.source.where), [str(call) for call in query.source.calls]) == (
        "kind <> 'x'", ["SUM(amount) OVER [RANGE 1 DAY SLIDE 1 MINUTE]"]
    )  # fmt: skip
    assert query.source.answer_schema().names[:2] == ["p.account", "$0"]
    (side,) = query.sides
    assert (side.on, str(side.where), side.columns) == (((0, "account"),), "tier = 'gold'", ("daily",))
    assert side.covers_key
    assert (str(query.having), query.where, query.emits_changes) == ("$0 > l.daily", None, True)
    assert (query.merges, query.is_table_first, side.is_optional) == (False, False, False)
    assert query.emission_schema().names == [
        "account", "spent", "daily", "window_start", "window_end", "complete", "change"
    ]  # fmt: skip


def test_every_row_is_a_rule() -> None:
    query = bound(
        "SELECT s.id, SUM(t.shares) AS volume FROM trades [RANGE s.span UP TO 1 DAY STEP 1 SECOND SLIDE 1 MINUTE] AS t "
        "JOIN rules AS s ON s.symbol = t.symbol GROUP BY s.id HAVING SUM(t.shares) > s.floor"
    )
    assert query.span == RowSpan(0, "span", DAY, SECOND)
    assert str(query.source.window) == "[RANGE UP TO 1 DAY STEP 1 SECOND SLIDE 1 MINUTE]"
    assert source_keys(query) == {"t.symbol": "symbol"}
    assert query.sides[0].columns == ("floor", "id", "span")
    assert (query.merges, query.sides[0].covers_key) == (False, False)


def test_the_grid_of_spans_is_the_slide_if_none_is_given() -> None:
    query = bound(
        "SELECT s.id, COUNT(*) FROM trades [RANGE s.span UP TO 1 DAY SLIDE 1 MINUTE] AS t JOIN rules AS s "
        "USING (symbol) GROUP BY s.id"
    )
    assert query.span == RowSpan(0, "span", DAY, MINUTE)


def test_the_table_first() -> None:
    query = bound(
        "SELECT s.id, COUNT(b.ts) AS n FROM rules AS s LEFT JOIN trades [RANGE 5 MINUTES SLIDE 1 MINUTE] AS b "
        "ON b.symbol = s.symbol AND b.side = 'ask' WHERE s.floor > 3 GROUP BY s.id HAVING COUNT(b.ts) = 0"
    )
    assert query.is_table_first
    assert not query.sides[0].is_optional
    assert (str(query.source.where), str(query.sides[0].where)) == ("side = 'ask'", "floor > 3")


def test_a_table_before_an_inner_join_is_like_one_after_it() -> None:
    query = bound(f"SELECT p.account, l.daily, COUNT(*) FROM limits AS l JOIN {P} {ON} GROUP BY p.account")
    assert not query.is_table_first
    assert query.sides[0].on == ((0, "account"),)


def test_keys_are_merged() -> None:
    for text in (
        f"SELECT l.tier, SUM(p.amount) FROM {P} JOIN limits AS l {ON} GROUP BY l.tier",
        f"SELECT p.region, SUM(p.amount) FROM {P} JOIN limits AS l {ON} GROUP BY p.region",
        f"SELECT SUM(p.amount) FROM {P} JOIN limits AS l {ON}",
        # those without a row are one group
        f"SELECT l.account, SUM(p.amount) FROM {P} LEFT JOIN limits AS l {ON} GROUP BY l.account",
    ):
        assert bound(text).merges
    for text in (
        f"SELECT l.account, SUM(p.amount) FROM {P} JOIN limits AS l {ON} GROUP BY l.account",
        f"SELECT p.account, p.region, MEDIAN(p.amount) FROM {P} JOIN limits AS l {ON} GROUP BY p.account, p.region",
        "SELECT s.id, MEDIAN(t.shares) FROM trades [ROWS 9] AS t JOIN rules AS s USING (symbol) GROUP BY s.id",
    ):
        assert not bound(text).merges


def test_several_tables_and_conditions() -> None:
    query = bound(
        f"SELECT l.tier, r.factor, SUM(p.amount) FROM {P} LEFT JOIN limits AS l {ON} AND l.daily > 5 "
        "JOIN regions AS r ON UPPER(p.region) = r.region WHERE p.kind = 'a' AND (l.tier IS NULL OR l.tier = r.region) "
        "AND r.factor > 1 GROUP BY l.tier, UPPER(p.region)"
    )
    assert source_keys(query) == {"p.account": "account", "p.#1": "UPPER(region)"}
    limits, regions = query.sides
    assert (limits.is_optional, str(limits.where), limits.columns) == (True, "daily > 5", ("tier",))
    assert (regions.is_optional, str(regions.where), regions.on) == (False, "factor > 1", ((1, "region"),))
    assert str(query.where) == "l.tier IS NULL OR l.tier = r.region"
    assert [(key.name, key.expression.columns) for key in query.keys] == [
        ("tier", ("l.tier",)), ("key_2", ("p.#1",))
    ]  # fmt: skip


def test_a_primary_key_through_equalities() -> None:
    """ON has one of its columns, GROUP BY the other."""
    text = (
        "SELECT t.symbol, s.part, COUNT(*) FROM trades [RANGE 1 DAY] AS t JOIN parts AS s ON t.symbol = s.symbol "
        "GROUP BY t.symbol, s.part HAVING COUNT(*) > s.least"
    )
    assert not bound(text).merges
    with pytest.raises(SqlError, match="an event may join several rows of 's'"):
        bound(text.replace("GROUP BY t.symbol, s.part", "GROUP BY t.symbol"))


def test_calls_are_those_of_the_stream() -> None:
    """So that they share state with queries that join nothing."""
    query = bound(
        "SELECT p.account, SUM(p.amount) FILTER (WHERE p.kind = 'a') OVER [RANGE 1 HOUR SLIDE 1 MINUTE] / l.daily "
        "AS part FROM payments AS p JOIN limits AS l ON p.account = l.account GROUP BY p.account"
    )
    plain = parse_query(
        "SELECT account, SUM(amount) FILTER (WHERE kind = 'a') OVER [RANGE 1 HOUR SLIDE 1 MINUTE] FROM payments "
        "GROUP BY account", SOURCES
    )  # fmt: skip
    assert query.source.calls == plain.calls  # type: ignore[union-attr]
    assert query.source.key_expressions == plain.key_expressions  # type: ignore[union-attr]
    assert str(query.outputs[0].expression) == "$0 / l.daily"


FAULTS = [
    (f"SELECT p.account, SUM(p.amount * »l.daily) FROM {P} JOIN limits AS l {ON} GROUP BY p.account",
     "'l.daily' is a column of a table, and aggregates read the stream alone; compute with it outside"),
    (f"SELECT p.account, SUM(p.amount) FILTER (WHERE p.kind = »l.tier) FROM {P} JOIN limits l {ON} GROUP BY p.account",
     "aggregates read the stream alone"),
    (f"SELECT l.tier, »MEDIAN(p.amount) FROM {P} JOIN limits AS l {ON} GROUP BY l.tier",
     "GROUP BY merges what is kept for each account, and QUANTILE cannot be merged; add the stream's columns of ON"),
    (f"SELECT l.tier, »COUNT(DISTINCT p.kind) FROM {P} JOIN limits AS l {ON} GROUP BY l.tier", "cannot be merged"),
    (f"SELECT l.tier, »APPROX_QUANTILE(p.amount, 0.5, 0.1) FROM {P} JOIN limits AS l {ON} GROUP BY l.tier",
     "cannot be merged"),
    (f"SELECT l.tier, »SUM(p.amount) FROM payments [ROWS 5] AS p JOIN limits AS l {ON} GROUP BY l.tier",
     "[ROWS 5] counts the events of each; write a time window"),
    (f"SELECT »SUM(p.amount) FROM payments [ROWS 5] AS p JOIN limits AS l {ON} WHERE l.tier = 'gold'",
     "[ROWS 5] counts the events of each; write a time window"),
    (f"SELECT l.tier FROM »payments [ROWS 5] AS p JOIN limits AS l {ON} GROUP BY l.tier", "counts the events of each"),
    (f"SELECT p.account FROM »payments [ROWS 5 SLIDE 2] AS p JOIN limits AS l {ON} GROUP BY p.account",
     "a query over [ROWS 5 SLIDE 2] moves by events, and a table by time; leave out SLIDE"),
    (f"SELECT p.account FROM {P} »JOIN limits AS l ON p.kind = l.tier GROUP BY p.account",
     "compare the whole primary key in ON, or add it to GROUP BY: l.account"),
    (f"SELECT p.account FROM {P} JOIN limits AS l {ON} AND »p.amount > l.daily GROUP BY p.account",
     "stream and table are compared by equality: ON p.column = l.column"),
    (f"SELECT p.account FROM {P} JOIN limits AS l {ON} WHERE »p.amount > l.daily GROUP BY p.account",
     "a condition of WHERE reads the stream or tables, not both"),
    (f"SELECT p.account FROM {P} JOIN limits AS l ON »p.amount = l.account GROUP BY p.account",
     "ON compares values of one type, and amount is DOUBLE, 'account' of table 'limits' BIGINT"),
    (f"SELECT p.account FROM {P} JOIN regions AS l ON »p.account = l.region GROUP BY p.account", "declare both alike"),
    (f"SELECT p.account FROM {P} JOIN limits AS l {ON} JOIN tiers AS t ON »l.tier = t.tier GROUP BY p.account",
     "ON compares a table with the stream, not with another table; load the columns of both into one table"),
    (f"SELECT p.account FROM {P} JOIN limits AS l ON p.account = »l.account + 1 GROUP BY p.account",
     "ON compares with a column of 'l' as it is"),
    (f"SELECT p.account FROM {P} »JOIN limits AS l ON l.tier = 'gold' GROUP BY p.account",
     "a join with a table needs an equality with the stream, such as ON p.account = l.account"),
    (f"SELECT p.account FROM {P} JOIN limits AS l ON »TRUE GROUP BY p.account", "leave out what reads neither"),
    (f"SELECT p.account FROM {P} JOIN limits AS l {ON} AND »SUM(p.amount) > 1 GROUP BY p.account", "stand in ON"),
    (f"SELECT p.region, »l.daily FROM {P} JOIN limits AS l {ON} GROUP BY p.region",
     "'l.daily' may differ from row to row of an answer's group; add it to GROUP BY, or the primary key l.account"),
    (f"SELECT »l.daily FROM {P} JOIN limits AS l {ON}", "may differ from row to row"),
    (f"SELECT p.account, »p.kind FROM {P} JOIN limits AS l {ON} GROUP BY p.account",
     "'p.kind' is neither a key nor inside an aggregate; write LAST(p.kind)"),
    (f"SELECT COUNT(*) FROM {P} JOIN limits AS l {ON} GROUP BY »p.kind || l.tier", "list two keys"),
    (f"SELECT l.account, »COUNT(*) FROM limits AS l LEFT JOIN {P} {ON} GROUP BY l.account",
     "COUNT would count a row of 'l' without events as one; write COUNT(p.ts)"),
    (f"SELECT l.account, »COUNT(1) FROM limits AS l LEFT JOIN {P} {ON} GROUP BY l.account", "write COUNT(p.ts)"),
    (f"SELECT l.account FROM limits AS l LEFT JOIN {P} {ON} WHERE »p.kind = 'a' GROUP BY l.account",
     "in WHERE a condition of the stream would take away the rows without events; write it in ON"),
    (f"SELECT l.account FROM limits AS l LEFT JOIN {P} {ON} AND »l.tier = 'a' GROUP BY l.account", "write it in WHERE"),
    (f"SELECT COUNT(p.ts) FROM limits AS l LEFT JOIN {P} {ON} GROUP BY »p.account", "GROUP BY columns of 'l'"),
    (f"SELECT l.account FROM limits AS l LEFT JOIN {P} {ON} »JOIN regions AS r ON p.region = r.region",
     "a table before LEFT JOIN is the only one"),
    (f"SELECT p.account FROM {P} LEFT JOIN limits AS l {ON} AND »p.kind = 'a' GROUP BY p.account",
     "in ON of a LEFT JOIN a condition of the stream alone has no effect on its events; write it in WHERE"),
    (f"SELECT »DISTINCT p.account FROM {P} JOIN limits AS l {ON}", "list the columns in GROUP BY"),
    (f"SELECT p.account FROM {P} JOIN limits AS l {ON} GROUP BY p.account HAVING »APPROX(COUNT(*) > 5, 0.1)",
     "APPROX is not for joins with tables"),
    (f"SELECT COUNT(*) FROM {P} JOIN limits AS l {ON} »EMIT CHANGES", "EMIT CHANGES needs GROUP BY or HAVING"),
    (f"SELECT p.account FROM {P} JOIN »limits [ROWS 5] AS l {ON} GROUP BY p.account", "is a table, and has no window"),
    ("SELECT l.account FROM limits AS l JOIN »tiers AS t ON l.tier = t.tier GROUP BY l.account",
     "tables alone are not joined"),
    (f"SELECT p.account FROM {P} JOIN »trades [RANGE 1 DAY] AS t ON p.kind = t.side JOIN limits AS l {ON} "
     "GROUP BY p.account", "a query joins one stream with tables, or two streams"),
    (f"SELECT p.account FROM {P} JOIN limits AS »P {ON} GROUP BY p.account", "two inputs are called 'P'"),
    (f"SELECT p.account FROM {P} JOIN limits AS l USING (»kind) GROUP BY p.account",
     "table 'limits' has no column 'kind', which USING compares"),
    ("SELECT s.id FROM trades [RANGE »s.floor UP TO 1 DAY SLIDE 1 MINUTE] AS t JOIN rules AS s ON t.symbol = s.symbol "
     "GROUP BY s.id", "the length of a window is an INTERVAL, and 's.floor' is BIGINT"),
    ("SELECT s.id FROM trades [RANGE »t.shares UP TO 1 DAY SLIDE 1 MINUTE] AS t JOIN rules AS s ON t.symbol = s.symbol "
     "GROUP BY s.id", "a column of a table, not of the stream"),
    ("SELECT s.id FROM trades [RANGE s.span »SLIDE 1 MINUTE] AS t JOIN rules AS s ON t.symbol = s.symbol GROUP BY s.id",
     "says how far back it may reach: [RANGE s.span UP TO 1 DAY SLIDE 1 MINUTE]"),
    ("SELECT s.id FROM trades [RANGE s.span UP TO 1 DAY»] AS t JOIN rules AS s ON t.symbol = s.symbol GROUP BY s.id",
     "say which lengths there are: add STEP 1 SECOND"),
    ("SELECT s.id FROM trades [RANGE s.span UP TO »0 DAYS] AS t JOIN rules AS s ON t.symbol = s.symbol GROUP BY s.id",
     "UP TO is a length of time above 0"),
    ("SELECT s.id FROM trades [RANGE s.span UP TO 1 DAY STEP 1 HOUR »TO 1 HOUR] AS t JOIN rules AS s "
     "ON t.symbol = s.symbol GROUP BY s.id", "leave out TO"),
    ("SELECT s.id, SUM(t.shares) OVER »[RANGE s.span UP TO 1 DAY SLIDE 1 MINUTE] FROM trades AS t JOIN rules AS s "
     "ON t.symbol = s.symbol GROUP BY s.id", "stands after FROM, not after OVER"),
    ("SELECT s.id FROM trades [RANGE »s.span UP TO 1 DAY SLIDE 1 MINUTE] AS t LEFT JOIN rules AS s "
     "ON t.symbol = s.symbol GROUP BY s.id", "an event without a row would have no window; write JOIN"),
    ("SELECT symbol FROM trades [RANGE »span UP TO 1 DAY SLIDE 1 MINUTE] GROUP BY symbol", "write JOIN table ON …"),
    ("SELECT t.symbol FROM trades [RANGE 1 DAY] AS t JOIN payments [RANGE »t.span UP TO 1 DAY SLIDE 1 DAY] AS p "
     "ON t.symbol = p.kind", "write JOIN table ON …"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message"), FAULTS)
def test_refused(marked: str, message: str) -> None:
    at, text = marked.index("»"), marked.replace("»", "")
    with pytest.raises(SqlError) as caught:
        parse_query(text, SOURCES)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, at + 1)


def test_spans_whose_row_groups_do_not_determine_are_refused() -> None:
    text = (
        "CREATE TABLE spans (symbol VARCHAR PRIMARY KEY, span INTERVAL); "
        "SELECT t.side, COUNT(*) FROM trades [RANGE s.span UP TO 1 DAY SLIDE 1 MINUTE] AS t JOIN spans AS s "
        "USING (symbol) GROUP BY t.side"
    )
    with pytest.raises(SqlError, match="rows of one group would have windows of different lengths"):
        parse_statements(text, SOURCES)


def test_what_is_determined() -> None:
    """Through equalities and primary keys, in any number of steps; not back through a LEFT JOIN."""
    first = (1, ("a",), ((0, "a"), (1, "b")), False)
    second = (2, ("c",), ((1, "c"), (2, "d")), False)
    found = Determined.by([0], [], [second, first])
    assert found.has_keys([0, 1, 2])
    assert found.has_row(1)
    assert found.has_row(2)
    optional = Determined.by([0], [], [second, (*first[:3], True)])
    assert optional.has_row(1)
    assert not optional.has_keys([1])
    assert not optional.has_column(2, "d")
