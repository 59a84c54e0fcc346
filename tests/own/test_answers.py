"""Queries with functions of the user's own give what those with built-in ones do, and what the oracle says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import muntin
from aggregates import OWN
from casefile import read_case
from effort import some_of
from muntin.errors import CheckpointError, FunctionError
from muntin.own.registered import REGISTERED
from muntin.serve.record import Record, unpack_record
from queries import Question, random_question
from replay import assert_agreement
from runtimes import RUNTIMES, Runtime
from scenario import Dice, SeededDice, random_case
from tests.test_cases import run_case

CASE = Path(__file__).parent / "own.case"
SECOND = 1_000_000
STREAM = (
    "CREATE STREAM s (ts BIGINT, k BIGINT, w VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 3 SECONDS"
)


@pytest.fixture(autouse=True)
def naively(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the oracle computes of a list of values."""
    monkeypatch.setitem(OWN, "total", (pa.int64(), sum))
    monkeypatch.setitem(OWN, "meanpos", (pa.float64(), lambda v: None if min(v) < 0 else sum(v) / len(v)))


def question(dice: Dice) -> Question:
    """A random query, with functions of the user's own in the place of some."""
    asked = random_question(dice)
    sql = asked.sql.replace("SUM(n", "TOTAL(n").replace("AVG(y", "meanpos(y")
    return Question(sql.replace("y < 1.5", "DOUBLED(y) < 3").replace("(y * 2)", "(DOUBLED(y))"), asked.keys)


@pytest.mark.slow
def test_agreement() -> None:
    """With the oracle, at every step: batches of all sizes, ties, late events, queries that come and go, restarts."""
    for seed in range(some_of(4_000, 2)):
        assert_agreement(random_case(SeededDice(seed), f"seed {seed}", question=question))


def spark_shards() -> Runtime:
    pytest.importorskip("pyspark")
    from case_runtime import SparkShards

    return SparkShards()


@pytest.mark.parametrize("runtime", [*RUNTIMES.values(), spark_shards], ids=[*RUNTIMES, "shards of Spark"])
def test_case(runtime: Callable[[], Runtime]) -> None:
    run_case(read_case(CASE.read_text()), runtime())


def engine_with(threads: int = 1) -> muntin.Engine:
    engine = muntin.Engine(threads=threads)
    engine.execute(STREAM)
    engine.execute("CREATE TABLE t (k BIGINT, tier VARCHAR, PRIMARY KEY (k))")
    engine.load("t", {"k": [0, 1, 2, 3], "tier": ["a", "b", "a", "b"]})
    return engine


def events(start: int, rows: int = 300) -> dict[str, Any]:
    random = np.random.default_rng(start)
    at = start * SECOND + random.integers(0, 10 * SECOND, rows)
    return {
        "ts": np.sort(at), "k": random.integers(0, 5, rows), "w": random.choice(["a", "b"], rows),
        "n": pa.array(random.integers(-9, 9, rows), mask=random.random(rows) < 0.1), "x": random.random(rows),
    }  # fmt: skip


WINDOW = "[RANGE 10 SECONDS SLIDE 2 SECONDS]"
ALIKE = {
    "keyed": f"SELECT k, {{0}}(n) AS a FROM s {WINDOW} GROUP BY k HAVING {{0}}(n) > 3",
    "changes": f"SELECT k, {{0}}(n) AS a FROM s {WINDOW} GROUP BY k HAVING {{0}}(n) > 3 EMIT CHANGES",
    "kept": "SELECT k, {0}(n) FILTER (WHERE w = 'a') AS a, {0}(n) OVER [RANGE 4 SECONDS] AS b "
    f"FROM s {WINDOW} GROUP BY k",
    "loose": "SELECT k, {0}(n) AS a FROM s [RANGE 7 SECONDS] GROUP BY k",
    "rows": "SELECT {0}(n) AS a FROM s [ROWS 20]",
    "prefixes": "SELECT /*+ SYNOPSIS(r_int) */ {0}(n) AS a FROM s [RANGE 7 SECONDS]",
    "of tables": f"SELECT t.tier, {{0}}(s.n) AS a FROM s {WINDOW} JOIN t ON s.k = t.k GROUP BY t.tier",
    "of pairs": f"SELECT l.k, {{0}}(l.n) AS a FROM s {WINDOW} AS l JOIN s [RANGE 1 SECOND SLIDE 2 SECONDS] AS r "
    "ON l.k = r.k GROUP BY l.k",
    **{
        f"lane {w} {k}": f"SELECT {{0}}(n) AS a FROM s {WINDOW} WHERE w = '{w}' AND k = {k}"
        for w in "ab" for k in range(9)
    },
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_as_built_in(threads: int, tmp_path: Path) -> None:
    """TOTAL is answered wherever SUM is, and as SUM is: pulled and pushed, restored, and by threads."""
    engine = engine_with(threads)
    for name, sql in ALIKE.items():
        engine.register(sql.format("SUM"), name=f"sum {name}")
        engine.register(sql.format("total"), name=f"own {name}")
    for start in (0, 10, 20):
        engine.push("s", events(start))
        emitted = engine.advance()
        for name, sql in ALIKE.items():
            assert emitted.get(f"own {name}") == emitted.get(f"sum {name}"), name
            assert engine.lookup(f"own {name}") == engine.lookup(f"sum {name}"), name
            if "GROUP BY k" in sql:
                assert engine.lookup(f"own {name}", key=2) == engine.lookup(f"sum {name}", key=2), name
        engine.checkpoint(tmp_path / "state")
        engine = muntin.Engine.restore(tmp_path / "state")
    assert engine.value("own loose", key=2) == engine.value("sum loose", key=2)
    requests = {"k": [1, 2, 9], "at": [20 * SECOND, 22 * SECOND, 21 * SECOND]}
    asked = [engine.lookup_at(f"{which} loose", requests) for which in ("own", "sum")]
    assert asked[0] == asked[1]
    assert "total of n" in engine.explain()


def test_order_is_kept_by_times() -> None:
    """`lift(x, at)` is told the time of an event, so that a decayed sum can weigh it."""

    @muntin.aggregate("DECAYED", takes=float, returns=float)
    class Decayed:
        """Of half the weight for each second before the last event."""

        identity = (0.0, -(2**62))

        def lift(x: Any, at: Any) -> Any:
            return x, at

        def combine(left: Any, right: Any) -> Any:
            last = max(left[1], right[1])
            older = left[0] * 0.5 ** ((last - left[1]) / 1e6)
            return older + right[0] * 0.5 ** ((last - right[1]) / 1e6), last

        def lower(state: Any) -> Any:
            return state[0]

    engine = engine_with()
    engine.register("SELECT DECAYED(x) AS a FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]", name="q")
    engine.push("s", {"ts": [9 * SECOND, 8 * SECOND, SECOND * 10], "k": [0] * 3, "w": ["a"] * 3, "n": [0] * 3,
                      "x": [4.0, 3.0, 9.0]})  # fmt: skip
    assert engine.lookup("q")["a"].to_pylist() == [4.0 + 1.5]


def test_checkpoint_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version, or none, is refused by name; other checkpoints need neither."""
    engine = engine_with()
    engine.checkpoint(tmp_path / "without")
    engine.register("SELECT Total(n) AS a FROM s [RANGE 10 SECONDS] WHERE DOUBLED(x) > 1", name="q")
    engine.push("s", events(0))
    engine.checkpoint(tmp_path / "with")
    expected = engine.lookup("q")
    assert muntin.Engine.restore(tmp_path / "with").lookup("q") == expected
    monkeypatch.setattr(REGISTERED["TOTAL"], "version", 4)
    with pytest.raises(CheckpointError, match="TOTAL, version 3, and version 4 is registered"):
        muntin.Engine.restore(tmp_path / "with")
    monkeypatch.undo()
    monkeypatch.delitem(REGISTERED, "DOUBLED")
    with pytest.raises(CheckpointError, match="DOUBLED, version 1, which is not registered"):
        muntin.Engine.restore(tmp_path / "with")
    muntin.Engine.restore(tmp_path / "without")


def test_log_of_a_server_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start must not go on without a query that was accepted."""
    record = Record("execute", {"sql": "REGISTER QUERY q AS SELECT TOTAL(n) AS a FROM s [ROWS 5]"})
    assert unpack_record(record.pack()) == record
    packed = record.pack()
    monkeypatch.delitem(REGISTERED, "TOTAL")
    with pytest.raises(CheckpointError, match="the log is of queries that call TOTAL, version 3"):
        unpack_record(packed)


FAULTS: dict[str, tuple[Callable[[pa.Array], Any], str]] = {
    "raises": (lambda x: x.no_such_thing, "has raised AttributeError"),
    "another length": (lambda x: x.slice(1), "has given 299 values for 300 rows"),
    "another type": (
        lambda x: pc.cast(x, pa.int64(), safe=False),
        "has given BIGINT, and is declared to give DOUBLE",
    ),
    "no array": (lambda x: 5, "gives an Arrow array, not int"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_the_function_and_lose_nothing(fault: str) -> None:
    """A batch is taken in whole or not at all, and windows are owed until their answers can be given."""
    wrong, message = FAULTS[fault]
    calls: list[int] = []
    is_wrong = True

    def called(x: pa.Array) -> pa.Array:
        calls.append(len(x))
        return wrong(x) if is_wrong else x

    name = (
        f"FAULTY_{fault.replace(' ', '_')}".upper()
    )  # one of its own: texts that were read are known to the process
    muntin.function(name, takes=[float], returns=float)(called)
    engine = engine_with()
    engine.register(f"SELECT COUNT(*) AS a FROM s {WINDOW} WHERE {name}(x) > 0.5", name="q")
    with pytest.raises(FunctionError, match=f"function {name} {message}"):
        engine.push("s", events(0))
    assert engine.stats()["streams"]["s"]["events"] == 0
    is_wrong = False
    engine.push("s", events(0))
    assert calls == [300, 300]  # once a batch, however many events
    engine.drop("q")
    engine.register(f"SELECT k, {name}(SUM(x)) AS a FROM s {WINDOW} GROUP BY k", name="q")
    engine.register(f"SELECT k, SUM(x) AS a FROM s {WINDOW} GROUP BY k", name="r")
    engine.push("s", events(10))
    is_wrong = True
    with pytest.raises(FunctionError, match=f"function {name}"):
        engine.advance()
    is_wrong = False
    emitted = engine.advance()
    assert emitted["q"] == emitted["r"]
    assert emitted["r"].num_rows >= 15  # three windows at least, of five keys
