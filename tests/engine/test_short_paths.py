"""Short paths (one answer, one key, the first values of many queries) give what the general way gives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import muntin
from muntin.errors import MuntinError
from muntin.plan import choices
from muntin.shard.read import lookup as short
from muntin.shard.state import State
from muntin.structure import key_runs

STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, n VARCHAR, v DOUBLE, i BIGINT) TIMESTAMP BY ts DELAY 3 MICROSECONDS"
COLUMNS = ("ts", "k", "n", "v", "i")
CALLS = (
    "COUNT(*)",
    "COUNT(v)",
    "SUM(i)",
    "SUM(v)",
    "AVG(i)",
    "MIN(v)",
    "MAX(i)",
    "FIRST(v)",
    "LAST(i)",
    "STDDEV(v)",
)
WINDOWS = (
    "[RANGE 7 MICROSECONDS]",
    "[RANGE 9 MICROSECONDS TO 2 MICROSECONDS]",
    "[RANGE 12 MICROSECONDS SLIDE 3 MICROSECONDS]",
    "[RANGE 20 MICROSECONDS TO 4 MICROSECONDS SLIDE 2 MICROSECONDS]",
    "[RANGE 4 MICROSECONDS SLIDE 1 MICROSECOND]",
    "[ROWS 3]",
    "[ROWS 6 TO 2]",
    "[ROWS 8 SLIDE 3]",
)
TIME_WINDOWS = tuple(each for each in WINDOWS if "RANGE" in each)
KEYS = ("", "k", "n", "k, n")
KEYS_ASKED: dict[str, list[Any]] = {"": [], "k": [1, 9], "n": ["a", "z"], "k, n": [(1, "a"), (9, "b")]}
HAVING = ("", "HAVING COUNT(*) > 1", "HAVING SUM(i) > 2")


@pytest.fixture(autouse=True, scope="module")
def _soon() -> Iterator[None]:
    """Lanes from one constant on, and runs that are fed at once: rules for large streams would choose neither here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MANY_LANES", "MANY_LANES_PER_KEY"):
            patch.setattr(choices, name, 1)
        for name in ("_FEED", "_READ"):
            patch.setattr(key_runs, name, 0.0)
        yield


def query(call: str, window: str, keys: str, having: str, where: str) -> str:
    shown, grouped = (f"{keys}, ", f"GROUP BY {keys}") if keys else ("", "")
    return f"SELECT {shown}{call} AS a, {call} + 1 AS b FROM s {window} {where} {grouped} {having}"


queries = st.lists(
    st.builds(
        query, st.sampled_from(CALLS), st.sampled_from(WINDOWS), st.sampled_from(KEYS), st.sampled_from(HAVING),
        st.sampled_from(("", "WHERE i > 0", "WHERE k = 1", "WHERE n = 'a'", "WHERE n = 'never'")),
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip
events = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(0, 2),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([None, 0.5, -1.5, 3.0, math.nan]),
        st.sampled_from([None, -1, 0, 2, 5, 2**62]),
    ),
    max_size=40,
)
asked_at = st.one_of(st.none(), st.integers(-5, 80))


def answers(engine: muntin.Engine, name: str, key: Any, at: int | None) -> list[Any]:
    """A table, rows and a value, or what is said in their place."""
    outcomes: list[Any] = []
    for ask in (
        lambda: engine.lookup(name, key=key, at=at).to_pydict(),
        lambda: engine.rows(name, key=key, at=at),
        lambda: engine.value(name, key=key, at=at),
    ):
        try:
            outcomes.append(plain(ask()))
        except MuntinError as error:
            outcomes.append(f"{type(error).__name__}: {error}")
    return outcomes


def plain(found: Any) -> Any:
    """NaN equal to itself, so that answers can be compared; sums of floats as far as both orders of adding agree."""
    if isinstance(found, dict):
        return {name: [plain(each) for each in column] for name, column in found.items()}
    if isinstance(found, list):
        return [{name: plain(each) for name, each in row.items()} for row in found]
    if isinstance(found, float):
        return "nan" if math.isnan(found) else float(f"{found:.12g}")
    return found


@settings(max_examples=40, deadline=None)
@given(
    texts=queries,
    rows=events,
    cuts=st.sets(st.integers(1, 39), max_size=3),
    instants=st.lists(asked_at, min_size=1, max_size=4),
)
def test_short_paths_and_the_general_way_agree(
    texts: list[str], rows: list[tuple[Any, ...]], cuts: set[int], instants: list[int | None]
) -> None:
    """After every batch, for every query, with and without a key that is there."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many({f"q{number}": text for number, text in enumerate(texts)})
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    for lo, hi in pairwise(edges):
        engine.push("s", {name: [row[column] for row in rows[lo:hi]] for column, name in enumerate(COLUMNS)})
        for number, text in enumerate(texts):
            for key in (None, *KEYS_ASKED[text.partition("GROUP BY ")[2].partition(" HAVING")[0].strip()]):
                for at in instants:
                    check(engine, f"q{number}", key, at)


def check(engine: muntin.Engine, name: str, key: Any, at: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quick = answers(engine, name, key, at)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(short, "reader_of", lambda state, name: None)
            patch.setattr(short, "key_reader_of", lambda state, name: None)
            patch.setattr(short, "key_row_reader_of", lambda state, name: None)
            patch.setattr(short, "lane_reader_of", lambda state, name: None)
            assert answers(engine, name, key, at) == quick, (name, key, at)


@settings(max_examples=25, deadline=None)
@given(rows=events, windows=st.lists(st.sampled_from(TIME_WINDOWS), min_size=1, max_size=4), at=asked_at)
def test_many_queries_at_once_and_one_by_one(
    rows: list[tuple[Any, ...]], windows: list[str], at: int | None
) -> None:
    """`lookup_many` has the first value and the window that each query has for itself."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    names = {f"q{n}": f"SELECT {CALLS[n % 4]} AS a FROM s {window}" for n, window in enumerate(windows)}
    engine.register_many(names)
    engine.push("s", {name: [row[column] for row in rows] for column, name in enumerate(COLUMNS)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = {each["query"]: each for each in engine.lookup_many(list(names), at=at).to_pylist()}
        for name in names:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(short, "reader_of", lambda state, name: None)
                try:
                    (alone,) = engine.lookup(name, at=at).to_pylist()
                except MuntinError:
                    assert name not in together
                    continue
            found = together[name]
            assert plain(None if found["value"] is None else float(found["value"])) == plain(
                None if alone["a"] is None else float(alone["a"])
            )
            assert [found[side] for side in ("window_start", "window_end", "complete")] == [
                alone[side] for side in ("window_start", "window_end", "complete")
            ]


def test_short_paths_are_taken() -> None:
    """The comparison above would be of nothing otherwise."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register("SELECT SUM(i) AS a FROM s [RANGE 7 MICROSECONDS]", name="all")
    keyed = "SELECT k, SUM(i) AS a FROM s [RANGE 6 MICROSECONDS SLIDE 2 MICROSECONDS] GROUP BY k"
    engine.register(keyed, name="keyed")
    engine.push("s", {"ts": [1, 2], "k": [1, 2], "n": ["a", "b"], "v": [0.5, 1.5], "i": [3, 4]})
    state: State = engine._shards["s"].state
    assert short.reader_of(state, "all") is not None
    assert short.reader_of(state, "keyed") is None
    assert short.key_reader_of(state, "keyed") is not None
    engine.register("SELECT SUM(i) AS a FROM s [RANGE 7 MICROSECONDS] WHERE k = 1", name="lane")
    engine.register("SELECT k, SUM(i) AS a FROM s [RANGE 7 MICROSECONDS] GROUP BY k", name="run")
    engine.register("SELECT k, SUM(i) AS a FROM s [ROWS 7] GROUP BY k", name="rows")
    assert short.lane_reader_of(state, "lane") is not None
    assert short.key_reader_of(state, "run") is not None
    assert short.key_reader_of(state, "rows") is not None
    engine.register("SELECT SUM(i) AS a FROM s [ROWS 7]", name="all rows")
    assert short.reader_of(state, "all rows") is not None


@pytest.mark.parametrize("window", ["[ROWS 7]", "[ROWS 7 TO 3]", "[ROWS 12 SLIDE 5]", "[ROWS 40 SLIDE 1]"])
@pytest.mark.parametrize("comes", ["first", "late", "with a history", "before any event"])
def test_rows_whose_events_are_forgotten(window: str, comes: str) -> None:
    """At any instant, of a stream that has forgotten its oldest events, and of a query that came late."""
    engine, sql = muntin.Engine(), f"SELECT SUM(i) AS a, COUNT(*) AS b FROM s {window}"
    engine.execute(STREAM)
    if comes == "first":
        engine.register(sql, name="q")
    for step in range(30):
        if step == 0 and comes == "before any event":
            engine.register(sql, name="q", backfill=four_events(-3))
        engine.push("s", four_events(step))
        engine.advance()
        if step == 9 and comes in ("late", "with a history"):
            history = four_events(8) if comes == "with a history" else None
            engine.register(sql, name="q", backfill=history)
        if "q" in engine.queries:
            for instant in (None, *range(4 * step - 90, 4 * step + 6, 3)):
                check(engine, "q", None, instant)


def four_events(step: int) -> dict[str, list[Any]]:
    at = [4 * step + each for each in (0, 0, 1, 3)]
    return {"ts": at, "k": [1] * 4, "n": ["a"] * 4, "v": [0.5] * 4, "i": [step, 1, 2, 3]}
