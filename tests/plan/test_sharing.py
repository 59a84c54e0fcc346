"""What queries share: aggregates one set of partials, windows one structure, filters one column."""

from __future__ import annotations

import pytest

from muntin import Engine

STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"


def engine_with(*queries: str) -> Engine:
    engine = Engine()
    engine.execute(STREAM)
    for number, sql in enumerate(queries):
        engine.register(sql, f"q{number}")
    return engine


def kept(engine: Engine) -> set[tuple[str, str]]:
    """(synopsis, component) of everything that is kept."""
    groups = engine._shards["s"].state.manager.groups.values()
    return {(group.synopsis, str(need)) for group in groups for need in group.needs.components}


@pytest.mark.parametrize("window", ["[RANGE 5 SECONDS]", "[RANGE 5 SECONDS SLIDE 1 SECOND]", "[ROWS 100]"])
@pytest.mark.parametrize("by", ["", " GROUP BY k"])
def test_avg_after_sum_adds_nothing(window: str, by: str) -> None:
    """SUM keeps the count of its values too, so AVG finds all it needs."""
    engine = engine_with(f"SELECT SUM(x) AS v FROM s {window}{by}")
    before = kept(engine)
    engine.register(f"SELECT AVG(x) AS v FROM s {window}{by}", "average")
    assert kept(engine) == before


def test_windows_share_one_structure() -> None:
    """A thousand windows are one group per component class, and one structure per component."""
    one = engine_with("SELECT MAX(x) AS v FROM s [RANGE 1 SECOND]")
    many = engine_with(*(f"SELECT MAX(x) AS v FROM s [RANGE {i} SECONDS]" for i in range(1, 1000)))
    assert kept(one) == kept(many)


def test_equal_filters_are_evaluated_once() -> None:
    """However they are spelt."""
    engine = engine_with(
        "SELECT SUM(x) AS v FROM s [RANGE 5 SECONDS] WHERE n > 3",
        "SELECT MAX(x) AS v FROM s [RANGE 9 SECONDS SLIDE 1 SECOND] where (N  >  3)",
        "SELECT SUM(x) FILTER (WHERE 3 < n) AS v FROM s [ROWS 10]",
    )
    (predicate,) = engine._shards["s"].state.wanted.predicates
    assert predicate.sql == "n > 3"


@pytest.mark.parametrize("window", ["[RANGE 5 SECONDS]", "[RANGE 5 SECONDS SLIDE 1 SECOND]"])
@pytest.mark.parametrize("condition", ["n > 3", "k = 'a'"])
def test_where_and_filter_share(window: str, condition: str) -> None:
    """In time windows without keys they mean the same, so the second one adds no state; nor do both at once."""
    engine = engine_with(f"SELECT SUM(x) AS v, COUNT(*) AS c FROM s {window} WHERE {condition}")
    before = kept(engine)
    engine.register(f"SELECT AVG(x) FILTER (WHERE {condition}) AS v FROM s {window}", "filter")
    engine.register(
        f"SELECT SUM(x) FILTER (WHERE {condition}) AS v FROM s {window} WHERE {condition}", "both"
    )
    engine.register(f"SELECT COUNT(*) FILTER (WHERE {condition}) AS v FROM s {window}", "count")
    assert kept(engine) == before


def test_where_beside_filter_is_one_predicate() -> None:
    """`WHERE p` with `FILTER q` is `WHERE p AND q`."""
    engine = engine_with("SELECT SUM(x) FILTER (WHERE n < 9) AS v FROM s [RANGE 5 SECONDS] WHERE k = 'a'")
    before = kept(engine)
    engine.register("SELECT SUM(x) AS v FROM s [RANGE 7 SECONDS] WHERE k = 'a' AND n < 9", "written")
    assert kept(engine) == before


def test_rows_windows_keep_them_apart() -> None:
    """Before or after the window makes a difference there."""
    engine = engine_with("SELECT SUM(x) AS v FROM s [ROWS 5] WHERE n > 3")
    before = kept(engine)
    engine.register("SELECT SUM(x) FILTER (WHERE n > 3) AS v FROM s [ROWS 5]", "filter")
    assert kept(engine) != before


def test_what_nobody_needs_is_freed() -> None:
    """A drop leaves exactly what was there before the query came."""
    engine = engine_with("SELECT SUM(n) AS v FROM s [RANGE 5 SECONDS]")
    engine.push("s", {"ts": list(range(100)), "k": ["a"] * 100, "n": list(range(100)), "x": [0.5] * 100})
    before, size = kept(engine), engine.stats()["streams"]["s"]["bytes"]
    engine.register("SELECT k, QUANTILE(x, 0.5) AS q, MAX(x) AS m FROM s [RANGE 1 HOUR] GROUP BY k", "more")
    engine.register("SELECT VAR_POP(x) AS v FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] WHERE k = 'a'", "filtered")
    assert kept(engine) != before
    engine.drop("more")
    engine.drop("filtered")
    assert (kept(engine), engine.stats()["streams"]["s"]["bytes"]) == (before, size)
    engine.check()
