"""What is refused: each text has » before the word the error must point at."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from muntin.errors import SqlError
from muntin.sql import parse_query, parse_statements
from muntin.sql.place import pointing_into

WINDOW_FAULTS = [
    ("[»]", "expected RANGE, ROWS, SINCE or SESSION, found ']'"),
    ("[»5 MINUTES]", "expected RANGE, ROWS, SINCE or SESSION, found '5'"),
    ("[RANGE »]", "expected a length of time such as 5 MINUTES, found ']'"),
    ("[RANGE »unbounded]", "expected a length of time"),
    ("[RANGE »5]", "5 needs a unit, such as 5 SECONDS"),
    ("[RANGE »5 TO 1 MINUTE]", "5 needs a unit"),
    ("[RANGE 5 »MINUTS]", "unknown unit 'MINUTS'; did you mean 'MINUTES'?"),
    ("[RANGE 5 »PARSECS]", "unknown unit 'PARSECS'; there are: MICROSECONDS"),
    ("[RANGE 2 »MONTHS]", "a MONTH has no fixed length; use DAYS"),
    ("[RANGE 5 »ROWS]", "RANGE counts time; write [ROWS …]"),
    ("[RANGE »0 SECONDS]", "a window needs a size above zero"),
    ("[RANGE »-5 SECONDS]", "a window needs a size above zero"),
    ("[RANGE »0.0000001 SECONDS]", "a whole number of microseconds"),
    ("[RANGE »99999999999 WEEKS]", "must fit 64 bits"),
    ("[RANGE »1e999999999 SECONDS]", "'1e999999999' is not a plain number"),
    ("[RANGE INTERVAL »'soon']", "'soon' is not a length of time such as '5 minutes'"),
    ("[RANGE INTERVAL »'1 year']", "a YEAR has no fixed length"),
    ("[RANGE 5 SECONDS TO »6 SECONDS]", "TO lies before the start of the window; it must not exceed RANGE"),
    ("[RANGE 5 SECONDS TO »-1 SECOND]", "TO cannot be negative"),
    ("[RANGE 5 SECONDS SLIDE »0 SECONDS]", "SLIDE must be above zero"),
    ("[RANGE 5 SECONDS SLIDE »-1 SECOND]", "SLIDE must be above zero"),
    ("[RANGE 5 SECONDS SLIDE »]", "expected a length of time"),
    ("[RANGE 1 DAY SLIDE 1 DAY OFFSET »1 DAY]", "OFFSET lies within a SLIDE: from 0 to less than 1 DAY"),
    ("[RANGE 1 DAY SLIDE 1 DAY OFFSET »-1 HOUR]", "OFFSET lies within a SLIDE"),
    ("[RANGE 1 DAY »OFFSET 9 HOURS]", "OFFSET says where a SLIDE begins: write SLIDE 1 DAY OFFSET 9 HOURS"),
    ("[RANGE 1 DAY SLIDE »1 OFFSET 9 HOURS]", "1 needs a unit, such as 1 SECONDS"),
    ("[SINCE »MONTH]", "SINCE takes HOUR, DAY or WEEK, found 'MONTH'"),
    ("[SINCE »]", "SINCE takes HOUR, DAY or WEEK, found ']'"),
    ("[SINCE DAY »TO 1 HOUR]", "a window since a landmark ends now; leave out TO"),
    ("[SINCE DAY »5]", "unexpected '5' in a window clause"),
    ("[SINCE DAY »OFFSET 1 HOUR]", "OFFSET says where a SLIDE begins"),
    ("[ROWS 10 SLIDE 5 »OFFSET 2]", "OFFSET moves instants, and this window moves by events"),
    ("[RANGE 5 MINUTES», SLIDE 1 MINUTE]", "unexpected ',' in a window clause; it reads [RANGE"),
    ("[RANGE 5 MINUTES SLIDE 1 MINUTE »TO 1 MINUTE]", "unexpected 'TO' in a window clause"),
    ("[SESSION »5]", "5 needs a unit, such as 5 SECONDS"),
    ("[SESSION »0 SECONDS]", "the gap that ends a session is a length of time above 0"),
    (
        "[SESSION 5 SECONDS »SLIDE 1 SECOND]",
        "a session begins with an event and ends by a gap; leave out SLIDE",
    ),
    ("[SESSION 5 SECONDS »OFFSET 1 SECOND]", "leave out OFFSET"),
    ("[SESSION 5 SECONDS», 3]", "unexpected ',' in a window clause"),
    ("[ROWS »x]", "expected a number of events, found 'x'"),
    ("[ROWS »1.5]", "ROWS counts events: it takes a whole number"),
    ("[ROWS 5 »SECONDS]", "ROWS counts events; write [RANGE …]"),
    ("[ROWS »0]", "a window needs a size above zero"),
    ("[ROWS 5 TO »6]", "must not exceed ROWS"),
    ("[ROWS 5 SLIDE »0]", "SLIDE must be above zero"),
    ("»[RANGE 5 MINUTES", "the window clause is not closed; add ]"),
]

# In place of the expression after LAST( … ) in WHERE.
CONDITION_FAULTS = [
    ("»prize > 3", "stream 'trades' has no column 'prize'; did you mean 'price'?"),
    ('»"PRICE" > 3', "has no column 'PRICE'"),
    ("»x.price > 3", "unknown qualifier 'x'; there are: trades"),
    ("»symbol > 3", "symbol (VARCHAR) and 3 (BIGINT) cannot be compared or mixed; use CAST"),
    ("»price = 'high'", "price (DOUBLE) and 'high' (VARCHAR) cannot be compared"),
    ("»ts > 5", "ts (TIMESTAMP) and 5 (BIGINT) cannot be compared"),
    ("»ts > 'yesterday'", "'yesterday' is not a TIMESTAMP"),
    ("»shares", "WHERE needs a condition, and shares is BIGINT"),
    ("»price AND TRUE", "AND needs a condition, and price is DOUBLE"),
    ("NOT »shares", "NOT needs a condition, and shares is BIGINT"),
    ("price »>", "expected an expression after '>', found the end of the text"),
    ("price > »GROUP BY symbol", "expected an expression after '>', found 'GROUP BY'"),
    ("price > 3 AND »)", "expected an expression after 'AND', found ')'"),
    ("price > 3»)", "unexpected ')'"),
    ("(price > »3", "expected ')', found the end of the text"),
    ("price BETWEEN 1», 2", "BETWEEN reads x BETWEEN low AND high"),
    ("symbol LIKE »exchange", "LIKE takes a pattern in quotes"),
    ("»price LIKE 'a'", "LIKE takes text, and price is DOUBLE"),
    ("symbol = »'abc", "the string that begins here is not closed; add '"),
    ('symbol = »"abc', 'the quoted name that begins here is not closed; add "'),
    ("price > 3 »/* why", "the comment that begins here is not closed; add */"),
    ("»SUM(shares) > 3", "an aggregate cannot stand in WHERE; use HAVING"),
    ("price > (»SELECT 1)", "subqueries are not supported; filter with WHERE or FILTER, or write CREATE"),
    ("symbol IN (»SELECT 1)", "subqueries are not supported"),
    ("»price IN ()", "IN takes a list of values"),
    ("»NOW() > ts", "unknown function 'NOW'; use a window"),
    ("»ABSS(price) > 1", "unknown function 'ABSS'; did you mean 'ABS'?"),
    ("»ABS(price, 2) > 1", "ABS does not take 2 arguments"),
    ("»FLOOR(price, 1) > 1", "FLOOR does not take that argument"),
    ("CAST(price AS »MONEYS) > 1", "unknown type 'MONEYS'; there are: BOOLEAN"),
    ("CAST(price AS »BIGNIT) > 1", "unknown type 'BIGNIT'; did you mean 'BIGINT'?"),
    ("CAST(price AS »DECIMAL(40, 2)) > 1", "DECIMAL(40, 2) is none: of 1 to 38 digits"),
    ("CAST(price AS »DECIMAL(1, 2, 3)) > 1", "DECIMAL takes a number of digits"),
    ("»CAST(price AS DECIMAL(10, 2)) % 2 > 1", "% is not for DECIMAL"),
    ("»CAST(price AS DECIMAL(10, 2)) // 2 > 1", "// is for integers"),
    ("»CAST(price AS TIMESTAMP) > ts", "price is DOUBLE; it cannot become TIMESTAMP"),
    ("»CAST('x' AS BIGINT) = 1", "CAST('x' AS BIGINT): Failed to parse string"),
    ("»symbol + 1 > 2", "symbol is VARCHAR; a number is needed here"),
    ("»ts + 5 > ts", "TIMESTAMP + BIGINT has no meaning; a TIMESTAMP moves by an INTERVAL"),
    ("»symbol || price = 'a'", "price is DOUBLE; write CAST(price AS VARCHAR)"),
    ("ts > ts - »INTERVAL '1 month'", "a MONTH has no fixed length"),
    ("»EXTRACT(hours FROM ts) = 1", "EXTRACT does not know 'hours'; did you mean 'hour'?"),
    ("EXTRACT(hour FROM »price) = 1", "price is DOUBLE; a TIMESTAMP or DATE is needed"),
    ("»DATE_TRUNC('hours', ts) = ts", "DATE_TRUNC does not know 'hours'"),
    ("»price ^ 2 > 1", "^ is not supported; write POWER(a, b), or XOR(a, b) for bits"),
    ("»price // 2 > 1", "// is for integers; price is DOUBLE; write FLOOR(a / b)"),
    ("»price & 2 > 1", "& is for integers; price is DOUBLE"),
    ("»XOR(shares, 1.5) > 1", "XOR is for integers; 1.5 is DOUBLE"),
    ("»~symbol > 1", "symbol is VARCHAR; a number is needed here"),
    ("»1 << 63 > shares", "1 << 63: an integer exceeds 64 bits"),
    ("REGEXP_MATCHES(symbol, »side)", "REGEXP_MATCHES takes a pattern in quotes"),
    ("»REGEXP_MATCHES(symbol, NULL)", "REGEXP_MATCHES takes a pattern in quotes"),
    ("REGEXP_MATCHES(symbol, »'a(')", "missing ): a("),
    ("»REGEXP_MATCHES(symbol)", "REGEXP_MATCHES does not take 1 argument"),
    ("REGEXP_MATCHES(symbol, 'a', »'ix')", "unknown option 'x' of a pattern; there are c, i and s"),
    ("REGEXP_EXTRACT(symbol, 'a', »1) = 'a'", "the pattern has no group 1"),
    ("REGEXP_EXTRACT(symbol, 'a', »10) = 'a'", "a group has a number from 0 (the whole match) to 9"),
    ("»symbol SIMILAR TO 'a'", "SIMILAR TO is not supported; write REGEXP_MATCHES(text, 'pattern')"),
    ("»REPLACE(price, 'a', 'b') = 'a'", "price is DOUBLE; write CAST(price AS VARCHAR)"),
    ("REPLACE(symbol, »side, 'b') = 'a'", "REPLACE takes what to replace, and by what, in quotes"),
    ("SPLIT_PART(symbol, '.', »shares) = 'a'", "SPLIT_PART takes the number of a part, a whole number"),
    ("LEFT(symbol, »1.5) = 'a'", "LEFT takes a text and how many, a whole number that is constant"),
    ("STARTS_WITH(symbol, »side)", "STARTS_WITH takes the beginning in quotes"),
    ("TIME_BUCKET(»5, ts) = ts", "TIME_BUCKET takes a constant length above 0"),
    ("TIME_BUCKET(»INTERVAL '0 days', ts) = ts", "TIME_BUCKET takes a constant length above 0"),
    ("TIME_BUCKET(INTERVAL '1 day', »price) = ts", "price is DOUBLE; a TIMESTAMP or DATE is needed"),
    ("TIME_BUCKET(INTERVAL '1 day', ts, »ts) = ts", "TIME_BUCKET takes a constant TIMESTAMP to begin at"),
    ("»price IS 5", "IS takes NULL, TRUE or FALSE"),
    ("price = »?", "a parameter is written $name"),
    ("price = »:limit", "a parameter is written $name"),
    ("price = »$limit", "parameter 'limit' has no value; give it: {'limit': 5}"),
    ("shares > »99999999999999999999", "does not fit 64 bits; write 99999999999999999999.0"),
    ("»9223372036854775807 + 1 > 0", "an integer exceeds 64 bits"),
    ("»CASE WHEN TRUE THEN 'a' ELSE 1 END = 'a'", "'a' (VARCHAR) and 1 (BIGINT) cannot be compared or mixed"),
    ("CASE WHEN TRUE »ELSE 1 END = 1", "expected THEN after WHEN"),
    ("CASE price »THEN 1 END = 1", "expected WHEN after CASE"),
    ("»CASE WHEN TRUE THEN 1", "CASE is not closed; add END"),
    ("SUBSTRING(symbol, »0) = 'a'", "SUBSTRING takes a constant start of at least 1"),
    ("SUBSTRING(symbol, »CAST(NULL AS BIGINT)) = 'a'", "SUBSTRING takes a constant start of at least 1"),
    ("ROUND(price, »CAST(NULL AS BIGINT)) = 1", "ROUND takes a whole number of digits"),
    ("symbol LIKE »CAST(NULL AS VARCHAR)", "LIKE takes a pattern in quotes"),
    ("REGEXP_MATCHES(symbol, »CAST(NULL AS VARCHAR))", "REGEXP_MATCHES takes a pattern in quotes"),
    ("REGEXP_MATCHES(symbol, 'a', »CAST(NULL AS VARCHAR))", "REGEXP_MATCHES takes options in quotes"),
    (
        "REGEXP_EXTRACT(symbol, 'a', »CAST(NULL AS BIGINT)) = 'a'",
        "REGEXP_EXTRACT takes the number of a group",
    ),
    ("ROUND(price, »shares) = 1", "ROUND takes a whole number of digits"),
    ("price > 3 »[RANGE 5 MINUTES]", "a window in brackets belongs after the stream in FROM or after OVER"),
    ("price > 3 »GRUOP BY symbol", "unexpected 'GRUOP'; did you mean 'GROUP'?"),
]

# After `FROM trades [ROWS 5]`.
CLAUSE_FAULTS = [
    ("JOIN »b ON TRUE", "unknown stream 'b'"),
    ("»LEFT JOIN b ON TRUE", "LEFT JOIN is not supported; write JOIN"),
    ("», b", "a comma in FROM is not supported; write JOIN"),
    (
        "»ORDER BY 1",
        "ORDER BY ranks keys, and this query has none: it has one row; add GROUP BY",
    ),
    ("»LIMIT 3", "LIMIT ranks keys, and this query has none"),
    ("GROUP BY symbol »ORDER BY 1", "ORDER BY needs LIMIT, such as LIMIT 10"),
    ("GROUP BY symbol »LIMIT 3", "LIMIT needs ORDER BY, which says what keys are kept"),
    ("GROUP BY symbol ORDER BY 1 LIMIT »0", "LIMIT keeps 1 row or more"),
    ("GROUP BY symbol ORDER BY 1 LIMIT »x", "LIMIT takes a number of rows, found 'x'"),
    ("GROUP BY symbol ORDER BY 1 LIMIT »1.5", "LIMIT takes a number of rows, found '1.5'"),
    ("GROUP BY symbol ORDER BY 1 LIMIT »9223372036854775808", "LIMIT takes a number of up to 18 digits"),
    (
        "GROUP BY symbol ORDER BY »CASE WHEN MAX(price) > 1 THEN NULL END LIMIT 3",
        "ORDER BY takes values that differ between keys",
    ),
    ("GROUP BY symbol ORDER BY »9 LIMIT 3", "there is no item 9 in SELECT"),
    (
        "GROUP BY symbol ORDER BY »2.5 LIMIT 3",
        "ORDER BY takes values that differ between keys, not a constant",
    ),
    ("GROUP BY symbol ORDER BY symbol NULLS »FIRST LIMIT 3", "NULL is always last in an order"),
    ("GROUP BY symbol ORDER BY »shares LIMIT 3", "'shares' is neither a key nor inside an aggregate"),
    ("»UNION SELECT 1", "UNION is not supported"),
    ("»QUALIFY 1", "QUALIFY is not supported; write the condition in HAVING"),
    ("WINDOW w AS »(x)", "WINDOW reads WINDOW w AS [RANGE 5 MINUTES], found '('"),
    ("WINDOW w AS [ROWS 5], »W AS [ROWS 6]", "two windows are called 'W'"),
    ("HAVING MAX(price) OVER »w > 3", "there is no window 'w'; write WINDOW w AS [RANGE 5 MINUTES]"),
    ("HAVING MAX(price) OVER »vv > 3 WINDOW v AS [ROWS 5]", "there is no window 'vv'; did you mean 'v'?"),
    ("WINDOW w AS [ROWS 5] »HAVING TRUE", "HAVING is out of order"),
    ("»[ROWS 5]", "the window stands directly after the stream"),
    ("»GRUOP BY symbol", "unexpected 'GRUOP'; did you mean 'GROUP'?"),
    (
        "GROUP BY symbol »WHERE TRUE",
        "WHERE is out of order; the order is FROM, JOIN, WHERE, GROUP BY, HAVING",
    ),
    ("GROUP BY »1", "an aggregate cannot stand in GROUP BY"),
    ("GROUP BY »2", "there is no item 2 in SELECT; it has 1"),
    ("GROUP BY »0", "there is no item 0 in SELECT"),
    ("GROUP BY »1.5", "GROUP BY takes columns or expressions of them, not a constant"),
    ("GROUP BY »MAX(price)", "an aggregate cannot stand in GROUP BY"),
    ("GROUP BY symbol, »symbol", "symbol stands twice in GROUP BY"),
    ("GROUP BY »simbol", "has no column 'simbol'; did you mean 'symbol'?"),
    (
        "HAVING »price > 3",
        "'price' is neither a key nor inside an aggregate; write LAST(price) or add it to GROUP BY",
    ),
    ("HAVING »MAX(shares)", "HAVING needs a condition, and MAX(shares) OVER [ROWS 5] is BIGINT"),
    ("HAVING »MAX(symbol) > 3", "MAX(symbol) OVER [ROWS 5] (VARCHAR) and 3 (BIGINT) cannot be compared"),
    ("HAVING »$0 > 3", "parameter '0' has no value"),
]

# Between SELECT and `FROM trades [ROWS 5]`.
ITEM_FAULTS = [
    ("»*", "SELECT * is not supported; name the keys and aggregates"),
    (
        "»DISTINCT symbol",
        "DISTINCT takes a time window, such as [RANGE 5 MINUTES]; over ROWS, COUNT(DISTINCT x)",
    ),
    ("DISTINCT »ON (symbol) symbol", "DISTINCT ON is not supported; write GROUP BY with LAST(x)"),
    ("»price", "write SELECT DISTINCT price for the different ones, or LAST(price) for the most recent"),
    ("MAX(price), »shares", "'shares' is neither a key nor inside an aggregate; write LAST(shares)"),
    ("BOOL_AND(»shares)", "BOOL_AND needs a condition, and shares is BIGINT"),
    ("COUNT_IF((»shares + 1))", "COUNT_IF needs a condition, and shares + 1 is BIGINT"),
    (
        "COUNT_IF(»shares) FILTER (WHERE shares > 1)",
        "COUNT_IF needs a condition, and shares is BIGINT",
    ),
    (
        "COUNT_IF(price > 1) FILTER (WHERE »shares)",
        "FILTER needs a condition, and shares is BIGINT",
    ),
    (
        "»APPROX_COUNT_DISTINCT(symbol)",
        "APPROX_COUNT_DISTINCT goes by time, and [ROWS 5] does not; use RANGE, or COUNT(DISTINCT x)",
    ),
    ("MAX(price), »FROM", "expected an expression after ',', found 'FROM'"),
    ("MAX(price) + »FROM", "expected an expression after '+', found 'FROM'"),
    ("MAX(price)»)", "expected ',' or FROM, found ')'"),
    ("MAX(price »FROM", "expected ')', found 'FROM'"),
    ("FLOOR(MAX(price) »FROM", "expected ')', found 'FROM'"),
    ("MAX(price) AS »FROM", "expected a name after AS, found 'FROM'; to use it as a name, quote it"),
    ('MAX(price) AS »""', "a name cannot be empty"),
    ("MAX(price) AS »complete", "'complete' is a column of every answer; choose another name"),
    ("MAX(price) AS »Window_End", "is a column of every answer"),
    ('MAX(price) AS »"$0"', "is a column of every answer"),
    ("MAX(price) AS a, MIN(price) AS »A", "two columns of the answer are called 'A'"),
    ("»SUM(symbol)", "SUM takes a number, and symbol is VARCHAR"),
    ("»SUM(*)", "SUM(*) is not supported; write SUM(column)"),
    ("»SUM(price, 2)", "SUM takes 1 argument: write SUM(x)"),
    ("»COUNT()", "COUNT takes 1 argument: write COUNT(x) or COUNT(*)"),
    ("»SUM(DISTINCT price)", "DISTINCT stands only in COUNT(DISTINCT x)"),
    ("»COUNT(DISTINCT price, shares)", "COUNT(DISTINCT x) takes one value; of several write CONCAT"),
    ("»P99(price)", "unknown function 'P99'; use QUANTILE(x, 0.99)"),
    ("»TOP(price)", "unknown function 'TOP'; use ORDER BY x DESC LIMIT 10"),
    ("»QUANTILE(price)", "QUANTILE takes 2 arguments: write QUANTILE(x, phi)"),
    ("QUANTILE(price, »2)", "phi must lie in (0, 1]"),
    ("QUANTILE(price, »-0.5)", "phi must lie in (0, 1]"),
    ("QUANTILE(price, »shares)", "phi must be a constant number"),
    ("SUM(»MAX(price))", "an aggregate cannot stand in the argument of another"),
    ("SUM(price) FILTER (WHERE »MAX(price) > 3)", "an aggregate cannot stand in FILTER"),
    ("SUM(price) FILTER (WHERE »price)", "FILTER needs a condition, and price is DOUBLE"),
    ("SUM(price) FILTER »(price > 3)", "FILTER reads FILTER (WHERE condition)"),
    ("SUM(price) OVER [ROWS 5] »FILTER (WHERE TRUE)", "FILTER stands before OVER"),
    ("»SUMM(price)", "unknown function 'SUMM'; did you mean 'SUM'?"),
    ("»FIRST_VALUE(price)", "unknown function 'FIRST_VALUE'; use FIRST(x)"),
    ("»FOO(price) OVER [ROWS 5]", "unknown function 'FOO'"),
    ("»ABS(price) OVER [ROWS 5]", "FILTER and OVER follow an aggregate"),
    ("SUM(price) OVER »(PARTITION BY symbol)", "OVER takes a window in brackets: OVER [RANGE 5 MINUTES]"),
    ("SUM(price) OVER »w", "there is no window 'w'"),
    ("SUM(price) OVER »ROWS 5", "OVER takes a window in brackets"),
    ("SUM(price) OVER [»RANG 5 MINUTES]", "expected RANGE, ROWS, SINCE or SESSION, found 'RANG'"),
    (
        "QUANTILE(0.5) »WITHIN GROUP (ORDER BY price)",
        "WITHIN GROUP is not supported; write QUANTILE(x, 0.99)",
    ),
    ("MAX(price) »[1]", "a window in brackets belongs after the stream in FROM or after OVER"),
    ("SUM(»price ORDER BY ts)", "ORDER BY inside an aggregate is not supported"),
    ("MAX(price), »(MAX(price), 1)", "rows of values are not supported"),
    ("»/*+ FASTER */ MAX(price)", "the only hint is /*+ SYNOPSIS(name) */"),
    ("MAX(price) »FORM trades", "unexpected 'FORM'; did you mean 'FROM'?"),
]

# Whole texts.
QUERY_FAULTS = [
    ("»", "the text has no statement; begin with CREATE STREAM"),
    ("» ; -- nothing", "the text has no statement"),
    ("»SELEKT 1", "unknown statement 'SELEKT'; did you mean 'SELECT'?"),
    ("»SELECT", "expected an expression after 'SELECT', found the end of the text"),
    ("SELECT »1", "expected ',' or FROM, found the end of the text"),
    ("»SELECT 1 FROM trades [ROWS 5]", "the query has no aggregate"),
    ("SELECT MAX(price) »FROM", "expected a stream name, found the end of the text"),
    ("SELECT MAX(price) FROM »(SELECT 1)", "subqueries are not supported"),
    ("SELECT MAX(price) FROM »trade [ROWS 5]", "unknown stream 'trade'; did you mean 'trades'?"),
    ("SELECT MAX(price) FROM »WHERE", "expected a stream name, found 'WHERE'"),
    ("SELECT MAX(price) FROM a».trades [ROWS 5]", "a stream has no schema; write its name alone"),
    (
        "SELECT MAX(price) FROM trades »RANGE 5 MINUTES",
        "a window stands in brackets: write [RANGE 5 MINUTES]",
    ),
    (
        "SELECT »MAX(price) FROM trades",
        "MAX needs a window: FROM stream [RANGE 5 MINUTES], or OVER [RANGE …]",
    ),
    ("SELECT symbol FROM »trades GROUP BY symbol", "the query needs a window"),
    (
        "SELECT symbol, MAX(price) AS »symbol FROM trades [ROWS 5] GROUP BY symbol",
        "two columns of the answer",
    ),
    (
        "SELECT MAX(price) OVER [RANGE 1 DAY], »MIN(price) OVER [RANGE 1 DAY SLIDE 1 HOUR] FROM trades",
        "the OVER windows [RANGE 1 DAY] and [RANGE 1 DAY SLIDE 1 HOUR] disagree on when to answer",
    ),
    (
        "SELECT MAX(price) OVER [RANGE 1 DAY SLIDE 1 HOUR OFFSET 1 MINUTE], »MIN(price) OVER [SINCE DAY SLIDE 1 HOUR] "
        "FROM trades",
        "give both a SLIDE, and one OFFSET if it is the same, or a window after FROM",
    ),
    (
        "SELECT MAX(price), »MIN(price) OVER [RANGE 1 DAY] FROM trades [ROWS 5 SLIDE 2]",
        "a query over [ROWS 5 SLIDE 2] moves by events; it cannot use the time window [RANGE 1 DAY]",
    ),
    ("SELECT\n  MAX(price),\n  MIN(»prize)\nFROM trades [ROWS 5]", "did you mean 'price'?"),
    (
        "SELECT »APPROX_COUNT_DISTINCT(symbol) FROM trades [SESSION 5 MINUTES]",
        "APPROX_COUNT_DISTINCT needs single values, and a session keeps none",
    ),
    (
        "SELECT MAX(price) FROM trades [ROWS 5] WHERE shares > 1 »DELAY 5 SECONDS",
        "DELAY stands where a stream is declared",
    ),
    ("»DROP QUERY x", "expected one SELECT; statements of other kinds go to engine.execute"),
    ("»SELECT MAX(price) FROM trades [ROWS 5]; EXPLAIN", "expected one SELECT, found several statements"),
]

SCRIPT_FAULTS = [
    (
        "CREATE STREAM s AS SELECT * FROM trades »DELAY 5 SECONDS",
        "DELAY stands where a stream is declared with its columns; what is made of a stream has its DELAY: leave it "
        "out",
    ),
    (
        "CREATE STREAM s AS SELECT * FROM trades »AHEAD INTERVAL '1 hour'",
        "AHEAD stands where a stream is declared",
    ),
    ("CREATE STREAM s FROM QUERY q »DELAY 5 SECONDS", "DELAY stands where a stream is declared"),
    ("INSERT INTO »trades VALUES (1)", "'trades' is a stream: its events come with engine.push"),
    ("DELETE FROM »trades", "'trades' is a stream: its events come with engine.push, and do not change"),
    ("»UPDATE trades SET price = 1", "write INSERT INTO, which replaces the row"),
    ("»WITH a AS (SELECT 1) SELECT 2", "WITH is not supported"),
    (
        "CREATE MATERIALIZED VIEW v »SELECT 1",
        "expected AS and a SELECT after the view's name, found 'SELECT'",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(shares) FROM »trades [ROWS 10] EVERY 1 HOUR",
        "a view of aggregates or DISTINCT follows time",
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT price FROM »trades [RANGE 2 HOURS TO 1 HOUR] EVERY 1 HOUR",
        "needs a window that ends now",
    ),
    ("ALTER »STREAM trades", "only a MATERIALIZED VIEW can be altered; DROP STREAM and CREATE STREAM again"),
    ("CREATE STREAM »(ts TIMESTAMP)", "expected a stream name, found '('"),
    (
        "CREATE STREAM s »TIMESTAMP BY ts",
        "expected '(' and the columns, AS SELECT or FROM QUERY, found 'TIMESTAMP'",
    ),
    ("CREATE STREAM s (ts TIMESTAMP»)", "CREATE STREAM needs TIMESTAMP BY and the time column"),
    (
        "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY »tss",
        "the stream has no column 'tss'; did you mean 'ts'?",
    ),
    ("CREATE STREAM s (ts VARCHAR) TIMESTAMP BY »ts", "time column 'ts' must be TIMESTAMP or BIGINT"),
    ("CREATE STREAM s (ts TIMESTAMP, »TS INT) TIMESTAMP BY ts", "two columns are called 'TS'"),
    ("CREATE STREAM s (ts »TIMSTAMP) TIMESTAMP BY ts", "unknown type 'TIMSTAMP'; did you mean 'TIMESTAMP'?"),
    (
        "CREATE STREAM s (ts TIMESTAMP, x »JSON) TIMESTAMP BY ts",
        "JSON is not supported: a column has one value",
    ),
    ("CREATE STREAM s (ts TIMESTAMP, x») TIMESTAMP BY ts", "column 'x' needs a type, such as DOUBLE"),
    ("CREATE STREAM s (ts TIMESTAMP »NOT NULL) TIMESTAMP BY ts", "expected ',' or ')' after a column's type"),
    ("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts DELAY »-1 SECOND", "DELAY cannot be negative"),
    ("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts DELAY »5", "5 needs a unit"),
    (
        "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts »LATER",
        "unexpected 'LATER' after the end of the statement",
    ),
    ("DROP »INDEX t", "expected STREAM, TABLE, QUERY, SINK or MATERIALIZED VIEW after DROP, found 'INDEX'"),
    ("DROP »QUERY", "expected a query name, found the end of the text"),
    ("REGISTER »busy AS SELECT 1", "expected QUERY after REGISTER, found 'busy'"),
    ("REGISTER QUERY busy »SELECT 1", "expected AS and a SELECT after the query's name"),
    ("REGISTER QUERY busy AS »EXPLAIN", "expected SELECT, found 'EXPLAIN'"),
    ("EXPLAIN »busy", "expected QUERY name, VIEW name or SELECT after EXPLAIN, found 'busy'"),
    ("EXPLAIN;\nEXPLAIN;\nSELECT MAX(»prize) FROM trades [ROWS 5]", "did you mean 'price'?"),
]

QUERIES = (
    [(f"SELECT MAX(price) FROM trades {text}", message) for text, message in WINDOW_FAULTS]
    + [(f"SELECT MAX(price) OVER {text} FROM trades", message) for text, message in WINDOW_FAULTS[:-1]]
    + [
        (f"SELECT MAX(price)\nFROM trades [ROWS 5]\nWHERE {text}", message)
        for text, message in CONDITION_FAULTS
    ]
    + [(f"SELECT MAX(price) FROM trades [ROWS 5] {text}", message) for text, message in CLAUSE_FAULTS]
    + [(f"SELECT {text} FROM trades [ROWS 5]", message) for text, message in ITEM_FAULTS]
    + QUERY_FAULTS
)


def check(parse, marked, message, streams):
    at = marked.index("»")
    text = marked.replace("»", "")
    with pytest.raises(SqlError) as caught:
        parse(text, streams)
    error = caught.value
    assert message in error.message
    assert str(error).splitlines()[0].startswith(error.message)
    before = marked[:at].split("\n")
    assert (error.line, error.column) == (len(before), len(before[-1]) + 1), str(error)


@pytest.mark.parametrize(("marked", "message"), QUERIES)
def test_query(marked, message, streams):
    check(parse_query, marked, message, streams)


@pytest.mark.parametrize(("marked", "message"), SCRIPT_FAULTS)
def test_script(marked, message, streams):
    check(parse_statements, marked, message, streams)


def test_the_caret_is_under_the_whole_word(streams):
    with pytest.raises(SqlError) as caught:
        parse_query("SELECT MAX(price)\nFROM trades [RANGE 5 MINUTS]", streams)
    assert str(caught.value) == (
        "unknown unit 'MINUTS'; did you mean 'MINUTES'? (line 2, column 22)\n"
        "  FROM trades [RANGE 5 MINUTS]\n"
        "                       ^^^^^^"
    )


def test_no_streams_at_all():
    with pytest.raises(SqlError, match="unknown stream 'trades'; there is none"):
        parse_query("SELECT MAX(price) FROM trades [ROWS 5]", {})


def test_half_of_a_surrogate_pair(streams):
    with pytest.raises(SqlError) as caught:
        parse_query("SELECT COUNT(*) AS n FROM trades [ROWS 3] WHERE symbol = '\ud800'", streams)
    assert caught.value.column == 59
    assert str(caught.value).encode().splitlines()[-1] == b" " * 60 + b"^"  # it can be printed
    assert "UTF-8 cannot say \\ud800" in caught.value.message


def test_arrow_fails_where_no_rule_foresees_it():
    with pytest.raises(SqlError, match="this cannot be computed: no such kernel"), pointing_into("SELECT"):
        raise pa.ArrowNotImplementedError("no such kernel\nin line 7 of Arrow")


def test_nested_too_deeply(streams):
    text = "SELECT MAX(price) FROM trades [ROWS 5] WHERE " + "(" * 1_000 + "TRUE" + ")" * 1_000
    with pytest.raises(SqlError, match="nested too deeply"):
        parse_query(text, streams)


def test_damaged_texts_give_sql_errors_and_nothing_else(streams):
    """Words of good texts, dropped, doubled, swapped or replaced at random."""
    good = [
        "SELECT symbol , LAST ( price ) / FIRST ( price ) - 1 AS change FROM trades [ RANGE 20 MINUTES ] "
        "WHERE exchange = 'NASDAQ' GROUP BY symbol HAVING LAST ( price ) BETWEEN 20 AND 200 AND "
        "SUM ( shares ) FILTER ( WHERE side = 'ask' ) OVER [ RANGE 2 MINUTES ] >= "
        "0.7 * SUM ( shares ) OVER [ ROWS 5 ]",
        "REGISTER QUERY q AS SELECT CASE WHEN COUNT ( * ) > 3 THEN CAST ( MAX ( price ) AS BIGINT ) "
        "ELSE 0 END FROM trades [ RANGE 1 HOUR TO 5 MINUTES SLIDE 1 MINUTE ] "
        "WHERE symbol IN ( 'a' , 'b' ) AND ts > "
        "TIMESTAMP '2020-01-01' - INTERVAL '5 minutes' OR NOT price IS NULL ; EXPLAIN QUERY q ; DROP QUERY q",
        "CREATE STREAM s ( ts TIMESTAMP , x DOUBLE ) TIMESTAMP BY ts DELAY 5 SECONDS ; DROP STREAM s",
    ]
    rng = random.Random(11)
    vocabulary = [word for text in good for word in text.split()] + [
        "'",
        '"',
        "]",
        "(",
        "NULL",
        "DISTINCT",
        ".",
        ";",
    ]
    for _ in range(1_500):
        words = rng.choice(good).split()
        for _ in range(rng.choice([1, 1, 2, 3])):
            at = rng.randrange(len(words))
            words[at : at + 1] = rng.choice(
                [[], [words[at]] * 2, [rng.choice(vocabulary)], words[at : at + 2][::-1]]
            )
            words = words or ["SELECT"]
        try:
            parse_statements(" ".join(words), streams)
        except SqlError as error:
            assert error.line == 1, str(error)
            assert "sqlglot" not in str(error)
