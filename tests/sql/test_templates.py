"""A text of a known shape means what the parser says it means, and is refused with the same words."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import SqlError
from muntin.expression import Expression
from muntin.query import Query
from muntin.sql.bind import bind_select
from muntin.sql.parse import _read_select
from muntin.sql.place import pointing_into
from muntin.sql.template import Templates
from muntin.stream import Stream

# `▢` is a number, `◇` a string, `[]` a window
PATTERNS = (
    "SELECT SUM(n) AS v FROM s [] WHERE x > ▢",
    "SELECT k, SUM(n) FILTER (WHERE x < ▢) AS v FROM s [] GROUP BY k HAVING SUM(n) FILTER (WHERE x < ▢) > ▢",
    "select Avg(x), max(N) over [] from S [] where k = ◇ or k = ◇ ;",
    "SELECT SUM(n) OVER [], SUM(n) OVER [] FROM s",
    "SELECT n + ▢ AS bin, COUNT(*) FROM s [] GROUP BY n + ▢",
    "SELECT n + ▢ AS bin, COUNT(*) FROM s [] GROUP BY bin HAVING bin > ▢ AND COUNT(*) BETWEEN ▢ AND ▢",
    "SELECT QUANTILE(x, ▢) AS q, QUANTILE(x, ▢) FROM s [] WHERE x <> ▢",
    "SELECT k, COUNT(*) AS c FROM s [] GROUP BY k HAVING APPROX(COUNT(*) > ▢, ▢)",
    "SELECT SUM(small * ▢) AS v, LAST(small + ▢) FROM s [] WHERE small < ▢",
    "SELECT COUNT(*) FROM s [] WHERE ts > ◇ AND k IN (◇, ◇, 'b') AND NOT (n = -▢)",
    "SELECT k, MAX(x) - MIN(x) AS spread FROM s [] GROUP BY k HAVING MAX(x) - MIN(x) > ▢ * AVG(x) EMIT CHANGES",
    "SELECT MAX(x) * ▢ + ▢ / COUNT(*) FROM s [] HAVING ▢ < MAX(x)",
    "SELECT SUM(CASE WHEN x > ▢ THEN ▢ ELSE 0 END) FROM s [] WHERE k LIKE ◇ AND ROUND(x, ▢) = ▢",
    "SELECT SUM(n) AS x2 FROM s [] -- a comment with ▢\nWHERE x > ▢",
    'SELECT SUM(n) AS "▢ and ◇" FROM s [] WHERE x > ▢',
    "SELECT /*+ SYNOPSIS(b_int) */ MAX(x) FROM s [] WHERE n = ▢",
    "SELECT SUM(n) FROM s [] WHERE nothing > ▢ AND n = ◇",
    "SELECT SUM(n) FROM s [] WHERE n > ▢ ▢",
    "SELECT SUM(n) FROM s [] WHERE n > CAST(◇ AS BIGINT) + EXTRACT(HOUR FROM ts) AND k = N◇",
)  # fmt: skip
NUMBERS = ("1", "2", "3", "300", "0.5", "1.5", "2.0", "03", "1.50", "1e2", ".5", "5.", "9223372036854775807",
           "9223372036854775808", "0", "40000", "0.1")  # fmt: skip
STRINGS = ("'a'", "'b'", "''", "'it''s'", "'2024-01-01'", "'%a'", "'12'", "'[ROWS 5]'", "'a\\b'", "'--'")
WINDOWS = (
    "[RANGE 60 SECONDS]", "[RANGE 1 MINUTE]", "[range 5 minutes slide 1 minute]", "[ROWS 5]", "[ROWS 5 SLIDE 2]",
    "[RANGE 5 MINUTES SLIDE 30 SECONDS]", "[RANGE 1.5 SECONDS]", "[RANGE 1 HOUR 30 MINUTES]", "[RANGE 0 SECONDS]",
    "[RANGE 2 MINUTES TO 1 MINUTE]", "[RANGE 1 MINUTE TO 2 MINUTES]", "[ROWS 5 TO 5]", "[RANGE 5]", "[ROWS 5 MINUTES]",
    "[RANGE 1 MINUTE SLIDE 0 SECONDS]", "[RANGE 1 FORTNIGHT]", "[RANGE INTERVAL '5 minutes']", "[ROWS 0]",
)  # fmt: skip
STREAMS = {
    "s": Stream(
        "s",
        pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64()),
                   ("small", pa.int16())]),
        "ts",
    )
}  # fmt: skip
OTHER = {
    "s": Stream("s", pa.schema([("ts", pa.timestamp("us")), ("n", pa.float64()), ("x", pa.int32())]), "ts")
}


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A pattern with values filled in, most of them ordinary."""

    def value(found: re.Match[str]) -> str:
        options = {"▢": NUMBERS, "◇": STRINGS, "[]": WINDOWS}[found[0]]
        few = options[: 3 if found[0] == "▢" else 2 if found[0] == "◇" else 6]
        return draw(st.sampled_from(few if draw(st.integers(0, 5)) else options))

    return re.sub(r"▢|◇|\[\]", value, draw(st.sampled_from(PATTERNS)))


def fresh(text: str, streams: dict[str, Stream]) -> Query:
    return bind_select(_read_select(text), streams)


def outcome(read: object, text: str, streams: dict[str, Stream]) -> Query | str:
    try:
        with pointing_into(text):
            return read(text, streams)  # type: ignore[operator]
    except SqlError as error:
        return str(error)


def expressions(query: Query) -> list[Expression | None]:
    of_calls = [each for call in query.calls for each in (call.argument, call.filter)]
    outputs = [output.expression for output in query.outputs]
    return [query.where, query.having, *(key.expression for key in query.keys), *of_calls, *outputs]


def assert_same(templates: Templates, text: str, streams: dict[str, Stream] = STREAMS) -> None:
    found, expected = outcome(templates.query, text, streams), outcome(fresh, text, streams)
    assert found == expected
    assert isinstance(found, str) or found.stream is streams["s"]
    if isinstance(found, str) or isinstance(expected, str):
        return
    # what equality leaves out: bands, conditions, and what the expressions compute
    for one, other in zip(expressions(found), expressions(expected), strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.band == other.band
            assert one.type != pa.bool_() or one.condition == other.condition
            assert one.is_column == other.is_column
            assert type(one.tree) is type(other.tree)
    if found.where is not None and found.stream is STREAMS["s"]:
        columns = {
            "ts": pa.array([0, 10**15, 2 * 10**15], pa.timestamp("us")), "k": pa.array(["a", None, "b"]),
            "n": pa.array([1, 2, None]), "x": pa.array([0.5, 1.5, 300.0]),
            "small": pa.array([1, 2, 300], pa.int16()),
        }  # fmt: skip
        assert expected.where is not None
        assert found.where.evaluate(columns) == expected.where.evaluate(columns)


@given(st.lists(texts(), min_size=1, max_size=12))
def test_same_as_parsed(many: list[str]) -> None:
    """Whatever was seen before."""
    templates = Templates(_read_select, bind_select)
    for text in many:
        assert_same(templates, text)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_value_in_every_place(pattern: str) -> None:
    """One value at a time is unusual, in a text of a shape that is known."""
    templates = Templates(_read_select, bind_select)
    usual = {"▢": "3", "◇": "'a'", "[]": "[RANGE 1 MINUTE]"}
    places = re.findall(r"▢|◇|\[\]", pattern)
    for _ in range(2):
        assert_same(templates, re.sub(r"▢|◇|\[\]", lambda found: usual[found[0]], pattern))
    for place, kind in enumerate(places):
        for value in {"▢": NUMBERS, "◇": STRINGS, "[]": WINDOWS}[kind]:
            numbers = iter(range(len(places)))
            text = re.sub(
                r"▢|◇|\[\]",
                lambda found, n=numbers, v=value, p=place: v if next(n) == p else usual[found[0]],  # type: ignore[misc]
                pattern,
            )
            assert_same(templates, text)


def test_another_stream_of_that_name() -> None:
    """A template is of one stream, not of its name."""
    templates = Templates(_read_select, bind_select)
    for streams in (STREAMS, STREAMS, OTHER, STREAMS, OTHER, OTHER):
        assert_same(templates, "SELECT SUM(n) AS v FROM s [ROWS 5] WHERE x > 3", streams)
    assert_same(templates, "SELECT SUM(n) AS v FROM s [ROWS 5] WHERE x > 3", {})
    assert_same(templates, "SELECT SUM(n + 100) AS v FROM s [ROWS 5]", STREAMS)
    assert_same(templates, "SELECT SUM(n + 200) AS v FROM s [ROWS 5]", STREAMS)
    assert_same(templates, "SELECT SUM(n + 3) AS v FROM s [ROWS 5]", {})  # the error points at its own FROM


def test_streams_of_one_name_take_no_templates_from_each_other() -> None:
    """Two engines whose streams differ may read texts in turns: each shape is parsed as often as in one alone."""
    read: list[str] = []

    def note(text: str) -> object:
        read.append(text)
        return _read_select(text)

    templates = Templates(note, bind_select)  # type: ignore[arg-type]
    for number in range(20):
        for streams in (STREAMS, OTHER):
            query = templates.query(f"SELECT SUM(n) AS v FROM s [ROWS 5] WHERE x > {number}", streams)
            assert query.stream is streams["s"]
    assert len(read) == 6


def test_parsed_no_more_than_twice() -> None:
    """What a shape costs does not grow with the texts that have it."""
    read: list[str] = []

    def note(text: str) -> object:
        read.append(text)
        return _read_select(text)

    templates = Templates(note, bind_select)  # type: ignore[arg-type]
    for number in range(20):
        text = (
            f"SELECT k, SUM(n) AS v FROM s [RANGE {number + 1} SECONDS] GROUP BY k HAVING SUM(n) > {number}"
        )
        assert templates.query(text, STREAMS).having is not None
    assert len(read) == 3  # the second text is read once for its query and once for the template
