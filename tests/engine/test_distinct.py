"""DISTINCT over nested windows: a value is there once, at any age, until its latest occurrence leaves."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muntin import Engine

SECOND = 1_000_000
SIZES = (1, 2, 3, 5, 8, 30)  # seconds
EVENTS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(["a", "b", "c", None]), st.integers(0, 2)), max_size=30
)


def an_engine(slide: int) -> Engine:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 6 SECONDS")
    for size in SIZES:
        window = f"[RANGE {size} SECONDS{f' SLIDE {slide} SECONDS' if slide else ''}]"
        engine.register(f"SELECT DISTINCT k, n FROM s {window} WHERE n < 2", f"in {size}")
        engine.register(
            f"SELECT k, n, MAX(ts) AS latest FROM s {window} WHERE n < 2 GROUP BY k, n", f"when {size}"
        )
    return engine


@given(EVENTS, st.lists(st.integers(1, 30), max_size=4), st.sampled_from([0, 1, 2]), st.integers(0, 60))
def test_a_value_is_there_once(
    events: list[tuple[int, str | None, int]], cuts: list[int], slide: int, later: int
) -> None:
    engine = an_engine(slide)
    accepted: list[tuple[int, tuple[str | None, int]]] = []
    for lo, hi in zip([0, *sorted(cuts)], [*sorted(cuts), len(events)], strict=True):
        rows = [(i * SECOND + back * SECOND, k, n) for i, (back, k, n) in enumerate(events)][lo:hi]
        accepted += [(at, (k, n)) for at, k, n in rows]
        if rows:
            ts, k, n = zip(*rows, strict=True)
            engine.push("s", {"ts": list(ts), "k": list(k), "n": list(n)})
    if not accepted:
        return
    at = max(each for each, _ in accepted) + 1 + later * SECOND // 2
    settled = at - at % (slide * SECOND) if slide else at
    for size in SIZES:
        latest: dict[tuple[Any, ...], int] = {}
        for when, value in accepted:
            if value[1] < 2 and settled - size * SECOND <= when < settled:
                latest[value] = max(when, latest.get(value, when))
        found = engine.lookup(f"in {size}", at=at).to_pylist()
        assert sorted(((r["k"], r["n"]) for r in found), key=repr) == sorted(latest, key=repr)
        first_seen = list(dict.fromkeys(value for _, value in accepted))
        assert [(r["k"], r["n"]) for r in found] == [value for value in first_seen if value in latest]
        dated = engine.lookup(f"when {size}", at=at)
        times = dated.column("latest").cast("int64").to_pylist()
        assert (
            dict(zip(zip(dated["k"].to_pylist(), dated["n"].to_pylist(), strict=True), times, strict=True))
            == latest
        )


def test_all_windows_share_one_store() -> None:
    engine = an_engine(slide=1)
    one = Engine()
    one.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 6 SECONDS")
    one.register("SELECT DISTINCT k, n FROM s [RANGE 30 SECONDS SLIDE 1 SECOND] WHERE n < 2", "widest")
    for each in (engine, one):
        each.push("s", {"ts": [i * SECOND for i in range(2000)], "k": ["a"] * 2000, "n": [1] * 2000})
    stats = engine.stats()["streams"]["s"]
    assert stats["groups"] == 1
    assert stats["bytes"] <= 3 * one.stats()["streams"]["s"]["bytes"]  # MAX(ts) beside it, no more
