"""With any number of threads, answers, their order and what is kept are the same, however little work is shared."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from casefile import Advance, Case, Checkpoint, Drop, Lookup, Push, Register, read_case
from effort import every_second, some_of
from muntin import Engine, crew
from muntin.errors import CheckpointError, MuntinError
from muntin.keys import sweeper
from reference import declared
from runtimes import Embedded, as_table
from scenario import SeededDice, random_case
from tests.test_cases import CASES, run_case

SECOND = 1_000_000
THREADS = (1, 2, 3)


@pytest.fixture(autouse=True)
def share_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise only large batches and answers are worth it."""
    monkeypatch.setattr(crew, "FEW", 0)


def told(table: pa.Table) -> tuple[list[str], str]:
    return table.schema.names, repr(table.to_pylist())  # NaN is NaN there


def outcome(call: Any) -> Any:
    """What a call gives, or its error, with what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except MuntinError as error:
            found = f"{type(error).__name__}: {error}"
    if isinstance(found, pa.Table):
        found = told(found)
    elif isinstance(found, dict):
        found = {name: told(table) for name, table in found.items()}, found.more
    return found, sorted(str(each.message) for each in caught if issubclass(each.category, RuntimeWarning))


class SideBySide:
    """Engines with different numbers of threads, of which each is told the same."""

    def __init__(self, folder: Path, *creates: str, **options: Any):
        self.folder, self.options = folder, {"adaptive": False, **options}
        self.engines = [Engine(threads=threads, **self.options) for threads in THREADS]
        self("execute", ";".join(creates))

    def __call__(self, name: str, *given: Any, **more: Any) -> Any:
        calls = (partial(getattr(engine, name), *given, **more) for engine in self.engines)
        first, *others = map(outcome, calls)
        for threads, other in zip(THREADS[1:], others, strict=True):
            assert other == first, f"{name}{given} with {threads} threads"
        return first

    def restart(self) -> None:
        """From checkpoints, in turns with as many threads as there were and with others."""
        for engine in self.engines:
            engine.checkpoint(self.folder / str(engine._threads))
        paths = [self.folder / str(engine._threads) for engine in self.engines]
        self.engines = [
            Engine.restore(path, threads=threads, **self.options)
            for path, threads in zip(paths[1:] + paths[:1], THREADS, strict=True)
        ]

    def check(self) -> None:
        for engine in self.engines:
            engine.check()


@pytest.mark.parametrize("first", range(0, some_of(400, 10), 20))
def test_random_cases(first: int, tmp_path: Path) -> None:
    """Of a few events and keys, with all that a stream can bring."""
    for seed in range(first, first + 20):
        play(random_case(SeededDice(seed), f"seed {seed}"), tmp_path)


def play(case: Case, folder: Path) -> None:
    all_of = SideBySide(folder, *case.streams)
    streams = {stream.name: stream for stream in map(declared, case.streams)}
    for step in case.steps:
        match step:
            case Register(name, sql):
                all_of("register", sql, name)
            case Push(stream, batch):
                all_of("push", stream, as_table(batch, streams[stream]))
            case Lookup(query, keys, at):
                all_of("lookup", query, key=None if keys is None else list(keys), at=at)
            case Advance(until):
                all_of("advance", until=until)
            case Drop(name):
                all_of("drop", name)
            case Checkpoint():
                all_of.restart()
    all_of.check()


STREAM = (
    "CREATE STREAM s (ts BIGINT, k BIGINT, w VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
)
CALLS = "COUNT(*) AS c, SUM(n) AS s, MIN(n) AS low, MAX(n) AS high"
QUERIES = {
    "plain": f"SELECT k, {CALLS} FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "longer": f"SELECT k, {CALLS} FROM s [RANGE 12 SECONDS TO 2 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "floats": "SELECT k, SUM(x) AS s, MAX(x) AS high FROM s [RANGE 6 SECONDS SLIDE 1 SECOND] WHERE n > 3 GROUP BY k",
    "inputs": "SELECT k, SUM(x) AS s, MAX(n) AS high, VAR_SAMP(x) AS v, LAST(w) AS w "
    "FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "text": "SELECT w, COUNT(*) AS c, SUM(x) AS s FROM s [RANGE 7 SECONDS SLIDE 1 SECOND] GROUP BY w",
    "both": "SELECT w, k, SUM(n) AS s FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY w, k HAVING SUM(n) > 12",
    "above": "SELECT k, SUM(n) AS s FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SUM(n) > 40",
    "ratio": "SELECT k, SUM(n) / COUNT(*) AS s FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING MAX(n) > 2 * MIN(n) OVER [RANGE 3 SECONDS SLIDE 1 SECOND]",
    "changes": "SELECT k, SUM(n) AS s FROM s [RANGE 6 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING SUM(n) > 30 EMIT CHANGES",
    "rows": "SELECT k, SUM(x) AS s, MAX(n) AS high FROM s [ROWS 3] GROUP BY k",
    "loose": "SELECT k, SUM(x) AS s, COUNT(*) AS c FROM s [RANGE 3 SECONDS] GROUP BY k",
    "stairs": "SELECT k, SUM(n) AS s FROM s [RANGE 40 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "unkeyed": "SELECT SUM(x) AS s, MEDIAN(n) AS m FROM s [RANGE 9 SECONDS SLIDE 1 SECOND]",
    "filtered": "SELECT COUNT(*) FILTER (WHERE n > 5) AS c, MAX(x) AS high FROM s [RANGE 9 SECONDS] WHERE k < 200",
    "laned": "SELECT k, COUNT(*) AS c FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] WHERE w = 'w3' GROUP BY k",
}  # fmt: skip


def batch(random: np.random.Generator, begin: float, end: float, keys: tuple[int, int]) -> pa.Table:
    """Hundreds of events from one second to another; some in disorder, some NULL, many at the same time."""
    many = int(random.integers(300, 900))
    at = np.sort((random.uniform(begin, end, many) * 20).astype(np.int64)) * (SECOND // 20)
    if random.random() < 0.4:
        at = np.maximum(at + (random.integers(-3, 1, many) * SECOND // 2), 0)
    key = random.integers(*keys, many)
    texts = np.array([f"w{number}" for number in range(40)])[random.integers(0, 40, many)]
    value = random.choice([0.1, 1e5, -3.7, 2.5, float("inf")], many, p=[0.4, 0.2, 0.2, 0.19, 0.01])
    return pa.table(
        {
            "ts": at,
            "k": pa.array(key, mask=random.random(many) < 0.02),
            "w": pa.array(texts, pa.string(), mask=random.random(many) < 0.02),
            "n": pa.array(random.integers(0, 10, many), mask=random.random(many) < 0.1),
            "x": pa.array(value, mask=random.random(many) < 0.1),
        }
    )


@pytest.mark.parametrize("seed", range(some_of(20, 10)))
def test_many_keys(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and slices enough to be dealt out: ties, silence, late events, keys that are forgotten, queries that come
    and go, restarts, portions, and batches of which no value can be computed."""
    monkeypatch.setattr(sweeper, "_FEW", 50)
    random = np.random.default_rng(seed)
    all_of = SideBySide(tmp_path, STREAM, portion_rows=int(random.choice([2_000, 2_000_000])))
    names = list(QUERIES)
    later = set(random.choice(names, 4, replace=False).tolist())
    all_of("register_many", {name: sql for name, sql in QUERIES.items() if name not in later})
    now, standing = 0.0, set(names) - later
    for step in range(9):
        length = random.choice([0.3, 1.0, 4.0, 15.0], p=[0.3, 0.3, 0.3, 0.1])
        now += 30 * (random.random() < 0.15)
        low = 100 * (step // 3)
        events = batch(random, now, now + length, (low, low + 300))
        if step == 4:
            all_of(
                "register",
                "SELECT k, SUM(n * 4611686018427387904) AS s FROM s [RANGE 1 SECOND] GROUP BY k",
                "bad",
            )
            assert "exceeds 64 bits" in all_of("push", "s", events)[0]
            all_of("drop", "bad")
        assert all_of("push", "s", events)[0] is None
        now += length
        if step % 4 == 1 and later:
            name = later.pop()
            all_of("register", QUERIES[name], name)
            standing.add(name)
        if step == 7:
            name = sorted(standing)[int(random.integers(len(standing)))]
            all_of("drop", name)
            standing.remove(name)
        for name in sorted(standing):
            if random.random() < 0.3:
                assert "Error" not in all_of("lookup", name)[0]
        all_of("lookup_many", ["unkeyed", "filtered"] if {"unkeyed", "filtered"} <= standing else [])
        if random.random() < 0.6:
            while all_of("advance")[0][1]:
                pass
        if random.random() < 0.15:
            all_of.restart()
        if step % 4 == 3:
            all_of.check()
    all_of("advance", until=int((now + 60) * SECOND))


@pytest.mark.parametrize("path", every_second(CASES)[::3], ids=lambda path: path.stem)
def test_cases_with_threads(path: Path) -> None:
    """What is written in cases/*.case, of which ordinary runs take some."""
    runtime = Embedded()
    runtime.engine = Engine(threads=2)
    run_case(read_case(path.read_text()), runtime)


@pytest.mark.parametrize("spread", [1, 30])
def test_what_is_kept_is_the_same_to_the_last_bit(spread: int) -> None:
    """Of whole slices that are dealt out also where it lies; of keys, all but that."""
    random = np.random.default_rng(spread)
    engines = [Engine(threads=threads) for threads in THREADS]
    for engine in engines:
        engine.execute(STREAM)
        engine.register(QUERIES["plain"].replace("n)", "x)"), "q")
    for begin in range(0, 3 * spread, spread):
        events = batch(random, begin, begin + spread, (0, 400)).sort_by("ts")
        for engine in engines:
            engine.push("s", events)
    stores = [next(iter(engine._shards["s"].state.stores.values())) for engine in engines]
    one, *others = (store.columns_of_cells() for store in stores)
    assert len(one["key"]) > 400
    for other in others:
        if spread > 1:
            assert all(one[name].tobytes() == other[name].tobytes() for name in one)
        else:
            ours, theirs = (
                sorted(zip(*(array.tolist() for array in each.values()), strict=True), key=repr)
                for each in (({n: a for n, a in each.items() if n != "prior"}) for each in (one, other))
            )
            assert repr(ours) == repr(theirs)


def test_restored_with_as_many_threads_or_others(tmp_path: Path) -> None:
    engine = Engine(threads=3)
    engine.execute(STREAM)
    engine.checkpoint(tmp_path / "state")
    assert Engine.restore(tmp_path / "state")._threads == 3
    assert Engine.restore(tmp_path / "state", threads=1)._threads == 1
    Engine.restore(tmp_path / "state", threads=1).checkpoint(tmp_path / "state")
    assert Engine.restore(tmp_path / "state")._threads == 1


def test_damaged_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file from elsewhere does not start a million threads."""
    engine = Engine(threads=2)
    engine._threads = 10**6
    engine.checkpoint(tmp_path / "state")
    with pytest.raises(CheckpointError, match="threads"):
        Engine.restore(tmp_path / "state")
    with pytest.raises(MuntinError, match="at most 1,024"):
        Engine(threads=1_025)
