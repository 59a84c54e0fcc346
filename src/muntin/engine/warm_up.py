"""Warm-up: compile what queries will need before they need it.

Kernels are compiled on first use and kept on disk; compiling all of them takes some seconds. Installers,
images and test runs can have it done beforehand: `muntin warm-up`.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from muntin.engine.engine import Engine
from muntin.synopsis.sketch import SampledCounts, SlidingCounts, SlidingQuantiles

_NUMBERS = "COUNT({0}), SUM({0}), AVG({0}), MIN({0}), MAX({0}), FIRST({0}), LAST({0}), VAR_SAMP({0})"
_VALUES = "QUANTILE({0}, 0.5), COUNT(DISTINCT {0})"
_BANDS = (
    "SELECT /*+ SYNOPSIS(range_tree) */ AVG({0}), MIN({0}), MAX({0}) FROM s [RANGE 5 SECONDS] WHERE x > 1"
)
_JOIN = (
    "SELECT one.n, other.x FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] AS one JOIN s [RANGE 3 SECONDS] AS other "
    "ON one.k = other.k"
)
_STAIRS = ("[RANGE 2 SECONDS SLIDE 1 SECOND]", "[RANGE 30 SECONDS SLIDE 5 SECONDS]")
_WINDOWS = ("[RANGE 5 SECONDS SLIDE 1 SECOND]", "[RANGE 5 SECONDS]", "[ROWS 5]")


def warm_up() -> float:
    """Run every kind of query over a few events; returns the seconds it took.

    What has been compiled before, by this version on this machine, is only loaded.
    """
    started = time.perf_counter()
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
    )
    for column in ("n", "x"):
        for number, window in enumerate(_WINDOWS):
            calls = f"{_NUMBERS}, {_VALUES}".format(column)
            engine.register(f"SELECT {calls} FROM s {window}", f"all {column} {number}")
            engine.register(f"SELECT k, {calls} FROM s {window} GROUP BY k", f"keyed {column} {number}")
        engine.register(_BANDS.format(column), f"bands {column}")
        for number, window in enumerate(_STAIRS):
            calls = f"/*+ SYNOPSIS(stairs) */ k, {_NUMBERS.format(column)}"
            engine.register(f"SELECT {calls} FROM s {window} GROUP BY k", f"stairs {column} {number}")
    engine.register(f"SELECT k, n, COUNT(*) FROM s {_WINDOWS[0]} GROUP BY k, n", "two keys")
    engine.register(_JOIN, "join")
    at = np.arange(64) * 250_000
    for turn in range(4):
        engine.push("s", {"ts": at + turn * 16_000_000 - (turn == 3) * 1_000_000, "k": ["a", "b"] * 32,
                          "n": np.arange(64), "x": np.arange(64) / 7})  # fmt: skip
        engine.advance()
        for name in engine.queries:
            engine.lookup(name)
    with tempfile.TemporaryDirectory() as directory:
        engine.checkpoint(Path(directory) / "state")
        Engine.restore(Path(directory) / "state")
    _warm_up_sketches()
    return time.perf_counter() - started


def _warm_up_sketches() -> None:
    """Of the coarsest kind, which some hundred elements are enough for."""
    at, value = np.arange(1000), np.arange(1000) / 7
    quantiles = SlidingQuantiles(np.dtype(np.float64), 0.5, is_auto=False)
    counts = SlidingCounts(0.5, is_auto=False)
    sampled = SampledCounts(0.5, 0.5)
    fed: list[tuple[Any, Any]] = [(quantiles, value), (counts, at % 7), (sampled, at % 7)]
    for sketch, element in fed:
        sketch.extend(element, at=at)
        sketch.forget_before(10)
        sketch.summary(since=100)
    counts.extend(at << 33, at=at + 1000)  # items that do not fit half of a word
    quantiles.summary(since=100).quantile(0.5)
    counts.count(3, since=100)
