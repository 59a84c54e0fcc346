"""One nesting for each operation signature, found from the windows of the groups when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from muntin import Engine
from muntin.errors import MuntinError
from muntin.plan import Nesting, Signature

STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"


def engine_with(*queries: str, is_running: bool = False) -> Engine:
    """Before the first event, queries are planned together when it comes; after it, one after the other."""
    engine = Engine()
    engine.execute(STREAM)
    if is_running:
        engine.push("s", {"ts": [0], "k": ["a"], "n": [1], "x": [0.5]})
    for number, sql in enumerate(queries):
        engine.register(sql, f"q{number}")
    engine.check()
    return engine


def nestings(engine: Engine) -> Mapping[Signature, Nesting]:
    return engine._shards["s"].state.manager.nestings()


def shown(engine: Engine) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = engine.stats()["streams"]["s"]["nestings"]
    return found


def sums(*specs: tuple[int, int]) -> list[str]:
    return [f"SELECT SUM(n) AS v FROM s {in_window(*spec)}" for spec in specs]


def in_window(size: int, slide: int) -> str:
    return f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]"


def test_signature_is_filter_and_keys() -> None:
    """Aggregates have no part in it; without keys nor do filters, which belong to the input there."""
    engine = engine_with(
        f"SELECT SUM(n) AS v FROM s {in_window(8, 2)}",
        f"SELECT MAX(x) AS v FROM s {in_window(8, 4)} WHERE n > 3",
        f"SELECT k, SUM(n) AS v FROM s {in_window(8, 2)} GROUP BY k",
        f"SELECT k, AVG(x) AS v FROM s {in_window(16, 4)} GROUP BY k",
        f"SELECT k, SUM(n) AS v FROM s {in_window(8, 2)} WHERE n > 3 GROUP BY k",
    )
    assert shown(engine) == {
        "without keys": {"windows": 2, "chains": 1, "optimum": 1, "members": 1, "piggybacked": 1},
        "by k": {"windows": 2, "chains": 1, "optimum": 1, "members": 2, "piggybacked": 0},
        "by k where n > 3": {"windows": 1, "chains": 1, "optimum": 1, "members": 1, "piggybacked": 0},
    }


def test_a_window_is_there_once() -> None:
    """However many components of it a query needs."""
    engine = engine_with(
        f"SELECT AVG(x) AS a, VAR_POP(x) AS b, SUM(n) OVER {in_window(16, 2)} AS c FROM s {in_window(8, 2)}"
    )
    (nesting,) = nestings(engine).values()
    assert nesting.registered == {(8_000_000, 2_000_000): 1, (16_000_000, 2_000_000): 1}


@pytest.mark.parametrize(
    "window",
    ["[RANGE 8 SECONDS]", "[RANGE 8 SECONDS TO 2 SECONDS SLIDE 2 SECONDS]", "[RANGE 2 SECONDS SLIDE 8 SECONDS]",
     "[ROWS 8]", "[ROWS 8 SLIDE 2]"],
)  # fmt: skip
def test_windows_that_nest_in_none_stay_outside(window: str) -> None:
    """They are answered from the same stores, and never in the way."""
    engine = engine_with(f"SELECT SUM(n) AS v FROM s {window}")
    assert shown(engine) == {}
    engine.push("s", {"ts": [0, 9_000_000], "k": ["a", "b"], "n": [1, 2], "x": [0.5, 0.5]})
    assert engine.lookup("q0").num_rows == 1


def test_drop_takes_windows_out_and_the_last_one_the_nesting() -> None:
    engine = engine_with(
        f"SELECT SUM(n) AS v FROM s {in_window(8, 2)}",
        f"SELECT MAX(n) AS v FROM s {in_window(8, 2)}",
        f"SELECT SUM(n) AS v FROM s {in_window(8, 4)}",
    )
    assert shown(engine)["without keys"]["windows"] == 2
    engine.drop("q0")
    engine.check()
    assert shown(engine)["without keys"]["windows"] == 2
    engine.drop("q1")
    engine.check()
    assert shown(engine)["without keys"] == {
        "windows": 1, "chains": 1, "optimum": 1, "members": 1, "piggybacked": 0
    }  # fmt: skip
    engine.drop("q2")
    engine.check()
    assert shown(engine) == {}


def test_what_is_refused_leaves_no_window_behind() -> None:
    """Neither the query itself nor those registered with it."""
    engine = engine_with(f"SELECT SUM(n) AS v FROM s {in_window(8, 2)}")
    before = shown(engine)
    with pytest.raises(MuntinError):
        engine.register_many(
            {
                "good": f"SELECT SUM(n) AS v FROM s {in_window(20, 5)}",
                "bad": f"SELECT /*+ SYNOPSIS(r_int) */ SUM(x) AS v FROM s {in_window(9, 3)}",
            }
        )
    engine.check()
    assert shown(engine) == before


def test_a_single_answer_leaves_no_window_behind() -> None:
    """A SELECT registers a query for a moment."""
    engine = engine_with(f"SELECT SUM(n) AS v FROM s {in_window(8, 2)}")
    before = shown(engine)
    engine.execute(f"SELECT SUM(n) AS v FROM s {in_window(20, 5)}")
    assert shown(engine) == before


def test_restored_engine_has_the_same_windows(tmp_path: Path) -> None:
    engine = engine_with(*(f"SELECT SUM(n) AS v FROM s {in_window(4 * i, 2 * i)}" for i in range(1, 9)))
    engine.drop("q1")
    engine.checkpoint(tmp_path / "c.muntin")
    restored = Engine.restore(tmp_path / "c.muntin")
    restored.check()
    for one, other in zip(nestings(engine).items(), nestings(restored).items(), strict=True):
        assert one[0] == other[0]
        assert one[1].registered == other[1].registered


def test_explain_shows_chains() -> None:
    engine = engine_with(*sums((8, 2), (8, 4), (16, 4), (9, 3)))
    text = engine.explain()
    assert "nesting without keys: 4 windows in 2 chains (the fewest possible), 1 of them piggybacked" in text
    assert "chain    9 SECONDS by 3 SECONDS\n" in text
    assert "chain    8 SECONDS by 2 SECONDS (and by 4 SECONDS) < 16 SECONDS by 4 SECONDS" in text
    assert engine.execute("EXPLAIN") == text


def test_explain_shows_the_fewest_chains_however_queries_came() -> None:
    """One by one, the windows would be in two chains, and a host that leaves would stay as a virtual one."""
    specs = [(8, 4), (12, 6), (4, 1), (8, 2), (12, 2)]
    engine = engine_with(*sums(*specs), is_running=True)
    assert "5 windows in 1 chain (the fewest possible), 2 of them piggybacked" in engine.explain()
    one_by_one = Nesting()
    for spec in specs:
        one_by_one.register(*spec)
    assert (len(one_by_one.chains), one_by_one.optimum) == (2, 1)
    engine = engine_with(*sums((8, 2), (8, 4), (8, 6)), is_running=True)
    engine.drop("q0")
    assert "2 windows in 2 chains (the fewest possible), 0 of them piggybacked" in engine.explain()


def test_a_nesting_is_remembered_until_its_windows_change() -> None:
    """A query that looks at the same window, or at one of another signature, leaves it as it is."""
    engine = engine_with(*sums((8, 2), (8, 4)), is_running=True)
    (before,) = nestings(engine).values()
    engine.register(f"SELECT MAX(n) AS v FROM s {in_window(8, 4)}", "same")
    engine.register(f"SELECT k, SUM(n) AS v FROM s {in_window(6, 3)} GROUP BY k", "keyed")
    unkeyed, _ = nestings(engine).values()
    assert unkeyed is before
    engine.register(sums((9, 3))[0], "other")
    unkeyed, _ = nestings(engine).values()
    assert unkeyed is not before
    assert unkeyed.windows == 3
