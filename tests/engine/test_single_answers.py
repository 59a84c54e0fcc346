"""`value` and `lookup_many` say what `lookup` says, and faster paths give the same as the general one."""

from __future__ import annotations

import numpy as np
import pytest

from muntin import Engine
from muntin.errors import MuntinError, NoValue, WindowTooLarge

QUERIES = [
    f"SELECT {call} AS v FROM s {window}{where}"
    for call in ("SUM(n)", "SUM(x)", "AVG(x)", "MAX(x)", "MIN(n)", "COUNT(*)", "COUNT(x)", "LAST(x)", "FIRST(n)",
                 "VAR_SAMP(x)", "QUANTILE(x, 0.9)", "COUNT(DISTINCT n)", "SUM(x) FILTER (WHERE n > 3)")
    for window in ("[RANGE 7 SECONDS]", "[RANGE 20 SECONDS TO 3 SECONDS]", "[RANGE 8 SECONDS SLIDE 2 SECONDS]",
                   "[RANGE 30 SECONDS SLIDE 10 SECONDS]", "[RANGE 1 MICROSECOND]", "[RANGE 5 SECONDS TO 5 SECONDS]",
                   "[RANGE 20 SECONDS TO 20 SECONDS SLIDE 10 SECONDS]")
    for where in ("", " WHERE n % 2 = 0")
]  # fmt: skip


@pytest.fixture(params=[0, 1], ids=["in order", "with some registered late"])
def engine(request: pytest.FixtureRequest) -> Engine:
    rng = np.random.default_rng(3)
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND")
    half = len(QUERIES) // 2 if request.param else len(QUERIES)
    engine.register_many({f"q{i}": sql for i, sql in enumerate(QUERIES[:half])})
    for turn in range(6):
        at = (
            np.sort(rng.integers(0, 10_000_000, 40)) + turn * 10_000_000 + rng.integers(-400_000, 400_000, 40)
        )
        engine.push("s", {"ts": at, "n": rng.integers(0, 9, 40), "x": rng.normal(size=40)})
        engine.advance()
        if turn == 3:
            engine.register_many({f"q{i}": sql for i, sql in enumerate(QUERIES) if i >= half})
    return engine


@pytest.mark.parametrize("at", [None, 59_500_000, 65_000_000, 100_000_000])
def test_all_ways_agree(engine: Engine, at: int | None) -> None:
    """For every aggregate, window and filter, now, a little earlier and later."""
    names = list(engine.queries)
    many = engine.lookup_many(names, at=at)
    for row, name in zip(many.to_pylist(), names, strict=True):
        general = general_answer(engine, name, at)
        assert engine.lookup(name, at=at).to_pylist() == [general]
        assert engine.value(name, at=at) == general["v"]
        assert row == {"query": name} | {key: value for key, value in general.items() if key != "v"} | {
            "value": general["v"]
        }


def general_answer(engine: Engine, name: str, at: int | None) -> dict[str, object]:
    """By the path that any query can go: with the fast one out of the way."""
    readers = engine._shards["s"].state.prepared.readers
    kept = readers.get(name)
    readers[name] = None
    try:
        (row,) = engine.lookup(name, at=at).to_pylist()
        return row
    finally:
        if kept is None:
            del readers[name]
        else:
            readers[name] = kept


def test_forgotten_instants_are_refused_alike(engine: Engine) -> None:
    for ask in (engine.lookup, engine.value, lambda name, at: engine.lookup_many([name], at=at)):
        with pytest.raises(WindowTooLarge, match="needs events that have been dropped"):
            ask("q0", at=8_000_000)


def test_before_the_first_event() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts")
    engine.register("SELECT SUM(n) AS v, COUNT(*) AS c FROM s [RANGE 5 SECONDS]", "q")
    (row,) = engine.lookup("q").to_pylist()
    assert row == {"v": None, "c": 0, "window_start": None, "window_end": None, "complete": True}
    assert engine.value("q") is None
    (many,) = engine.lookup_many(["q"]).to_pylist()
    assert many == {"query": "q", "value": None, "window_start": None, "window_end": None, "complete": True}


def test_every_structure_agrees_with_itself() -> None:
    """One run at a time or many, asked for by hint: the same numbers, also over NULL only, and an error alike."""
    rng = np.random.default_rng(5)
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
    calls = ("COUNT(n)", "SUM(n)", "SUM(x)", "MIN(x)", "MAX(n)", "FIRST(x)", "LAST(n)", "VAR_POP(x)")
    hints = ("r_int", "b_int", "l_int", "psoup", "monotone_deque", "materialize_none", "slices")
    some = {"r_int": ("COUNT(n)", "SUM(n)", "FIRST(x)", "LAST(n)"), "monotone_deque": ("MIN(x)", "MAX(n)")}
    for hint in hints:
        for call in some.get(hint, calls):
            sql = f"SELECT /*+ SYNOPSIS({hint}) */ {call} AS v FROM s [RANGE 9 SECONDS TO 2 SECONDS SLIDE 1 SECOND]"
            engine.register(sql, f"{hint} {call}")
    n = [None if rng.random() < 0.5 else int(each) for each in rng.integers(-9, 9, 300)]
    x = [None if 100 < i < 200 else float(each) for i, each in enumerate(rng.normal(size=300))]
    engine.push("s", {"ts": np.arange(300) * 100_000, "n": n, "x": x})
    for name in engine.queries:
        for at in range(1_500_000, 33_000_000, 6_000_000):
            general = general_answer(engine, name, at)
            assert engine.value(name, at=at) == general["v"], (name, at)
            assert engine.lookup(name, at=at).to_pylist() == [general]


def test_sums_beyond_64_bits_are_refused_alike() -> None:
    """And answered again once what made them too large has left."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts")
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 3 SECONDS]", "q")
    engine.push("s", {"ts": [0, 1_000_000], "n": [2**63 - 1, 2**63 - 1]})
    for ask in (engine.lookup, engine.value):
        with pytest.raises(NoValue, match="query 'q' has no answer: SUM does not fit 64 bits"):
            ask("q")
    with pytest.warns(RuntimeWarning, match="query 'q' leaves out 1 row"):
        assert engine.lookup_many(["q"]).num_rows == 0
    engine.push("s", {"ts": [3_500_000], "n": [-5]})
    assert engine.value("q") == engine.lookup("q")["v"][0].as_py() == 2**63 - 6


def test_whole_numbers_stay_whole() -> None:
    """Also beyond what a double can tell apart."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts")
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 5 SECONDS]", "q")
    engine.push("s", {"ts": [0, 1], "n": [2**53, 1]})
    assert engine.value("q") == engine.lookup_many(["q"])["value"][0].as_py() == 2**53 + 1


def test_lookup_many_names_what_it_cannot_do(engine: Engine) -> None:
    engine.register("SELECT n, SUM(x) AS v FROM s [RANGE 5 SECONDS] GROUP BY n", "keyed")
    engine.register("SELECT SUM(x) / 2 AS v FROM s [RANGE 5 SECONDS]", "half")
    for name in ("keyed", "half"):
        with pytest.raises(MuntinError, match=f"lookup_many cannot answer '{name}'"):
            engine.lookup_many(["q0", name])
    with pytest.raises(MuntinError, match="there is no query 'q_0'; did you mean 'q0'"):
        engine.lookup_many(["q_0"])
    assert engine.value("half") == engine.lookup("half")["v"][0].as_py()
