"""Queries that come while the stream runs: they answer at once, say whether they are complete, and
change nothing for the queries that were there before."""

from __future__ import annotations

from typing import Any

import pytest

import muntin

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts"
WINDOWS = ("[RANGE 2 SECONDS]", "[RANGE 4 SECONDS SLIDE 2 SECONDS]", "[ROWS 2]", "[ROWS 4 SLIDE 2]")
# each needs something that a query counting events does not keep
OTHERS = (
    "SELECT SUM(v) AS v FROM s {}",
    "SELECT MEDIAN(x) AS x FROM s {}",
    "SELECT COUNT(*) FILTER (WHERE v > 2) AS n FROM s {}",
    "SELECT k, LAST(v) AS v FROM s {} GROUP BY k",
    "SELECT COUNT(*) AS n FROM s {} WHERE v > 2",
    "SELECT COUNT(*) AS n FROM s [RANGE 60 SECONDS]",
)


def make_engine(**queries: str) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    return engine


def push(engine: muntin.Engine, *times: float) -> None:
    """Events at the given seconds, with v counting them."""
    first = engine.stats()["streams"]["s"]["events"]
    many = range(first, first + len(times))
    columns: dict[str, list[Any]] = {
        "ts": [int(time * SECOND) for time in times], "k": ["ab"[number % 2] for number in many],
        "v": list(many), "x": [number / 4 for number in many],
    }  # fmt: skip
    engine.push("s", columns)


def rows(engine: muntin.Engine, name: str) -> list[dict[str, Any]]:
    return list(engine.lookup(name).to_pylist())


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("other", OTHERS)
def test_another_query_changes_nothing(window: str, other: str) -> None:
    """A query that saw the whole stream stays complete when others come and go."""
    count = f"SELECT COUNT(*) AS n, MAX(v) AS v FROM s {window}"
    joined, alone = make_engine(count=count), make_engine(count=count)
    for engine in (joined, alone):
        push(engine, 1, 2, 3, 5, 5, 6, 7)
    joined.register(other.format(window), name="other")
    assert rows(joined, "count") == rows(alone, "count")
    for engine in (joined, alone):
        push(engine, 8, 8.5, 9)
    assert rows(joined, "count") == rows(alone, "count")
    assert joined.advance()["count"].to_pylist() == alone.advance()["count"].to_pylist()
    joined.drop("other")
    for engine in (joined, alone):
        push(engine, 10, 11, 12)
    assert rows(joined, "count") == rows(alone, "count")
    assert all(row["complete"] for row in rows(joined, "count"))


@pytest.mark.parametrize("window", WINDOWS)
def test_what_is_kept_is_complete(window: str) -> None:
    """A query that needs nothing but what another one keeps is complete at once."""
    text = f"SELECT COUNT(*) AS n, MAX(v) AS v FROM s {window}"
    engine = make_engine(first=text)
    push(engine, *range(1, 12))
    engine.register(text, name="second")
    assert rows(engine, "second") == rows(engine, "first")
    push(engine, *range(12, 20))
    assert rows(engine, "second") == rows(engine, "first")


@pytest.mark.parametrize("slide", ["", " SLIDE 1 SECOND", " SLIDE 5 SECONDS", " SLIDE 60 SECONDS"])
@pytest.mark.parametrize("short", ["[RANGE 1 SECOND]", "[RANGE 10 SECONDS SLIDE 10 SECONDS]"])
@pytest.mark.parametrize("is_advanced", [False, True])
def test_answers_at_once(slide: str, short: str, is_advanced: bool) -> None:
    """From what there is: never with an error, and `complete` only where it is."""
    engine, whole = make_engine(short=f"SELECT SUM(v) AS v FROM s {short}"), make_engine()
    whole.register(f"SELECT SUM(v) AS v FROM s [RANGE 60 SECONDS{slide}]", name="late")
    for each in (engine, whole):
        push(each, *range(-20, 42))
    if is_advanced:
        engine.advance()
    engine.register(f"SELECT SUM(v) AS v FROM s [RANGE 60 SECONDS{slide}]", name="late")
    (row,), (right,) = rows(engine, "late"), rows(whole, "late")
    assert row == right or (not row["complete"] and row["window_end"] == right["window_end"])


def test_complete_once_covered() -> None:
    """False while the window reaches back behind the registration, true from then on."""
    engine = make_engine(other="SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    push(engine, 1, 2, 3, 4)
    engine.register("SELECT SUM(v) AS v FROM s [RANGE 3 SECONDS]", name="late")
    seen = []
    for second in range(5, 12):
        push(engine, second)
        (row,) = rows(engine, "late")
        seen.append(row["complete"])
    # at 7.000001 the window starts at 4.000001, just after the last event that came before the query
    assert seen == [False, False, True, True, True, True, True]


@pytest.mark.parametrize("slide", ["1 SECOND", "2 SECONDS", "700 MILLISECONDS"])
def test_slices_complete_once_covered(slide: str) -> None:
    """The same on a grid, whatever the grid of the queries that were there: no later than need be."""
    engine = make_engine(other="SELECT SUM(v) AS v FROM s [RANGE 60 SECONDS SLIDE 20 SECONDS]")
    push(engine, 6)
    engine.register(f"SELECT SUM(v) AS v FROM s [RANGE {slide} SLIDE {slide}]", name="late")
    emitted = engine.advance(until=30 * SECOND)["late"]
    starts = emitted["window_start"].cast("int64").to_pylist()
    assert emitted["complete"].to_pylist() == [start > 6 * SECOND for start in starts]


@pytest.mark.parametrize("rest", ["", " WHERE v < 100", " GROUP BY v < 100"])
def test_counting_from_the_middle_is_not_complete(rest: str) -> None:
    """[ROWS … SLIDE] that missed events cannot know where the multiples of its slide fall, unless the
    stream's own count tells."""
    engine = make_engine()
    push(engine, 1)
    engine.register(f"SELECT LAST(v) AS v FROM s [ROWS 1 SLIDE 2]{rest}", name="late")
    push(engine, 2, 3, 4)
    for row in rows(engine, "late"):
        assert not row["complete"] or row["v"] == 3
    emitted = engine.advance(until=10 * SECOND).get("late")
    for row in emitted.to_pylist() if emitted is not None else []:
        assert not row["complete"] or row["v"] in (1, 3)


def test_emits_only_what_closes_after() -> None:
    """Windows that ended up to the watermark at registration belong to the past."""
    engine = make_engine(early="SELECT COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]")
    push(engine, 1, 3, 6)
    engine.register("SELECT COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]", name="late")
    push(engine, 9)
    emitted = engine.advance()
    assert emitted["early"]["n"].to_pylist() == [1, 1, 0, 1]
    assert [end.second for end in emitted["late"]["window_end"].to_pylist()] == [8]
