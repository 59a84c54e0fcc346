"""Queries that keep all rows are answered together, in blocks or as one crowd: as each of them is alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin.shard.emit import gathering
from muntin.shard.read import answers, in_blocks

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, j BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts"
CALLS = (
    "COUNT(*)", "SUM(n)", "AVG(n)", "MIN(n)", "MAX(x)", "SUM(x)", "COUNT(x)", "MEDIAN(n)",
    "SUM(n) FILTER (WHERE j > 1)", "SUM(n) / COUNT(*)", "MAX(n) - MIN(n)",
    "STDDEV(x)", "FIRST(n)", "COUNT(DISTINCT j)", "BOOL_OR(x > 0)",
)  # fmt: skip


def window(random: np.random.Generator, slide: int) -> str:
    to = f" TO {slide} SECONDS" if random.random() < 0.1 else ""
    return f"[RANGE {slide * int(random.integers(2, 9))} SECONDS{to} SLIDE {slide} SECONDS]"


def query(random: np.random.Generator, keys: str) -> str:
    """A query that keeps all its rows, of any shape; often there are others with the same columns."""
    slide = int(random.choice([1, 1, 2, 3]))
    calls, of = random.choice(CALLS, int(random.integers(1, 3))), window(random, slide)
    over = ["", ""]
    if random.random() < 0.3:  # each call has its own window
        of, over = "", [f" OVER {window(random, slide)}" for _ in calls]
        calls = random.choice(["SUM(n)", "COUNT(*)", "MIN(n)"], len(calls))
    columns = [
        f"{call}{own} AS v{number}" for number, (call, own) in enumerate(zip(calls, over, strict=False))
    ]
    return f"SELECT {', '.join(filter(None, [keys, *columns]))} FROM s {of}{f' GROUP BY {keys}' * bool(keys)}"


def batch(random: np.random.Generator, second: int) -> pa.Table:
    many = int(random.integers(0, 12))
    x = [None if each < 0.2 else round(each, 2) for each in random.random(many)]
    return pa.table(
        {
            "ts": np.sort(random.integers(second * SECOND, (second + 1) * SECOND, many)),
            "k": pa.array([None if each == 4 else "abcd"[each] for each in random.integers(0, 5, many)], pa.string()),
            "j": random.integers(0, 4, many),
            "n": pa.array([each if each % 7 else None for each in random.integers(0, 100, many).tolist()], pa.int64()),
            "x": pa.array(x, pa.float64()),
        }
    )  # fmt: skip


def engine_of(queries: dict[str, str]) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    return engine


def rows_by_query(tables: Any) -> dict[str, list[dict[str, Any]]]:
    """Of answers in few tables, the rows of each query."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in chain.from_iterable(table.to_pylist() for table in tables):
        rows.setdefault(row.pop("query"), []).append(row)
    return rows


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[object]]:
    """While it is entered, queries are answered one by one."""

    @contextmanager
    def entered() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(answers, "answers_in_blocks", lambda *_: {})
            patch.setattr(gathering, "_member", lambda *_: None)
            yield

    return entered


OneByOne = Callable[[], AbstractContextManager[object]]


@pytest.mark.parametrize("keys", ["", "k", "k, j"])
@pytest.mark.parametrize("seed", range(4))
def test_as_one_by_one(keys: str, seed: int, one_by_one: OneByOne, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `advance`, as tables or together, and by look-ups; while queries come and go, and windows fill, are silent,
    and begin before their state."""
    random = np.random.default_rng(seed)
    if seed % 2:
        monkeypatch.setattr(in_blocks, "_SLOTS", 40)  # as if there were very many
    queries = {f"q{number}": query(random, keys) for number in range(16 if keys else 40)}
    together, apart = engine_of(queries), engine_of(queries)
    for second in range(14):
        events = batch(random, second) if not 5 <= second < 8 else batch(random, second).slice(0, 0)
        until = None if second % 3 else (second + 1) * SECOND
        together.push("s", events)
        with one_by_one():
            apart.push("s", events)
            expected = {name: table.to_pylist() for name, table in apart.advance(until).items()}
            looked_up = {name: apart.lookup(name) for name in queries}
        if second % 2:
            given = {name: table.to_pylist() for name, table in together.advance(until).items()}
        else:
            given = rows_by_query(together.advance(until, together=True))
        assert given == expected
        together.check()
        for name, table in looked_up.items():
            assert together.lookup(name).equals(table), (name, queries[name])
        if second in (3, 6, 9):
            for name in (f"q{second}", f"q{second + 1}"):  # another one under the same name
                queries[name] = query(random, keys)
                for engine in (together, apart):
                    engine.drop(name)
                    engine.register(queries[name], name)


@pytest.mark.parametrize("keys", ["", "k"])
def test_who_lacks_a_value_takes_no_other_with_it(keys: str, one_by_one: OneByOne) -> None:
    """A sum beyond 64 bits does not exist: its row is left out, and all others are there."""
    of_key, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    queries = {
        f"{name}{seconds}": f"SELECT {of_key}{call} AS v FROM s [RANGE {seconds} SECONDS SLIDE 1 SECOND]{by}"
        for name, call in {"sum": "SUM(n)", "count": "COUNT(*)", "twice": "3 * MAX(n)"}.items()
        for seconds in range(2, 7)
    }
    together, apart = engine_of(queries), engine_of(queries)
    left_out = 0
    for second, n in enumerate((1, 2, 2**62, 3, 2**62, 4, 5, 6, 7, 8, 9, 10)):
        events = {
            "ts": [second * SECOND] * 2,
            "k": ["a", "b"],
            "j": [1, 1],
            "n": [n, second],
            "x": [0.5, 0.5],
        }
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            together.push("s", events)
            given = together.advance((second + 1) * SECOND)
        with one_by_one(), warnings.catch_warnings(record=True) as told_apart:
            warnings.simplefilter("always")
            apart.push("s", events)
            expected = apart.advance((second + 1) * SECOND)
        assert dict(given) == dict(expected)
        assert sorted(str(each.message) for each in told) == sorted(str(each.message) for each in told_apart)
        left_out += len(told)
    assert left_out >= len(queries) // 3


def test_rows_that_look_elsewhere(one_by_one: OneByOne) -> None:
    """Of one schema, with the third call in the first window or in the second; and windows that end before now."""
    first, second = (
        "[RANGE 8 SECONDS TO 2 SECONDS SLIDE 2 SECONDS]",
        "[RANGE 6 SECONDS TO 4 SECONDS SLIDE 2 SECONDS]",
    )
    queries = {
        f"{number}": f"SELECT SUM(n) OVER {first} AS a, SUM(n) OVER {second} AS b, COUNT(*) OVER {third} AS c FROM s"
        for number, third in enumerate((first, second, second, first, first))
    }
    queries |= {
        f"{first} {call}": f"SELECT {call} OVER {first} AS a FROM s" for call in ("SUM(n)", "COUNT(*)")
    }
    queries |= {
        f"{second} {call}": f"SELECT {call} OVER {second} AS a FROM s" for call in ("SUM(n)", "COUNT(*)")
    }
    together, apart = engine_of(queries), engine_of(queries)
    random = np.random.default_rng(5)
    for at in range(0, 16, 2):
        events = batch(random, at)
        together.push("s", events)
        given = together.advance((at + 2) * SECOND)
        with one_by_one():
            apart.push("s", events)
            assert dict(given) == dict(apart.advance((at + 2) * SECOND))
        assert {crowd.owing for crowd in together._shards["s"].state.crowds} == {4, 5}


def test_rows_of_which_one_part_is_known_later(one_by_one: OneByOne) -> None:
    """COUNT has been kept from the beginning, for others; the least only since somebody asks for it."""
    row = "SELECT MIN(n) AS v FROM s [RANGE {} SECONDS SLIDE 1 SECOND]"
    engines = [
        engine_of({"first": "SELECT COUNT(*) AS v FROM s [RANGE 9 SECONDS SLIDE 1 SECOND]"}) for _ in range(2)
    ]
    random, seen = np.random.default_rng(3), set()
    for second in range(14):
        events = batch(random, second)
        if second == 5:
            for engine in engines:
                engine.register_many({f"q{seconds}": row.format(seconds) for seconds in range(2, 8)})
        given = []
        for engine, context in zip(engines, (nullcontext(), one_by_one()), strict=True):
            with context:
                engine.push("s", events)
                given.append(dict(engine.advance((second + 1) * SECOND)))
        assert given[0] == given[1]
        seen |= {table["complete"][0].as_py() for name, table in given[0].items() if name != "first"}
    assert seen == {True, False}


def test_which_are_together() -> None:
    """Of many keys in blocks, of none as a crowd for each schema, whatever they ask for; not who has HAVING."""
    calls = ("SUM(n)", "MIN(n)", "MAX(n)", "COUNT(*)")
    windows = [f"[RANGE {seconds} SECONDS SLIDE 1 SECOND]" for seconds in (4, 9)]
    rows = {f"{call} {each}": f"SELECT {call} AS v FROM s {each}" for call in calls for each in windows}
    keyed = {
        f"{name} by j": f"{text} GROUP BY j".replace("SELECT", "SELECT j,") for name, text in rows.items()
    }
    keyed["some"] = f"SELECT j, SUM(n) AS v FROM s {windows[0]} GROUP BY j HAVING COUNT(*) > 1"
    engine = engine_of({**rows, **keyed})
    state = engine._shards["s"].state
    engine.push("s", {"ts": [0] * 100, "k": ["a"] * 100, "j": range(100), "n": range(100), "x": [0.0] * 100})
    answers = engine.advance(SECOND)
    assert set(answers) == {*rows, *keyed} - {"some"}
    members = sorted(crowd.owing for crowd in state.crowds)
    assert sum(members) == len(rows)
    assert len(members) < len(calls)
    (families,) = state.prepared.families.values()
    assert [len(each._members) for each in families] == [len(keyed) - 1]
