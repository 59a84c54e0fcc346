"""Small batches that wait: nothing that can be asked tells that they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from effort import some_of

STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
QUERIES = {
    "keyed": "SELECT k, SUM(n) AS n, MAX(x) AS x FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS] WHERE n > 1 GROUP BY k",
    "rows": "SELECT COUNT(*) AS n, LAST(k) AS k FROM s [ROWS 5]",
    "changes": "SELECT k FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING COUNT(*) > 1 EMIT CHANGES",
}
SECOND = 1_000_000


def started(queries: dict[str, str] = QUERIES) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    engine.push("s", events([0], 0))  # small batches wait once time has begun
    return engine


def events(at: list[int], number: int = 0) -> dict[str, Any]:
    return {
        "ts": np.array(at) * SECOND // 4,
        "k": ["abc"[(number + i) % 3] for i in range(len(at))],
        "n": [(number + i) % 5 for i in range(len(at))],
        "x": [float(number - i) for i in range(len(at))],
    }


def waits(engine: muntin.Engine) -> int:
    return len(engine._catalog.shards["s"]._buffer)


def settle(engine: muntin.Engine) -> None:
    assert engine._catalog.shards["s"].state is not None  # to look is to have all taken in


def read(engine: muntin.Engine, way: int) -> Any:
    name = list(QUERIES)[way % 3]
    if way < 3:
        return engine.lookup(name).to_pylist()
    if way < 6:
        return {each: table.to_pylist() for each, table in engine.advance().items()}
    stats = engine.stats()["streams"]["s"]
    return [stats[each] for each in ("events", "late", "watermark")]


STEPS = st.lists(
    st.tuples(st.lists(st.integers(-10, 8), min_size=1, max_size=4), st.integers(-20, 7)), max_size=20
)


@given(steps=STEPS)
@settings(max_examples=some_of(200, 30), deadline=None)
def test_waiting_changes_no_answer(steps: list[tuple[list[int], int]]) -> None:
    engine, other = started(), started()
    now = 0
    for number, (ahead, way) in enumerate(steps):
        at = [max(0, now + each) for each in ahead]
        now = max(now, *at)
        for each in (engine, other):
            each.push("s", events(at, number))
        settle(other)
        assert waits(other) == 0
        if way >= 0:
            assert read(engine, way) == read(other, way)
    for way in range(7):
        assert read(engine, way) == read(other, way)
    engine.check()


def test_that_in_order_waits_until_somebody_asks() -> None:
    engine = started()
    for second in range(5):
        engine.push("s", events([4 * second + 1, 4 * second + 2]))
    assert waits(engine) == 10
    assert engine.stats()["streams"]["s"]["events"] == 11
    assert waits(engine) == 0


def test_that_a_late_event_is_left_out_at_once() -> None:
    engine = started()
    engine.push("s", events([40]))
    engine.push("s", events([1]))
    assert waits(engine) == 0
    assert engine.stats()["streams"]["s"]["late"] == 1


def test_that_memory_of_a_batch_is_its_owners() -> None:
    """Arrow takes arrays of NumPy as they are: who fills them again must not change what was pushed."""
    engine, ts, n = started(), np.array([4 * SECOND]), np.array([3])
    for _ in range(3):
        engine.push("s", {"ts": ts, "k": ["a"], "n": n, "x": [1.0]})
        ts += SECOND
        n += 100
    assert waits(engine) == 3
    engine.advance(until=8 * SECOND)
    assert engine.lookup("keyed", key="a", at=8 * SECOND)["n"].to_pylist() == [3 + 103 + 203]


@pytest.mark.parametrize(
    "query",
    ["SELECT SUM(n * n) AS n FROM s [ROWS 3]", "SELECT SUM(CAST(n AS INTEGER)) AS n FROM s [ROWS 3]"],
)
def test_that_an_error_is_told_to_its_pusher(query: str) -> None:
    """What may have no value is computed at once."""
    engine = started({"q": query})
    with pytest.raises(muntin.MuntinError):
        engine.push("s", {"ts": [4 * SECOND], "k": ["a"], "n": [2**62 + 1], "x": [1.0]})
    engine.push("s", {"ts": [4 * SECOND], "k": ["a"], "n": [3], "x": [1.0]})
    assert engine.stats()["streams"]["s"]["events"] == 2


def test_that_an_integer_above_64_bits_is_told_to_its_pusher() -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, n UBIGINT) TIMESTAMP BY ts")
    engine.register("SELECT SUM(n) AS n FROM s [ROWS 3]", "q")
    engine.push("s", {"ts": [0], "n": [1]})
    with pytest.raises(muntin.SchemaError, match="above"):
        engine.push("s", {"ts": [1], "n": [2**63]})


def test_that_a_checkpoint_has_what_waits(tmp_path: Path) -> None:
    engine = started()
    engine.push("s", events([4, 5, 6]))
    assert waits(engine) == 3
    engine.checkpoint(tmp_path / "state")
    restored = muntin.Engine.restore(tmp_path / "state")
    assert restored.lookup("rows") == engine.lookup("rows")
    assert restored.stats()["streams"]["s"]["events"] == 4


def test_that_a_new_query_begins_after_what_waits() -> None:
    engine = started()
    engine.push("s", events([4, 5, 6]))
    engine.register("SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR] WHERE n = 0", "later")
    assert engine.lookup("later")["n"].to_pylist() == [0]


def test_that_a_backfill_has_what_is_pushed_meanwhile() -> None:
    engine = started()
    engine.push("s", events([4]))

    def history() -> Any:
        yield pa.record_batch(pa.table(events([1, 2])).cast(schema()).to_batches()[0])
        engine.push("s", events([8]))
        engine.push("s", events([9]))

    reader = pa.RecordBatchReader.from_batches(schema(), history())
    engine.register("SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR]", "filled", backfill=reader)
    assert engine.lookup("filled")["n"].to_pylist() == [4]


def schema() -> pa.Schema:
    return pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])


def test_that_nothing_is_lost_if_it_cannot_be_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = started()
    engine.push("s", events([4, 5, 6]))
    with monkeypatch.context() as broken:
        broken.setattr("muntin.shard.state.prepare", lambda *_: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            engine.lookup("rows")
    assert waits(engine) == 3
    assert engine.stats()["streams"]["s"]["events"] == 4


def test_that_a_stream_of_windows_elsewhere_is_no_reason_not_to_wait() -> None:
    engine = started()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, n BIGINT) TIMESTAMP BY ts")
    engine.execute("REGISTER QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND]")
    engine.execute("CREATE STREAM seconds FROM QUERY q")
    engine.push("s", events([4, 5, 6]))
    assert waits(engine) == 3
