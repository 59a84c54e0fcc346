"""Views with EXCEPT: events of one stream whose values no event of the other has, recomputed naively."""

from __future__ import annotations

import tempfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Engine
from muntin.errors import MuntinError
from muntin.store.event_log import EventLog

SECOND = 1_000_000
STREAMS = """
CREATE STREAM a (ts TIMESTAMP, k VARCHAR, x BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS;
CREATE STREAM b (ts TIMESTAMP, k VARCHAR, y BIGINT) TIMESTAMP BY ts
"""
VIEW = """CREATE MATERIALIZED VIEW v AS SELECT k, x FROM a [RANGE 20 SECONDS] WHERE x < 4
EXCEPT SELECT k FROM b [RANGE 6 SECONDS] WHERE y > 0 EVERY 2 SECONDS"""
KEYS = ["p", "q", "r", None]


class Twin:
    """All events ever; the answer is found by looking at each."""

    def __init__(self) -> None:
        self.left: list[tuple] = []
        self.right: list[tuple] = []

    def batch(self, random, since, until, name, count):
        ts = np.sort(random.integers(since * SECOND, until * SECOND, count))
        keys = [KEYS[n] for n in random.integers(0, 4, count)]
        values = random.integers(0, 5, count)
        (self.left if name == "x" else self.right).extend(
            zip(ts.tolist(), keys, values.tolist(), strict=True)
        )
        return {"ts": ts, "k": pa.array(keys, pa.string()), name: values}

    def answer(self, now):
        at = now * SECOND
        blocked = {k for ts, k, y in self.right if at - 6 * SECOND <= ts < at and y > 0 and k is not None}
        return Counter(
            (k, x) for ts, k, x in self.left if at - 20 * SECOND <= ts < at and x < 4 and k not in blocked
        )


def held(engine, where=""):
    table = engine.execute(f"SELECT k, x FROM v {where}")
    return Counter(zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True))


def step(engine, twin, random, since, now, left=6, right=2):
    engine.push("a", twin.batch(random, since, now, "x", left))
    engine.push("b", twin.batch(random, since, now, "y", right))
    engine.advance(now * SECOND)


@pytest.mark.parametrize(
    "index", ["", " INDEX 'rebuild 2x2'", " INDEX 'wata 3'", " INDEX 'lazy_rebuild 3x2'"]
)
def test_holds_what_is_not_negated(tmp_path, index):
    engine, twin, random, now = Engine(archive=tmp_path), Twin(), np.random.default_rng(1), 0
    engine.execute(f"{STREAMS}; {VIEW}{index}")
    seen = 0
    for length in (2, 2, 2, 4, 2, 6, 2, 2, 30, 2, 3, 3, 2, 2, 2, 2):
        since, now = now, now + length
        step(engine, twin, random, since, now, right=int(random.integers(0, 3)))
        expected = twin.answer(now - now % 2)
        assert held(engine) == expected
        assert held(engine, "WHERE k = 'q'") == Counter(
            {row: n for row, n in expected.items() if row[0] == "q"}
        )
        seen += sum(expected.values())
    assert seen > 50
    assert all(engine.execute("SELECT k FROM v")["complete"].to_pylist())
    engine.check()


@settings(max_examples=6)
@given(stop=st.integers(1, 10), ahead=st.integers(0, 4), seed=st.integers(0, 99), skip=st.booleans())
def test_survives_a_restart(stop, ahead, seed, skip):
    """Replayed from an older checkpoint, also with fewer calls of advance."""
    with tempfile.TemporaryDirectory() as folder:
        engine, twin = Engine(archive=f"{folder}/views"), Twin()
        engine.execute(f"{STREAMS}; {VIEW}")
        for now in range(2, 2 * stop + 2, 2):
            step(engine, twin, np.random.default_rng((seed, now)), now - 2, now)
        engine.checkpoint(f"{folder}/checkpoint")
        for now in range(2 * stop + 2, 2 * (stop + ahead) + 2, 2):
            step(engine, Twin(), np.random.default_rng((seed, now)), now - 2, now)
        engine.close()
        again = Engine.restore(f"{folder}/checkpoint", archive=f"{folder}/views")
        for now in range(2 * stop + 2, 40, 2):
            random = np.random.default_rng((seed, now))
            again.push("a", twin.batch(random, now - 2, now, "x", 6))
            again.push("b", twin.batch(random, now - 2, now, "y", 2))
            if skip and now <= 2 * (stop + ahead):
                continue
            again.advance(now * SECOND)
            if now >= 2 * (stop + ahead):
                assert held(again) == twin.answer(now)
        again.check()
        again.close()


def test_joins_and_negations_share_a_stream(tmp_path):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(4)
    engine.execute(f"{STREAMS}; {VIEW}")
    join = "SELECT a.k, a.x, b.y FROM a [RANGE 20 SECONDS] JOIN b [RANGE 6 SECONDS] ON a.k = b.k"
    engine.execute(f"CREATE MATERIALIZED VIEW j AS {join} EVERY 2 SECONDS")
    engine.register(join, "live")
    for now in range(2, 30, 2):
        step(engine, twin, random, now - 2, now)
        assert held(engine) == twin.answer(now)
        assert engine.lookup("j").num_rows == engine.lookup("live", at=now * SECOND).num_rows
    with pytest.raises(MuntinError, match="stream 'b' is read by query"):
        engine.execute("DROP STREAM b")
    engine.execute("DROP MATERIALIZED VIEW v; DROP MATERIALIZED VIEW j; DROP QUERY live; DROP STREAM b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("EXCEPT SELECT k", "EXCEPT SELECT y"), "'y' after EXCEPT is no column before it"),
        (("EXCEPT SELECT k", "EXCEPT SELECT y AS k"), "'k' is string before EXCEPT and int64 after it"),
        (("SELECT k, x", "SELECT k, SUM(x) AS x"), "plain SELECTs of one stream"),
        (("[RANGE 6 SECONDS]", ""), "each stream needs a window such as b"),
        (("[RANGE 6 SECONDS]", "[ROWS 6 TO 2]"), "each stream needs a window such as b"),
        ((" EVERY 2 SECONDS", ""), "say how often the view is updated"),
        (("[RANGE 6 SECONDS]", "[RANGE 6 SECONDS SLIDE 1 SECOND]"), "EVERY and SLIDE disagree"),
    ],
)
def test_bad_statements(tmp_path, change, message):
    engine = Engine(archive=tmp_path)
    engine.execute(STREAMS)
    with pytest.raises(MuntinError, match=message):
        engine.execute(VIEW.replace(*change))
    assert not list(tmp_path.iterdir())


def test_complete_when_both_windows_are_known(tmp_path):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(5)
    engine.execute(STREAMS)
    step(engine, twin, random, 0, 10)
    engine.execute(VIEW)
    for now in range(12, 36, 2):
        step(engine, twin, random, now - 2, now)
        assert set(engine.execute("SELECT COUNT(*) AS n FROM v")["complete"].to_pylist()) == {now >= 30}
    assert held(engine) == twin.answer(34)


def test_smaller_windows_are_refused(tmp_path):
    engine = Engine(archive=tmp_path)
    engine.execute(f"{STREAMS}; {VIEW}")
    with pytest.raises(MuntinError, match="answers for its own windows only"):
        engine.execute("SELECT k FROM v [RANGE 2 SECONDS]")


def test_equality_of_several_columns():
    """One column after the other is compared; NULL equals nothing."""
    engine = Engine(archive=tempfile.mkdtemp())
    engine.execute("""
        CREATE STREAM a (ts BIGINT, k VARCHAR, x BIGINT) TIMESTAMP BY ts;
        CREATE STREAM b (ts BIGINT, k VARCHAR, x BIGINT) TIMESTAMP BY ts;
        CREATE MATERIALIZED VIEW v AS SELECT k, x, k AS again FROM a [RANGE 9 SECONDS]
        EXCEPT SELECT k, x, k AS again FROM b [RANGE 9 SECONDS] EVERY 1 SECOND
    """)
    texts = pa.array(["a", "b", "a", "a", None], pa.string())
    engine.push("a", {"ts": [0] * 5, "k": texts, "x": pa.array([1, 1, 2, None, 2], pa.int64())})
    blocked = pa.array(["b", "a", "a"], pa.string())
    engine.push("b", {"ts": [0] * 3, "k": blocked, "x": pa.array([1, 2, None], pa.int64())})
    for stream in "ab":
        engine.push(stream, {"ts": [2 * SECOND], "k": ["z"], "x": [9 if stream == "a" else 8]})
    engine.advance()
    assert held(engine) == Counter([("a", 1), ("a", None), (None, 2)])


def test_an_update_costs_what_changes(monkeypatch):
    """Not what is in the windows: events that stay are not looked at."""
    engine = Engine(archive=tempfile.mkdtemp())
    engine.execute(STREAMS)
    engine.execute("""CREATE MATERIALIZED VIEW v AS SELECT k, x FROM a [RANGE 1 HOUR]
        EXCEPT SELECT k FROM b [RANGE 1 HOUR] EVERY 2 SECONDS""")
    taken = []
    take = EventLog.take
    monkeypatch.setattr(
        EventLog, "take", lambda log, name, numbers: taken.append(len(numbers)) or take(log, name, numbers)
    )
    for now in range(0, 400, 4):
        names = [f"k{now + n}" for n in range(4)] * 5
        ts = np.sort(now * SECOND + np.arange(20) * SECOND // 5)
        engine.push("a", {"ts": ts, "k": names, "x": np.arange(20)})
        engine.push("b", {"ts": [now * SECOND], "k": [f"k{now - 200}"], "y": [1]})
        taken.clear()
        engine.advance()
        assert sum(taken) <= 400, now
    assert len(held(engine)) > 1000


def test_values_that_are_gone_are_forgotten():
    """The dictionaries follow the windows, and answers are right before and after ids are given anew."""
    engine = Engine(archive=tempfile.mkdtemp())
    engine.execute("""
        CREATE STREAM a (ts BIGINT, k BIGINT, x BIGINT) TIMESTAMP BY ts;
        CREATE STREAM b (ts BIGINT, k BIGINT) TIMESTAMP BY ts;
        CREATE MATERIALIZED VIEW v AS SELECT k, x FROM a [RANGE 2 SECONDS]
        EXCEPT SELECT k FROM b [RANGE 3 SECONDS] EVERY 1 SECOND
    """)
    view = engine._views.at_work["v"]
    for now in range(20):
        keys = np.arange(3000) + 2000 * now
        engine.push("a", {"ts": np.full(3000, now * SECOND), "k": keys, "x": keys})
        engine.push("b", {"ts": np.full(1500, now * SECOND), "k": keys[::2] + now % 3})
        engine.advance()
        if now < 4:
            continue
        seen = range(now - 2, now)
        blocked = {int(k) for n in range(now - 3, now) for k in np.arange(3000)[::2] + 2000 * n + n % 3}
        wanted = Counter((k, k) for n in seen for k in range(2000 * n, 2000 * n + 3000) if k not in blocked)
        assert held(engine) == wanted, now
    operator = view.operator
    assert len(operator._by_value._keys) < 20_000
    assert len(operator._present._keys) < 20_000
