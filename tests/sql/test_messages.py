"""Messages lead on: what other dialects call it, calls instead of `$0`, and one rule for hints."""

from __future__ import annotations

import pytest

from muntin import Engine, MuntinError
from muntin.plan.synopses import INDEXES, SYNOPSES
from muntin.sql.vocabulary import _ELSEWHERE, _NOWHERE, FUNCTIONS, aggregate_names

CREATE = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"
HOUR, SLIDE = "FROM s [RANGE 1 HOUR]", "FROM s [RANGE 1 HOUR SLIDE 1 MINUTE]"
KINDS = (
    f"SUM(n) AS v {SLIDE}", f"SUM(n) AS v {HOUR}", "MAX(x) AS v FROM s [ROWS 5]", f"k, SUM(n) AS v {SLIDE} GROUP BY k",
    f"k, SUM(n) AS v {SLIDE} GROUP BY k HAVING SUM(n) > 5", f"k, MAX(n) AS v {HOUR} GROUP BY k HAVING MAX(n) > 5",
    f"SUM(n) AS v {HOUR} WHERE x > 3", f"QUANTILE(x, 0.5) AS v {HOUR}", f"APPROX_QUANTILE(x, 0.5, 0.01) AS v {HOUR}",
    f"k, APPROX_COUNT(n = 3, 0.01) AS v {HOUR} GROUP BY k", f"DISTINCT k {HOUR}", f"COUNT(DISTINCT k) AS v {HOUR}",
    f"SUM(n) AS v, QUANTILE(x, 0.5) AS w {SLIDE}", f"MAX(k) AS v {HOUR}", f"SUM(n) AS v {SLIDE} HAVING SUM(n) > 3",
    "k, COUNT(*) AS v FROM s [ROWS 5] GROUP BY k", f"MAX(n) - MIN(n) AS v {SLIDE} EMIT CHANGES",
    "k, SUM(n) AS v FROM s [SESSION 1 HOUR] GROUP BY k", "MAX(n) AS v FROM s [SESSION 5 SECONDS] WHERE x > 3",
)  # fmt: skip


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.execute(CREATE)
    return made


@pytest.mark.parametrize("hint", [*SYNOPSES, "nothing"])
def test_a_hint_is_used_or_refused(engine: Engine, hint: str) -> None:
    """Whatever the kind of query: never ignored."""
    for rest in KINDS:
        try:
            engine.register(f"SELECT /*+ SYNOPSIS({hint}) */ {rest}", "q")
        except MuntinError as error:
            assert hint in str(error) or "not supported" in str(error) or "EMIT" in str(error), rest
        else:
            assert hint in engine.explain("q"), rest
            engine.drop("q")


@pytest.mark.parametrize("hint", INDEXES)
def test_an_index_is_used_or_refused(engine: Engine, hint: str) -> None:
    """The hints about HAVING, by the same rule: only the aggregates of that index are taken."""
    for rest in KINDS:
        try:
            engine.register(f"SELECT /*+ SYNOPSIS({hint}) */ {rest}", "q")
        except MuntinError:
            continue
        assert any(f"HAVING {name.upper()}(" in rest for name in INDEXES[hint]), rest
        engine.drop("q")


@pytest.mark.parametrize("text", [
    "SELECT /*+ SYNOPSIS(rescan) */ a.k FROM s [RANGE 1 HOUR] AS a JOIN s [RANGE 1 HOUR] AS b ON a.k = b.k",
    "CREATE MATERIALIZED VIEW v AS SELECT /*+ SYNOPSIS(rescan) */ a.k FROM s [RANGE 1 HOUR] AS a JOIN s [RANGE 1 HOUR] "
    "AS b ON a.k = b.k EVERY 1 MINUTE",
    "CREATE MATERIALIZED VIEW v AS SELECT k FROM s [RANGE 1 HOUR] EXCEPT SELECT /*+ SYNOPSIS(rescan) */ k "
    "FROM s [RANGE 1 HOUR] EVERY 1 MINUTE",
])  # fmt: skip
def test_no_hint_for_joins_and_views(engine: Engine, text: str) -> None:
    """Refused, too."""
    with pytest.raises(MuntinError, match=r"SYNOPSIS\(rescan\) is not for (joins|views); leave the hint out"):
        engine.execute(text)


@pytest.mark.parametrize("name", [*_ELSEWHERE, *_NOWHERE])
def test_functions_of_other_dialects(engine: Engine, name: str) -> None:
    """By meaning: what is suggested is there, and what letters would suggest is not said."""
    with pytest.raises(MuntinError) as caught:
        engine.register(f"SELECT {name}(n) AS v FROM s [ROWS 5]", "q")
    assert "did you mean" not in str(caught.value)
    known = {*aggregate_names(), *FUNCTIONS}
    if name in _ELSEWHERE:
        first = _ELSEWHERE[name].split("(")[0]
        assert not first.isupper() or " " in first or first in known, first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE STREAM IF EXISTS t (ts TIMESTAMP) TIMESTAMP BY ts", "IF EXISTS belongs to DROP"),
        ("DROP QUERY IF NOT EXISTS q", "DROP takes IF EXISTS"),
        (
            "CREATE OR REPLACE QUERY IF NOT EXISTS q AS SELECT SUM(n) FROM s [ROWS 5]",
            "takes no IF NOT EXISTS",
        ),
        ("SHOW SINKS", "expected STREAMS, TABLES, QUERIES or VIEWS after SHOW, found 'SINKS'"),
        ("DESCRIBE trade", "there is no stream, table, view or query 'trade'"),
        (
            "SELECT k, SUM(n) FROM s [ROWS 5] GROUP BY ROLLUP(k)",
            "ROLLUP is not supported; register a query for each",
        ),
        (
            "SELECT k, SUM(n) FROM s [ROWS 5] GROUP BY CUBE(k)",
            "CUBE is not supported; register a query for each",
        ),
        ("SELECT k, SUM(n) FROM s [ROWS 5] GROUP BY GROUPING SETS ((k))", "GROUPING SETS is not supported"),
        ("CREATE STREAM t (ts TIMESTAMP, a VARCHAR[]) TIMESTAMP BY ts", "an array is not supported"),
        ("CREATE STREAM t (ts TIMESTAMP, a ARRAY<INT>) TIMESTAMP BY ts", "an array is not supported"),
        ("ALTER QUERY q", "DROP QUERY and REGISTER QUERY again"),
        ("CREATE QUERY q AS SELECT SUM(n) FROM s [ROWS 5]", "write REGISTER QUERY"),
        ("DEREGISTER QUERY q", "write DROP QUERY"),
    ],
)
def test_statements_of_other_dialects(engine: Engine, text: str, said: str) -> None:
    """What to write here."""
    with pytest.raises(MuntinError, match=said):
        engine.execute(text)


def test_overflow_names_the_aggregates(engine: Engine) -> None:
    """Not `$0 - $1`, also from a template."""
    for number, window in enumerate((5, 6, 7)):
        engine.register(f"SELECT MAX(n) - MIN(n) + 1 AS v FROM s [ROWS {window}]", f"q{number}")
    engine.push("s", {"ts": [0, 1], "k": ["a", "b"], "n": [2**63 - 1, -5], "x": [1.0, 2.0]})
    for number in range(3):
        with pytest.raises(
            MuntinError, match=r"no answer: MAX\(n\) - MIN\(n\) \+ 1: an integer exceeds 64 bits"
        ):
            engine.lookup(f"q{number}")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (f"SELECT k, SUM(n) AS v {HOUR} GROUP BY k", "it has GROUP BY"),
        (f"SELECT SUM(n) AS v {HOUR} HAVING SUM(n) > 1", "it has HAVING"),
        ("SELECT SUM(n) AS v FROM s [ROWS 5]", "ROWS window"),
        ("SELECT SUM(n) AS v FROM s [SESSION 5 MINUTES]", "it looks at a session"),
        ("SELECT SUM(n) OVER [RANGE 1 HOUR] AS v FROM s", "no window after FROM"),
        (f"SELECT MAX(n) - MIN(n) AS v {HOUR}", "computed from aggregates"),
        (f"SELECT MAX(ts) AS v {HOUR}", "its values are timestamp"),
    ],
)
def test_lookup_many_says_why_not(engine: Engine, query: str, why: str) -> None:
    """The condition that the query does not meet, and no other."""
    engine.register(query, "q")
    with pytest.raises(MuntinError, match=f"lookup_many cannot answer 'q': .*{why}"):
        engine.lookup_many(["q"])
