"""HAVING by an index: the same answers as by visiting every key, and the index where it pays."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from casefile import Register
from effort import some_of
from muntin import Engine
from muntin.errors import MuntinError
from muntin.key_index import finders
from replay import disagreement
from scenario import SeededDice, random_case

SECOND = 1_000_000
WINDOWS = (
    "[RANGE 4 SECONDS SLIDE 1 SECOND]",
    "[RANGE 6 SECONDS]",
    "[RANGE 9 SECONDS SLIDE 3 SECONDS]",
    "[RANGE 20 SECONDS SLIDE 2 SECONDS]",
)
FUNCTIONS = ("COUNT(*)", "COUNT(x)", "SUM(n)", "SUM(x)", "MAX(n)", "MIN(n)", "MAX(x)", "MIN(x)")


def index_for(function: str) -> str:
    return "staircase_index" if function[:3] in ("MAX", "MIN") else "collective_index"


def random_pairs(engine: Engine, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Queries, each once for all keys and once by index."""
    pairs = []
    for number in range(6):
        function, window = str(rng.choice(FUNCTIONS)), str(rng.choice(WINDOWS))
        low = int(rng.integers(0, 30))
        between = f"BETWEEN {low} AND {low + rng.integers(0, 40)}"
        condition = rng.choice([f"> {low}", f">= {low}", between, f"< {low}", f"> {low}.5", f"= {low}"])
        changes = str(rng.choice(["", " EMIT CHANGES"]))
        rest = f"k, {function} AS v FROM s {window} GROUP BY k HAVING {function} {condition}{changes}"
        engine.register(f"SELECT {rest}", f"all {number}")
        engine.register(f"SELECT /*+ SYNOPSIS({index_for(function)}) */ {rest}", f"index {number}")
        pairs.append((f"all {number}", f"index {number}"))
    return pairs


def random_batch(rng: np.random.Generator, start: int, delay: int) -> dict[str, Any]:
    """Some of them with values that cannot be indexed."""
    count = int(rng.integers(1, 60))
    at = np.sort(rng.integers(start, start + 3 * SECOND, count))
    if delay:
        at = at - rng.integers(0, 400_000 * delay, count)
    x, n = rng.random(count) * 20, rng.integers(0, 12, count)
    if rng.random() < 0.2:
        x[0], n[0] = rng.choice([np.nan, -3.0, np.inf]), -5
    key = rng.integers(0, rng.integers(1, 30), count) + 100 * rng.integers(0, 3)  # keys leave and return
    return {"ts": at, "k": key, "n": n, "x": pa.array(x, mask=rng.random(count) < 0.1)}


@pytest.mark.parametrize("seed", range(some_of(25, 40)))
def test_an_index_changes_no_answer(seed: int) -> None:
    """All kinds of ranges, by look-up and by advance, with events out of order and numbers it must refuse."""
    rng = np.random.default_rng(seed)
    delay = int(rng.integers(0, 3))
    engine = Engine()
    engine.execute(
        f"CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY {delay} SECONDS"
    )
    pairs, start = random_pairs(engine, rng), 0
    for _ in range(10):
        engine.push("s", random_batch(rng, start, delay))
        start += int(rng.integers(SECOND // 2, 6 * SECOND))
        answers = engine.advance() if rng.random() < 0.6 else {}
        for by_all, by_index in pairs:
            assert (by_all in answers) == (by_index in answers)
            if by_all in answers:
                assert_same(answers[by_all], answers[by_index])
            if rng.random() < 0.5:
                assert_same(engine.lookup(by_all), engine.lookup(by_index))
        engine.check()


@pytest.mark.parametrize("start", range(0, some_of(300, 40), 60))
def test_random_cases_agree_when_every_having_is_indexed(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference agrees also where indexes serve whatever they can, from the second look-up on."""
    for name in ("FEW", "FEW_RUNS", "_FEED"):
        monkeypatch.setattr(finders, name, 0)
    monkeypatch.setattr(finders, "_FEED_EVENT", dict.fromkeys(finders._FEED_EVENT, (0, 0)))
    for seed in range(start, start + 60):
        case = random_case(SeededDice(seed), f"seed {seed}")
        if not any(isinstance(step, Register) and is_keyed_having(step.sql) for step in case.steps):
            continue  # nothing to index
        difference = disagreement(case)
        assert difference is None or "must divide" in str(difference), f"seed {seed}: {difference}"


def is_keyed_having(sql: str) -> bool:
    return "GROUP BY" in sql and "HAVING" in sql


def crowd(function: str = "COUNT(*)", keys: int = 6_000) -> Engine:
    """Many keys of which a few stand out."""
    rng = np.random.default_rng(3)
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    engine.register(
        f"SELECT k, {function} AS v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING {function} > 100",
        "few",
    )
    count = 30_000
    key = rng.integers(0, keys, count)
    key[rng.random(count) < 0.05] = 7
    engine.push("s", {"ts": np.arange(count) * 300, "k": key, "n": np.ones(count, np.int64)})
    return engine


def test_the_index_is_made_when_scans_have_paid_for_it() -> None:
    """Few look-ups visit all keys; many bring an index about; EXPLAIN says which it is."""
    engine = crowd()
    engine.lookup("few")
    assert "all keys are visited for count of *: an index would not pay" in engine.explain("few")
    for _ in range(300):
        found = engine.lookup("few")
    assert "collective_index (dense) of count of *" in engine.explain("few")
    assert found["k"].to_pylist() == [7]


def test_what_cannot_be_indexed_is_said() -> None:
    """A sum that went below 0 is found by visiting all keys, and EXPLAIN says why; later it is indexed again."""
    engine = crowd("SUM(n)")
    for _ in range(300):
        engine.lookup("few")
    assert "collective_index" in engine.explain("few")
    engine.push("s", {"ts": [10 * SECOND, 11 * SECOND], "k": [9, 9], "n": [-5, 1]})
    engine.lookup("few")
    engine.push("s", {"ts": [12 * SECOND], "k": [9], "n": [1]})
    engine.lookup("few")
    assert "numbers below 0" in engine.explain("few")


def test_many_thresholds_share_one_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred queries that differ in window and threshold keep the state of one."""
    engine = crowd()
    for number in range(100):
        engine.register(
            "SELECT /*+ SYNOPSIS(collective_index) */ k, COUNT(*) AS v FROM s "
            f"[RANGE {2 + number % 9} SECONDS SLIDE 1 SECOND] GROUP BY k HAVING COUNT(*) > {number + 20}",
            f"q{number}",
        )
    engine.lookup("q0")
    before = engine.stats()["streams"]["s"]["bytes"]
    for number in range(1, 100):
        found = engine.lookup(f"q{number}")
        assert found["k"].to_pylist() == [7]
    assert engine.stats()["streams"]["s"]["bytes"] == before


@pytest.mark.parametrize(
    ("hint", "call", "rest", "reason"),
    [
        ("collective_index", "AVG(n)", "[RANGE 1 SECOND] GROUP BY k HAVING AVG(n) > 1", "no index for AVG"),
        ("collective_index", "SUM(n)", "[RANGE 1 SECOND] GROUP BY k", "no HAVING"),
        ("collective_index", "SUM(n)", "[RANGE 1 SECOND] HAVING SUM(n) > 1", "no GROUP BY"),
        (
            "staircase_index",
            "SUM(n)",
            "[RANGE 1 SECOND] GROUP BY k HAVING SUM(n) > 1",
            "by the collective_index",
        ),
        ("collective_index", "SUM(n)", "[ROWS 5] GROUP BY k HAVING SUM(n) > 1", "counts events"),
        ("collective_index", "SUM(n)", "[RANGE 1 SECOND] GROUP BY k HAVING SUM(n) > MAX(n)", "more than"),
    ],
)
def test_an_index_that_cannot_serve_is_refused(hint: str, call: str, rest: str, reason: str) -> None:
    """Asked for by name, an index that cannot find the keys says why."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    with pytest.raises(MuntinError, match=reason):
        engine.register(f"SELECT /*+ SYNOPSIS({hint}) */ {call} FROM s {rest}", "q")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("tolerance", [0.1, 0.5, 1.0])
def test_approximate_answers_keep_their_promise(seed: int, tolerance: float) -> None:
    """All keys that qualify are there, none that misses the threshold by more than the tolerance, values exact."""
    rng = np.random.default_rng(seed)
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 1 SECOND")
    low, call = int(rng.integers(2, 60)), ("COUNT(*)", "SUM(n)")[seed % 2]
    rest = "FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] GROUP BY k"
    engine.register(f"SELECT k, {call} AS v {rest}", "all")
    engine.register(f"SELECT k, {call} AS v {rest} HAVING APPROX({call} > {low}, {tolerance})", "above")
    engine.register(
        f"SELECT k, {call} AS v {rest} HAVING APPROX({call} BETWEEN {low} AND {2 * low}, {tolerance})",
        "between",
    )
    for step in range(8):
        count = int(rng.integers(1, 800))
        at = np.sort(rng.integers(2 * step * SECOND, (2 * step + 2) * SECOND, count)) - rng.integers(
            0, SECOND, count
        )
        key = (rng.random(count) ** 3 * 20).astype(np.int64)
        engine.push("s", {"ts": at, "k": key, "n": rng.integers(0, 4, count)})
        exact = dict(zip(*(engine.lookup("all")[name].to_pylist() for name in ("k", "v")), strict=True))
        for name, high in (("above", 10**9), ("between", 2 * low)):
            found = dict(
                zip(*(engine.lookup(name)[column].to_pylist() for column in ("k", "v")), strict=True)
            )
            first = low if name == "between" else low + 1
            assert {key for key, value in exact.items() if first <= value <= high} <= found.keys()
            for key, value in found.items():
                assert value == exact[key]
                assert low * (1 - tolerance) <= value <= high * (1 + tolerance) + 1
    assert "APPROX" in engine.queries["above"].text


def test_approximate_answers_spare_the_verification() -> None:
    """Where the promise allows it, keys are named that an exact answer leaves out."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    rest = "FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING"
    engine.register(f"SELECT k, COUNT(*) AS v {rest} COUNT(*) > 90", "exact")
    engine.register(f"SELECT k, COUNT(*) AS v {rest} APPROX(COUNT(*) > 90, 0.75)", "roughly")
    key = np.repeat(np.arange(1, 101), np.arange(1, 101))  # key k has k events
    at = np.linspace(0, 5 * SECOND, len(key)).astype(np.int64)
    engine.push("s", {"ts": at, "k": np.random.default_rng(0).permutation(key)})
    engine.push("s", {"ts": [6 * SECOND], "k": [1]})
    assert engine.lookup("exact").num_rows == 10
    roughly = engine.lookup("roughly")["v"].to_pylist()
    assert len(roughly) > 10
    assert min(roughly) > 90 * 0.25


@pytest.mark.parametrize(
    ("having", "message"),
    [
        ("APPROX(COUNT(*) > 5)", "takes a condition and a tolerance"),
        ("APPROX(COUNT(*) > 5, 0)", "above 0 and up to 1"),
        ("APPROX(COUNT(*) > 5, 2)", "above 0 and up to 1"),
        ("APPROX(AVG(n) > 5, 0.5)", "no index for AVG"),
        ("APPROX(COUNT(*) > 5, 0.5) EMIT CHANGES", "leave out APPROX"),
    ],
)
def test_wrong_tolerances_are_refused(having: str, message: str) -> None:
    """What cannot be approximated, or by how much, is said at once."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    with pytest.raises(MuntinError, match=message):
        engine.register(f"SELECT k FROM s [RANGE 1 SECOND] GROUP BY k HAVING {having}", "q")


def assert_same(one: pa.Table, other: pa.Table) -> None:
    assert one.to_pandas().equals(other.to_pandas()), f"{one.to_pandas()}\n{other.to_pandas()}"


@pytest.mark.parametrize("seed", range(some_of(12, 3)))
def test_sums_of_decimals_are_indexed_as_integers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same keys by an index as by visiting all, whichever way the constant is written, and beside amounts that no
    index takes: below 0, or with too many digits."""
    rng = np.random.default_rng(seed)
    conditions = ("SUM(d) > 30", "SUM(d) >= 30.005", "30.01 < SUM(d)", "SUM(d) > -1", "SUM(d) > 30.00 AND COUNT(*) > 1",
                  "SUM(d) > 3e1", "SUM(d) < 30", "SUM(d) > 99999999999999999999.0")  # fmt: skip
    engines = [Engine(), Engine()]
    for engine in engines:
        engine.execute(
            "CREATE STREAM s (ts BIGINT, k BIGINT, d DECIMAL(18, 2)) TIMESTAMP BY ts DELAY 1 SECOND"
        )
        for number, condition in enumerate(conditions):
            window = WINDOWS[(number + seed) % len(WINDOWS)]
            sql = f"SELECT k, SUM(d) AS v FROM s {window} GROUP BY k HAVING {condition}"
            engine.register(sql + (" EMIT CHANGES" if number % 3 == 2 else ""), f"q{number}")
    find, used, start = finders.Finders.candidates, list[bool](), 0

    def forced(self: finders.Finders, wanted: finders.KeySearch) -> Any:
        found = find(self, wanted._replace(band=wanted.band._replace(is_forced=True)))
        used.append(found is not None)
        return found

    for _ in range(12):
        count = int(rng.integers(20, 90))
        units = rng.integers(0, 900, count)
        if rng.random() < 0.15:
            units[0] = rng.choice([-500, 2**45, 10**17])
        batch = {
            "ts": start + np.sort(rng.integers(-SECOND // 2, 2 * SECOND, count)),
            "k": rng.integers(0, 12, count),
            "d": pa.array([Decimal(int(each)).scaleb(-2) for each in units], pa.decimal128(18, 2)),
        }
        start += 2 * SECOND
        answers = []
        for engine, search in zip(engines, (find, forced), strict=True):
            monkeypatch.setattr(finders.Finders, "candidates", search)
            engine.push("s", batch)
            answers.append([engine.advance(), {name: engine.lookup(name) for name in engine.queries}])
            engine.check()
        for one, other in zip(*answers, strict=True):
            assert one.keys() == other.keys()
            for name in one:
                assert_same(one[name], other[name])
    assert sum(used) > 20
