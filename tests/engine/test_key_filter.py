"""Keys that pass HAVING over windows without SLIDE, by an index: the same rows as by visiting every key.

Events out of order, keys that come and are forgotten, thresholds both ways, NULL, NaN, numbers that cannot be indexed
or added up, restarts: whatever comes, an index that is asked for and one that is made when it pays change no answer.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from effort import some_of
from muntin import Engine
from muntin.key_index import finders, key_finder
from muntin.shard.read import key_filter
from muntin.structure import key_runs

SECOND, TICK = 1_000_000, 100_000
CALLS = ("COUNT(*)", "COUNT(x)", "SUM(n)", "SUM(x)", "MAX(n)", "MIN(n)", "MAX(x)", "MIN(x)", "SUM(huge)")
WINDOWS = ("[RANGE 2 SECONDS]", "[RANGE 6 SECONDS]", "[RANGE 6 SECONDS]", "[RANGE 4 SECONDS SLIDE 1 SECOND]")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes and runs as large streams have them, where these would not pay."""
    for name in ("FEW", "FEW_RUNS", "_FEED"):
        monkeypatch.setattr(finders, name, 0)
    monkeypatch.setattr(finders, "_FEED_EVENT", dict.fromkeys(finders._FEED_EVENT, (0, 0)))
    for name in ("_FEED", "_READ"):
        monkeypatch.setattr(key_runs, name, 0.0)


def register_pairs(engine: Engine, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Queries, each once so that an index may serve it, and once so that none can: HAVING is more than a comparison."""
    pairs = []
    for number in range(8):
        call, window = str(rng.choice(CALLS)), str(rng.choice(WINDOWS))
        low = int(rng.integers(-2, 25))
        condition = str(rng.choice([
            f"> {low}", f">= {low}", f"< {low}", f"<= {low}", f"= {low}", f"BETWEEN {low} AND {low + 9}", f"> {low}.5",
        ]))  # fmt: skip
        index = "staircase_index" if call[:3] in ("MAX", "MIN") else "collective_index"
        hint = f"/*+ SYNOPSIS({index}) */ " if rng.random() < 0.5 else ""
        rest = f"k, SUM(huge) AS sum, {call} AS v FROM s {window} GROUP BY k HAVING {call} {condition}"
        try:
            engine.register(f"SELECT {hint}{rest}", f"index {number}")
        except Exception as refused:
            assert "cannot" in str(refused)  # an index that this range has no use for
            engine.register(f"SELECT {rest}", f"index {number}")
        engine.register(f"SELECT {rest} OR FALSE", f"all {number}")
        pairs.append((f"index {number}", f"all {number}"))
    return pairs


def random_batch(rng: np.random.Generator, now: int, delay: int) -> dict[str, Any]:
    count = int(rng.choice([1, 20, 200]))
    at = now + np.sort(rng.integers(0, 2 * SECOND, count)) - rng.integers(0, delay * SECOND + 1, count)
    at -= at % TICK  # many at the same time, and at the ends of windows
    key = rng.integers(0, rng.integers(1, 40), count) + 50 * rng.integers(0, 3)  # keys leave and return
    x, n = np.round(rng.random(count) * 9, 1), rng.integers(0, 9, count)
    huge = rng.integers(0, 4, count)
    if rng.random() < 0.25:
        x[0], n[0] = rng.choice([np.nan, -3.0, np.inf, -0.0]), -5
        huge[: count // 2] = rng.choice([2**62, -(2**62), 2**50])
    null = rng.random(count) < 0.1
    return {"ts": at, "k": key, "n": n, "huge": huge, "x": pa.array(x, mask=null)}


@pytest.fixture(params=[0, 64], ids=["fresh ones are looked up", "few fresh ones are taken"])
def fresh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_finder, "_FEW_FRESH", request.param)


@pytest.mark.parametrize("seed", range(some_of(60, 10)))
def test_an_index_without_slide_changes_no_row(seed: int, fresh: None, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    delay, now = int(rng.integers(0, 4)), 0
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, huge BIGINT, x DOUBLE) "
        f"TIMESTAMP BY ts DELAY {delay} SECONDS"
    )
    pairs = register_pairs(engine, rng)
    for step in range(12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows without a value are left out, by both
            engine.push("s", random_batch(rng, now, delay))
            now += int(rng.choice([SECOND // 2, SECOND, 9 * SECOND]))  # after silence all keys are forgotten
            if rng.random() < 0.4:
                engine.advance()
            if step == 7:
                engine.checkpoint(tmp_path / "saved")
                engine = Engine.restore(tmp_path / "saved")
            for by_index, by_all in pairs:
                at = None if rng.random() < 0.7 else now - TICK * int(rng.integers(0, 10))
                assert_same(lookup(engine, by_index, at), lookup(engine, by_all, at))
        engine.check()


def lookup(engine: Engine, name: str, at: int | None) -> pa.Table | str:
    try:
        return engine.lookup(name, at=at)
    except Exception as error:
        return type(error).__name__


def assert_same(one: pa.Table | str, other: pa.Table | str) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    one, other = one.sort_by("k"), other.sort_by("k")
    assert one.schema == other.schema
    for name in one.column_names:
        left, right = one.column(name).to_pylist(), other.column(name).to_pylist()
        assert [repr(each) for each in left] == [repr(each) for each in right], name


def busy(calls: str, keys: int = 1_500) -> Engine:
    """Many keys of which one stands out, with a window without SLIDE."""
    rng, count = np.random.default_rng(3), 60_000
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    engine.register(f"SELECT k, {calls} FROM s [RANGE 1 MINUTE] GROUP BY k HAVING COUNT(*) > 1000", "few")
    key = rng.integers(0, keys, count)
    key[rng.random(count) < 0.05] = 7
    engine.push("s", {"ts": np.arange(count) * 100, "k": key, "n": np.ones(count, np.int64)})
    return engine


def test_candidates_alone_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,500 keys the runs of a handful are visited, in the short way."""
    engine = busy("COUNT(*) AS many, SUM(n) AS total")
    for _ in range(5):
        engine.lookup("few")
    read: list[int] = []
    short = key_runs.ByKeyRuns._read_few

    def noted(self: Any, window: Any, instants: Any, wanted: Any, ids: Any) -> Any:
        read.append(len(ids))
        return short(self, window, instants, wanted, ids)

    monkeypatch.setattr(key_runs.ByKeyRuns, "_read_few", noted)
    assert engine.lookup("few")["k"].to_pylist() == [7]
    assert len(read) == 1
    assert read[0] < 50
    assert "collective_index (dense) of count of *" in engine.explain("few")


def test_keys_with_fresh_events_are_candidates_only_if_these_could_be_enough() -> None:
    """Of a stream with a long DELAY all events are fresh, and yet few keys are read."""
    rng = np.random.default_rng(5)
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 3 SECONDS")
    for call, index in (("COUNT(*)", "collective"), ("SUM(n)", "collective"), ("MAX(n)", "staircase")):
        rest = f"k, {call} AS v FROM s [RANGE 1 MINUTE] GROUP BY k HAVING {call} > 200"
        engine.register(f"SELECT /*+ SYNOPSIS({index}_index) */ {rest}", call)
    key = rng.integers(0, 1_000, 30_000)
    key[rng.random(30_000) < 0.05] = 7
    n = np.where(key == 7, 300, 1)
    engine.push("s", {"ts": np.arange(30_000) * 200, "k": key, "n": n})
    state = engine._catalog.shards["s"].state
    for call in ("COUNT(*)", "SUM(n)", "MAX(n)"):
        reader = key_filter.key_filter_of(state, call)
        assert reader is not None
        asked = reader._range.part.need
        band = finders.KeyBand(*reader._range[1:3], 1_000, is_forced=True)
        found = reader._synopsis.candidates(asked, reader._window, 30_000 * 200, 27_000 * 100, band)
        assert found is not None
        assert len(found.ids) < 30, call
        assert engine.lookup(call)["k"].to_pylist() == [7]


def test_a_tolerance_takes_no_more_parts_than_exactness() -> None:
    """HAVING APPROX shares the index of HAVING, or has a smaller one: feeding it costs no more."""
    engine = busy("COUNT(*) AS many")
    rest = "SELECT k, COUNT(*) AS many FROM s [RANGE 1 MINUTE] GROUP BY k HAVING APPROX(COUNT(*) > 1000, {})"
    for eps in (0.01, 0.25, 0.9):
        engine.register(rest.format(eps), f"rough {eps}")
    for name in ("few", "rough 0.01", "rough 0.25", "rough 0.9"):
        for _ in range(3):
            assert engine.lookup(name)["k"].to_pylist() == [7]
    synopsis = engine._catalog.shards["s"].state.synopses[1]
    parts = [place[2] for place in synopsis._finders._accounts]
    assert sorted(parts) == [1, finders.PARTS]
