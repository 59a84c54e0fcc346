"""Warm-up: compile what queries will need before they need it.

Kernels are compiled on first use and kept on disk; compiling all of them takes a minute or two. Installers,
images and test runs can have it done beforehand: `muntin warm-up`.
"""

from __future__ import annotations

import logging
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np

from muntin.archive.rewrite import compile_gather
from muntin.engine.engine import Engine
from muntin.kernels.jit import CACHE
from muntin.key_index.collective_index import CollectiveIndex
from muntin.key_index.staircase_index import StaircaseIndex
from muntin.plan.choices import MANY_LANES, MANY_RANGES_PER_KEY
from muntin.shard.read.window_bounds import compile_bounds
from muntin.sketch import SampledCounts, SlidingCounts, SlidingQuantiles

_NUMBERS = "COUNT({0}), SUM({0}), AVG({0}), MIN({0}), MAX({0}), FIRST({0}), LAST({0}), VAR_SAMP({0})"
_VALUES = "QUANTILE({0}, 0.5), MODE({0}), COUNT(DISTINCT {0})"
_BANDS = (
    "SELECT /*+ SYNOPSIS(range_tree) */ AVG({0}), MIN({0}), MAX({0}) FROM s [RANGE 5 SECONDS] WHERE x > 1"
)
_JOIN = (
    "SELECT one.n, other.x FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] AS one JOIN s [RANGE 3 SECONDS] AS other "
    "ON one.k = other.k"
)
_STAIRS = ("[RANGE 2 SECONDS SLIDE 1 SECOND]", "[RANGE 30 SECONDS SLIDE 5 SECONDS]")
# many slices in which most keys have a cell: rows of all keys pay
_DENSE = (
    "SELECT k, COUNT({0}), SUM({0}), MIN({0}), MAX({0}) FROM s [RANGE 12 SECONDS SLIDE 1 SECOND] "
    "WHERE n >= 0 GROUP BY k"
)
_RULE = "SELECT k, SUM(x) FROM s [RANGE {0} SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SUM(x) > {0}"
# of as many ranges as share a store
_RANGE = (
    "SELECT k, COUNT({0}), SUM({0}), MIN({0}), MAX({0}) FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] WHERE {0} > {1} "
    "GROUP BY k HAVING SUM({0}) > 1"
)
# of as many constants as share a store
_SUBSCRIPTION = "SELECT SUM({0}) FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] WHERE k = '{1}' HAVING SUM({0}) > 1"
_WINDOWS = ("[RANGE 5 SECONDS SLIDE 1 SECOND]", "[RANGE 5 SECONDS]", "[ROWS 5]")


def warm_up(processes: int = 1) -> float:
    """Run every kind of query over a few events; returns the seconds it took.

    What has been compiled before, by this version on this machine, is only loaded. More than one process compile
    for the disk alone; a kernel that two of them need at the same time is compiled twice.
    """
    started = time.perf_counter()
    if processes > 1 and CACHE is not None:
        with ProcessPoolExecutor(processes, get_context("spawn"), _be_silent) as pool:
            for done in [pool.submit(share) for share in _SHARES]:
                done.result()
    else:
        for share in _SHARES:
            share()
    return time.perf_counter() - started


def _be_silent() -> None:
    """Two processes would tell what they compile across each other: who starts them says how long it takes."""
    logging.getLogger("muntin.kernels").setLevel(logging.ERROR)


def _warm_up_keys() -> None:
    """Queries by key; sketches."""
    queries = {
        f"{column} {window}": f"SELECT k, {_NUMBERS.format(column)}, {_VALUES.format(column)} "
        f"FROM s {window} GROUP BY k"
        for column in ("n", "x")
        for window in _WINDOWS
    }
    for column in ("n", "x"):
        for window in _STAIRS:
            calls = f"/*+ SYNOPSIS(stairs) */ k, {_NUMBERS.format(column)}"
            queries[f"stairs {column} {window}"] = f"SELECT {calls} FROM s {window} GROUP BY k"
        queries[f"dense {column}"] = _DENSE.format(column)
        approximate = f"SELECT k, APPROX_QUANTILE({column}, 0.5, 0.1) FROM s {_WINDOWS[0]} GROUP BY k"
        queries[f"approximate {column}"] = approximate
        queries |= {f"{column} > {low}": _RANGE.format(column, low) for low in range(MANY_RANGES_PER_KEY)}
    queries |= {f"rule {size}": _RULE.format(size) for size in (2, 3)}  # of two windows, answered together
    alone = {
        f"{call} alone": f"SELECT k, {call} FROM s [ROWS 5] GROUP BY k"
        for column in ("n", "x")
        for call in _NUMBERS.format(column).split(", ")
    }
    engine = _serve(queries | alone)
    for name in queries:
        engine.lookup(name, key=["a"])
    for name in alone:
        engine.value(name, key="a")
    _warm_up_sketches()


def _warm_up_others() -> None:
    """Queries without a key, by numbers and by two keys; bands, joins."""
    queries = {
        f"{column} {window}": f"SELECT {_NUMBERS.format(column)}, {_VALUES.format(column)} FROM s {window}"
        for column in ("n", "x")
        for window in _WINDOWS
    }
    queries |= {f"bands {column}": _BANDS.format(column) for column in ("n", "x")}
    for column in ("n", "x"):
        queries |= {
            f"{column} of {one}": _SUBSCRIPTION.format(column, one) for one in "abcdefgh"[:MANY_LANES]
        }
    queries["two keys"] = f"SELECT k, n, COUNT(*) FROM s {_WINDOWS[0]} GROUP BY k, n"
    queries["numbers"] = f"SELECT n, COUNT(*) FROM s {_WINDOWS[0]} GROUP BY n"
    queries |= {"join": _JOIN, "join changes": f"{_JOIN} EMIT CHANGES"}
    engine = _serve(queries)
    engine.lookup("two keys", key=[("a", 0)])
    engine.lookup("numbers", key=[0])
    _warm_up_indexes()


_SHARES = (_warm_up_keys, _warm_up_others)  # which take about as long as each other


def _serve(queries: dict[str, str]) -> Engine:
    """An engine that has answered these queries, from events in order, out of order and late."""
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
    )
    engine.register_many(queries)
    at = np.arange(64) * 250_000
    for turn, times in enumerate((at, at, at[::-1], at - 1_000_000)):
        engine.push("s", {"ts": times + turn * 16_000_000, "k": ["a", "b"] * 32,
                          "n": np.arange(64), "x": np.arange(64) / 7})  # fmt: skip
        engine.advance()
        for name in queries:
            engine.lookup(name)
    compile_gather()
    compile_bounds()
    with tempfile.TemporaryDirectory() as directory:
        engine.checkpoint(Path(directory) / "state")
        return Engine.restore(Path(directory) / "state")


def _warm_up_indexes() -> None:
    """As finders of keys ask them: for ranges open above, and closed."""
    key, at = np.arange(200) % 7, np.arange(200)
    forms: tuple[Literal["dense", "tree"], ...] = ("dense", "tree")
    for form in forms:
        totals = CollectiveIndex("sum", 2, form)
        totals.add(key, at, at)
        totals.forget(50)
        for high in (None, 9):
            totals.candidates(60, 5, high)
        totals.bounds(key[:3], 60)
        for value in (at, at / 7):
            greatest = StaircaseIndex("max", value.dtype, form)
            greatest.add(key, at, value)
            greatest.forget(50)
            greatest.keys_in(60, 5, None)


def _warm_up_sketches() -> None:
    """Of the coarsest kind, which some hundred elements are enough for."""
    at, value = np.arange(1000), np.arange(1000) / 7
    quantiles = SlidingQuantiles(np.dtype(np.float64), 0.5, is_auto=False)
    counts = SlidingCounts(0.5, is_auto=False)
    sampled = SampledCounts(0.5, 0.5, window=100)  # thinned often
    fed: list[tuple[Any, Any]] = [(quantiles, value), (counts, at % 7), (sampled, at % 7)]
    for sketch, element in fed:
        sketch.extend(element, at=at)
        sketch.forget_before(10)
        sketch.summary(since=100)
    counts.extend(at << 33, at=at + 1000)  # items that do not fit half of a word
    quantiles.summary(since=100).quantile(0.5)
    counts.count(3, since=100)
