"""Thousands of queries that are alike but for constants, emitted together, beside the same by hand in NumPy."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import muntin
from benchmarks.measure import Column, Result

KEYS, RULES, RATE = 5_000, 1_000, 20_000  # rate: events a second of event time
SHORT, LONG = 10, 60  # seconds
WINDOWS = 10_000
OVER = 200
PUSHES = 100
FEW, SPARSE_KEYS, SPARSE_RATE, SLIDES = 10, 200, 500, 60  # rate: events an hour; slides: minutes
COLUMNS = [
    Column("what", "what"), Column("queries", "queries", ",d"), Column("rows", "rows an instant", ",.0f"),
    Column("dict_us", "dict of tables, us per query", ".2f"),
    Column("together_us", "together, us per query", ".2f"),
    Column("numpy_us", "NumPy by hand, us per query", ".2f"), Column("ratio", "dict / NumPy", ".1f"),
    Column("push_1", "push of 1 event, us", ".0f"), Column("push_10", "of 10", ".0f"),
    Column("push_100", "of 100", ".0f"), Column("asked", "of 1 with a look-up after it", ".0f"),
]  # fmt: skip
NOTES = f"""\
Rules: {RULES:,} queries over {KEYS:,} keys that differ in constants, each second answered, {RATE:,} events a
second; medians of `advance` in CPU time. By hand: sums and counts of the windows from an array of slices once for all
rules, then rule by rule the condition for all keys, the keys that pass and their values. The answers are equal.
Un-keyed: {WINDOWS:,} different windows SLIDE 1 SECOND, by hand from prefix sums. OVER: one query with {OVER} windows
per key. Sparse: {FEW} rules EMIT CHANGES over {SPARSE_KEYS} keys, {SPARSE_RATE} events an hour, pushed and
answered hour by hour, `RANGE 10 MINUTES SLIDE 1 MINUTE`; per rule and slide; by hand a loop over rules. Pushes:
medians, of events that close no window; {PUSHES} pushes and one look-up after them, per push."""


class Values(NamedTuple):
    """What windows hold of each key, by hand."""

    sum: Any
    count: Any
    long_sum: Any


class Shape(NamedTuple):
    """One kind of rule: its SQL with a constant, and the same in NumPy."""

    name: str
    sql: str
    constants: tuple[float, float]  # from, to
    passes: Callable[[Values, Any], Any]
    value: Callable[[Values], Any]
    emits_changes: bool = False


_WINDOW = f"[RANGE {LONG} SECONDS SLIDE 1 SECOND]"
_SHORT = f"[RANGE {SHORT} SECONDS SLIDE 1 SECOND]"
_MEAN = 50 * RATE / KEYS * SHORT  # of SUM(n) in the short window
SHAPES = (
    Shape("ratio of two windows",
          f"SELECT k, SUM(n) OVER {_SHORT} AS v FROM s {_WINDOW} GROUP BY k "
          f"HAVING SUM(n) OVER {_SHORT} > {{}} * SUM(n)",
          (0.22, 0.28), lambda v, c: v.sum > c * v.long_sum, lambda v: v.sum),
    Shape("SUM / COUNT > c", f"SELECT k, SUM(n) AS v FROM s {_SHORT} GROUP BY k HAVING SUM(n) / COUNT(*) > {{}}",
          (60.0, 68.0), lambda v, c: v.sum / v.count > c, lambda v: v.sum),
    Shape("AND", f"SELECT k, SUM(n) AS v FROM s {_SHORT} GROUP BY k HAVING SUM(n) > {{}} AND COUNT(*) > 40",
          (_MEAN * 1.4, _MEAN * 2), lambda v, c: (v.sum > c) & (v.count > 40), lambda v: v.sum),
    Shape("EMIT CHANGES", f"SELECT k, SUM(n) AS v FROM s {_SHORT} GROUP BY k HAVING SUM(n) > {{}} EMIT CHANGES",
          (_MEAN * 1.4, _MEAN * 2), lambda v, c: v.sum > c, lambda v: v.sum, True),
    Shape("SUM > c", f"SELECT k, SUM(n) AS v FROM s {_SHORT} GROUP BY k HAVING SUM(n) > {{}}",
          (_MEAN * 1.4, _MEAN * 2), lambda v, c: v.sum > c, lambda v: v.sum),
)  # fmt: skip


def run(quick: bool) -> Result:
    """Measure each kind of query."""
    seconds = 3 if quick else 6
    rules, windows, over = (50, 200, 20) if quick else (RULES, WINDOWS, OVER)
    rows = [measure_rules(shape, rules, seconds) for shape in SHAPES]
    rows.append(measure_unkeyed(windows, seconds))
    rows.append(measure_over(over, seconds))
    hours = 6 if quick else 24
    rows += [measure_sparse(name, where, hours) for name, where in SPARSE.items()]
    rows += [measure_push(count, is_alike, quick) for is_alike in (True, False) for count in (1, 100, 10_000)
             if not quick or count < 1_000]  # fmt: skip
    return Result("emission", "Queries that differ in constants, beside NumPy by hand", " ".join(NOTES.split()),
                  COLUMNS, rows, {"keys": KEYS})  # fmt: skip


def make_batch(second: int) -> dict[str, Any]:
    random = np.random.default_rng(second)
    at = second * 1_000_000 + np.arange(RATE) * (1_000_000 // RATE)
    return {"ts": at, "k": random.integers(0, KEYS, RATE), "n": random.integers(0, 100, RATE)}


def measure_rules(shape: Shape, rules: int, seconds: int) -> dict[str, Any]:
    """Rules of one shape; as a dict of tables and together in turns, and by hand."""
    engine = started()
    hand = ByHand(shape, [float(f"{each:.5g}") for each in np.linspace(*shape.constants, rules)])
    engine.register_many(
        {f"q{i:05}": shape.sql.format(f"{each:.5g}") for i, each in enumerate(hand.constants)}
    )
    spent: dict[str, list[float]] = {"dict": [], "together": [], "numpy": []}
    many = 0
    for second in range(LONG + 2 * seconds):
        batch = make_batch(second)
        engine.push("s", batch)
        hand.fold(batch)
        if second < LONG - 2:
            engine.advance(until=(second + 1) * 1_000_000)
            if shape.emits_changes:
                hand.answer()
            continue
        way = "dict" if second % 2 else "together"
        used, answers = cpu(lambda: advance(engine, (second + 1) * 1_000_000, way == "together"))  # noqa: B023
        by_hand, expected = cpu(hand.answer)
        if second >= LONG:
            spent[way].append(used)
            spent["numpy"].append(by_hand)
        many = assert_same(answers, expected, way == "together")
    return row(shape.name, rules, many, spent)


class ByHand:
    """Slices of a second in a ring, and a loop over rules."""

    def __init__(self, shape: Shape, constants: list[float]):
        self.shape, self.constants = shape, constants
        self.sums, self.counts = np.zeros((LONG, KEYS), np.int64), np.zeros((LONG, KEYS), np.int64)
        self.second = 0
        self.inside = [np.zeros(KEYS, np.bool_) for _ in constants]

    def fold(self, batch: dict[str, Any]) -> None:
        at = self.second % LONG
        self.sums[at] = np.bincount(batch["k"], batch["n"], KEYS)
        self.counts[at] = np.bincount(batch["k"], minlength=KEYS)
        self.second += 1

    def answer(self) -> dict[str, tuple[Any, Any]]:
        latest = np.arange(self.second - SHORT, self.second) % LONG
        values = Values(self.sums[latest].sum(0), self.counts[latest].sum(0), self.sums.sum(0))
        passes, value = self.shape.passes, self.shape.value(values)
        found = {}
        for number, constant in enumerate(self.constants):
            now = passes(values, constant)
            if self.shape.emits_changes:
                now, self.inside[number] = now ^ self.inside[number], now
            keys = np.flatnonzero(now)
            if len(keys):
                found[f"q{number:05}"] = (keys, value[keys])
        return found


def measure_unkeyed(windows: int, seconds: int) -> dict[str, Any]:
    """Many different windows without keys."""
    engine = started()
    texts = [f"SELECT SUM(n) AS v FROM s [RANGE {i + 1} SECONDS SLIDE 1 SECOND]" for i in range(windows)]
    engine.register(texts[-1], "longest")  # keeps what the others will look at
    per_second = 10
    n = np.random.default_rng(0).integers(0, 100, (windows + 2 * seconds + 3) * per_second)
    prefix = np.append(0, np.cumsum(n))
    begin = windows * per_second
    push(engine, np.arange(begin) * (1_000_000 // per_second), n[:begin])
    engine.advance(until=windows * 1_000_000)
    engine.register_many({f"q{i:05}": text for i, text in enumerate(texts)})
    engine.drop("longest")
    spent: dict[str, list[float]] = {"dict": [], "together": [], "numpy": []}
    sizes = np.arange(1, windows + 1)
    many = 0
    for turn in range(2 * seconds + 2):
        end = begin + per_second
        push(engine, np.arange(begin, end) * (1_000_000 // per_second), n[begin:end])
        begin, way = end, "dict" if turn % 2 else "together"
        until = begin // per_second * 1_000_000
        used, answers = cpu(lambda: advance(engine, until, way == "together"))  # noqa: B023
        by_hand, value = cpu(lambda: prefix[begin] - prefix[np.maximum(begin - sizes * per_second, 0)])  # noqa: B023
        if turn > 1:
            spent[way].append(used)
            spent["numpy"].append(by_hand)
        expected = {f"q{i:05}": (None, value[i : i + 1]) for i in range(windows)}
        many = assert_same(answers, expected, way == "together")
    return row("un-keyed windows", windows, many, spent)


def measure_over(windows: int, seconds: int) -> dict[str, Any]:
    """One query with many windows."""
    engine = started()
    calls = ", ".join(f"SUM(n) OVER [RANGE {i + 1} SECONDS SLIDE 1 SECOND] AS v{i}" for i in range(windows))
    longest = f"SELECT k, SUM(n) FROM s [RANGE {windows} SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SUM(n) < 0"
    engine.register(longest, "longest")  # keeps what the other will look at
    sums = np.zeros((0, KEYS), np.int64)
    spent: dict[str, list[float]] = {"dict": [], "together": [], "numpy": []}
    many = 0
    for second in range(windows + seconds):
        batch = make_batch(second)
        engine.push("s", batch)
        sums = np.vstack([sums[-windows + 1 :], np.bincount(batch["k"], batch["n"], KEYS).astype(np.int64)])
        if second < windows - 2:
            engine.advance(until=(second + 1) * 1_000_000)
            continue
        if second == windows - 2:
            engine.register(f"SELECT k, {calls} FROM s GROUP BY k", "over")
            engine.drop("longest")
        used, answers = cpu(lambda: advance(engine, (second + 1) * 1_000_000, False))  # noqa: B023
        by_hand, whole = cpu(lambda: np.cumsum(sums[::-1], axis=0))  # noqa: B023
        if second >= windows:
            spent["dict"].append(used)
            spent["numpy"].append(by_hand)
        table = answers["over"]
        many = table.num_rows
        at = table["k"].to_numpy()
        for i in range(0, windows, 7):
            assert np.array_equal(
                table[f"v{i}"].fill_null(0).to_numpy(), whole[min(i, len(whole) - 1)][at]
            ), "OVER differs"
    return row("OVER windows in one query, a row", 1, many, spent)


SPARSE = {"v > c": lambda n, c: n > 10 * c, "v % 100 <> c": lambda n, c: n % 100 != c}


def measure_sparse(where: str, passes: Callable[[Any, int], Any], hours: int) -> dict[str, Any]:
    """Few rules that differ in a constant of WHERE, and few events, of which many slides are answered at once."""
    engine, minute, size = started(), 60_000_000, 10
    for number in range(FEW):
        condition = where.replace("v", "n").replace("c", str(10 * number if ">" in where[:3] else number))
        engine.register(
            f"SELECT k, COUNT(*) AS v FROM s [RANGE {size} MINUTES SLIDE 1 MINUTE] WHERE {condition} GROUP BY k "
            f"HAVING COUNT(*) > {number % 3} EMIT CHANGES",
            f"q{number}",
        )
    counts = np.zeros((FEW, size + SLIDES, SPARSE_KEYS), np.int64)  # of the last minutes
    inside = np.zeros((FEW, SPARSE_KEYS), np.bool_)
    spent: dict[str, list[float]] = {"dict": [], "numpy": []}
    many = 0
    for hour in range(hours):
        random = np.random.default_rng(hour)
        at = np.sort(random.integers(0, SLIDES * minute, SPARSE_RATE))
        key, n = random.integers(0, SPARSE_KEYS, SPARSE_RATE), random.integers(0, 1_000, SPARSE_RATE)
        engine.push("s", {"ts": hour * SLIDES * minute + at, "k": key, "n": n})
        counts[:, :size] = counts[:, SLIDES:]
        for number in range(FEW):
            kept = passes(n, number)
            cell = at[kept] // minute * SPARSE_KEYS + key[kept]
            counts[number, size:] = np.bincount(cell, minlength=SLIDES * SPARSE_KEYS).reshape(SLIDES, -1)
        used, answers = cpu(lambda: advance(engine, (hour + 1) * SLIDES * minute, False))  # noqa: B023
        by_hand, expected = cpu(lambda: sparse_changes(counts, size, inside))
        if hour > 1:
            spent["dict"].append(used / SLIDES)
            spent["numpy"].append(by_hand / SLIDES)
        many = 0
        for number, (instant, changed) in enumerate(expected):
            table = answers.get(f"q{number}")
            got = [] if table is None else zip(table["window_end"].cast("int64").to_pylist(), table["k"].to_pylist(),
                                               strict=True)  # fmt: skip
            ends = (hour * SLIDES + instant + 1) * minute
            assert sorted(got) == sorted(zip(ends.tolist(), changed.tolist(), strict=True)), "changes differ"
            many += len(changed)
    return row(f"few rules EMIT CHANGES, sparse, WHERE {where}", FEW, many // SLIDES, spent)


def sparse_changes(counts: Any, size: int, inside: Any) -> list[tuple[Any, Any]]:
    """By hand: at which instants which keys enter or leave, rule by rule."""
    found = []
    for number, some in enumerate(counts):
        total = np.cumsum(some, axis=0)
        now = total[size:] - total[:-size] > number % 3
        before = np.vstack([inside[number], now[:-1]])
        inside[number] = now[-1]
        found.append(np.nonzero(now ^ before))
    return found


def measure_push(queries: int, is_alike: bool, quick: bool) -> dict[str, Any]:
    """Pushes of few events, with queries that share their filters or are of different shapes."""
    engine = started()
    engine.register_many({f"q{i:05}": some_query(i, is_alike) for i in range(queries)})
    engine.push("s", make_batch(0))
    engine.advance()
    random, at = np.random.default_rng(1), 1_000_000
    medians = {}
    for size in (1, 10, 100):
        spent = []
        for _ in range(5 if quick else 12):
            batches = []
            for _ in range(PUSHES):
                key, n = random.integers(0, KEYS, size), random.integers(0, 100, size)
                batches.append({"ts": at + np.arange(size), "k": key, "n": n})
                at += size
            used, _ = cpu(lambda: push_all(engine, batches))  # noqa: B023
            spent.append(used / len(batches))
        medians[f"push_{size}"] = statistics.median(spent) * 1e6
    asked = []
    for _ in range(10 * PUSHES):
        one = {"ts": [at], "k": [0], "n": [1]}
        used, _ = cpu(lambda: push_all(engine, [one]))  # noqa: B023
        asked.append(used)
        at += 1
    medians["asked"] = statistics.median(asked) * 1e6
    kind = "sharing filters" if is_alike else "of different shapes"
    return {"what": f"small pushes, queries {kind}", "queries": queries, **medians}


def push_all(engine: muntin.Engine, batches: list[dict[str, Any]]) -> None:
    """Push batches, and ask for one answer, which sees them all."""
    for batch in batches:
        engine.push("s", batch)
    engine.value("q00000")


def some_query(number: int, is_alike: bool) -> str:
    window = f"[RANGE {number % 50 + 10} SECONDS SLIDE {(1, 2, 5, 10)[number % 4]} SECONDS]"
    if is_alike:
        return f"SELECT SUM(n) AS v FROM s {window} WHERE n > 10 HAVING SUM(n) > {number}"
    kind, constant = number % 8, number // 8
    return (
        f"SELECT SUM(n) AS v FROM s {window} HAVING SUM(n) > {constant}",
        f"SELECT k, SUM(n) AS v FROM s {window} GROUP BY k HAVING SUM(n) > {constant}",
        f"SELECT k, SUM(n) / COUNT(*) AS v FROM s {window} GROUP BY k HAVING SUM(n) / COUNT(*) > {constant}",
        f"SELECT MAX(n) - MIN(n) AS v FROM s {window} WHERE n > 10",
        f"SELECT k, MAX(n) AS v FROM s {window} GROUP BY k HAVING MAX(n) > {constant} EMIT CHANGES",
        f"SELECT AVG(n) AS v FROM s {window}",
        f"SELECT k, COUNT(*) AS v FROM s {window} WHERE n > 50 GROUP BY k HAVING COUNT(*) > {constant}",
        f"SELECT k, SUM(n) AS v FROM s {window} WHERE k = {constant % 40} GROUP BY k",
    )[kind]


def started() -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    return engine


def push(engine: muntin.Engine, at: Any, n: Any) -> None:
    engine.push("s", {"ts": at, "k": np.zeros(len(at), np.int64), "n": n})


def advance(engine: muntin.Engine, until: int, together: bool) -> Any:
    return engine.advance(until=until, together=True) if together else engine.advance(until=until)


def assert_same(answers: Any, expected: dict[str, tuple[Any, Any]], together: bool) -> int:
    """The answers as those by hand; how many rows they have."""
    if together:
        (table,) = answers
        names = table["query"].to_pylist()
        edges = np.append(
            np.flatnonzero(np.append(True, np.array(names[1:]) != names[:-1])), len(names)
        ).tolist()
        answers = {names[lo]: table.slice(lo, hi - lo) for lo, hi in pairwise(edges)}
    assert answers.keys() == expected.keys()
    rows = 0
    for name, (keys, values) in expected.items():
        table = answers[name]
        got = table["v"].to_numpy()
        if keys is not None:
            order = np.argsort(table["k"].to_numpy())
            assert np.array_equal(table["k"].to_numpy()[order], keys), f"{name} differs"
            got = got[order]
        assert np.array_equal(got, values), f"{name} differs"
        rows += len(values)
    return rows


def row(what: str, queries: int, rows: int, spent: dict[str, list[float]]) -> dict[str, Any]:
    us = {way: statistics.median(some) / queries * 1e6 for way, some in spent.items() if some}
    found = {"what": what, "queries": queries, "rows": rows, "ratio": us["dict"] / us["numpy"]}
    return found | {f"{way}_us": each for way, each in us.items()}


def cpu(action: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds; what others left to collect is collected before."""
    gc.collect()
    gc.disable()
    before = time.process_time()
    result = action()
    used = time.process_time() - before
    gc.enable()
    return used, result
