"""ORDER BY … LIMIT: whatever finds the first keys, they are those that a sort of all keys finds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from answers import is_close
from muntin import Engine
from muntin.errors import MuntinError, SqlError
from muntin.key_index import finders
from muntin.shard.read import leaders
from muntin.shard.read.in_order import InOrder, Words, words_of
from reference import ReferenceEngine
from runtimes import checkpointed

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, j BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
W = "FROM s [RANGE 4 SECONDS SLIDE 1 SECOND]"
QUERIES = {
    "sums": f"SELECT k, SUM(n) AS v {W} GROUP BY k ORDER BY v DESC LIMIT 2",
    "more of them": f"SELECT k, SUM(n) AS v {W} GROUP BY k ORDER BY v DESC LIMIT 4",
    "longer": "SELECT k, SUM(n) AS v FROM s [RANGE 7 SECONDS SLIDE 1 SECOND] GROUP BY k ORDER BY 2 DESC LIMIT 2",
    "least sums": f"SELECT k, SUM(n) AS v {W} GROUP BY k ORDER BY v LIMIT 3",
    "floats": f"SELECT k, j, SUM(x) AS v {W} GROUP BY k, j ORDER BY v DESC, COUNT(*) LIMIT 3",
    "extremes": f"SELECT j, MAX(x) AS v {W} GROUP BY j ORDER BY 2 DESC LIMIT 2",
    "least": f"SELECT k, MIN(n) AS v {W} GROUP BY k ORDER BY v LIMIT 1",
    "texts": f"SELECT j, MAX(k) AS v {W} GROUP BY j ORDER BY v DESC NULLS LAST, j DESC LIMIT 2",
    "having": f"SELECT k, COUNT(*) AS v {W} GROUP BY k HAVING SUM(n) > 6 ORDER BY v DESC LIMIT 2",
    "expression": f"SELECT k, AVG(n) AS v {W} GROUP BY k HAVING COUNT(*) > 1 ORDER BY AVG(n) - MIN(n) LIMIT 2",
    "filtered": f"SELECT k, COUNT(*) AS v {W} WHERE n > 1 GROUP BY k ORDER BY SUM(n) FILTER (WHERE j = 1) DESC LIMIT 2",
    "without slide": "SELECT k, COUNT(*) AS v FROM s [RANGE 3 SECONDS] GROUP BY k ORDER BY v DESC LIMIT 2",
    "rows": "SELECT k, SUM(n) AS v FROM s [ROWS 3] GROUP BY k ORDER BY v DESC LIMIT 2",
    "two windows": f"SELECT k, SUM(n) OVER [RANGE 2 SECONDS] AS v {W} GROUP BY k ORDER BY v DESC LIMIT 2",
    "different": f"SELECT DISTINCT k {W} ORDER BY k DESC LIMIT 2",
    "changes": f"SELECT k, SUM(n) AS v {W} GROUP BY k ORDER BY v DESC LIMIT 2 EMIT CHANGES",
    "few changes": f"SELECT k, MAX(n) AS v {W} GROUP BY k HAVING COUNT(*) > 1 ORDER BY v DESC LIMIT 1 EMIT CHANGES",
}


@pytest.fixture(params=["all keys", "heads", "one component"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How first keys are found: few are visited all, unless heads, or one component, are told to name even these."""
    if request.param != "all keys":
        monkeypatch.setattr(finders, "FEW", 0)
        if request.param == "one component":
            monkeypatch.setattr(leaders, "DEPTH", 0)
        monkeypatch.setattr(finders, "DEPTH", 0)
        monkeypatch.setattr(leaders, "_PART", 0)
        monkeypatch.setattr(leaders, "_MORE", 0)
        monkeypatch.setattr(leaders, "_TWICE", 1)
    return request.param


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_the_reference(seed: int, way: str) -> None:
    rng = np.random.default_rng(seed)
    engine, reference = both(seed, QUERIES)
    now = 10 * SECOND
    for step in range(5):
        batch = random_batch(rng, now)
        now += int(rng.choice([1, 2, 3, 9])) * SECOND
        for each in (engine, reference):
            each.push("s", batch)
        if step == 3:
            engine = checkpointed(engine)
        for name in QUERIES:
            assert_same(engine.lookup(name), reference.lookup(name), name)
        some = ["a", "c", None]
        assert_same(engine.lookup("sums", key=some), reference.lookup("sums", key=some), "keys")
        first = reference.lookup("sums", key="b").rows
        assert engine.value("sums", key="b") == (first[0]["v"] if first else None)
        emitted, wanted = engine.advance(), reference.advance()
        assert emitted.keys() == wanted.keys()
        for name, answer in wanted.items():
            assert_same(emitted[name], answer, f"emitted {name}")
    engine.check()


def both(seed: int, queries: dict[str, str]) -> tuple[Engine, ReferenceEngine]:
    """An engine with some queries, and the reference with the same."""
    engine, reference = Engine(threads=1 + seed % 2), ReferenceEngine()
    for each in (engine, reference):
        each.execute(STREAM)
        for name, sql in queries.items():
            each.register(sql, name=name)
    return engine, reference


def random_batch(rng: np.random.Generator, now: int) -> dict[str, list[Any]]:
    count = int(rng.integers(1, 30))
    at = np.sort(rng.integers(now, now + 3 * SECOND, count)) - rng.integers(0, SECOND, count)
    wild = [math.nan, math.inf, -math.inf, -0.0, 0.0, None, 1.5, 1e300]
    return {
        "ts": at.tolist(),
        "k": [None if each == 6 else "abcdef"[each] for each in rng.integers(0, 7, count).tolist()],
        "j": rng.integers(0, 3, count).tolist(),
        "n": [None if each == 9 else each - 2 for each in rng.integers(0, 10, count).tolist()],
        "x": [wild[each] if each < 8 else each / 4 for each in rng.integers(0, 40, count).tolist()],
    }


def assert_same(table: pa.Table, wanted: Any, context: str) -> None:
    got = table.to_pylist()
    names = [name for name in table.column_names if name != "complete"]
    expected = [{name: row[name] for name in names} for row in wanted.rows]
    same = len(got) == len(expected) and all(
        is_close(one[name], other[name]) for one, other in zip(expected, got, strict=True) for name in names
    )
    assert same, "\n".join([context, "expected:", *map(str, expected), "got:", *map(str, got)])


LARGE = {
    "having": f"SELECT k, MAX(j) AS v {W} GROUP BY k HAVING SUM(n) > 0 ORDER BY v DESC LIMIT 2",
    "select": f"SELECT k, COUNT(*) AS v, SUM(n) AS w {W} GROUP BY k ORDER BY v DESC LIMIT 2",
    "computed": f"SELECT k, MIN(j) AS v, COUNT(*) * 2000000000000000000 AS w {W} GROUP BY k ORDER BY v LIMIT 3",
    "order": f"SELECT k, MAX(j) AS v {W} GROUP BY k HAVING COUNT(*) > 0 ORDER BY SUM(n) DESC, 2 LIMIT 2",
    "both": f"SELECT k, MAX(j) AS v, SUM(n) AS w {W} GROUP BY k HAVING SUM(n) + 1 > -9 ORDER BY v DESC LIMIT 1",
}


@pytest.mark.parametrize("seed", range(6))
def test_a_key_without_a_value_takes_no_place(seed: int, way: str) -> None:
    """In pull and push, and who enters or leaves meanwhile."""
    rng = np.random.default_rng(seed)
    engine, reference = both(
        seed, LARGE | {f"{name}, changes": f"{sql} EMIT CHANGES" for name, sql in LARGE.items()}
    )
    now = 10 * SECOND
    for _ in range(6):
        batch = random_batch(rng, now)
        batch["n"] = rng.choice([-1, 0, 1, 5, 2**62], len(batch["n"])).tolist()
        now += int(rng.choice([1, 2, 3, 9])) * SECOND
        for each in (engine, reference):
            each.push("s", batch)
        with warnings.catch_warnings(action="ignore"):
            for name in LARGE:
                assert_same(engine.lookup(name), reference.lookup(name), name)
            emitted, wanted = engine.advance(), reference.advance()
        wanted = {name: answer for name, answer in wanted.items() if answer.rows}
        assert emitted.keys() == wanted.keys()
        for name, answer in wanted.items():
            assert_same(emitted[name], answer, f"emitted {name}")
    engine.check()


@pytest.mark.parametrize("keys", [1_000, 9_000])
def test_a_key_that_is_in_stays_while_having_does_not_exist(keys: int) -> None:
    """Though it would be the last in order, and of many keys only the first are read."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, place BIGINT) TIMESTAMP BY ts")
    engine.register(
        "SELECT k, SUM(place) AS v FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k HAVING SUM(n) * 2 > 0 "
        "ORDER BY v DESC LIMIT 2 EMIT CHANGES", "q",
    )  # fmt: skip
    told = []
    for second, (n, place) in enumerate([(1, 9), (1, 10**6), (2**63 - 1, 1), (1, 9)]):
        events = {"n": np.ones(keys, np.int64), "place": np.arange(10, keys + 10)}
        events["n"][7], events["place"][7] = n, place
        engine.push("s", {"ts": np.full(keys, second * SECOND), "k": np.arange(keys), **events})
        with warnings.catch_warnings(action="ignore"):
            emitted = engine.advance(until=(second + 1) * SECOND)
        told.append({(row["k"], row["change"]) for row in emitted["q"].to_pylist()})
    first, second = keys - 1, keys - 2
    assert told == [
        {(first, "enter"), (second, "enter")},
        {(7, "enter"), (second, "leave")},
        {(second, "enter")},
        {(7, "leave")},
    ]


@pytest.mark.parametrize("keys", [6_000])
def test_heads_name_the_first_of_many_keys(keys: int) -> None:
    """Skewed sums, and DuckDB's opinion of them; queries that differ in LIMIT and window are answered together."""
    rng = np.random.default_rng(keys)
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    for size in (1, 3, 5):
        for limit in (1, 5, 20):
            engine.register(
                f"SELECT k, SUM(n) AS v FROM s [RANGE {size} SECONDS SLIDE 1 SECOND] GROUP BY k "
                f"ORDER BY v DESC LIMIT {limit}",
                f"{size} {limit}",
            )
    every = []
    for second in range(8):
        count = 4 * keys if second == 0 else keys
        key = (keys ** rng.random(count)).astype(np.int64) - 1
        key[:keys] = np.arange(keys) if second == 0 else key[:keys]
        events = pa.table(
            {
                "ts": second * SECOND + np.arange(count) * (SECOND // count),
                "k": key,
                "n": rng.integers(-1, 9, count),
            }
        )
        every.append(events)
        engine.push("s", events)
        answers = engine.advance(until=(second + 1) * SECOND)
        pushed = pa.concat_tables(every)
        for name, answer in answers.items():
            size, limit = map(int, name.split())
            told = duckdb.sql(
                f"SELECT k, SUM(n)::BIGINT AS v FROM pushed WHERE ts >= {(second + 1 - size) * SECOND} "
                f"GROUP BY k ORDER BY v DESC NULLS LAST, k LIMIT {limit}"
            ).fetchall()
            assert pushed.num_rows
            assert list(zip(*answer.select(["k", "v"]).to_pydict().values(), strict=True)) == told, name
    assert "heads of slices of sum of n" in engine.explain("3 5")
    engine.check()


EVEN = {
    "greatest": ("SUM(n)", "DESC", "", lambda n, x: sum(n)),
    "of those that pass": (
        "SUM(n)",
        "DESC",
        "HAVING COUNT(*) % 3 = 0",
        lambda n, x: None if len(n) % 3 else sum(n),
    ),
    "counts": ("COUNT(*)", "DESC", "", lambda n, x: len(n)),
    "floats": ("SUM(x)", "DESC", "", lambda n, x: math.fsum(x)),
    "highest": ("MAX(x)", "DESC", "", lambda n, x: max(x)),
    "lowest": ("MIN(n)", "ASC", "", lambda n, x: min(n)),
}


def test_keys_of_which_none_stands_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """6,000 keys with as many events each: one component of all keys tells which of them come first. Some sums of
    floats hang on what adding up one after the other loses; some greatest sums do not pass HAVING."""
    rng = np.random.default_rng(7)
    keys, found = 6_000, []
    monkeypatch.setattr(leaders, "DEPTH", 0)  # no heads
    by_one_component = leaders._by_one_component
    monkeypatch.setattr(
        leaders,
        "_by_one_component",
        lambda *asked: [found.append(each) or each for each in by_one_component(*asked)],
    )
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
    for name, (value, order, having, _) in EVEN.items():
        for size in (2, 4):
            for limit in (1, 7):
                engine.register(
                    f"SELECT k, {value} AS v FROM s [RANGE {size} SECONDS SLIDE 1 SECOND] GROUP BY k {having} "
                    f"ORDER BY v {order} LIMIT {limit}",
                    f"{name}/{size}/{limit}",
                )
    seconds = []
    for second in range(6):
        k = np.concatenate([rng.permutation(keys), rng.permutation(keys), rng.integers(0, keys, 500)])
        n = rng.integers(-(10**6), 10**6, len(k))
        x = rng.integers(-(10**6), 10**6, len(k)) / 2**17
        x[:3] = (1e20, 60.0 + second, -1e20)
        k[:3] = second
        seconds.append((k, n, x))
        ts = second * SECOND + np.arange(len(k))
        engine.push("s", {"ts": ts, "k": k, "n": n, "x": x})
        answers = engine.advance(until=(second + 1) * SECOND)
        groups = {size: _by_key(keys, seconds[-size:]) for size in (2, 4)}
        for name, answer in answers.items():
            kind, size, limit = name.split("/")
            _, order, _, value_of = EVEN[kind]
            sign = -1 if order == "DESC" else 1
            values = [(value_of(*each), key) for key, each in enumerate(groups[int(size)]) if each[0]]
            wanted = sorted((sign * value, key) for value, key in values if value is not None)[: int(limit)]
            got = zip(answer.column("v").to_pylist(), answer.column("k").to_pylist(), strict=True)
            assert [(sign * value, key) for value, key in got] == wanted, name
    assert len(found) > 40  # of 144 answers: the counts have too many equals
    engine.check()


def _by_key(keys: int, seconds: list[Any]) -> list[tuple[list[int], list[float]]]:
    groups: list[tuple[list[int], list[float]]] = [([], []) for _ in range(keys)]
    for second in seconds:
        for key, n, x in zip(*(each.tolist() for each in second), strict=True):
            groups[key][0].append(n)
            groups[key][1].append(x)
    return groups


def test_a_sum_beyond_64_bits_among_many_keys_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrapped around it would be last, and nobody would hear of it."""
    monkeypatch.setattr(leaders, "DEPTH", 0)  # no heads
    keys = np.tile(np.random.default_rng(1).permutation(6_000), 2)
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    engine.register(
        "SELECT k, SUM(n) AS v FROM s [RANGE 9 SECONDS SLIDE 1 SECOND] GROUP BY k ORDER BY v DESC LIMIT 3",
        "top",
    )
    sums = np.where(keys == 17, 2**62, keys)
    engine.push("s", {"ts": np.arange(len(keys)), "k": keys, "n": sums})
    with pytest.warns(RuntimeWarning, match="leaves out 1 row"):
        assert engine.lookup("top", at=SECOND).column("k").to_pylist() == [5_999, 5_998, 5_997]


def test_a_row_without_a_value_leaves_its_place_to_the_next() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    engine.register(
        "SELECT k, SUM(n) + MAX(n) AS v FROM s [RANGE 9 SECONDS] GROUP BY k ORDER BY COUNT(*) DESC LIMIT 2",
        "top",
    )
    large = 2**62
    engine.push(
        "s",
        {"ts": [1, 2, 3, 4, 5, 6], "k": ["a", "b", "c", "a", "b", "a"], "n": [1, large, 4, 1, large - 1, 1]},
    )
    with pytest.warns(RuntimeWarning, match="leaves out 1 row"):
        assert engine.lookup("top").column("k").to_pylist() == ["a", "c"]
    with pytest.raises(MuntinError, match="no answer for the key 'b'"):
        engine.lookup("top", key="b")
    assert engine.lookup("top", key="a").num_rows == 1


def test_what_is_refused() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    engine.execute("CREATE TABLE t (k VARCHAR, most BIGINT, PRIMARY KEY (k))")
    by = "GROUP BY k ORDER BY COUNT(*) DESC LIMIT 2"
    for sql, why in (
        (f"SELECT k FROM s [ROWS 4 SLIDE 2] {by}", "moves by events, each key at its own"),
        (
            f"SELECT s.k FROM s [RANGE 4 SECONDS] JOIN t ON s.k = t.k {by.replace('BY k', 'BY s.k')}",
            "not for joins",
        ),
        (
            f"SELECT k {W} GROUP BY k HAVING APPROX(COUNT(*) > 2, 0.5) ORDER BY COUNT(*) LIMIT 2",
            "exactly which keys pass HAVING",
        ),
        (
            "SELECT k FROM s [RANGE 4 SECONDS] GROUP BY k ORDER BY APPROX_FREQUENT(n, 0.1, 0.05) LIMIT 2",
            "takes numbers, texts and times",
        ),
    ):
        with pytest.raises(SqlError, match=why):
            engine.register(sql, "refused")
    engine.register(f"SELECT k {W} {by}", "top")
    with pytest.raises(MuntinError, match="has LIMIT: who is among the first depends on all keys"):
        engine.lookup_at("top", {"k": ["a"], "at": [1]})


def test_limit_as_a_parameter_and_in_the_place_of_another() -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    sql = f"SELECT k, SUM(n) AS v {W} GROUP BY k ORDER BY v DESC LIMIT $many"
    engine.execute(f"REGISTER QUERY top AS {sql}", {"many": 1})
    engine.push("s", {"ts": [SECOND, SECOND + 1, 2 * SECOND], "k": ["a", "b", "c"], "n": [1, 2, 3]})
    assert engine.lookup("top", at=3 * SECOND).column("k").to_pylist() == ["c"]
    engine.execute(f"CREATE OR REPLACE QUERY top AS {sql}", {"many": 2})
    assert engine.lookup("top", at=3 * SECOND).column("k").to_pylist() == ["c", "b"]


@pytest.mark.parametrize("many", [1, 3, 40, 1_000])
def test_first_in_order(many: int) -> None:
    """Beside a sort, with ties, NULLs and NaN."""
    rng = np.random.default_rng(many)
    values = rng.integers(0, 60, 900).astype(float)
    values[rng.random(900) < 0.1] = np.nan
    column = pa.array(values, mask=rng.random(900) < 0.2)
    ties = rng.permutation(900)
    for descends in (False, True):
        words = words_of(column, descends)
        found = InOrder([words], lambda some: [Words(ties[some], None)]).first(many)
        sign = -1 if descends else 1
        listed = column.to_pylist()
        wanted = sorted(range(900), key=lambda row: (*_place(listed[row], sign), ties[row]))
        assert found.tolist() == wanted[:many]


def _place(value: float | None, sign: int) -> tuple[Any, ...]:
    if value is None:
        return (True, False, 0.0)
    return (False, sign * math.isnan(value), 0.0 if math.isnan(value) else sign * value)
