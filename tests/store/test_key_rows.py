"""Windows of all keys: cells or rows, nested or alone, the answers are those of every cell merged by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from effort import some_of
from muntin import Engine
from muntin.store import key_rows
from muntin.store.key_rows import KeyRows
from muntin.structure.slices import Slices

CALLS = "COUNT(*), COUNT(x), SUM(n), SUM(x), AVG(x), MIN(n), MAX(x), FIRST(x), LAST(n), VAR_POP(x)"
WINDOWS = [
    f"[RANGE {size} SECONDS{to} SLIDE {slide} SECONDS]"
    for size, to, slide in [
        (1, "", 1), (3, "", 1), (16, "", 2), (37, "", 1), (60, "", 5), (60, " TO 7 SECONDS", 1), (200, "", 4),
    ]
]  # fmt: skip


def events(rng: np.random.Generator, second: int, keys: int, count: int) -> dict[str, Any]:
    at = np.sort(rng.integers(second * 1_000_000, (second + 5) * 1_000_000, count))
    at -= rng.integers(0, 2_000_000, count) * (rng.random(count) < 0.05)  # some out of order
    x = rng.normal(size=count)
    return {
        "ts": at,
        "k": rng.integers(0, keys, count),
        "n": rng.integers(-50, 50, count),
        "x": pa.array(x, mask=rng.random(count) < 0.05),
    }


def engine_of() -> Engine:
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
    )
    for number, window in enumerate(WINDOWS):
        engine.register(f"SELECT k, {CALLS} FROM s {window} GROUP BY k", f"q{number}")
    return engine


def rows_of(engine: Engine) -> list[KeyRows]:
    state = engine._shards["s"].state
    return [
        rows
        for synopsis in state.synopses.values()
        if isinstance(synopsis, Slices)
        for rows in synopsis._rows.values()
    ]


def assert_same(one: pa.Table, other: pa.Table) -> None:
    assert one.schema == other.schema
    floats = [field.name for field in one.schema if pa.types.is_floating(field.type)]
    assert one.drop(floats).equals(other.drop(floats))
    left, right = ([table[name].combine_chunks() for name in floats] for table in (one, other))
    assert [each.is_valid() for each in left] == [each.is_valid() for each in right]
    left, right = (np.array([each.fill_null(0) for each in some]) for some in (left, right))
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)  # merged in another order


@pytest.mark.parametrize("seed", range(some_of(3, 34)))
def test_rows_change_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that reads rows answers as one that merges cells, by look-up and by advance, out of order too."""
    rng = np.random.default_rng(seed)
    plain, rowed = engine_of(), engine_of()
    for second in range(0, 300, 5):
        batch = events(rng, second, keys=12 if second < 150 else 40, count=200)
        for engine in (plain, rowed):
            engine.push("s", batch)
        for rows in rows_of(rowed):
            rows.is_on = True
        for rows in rows_of(plain):
            rows.drop()
        if rng.random() < 0.5:
            monkeypatch.setattr(key_rows, "_DENSE", 2.0)  # never dense
            expected = plain.advance()
            monkeypatch.setattr(key_rows, "_DENSE", 0.0)
            actual = rowed.advance()
            assert expected.keys() == actual.keys()
            for name in expected:
                assert_same(expected[name], actual[name])
            rowed.check()
        for number in rng.choice(len(WINDOWS), 3, replace=False):
            assert_same(plain.lookup(f"q{number}"), rowed.lookup(f"q{number}"))


def test_rows_are_made_when_they_have_been_paid_for() -> None:
    """Look-ups of all keys, once they have visited enough cells, bring rows about; sparse keys never do."""
    rng = np.random.default_rng(0)
    dense, sparse = engine_of(), engine_of()
    for second in range(0, 200, 5):
        dense.push("s", events(rng, second, keys=10, count=200))
        sparse.push("s", events(rng, second, keys=5_000, count=200))
    assert not any(rows.is_on for rows in rows_of(dense))
    for _ in range(10):
        for engine in (dense, sparse):
            engine.lookup("q6")
    assert any(rows.is_on for rows in rows_of(dense))
    assert not any(rows.is_on for rows in rows_of(sparse))
    assert "key rows" in dense.explain("q6")
    dense.check()


def test_windows_that_end_together_share_one_scan() -> None:
    """The cells visited for many nested windows are those of the longest one."""
    rng = np.random.default_rng(1)
    engine = engine_of()
    for second in range(0, 100, 5):
        engine.push("s", events(rng, second, keys=6, count=200))
    state = engine._shards["s"].state
    (synopsis,) = (each for each in state.synopses.values() if isinstance(each, Slices))
    need = next(iter(synopsis.needs.components))
    first, last = synopsis.store.dropped, synopsis.store.dropped + len(synopsis.store)
    lo = np.arange(last - 1, first - 1, -1)
    rows = synopsis._rows[need]
    rows.drop()
    out = tuple(np.empty(len(lo) * 6, array.dtype) for array in synopsis.store.cells_of(need))
    visited = rows.read(lo, last, out, np.arange(len(lo)) * 6, 6)
    assert visited == len(synopsis.store.cell_key)


def test_rows_of_a_long_window_go_with_it() -> None:
    """What rows take is what they would take had the longest window never been there."""
    rng = np.random.default_rng(2)
    engine, other = Engine(), Engine()
    for each, longest in ((engine, 1_000), (other, 10)):
        each.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
        for size in (10, longest):
            sql = f"SELECT k, SUM(n) FROM s [RANGE {size} SECONDS SLIDE 1 SECOND] GROUP BY k"
            each.register(sql, f"q{size} {len(each.queries)}")
    for second in range(0, 300, 5):
        batch = events(rng, second, keys=6, count=200)
        for each in (engine, other):
            each.push("s", batch)
            each.advance()
    before = sum(rows.nbytes() for rows in rows_of(engine))
    engine.drop("q1000 1")
    for second in range(300, 320, 5):
        batch = events(rng, second, keys=6, count=200)
        for each in (engine, other):
            each.push("s", batch)
        one, two = engine.advance(), other.advance()
        assert_same(one["q10 0"], two["q10 0"])
        engine.check()
    assert all(rows.is_on for rows in rows_of(engine))
    after, least = (sum(rows.nbytes() for rows in rows_of(each)) for each in (engine, other))
    assert after == least < before / 8
