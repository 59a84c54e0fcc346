"""Every text ends: in an answer or in an `SqlError`, within a second, the same each time it is read."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from cold import told
from muntin.errors import SqlError
from muntin.query import Query
from muntin.sql import parse_query, parse_statements
from muntin.stream import Stream

COLUMNS = {"ts": pa.timestamp("us"), "k": pa.string(), "n": pa.int64(), "x": pa.float64(), "b": pa.bool_()}
STREAMS = {"s": Stream("s", pa.schema(COLUMNS), "ts")}
WHOLE = (
    "SELECT k, SUM(n) AS total FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] WHERE x > 1.5 AND k = 'a' GROUP BY k HAVING "
    "SUM(n) > 10 EMIT CHANGES",
    "SELECT AVG(x) FILTER (WHERE b) OVER [ROWS 5 TO 1], QUANTILE(x, 0.9) OVER [ROWS 5 TO 1] FROM s",
    "SELECT COUNT(DISTINCT k) FROM s [ROWS 10] WHERE CASE WHEN n IN (1, 2) THEN b ELSE x IS NULL END",
    'CREATE STREAM t (ts TIMESTAMP, "a b" VARCHAR) TIMESTAMP BY ts DELAY 5 SECONDS; DROP STREAM t',
    "SELECT a.k FROM s [RANGE 1 HOUR] AS a JOIN s [RANGE 1 HOUR] AS c ON a.k = c.k AND a.n < c.n",
    "CREATE MATERIALIZED VIEW v KEY (k) AS SELECT k FROM s [RANGE 1 HOUR] EXCEPT SELECT k FROM s [RANGE 1 HOUR] "
    "EVERY 1 MINUTE INDEX 'auto'",
    "SELECT /*+ SYNOPSIS(rescan) */ MAX(DATE_TRUNC('hour', ts)) FROM s [ROWS 5] -- the end",
    "REGISTER QUERY q AS SELECT APPROX_COUNT(k = 'a', 0.01) FROM s [RANGE INTERVAL '5 minutes'] BACKFILL 'x.csv'",
)


def _split(text: str, mark: str = " ") -> list[str]:
    return text.split(mark)


MARKS = [
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\x00\n\té\u2028",
    *_split(
        "{{ }} {% %} {# #} /* */ /*+ -- '' \"\" :: || => -> ->> <=> := @@ $$ $1 '''' 1e 1e999 0x 0xg .5 5. 1_000"
    ),
    *_split("x'0 b'1 N'a E'\\' U&'a' r' $tag$"),
]
WORDS = _split(
    "SELECT FROM s [ ] ( ) k n AND OR NOT CASE WHEN END RANGE ROWS 5 'a' * , = IN BETWEEN IS NULL CAST AS INTERVAL "
    "OVER FILTER JOIN ON DISTINCT COUNT EXISTS DATE TIMESTAMP ARRAY MAP STRUCT LATERAL VALUES WITH UNNEST PIVOT FOR"
)
DEEP = _split(
    "(|NOT |- |+ |ABS(|CASE WHEN b THEN |CAST(|n + (|EXISTS (SELECT |[|{|x::|n IN (|DATE |INTERVAL |COALESCE(1, |"
    "SELECT |n -> |a.|n BETWEEN |n = |LAMBDA x -> ",
    "|",
)
LONG = _split(
    " AND n > 1~ OR b~ + n~ || k~ = b~, n~.n~::INT~ IS NULL~ BETWEEN 1 AND 2~ [ROWS 5]~ -- ~;~ 1~'~\"~ /* ~)~]",
    "~",
)


class TooSlow(BaseException):
    """Raised into whatever does not end; nobody catches it."""


@contextmanager
def ending() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.5)  # of the processor's time: a busy machine changes nothing
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def outcome(read: object, text: str) -> str:
    try:
        with ending():
            found = read(text, STREAMS)  # type: ignore[operator]
            return repr(told(found)) if isinstance(found, Query) else ""
    except SqlError as error:
        assert len(str(error)) < 5000
        return str(error)
    except TooSlow:
        raise AssertionError(f"does not end: {text[:300]!r}") from None


def check(text: str) -> None:
    outcome(parse_statements, text)
    first = outcome(parse_query, text)
    assert first == outcome(parse_query, text) == outcome(parse_query, text), text[:300]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_anywhere(mark: str) -> None:
    """Each mark before each word of whole statements, and in the place of it."""
    for number, text in enumerate(WHOLE):
        words = text.split(" ")
        for place in range(number % 5, len(words), 5):
            check(" ".join([*words[:place], mark, *words[place:]]))
            check(" ".join([*words[:place], words[place] + mark, *words[place + 1 :]]))


@pytest.mark.parametrize("text", WHOLE)
def test_an_end_anywhere(text: str) -> None:
    """What is cut off after any character."""
    for end in range(len(text)):
        outcome(parse_statements, text[:end])


def test_words_in_any_order() -> None:
    """Words and marks, thrown together."""
    dice = random.Random(7)
    for _ in range(1000):
        many = [dice.choice(WORDS if dice.random() < 0.8 else MARKS) for _ in range(dice.randint(1, 14))]
        check(("SELECT " if dice.random() < 0.7 else "") + dice.choice((" ", "")).join(many))


@pytest.mark.parametrize("many", [10, 400, 20_000])
@pytest.mark.parametrize("part", DEEP)
def test_deep(part: str, many: int) -> None:
    """Nested, and never closed."""
    if many > 400 and DEEP.index(part) % 5:
        return  # seconds each
    check(f"SELECT SUM(n) FROM s [ROWS 5] WHERE {part * many}")
    outcome(parse_statements, f"SELECT {part * many} n FROM s [ROWS 5]")


@pytest.mark.parametrize("many", [60, 400, 2000])
@pytest.mark.parametrize("part", LONG)
def test_long(part: str, many: int) -> None:
    """One after another."""
    check(f"SELECT SUM(n) FROM s [ROWS 5] WHERE b{part * many}")


def test_too_long() -> None:
    """What is far too long is refused before it is read."""
    for part in (" AND n > 1", ";", "'", " BETWEEN 1 AND 2"):
        outcome(parse_statements, f"SELECT SUM(n) FROM s [ROWS 5] WHERE b{part * 50_000}")
    with pytest.raises(SqlError, match="at most 100,000 characters, and 10,000 words"):
        parse_query(f"SELECT SUM(n) FROM s [ROWS 5] WHERE b{' AND n > 1' * 50_000}", STREAMS)


@pytest.mark.parametrize("many", [350, 400, 800, 2000])
@pytest.mark.parametrize("word", ["AND", "OR"])
def test_chains_are_read(word: str, many: int) -> None:
    """AND and OR join as many conditions as a statement has room for."""
    text = f" {word} ".join(f"n > {number}" for number in range(many))
    query = parse_query(f"SELECT SUM(n) FROM s [ROWS 5] WHERE {text}", STREAMS)
    assert query.where is not None
    assert query.where.sql == text
    assert query.where.evaluate({"n": pa.array([0, 1, many])}).to_pylist() == [False, word == "OR", True]


@pytest.mark.parametrize(
    "clause", ["GROUP BY {}", "GROUP BY CAST(n AS DECIMAL({}, 2))", "HAVING SUM(n) > {}"]
)
def test_numbers_that_are_too_long(clause: str) -> None:
    """Python reads no integer of more than 4,300 digits."""
    with pytest.raises(SqlError, match="a number has at most 1,000 digits"):
        parse_query(f"SELECT SUM(n) FROM s [ROWS 5] {clause.format('9' * 5_000)}", STREAMS)


def test_lists_are_read() -> None:
    """IN takes thousands of constants."""
    values = list(range(10_000))
    query = parse_query(f"SELECT SUM(n) FROM s [ROWS 5] WHERE n IN ({', '.join(map(str, values))})", STREAMS)
    assert query.where is not None
    assert query.where.evaluate({"n": pa.array([9_999, 10_000])}).to_pylist() == [True, False]


def test_what_is_read_can_be_evaluated() -> None:
    """The deepest expression that is accepted does not exhaust the stack when a batch comes."""
    for many in (150, 190, 198):
        query = parse_query(f"SELECT SUM(n) FROM s [ROWS 5] WHERE {' + '.join(['n'] * many)} > 3", STREAMS)
        assert query.where is not None
        assert query.where.evaluate({"n": pa.array([1])}).to_pylist() == [True]
    with pytest.raises(SqlError, match="operations deep, and 200 is the most"):
        parse_query(f"SELECT SUM(n) FROM s [ROWS 5] WHERE {' + '.join(['n'] * 400)} > 3", STREAMS)


def test_long_lines_are_cut_in_errors() -> None:
    """An error shows the place, not the whole text."""
    text = f"SELECT SUM(n) FROM s [ROWS 5] WHERE {' AND '.join(['n > 1'] * 1000)} AND prize > 1 {' AND b' * 1000}"
    with pytest.raises(SqlError) as caught:
        parse_query(text, STREAMS)
    _, shown, under = str(caught.value).split("\n")
    assert len(shown) < 210
    assert shown[under.index("^") : under.rindex("^") + 1] == "prize"
