"""The ten keys that come first, over many windows: by heads of slices beside a full sort of all keys in NumPy."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import muntin
from benchmarks.measure import Column, Result

KEYS = 1_000_000
WINDOWS = 20  # of 1 to 20 minutes, all by the minute
EVENTS = 1_000_000  # a minute
LIMIT = 10
MINUTES = 3  # that are measured
MINUTE = 60_000_000
COLUMNS = [
    Column("what", "what"), Column("keys", "keys", ",d"), Column("windows", "windows", ",d"),
    Column("engine_ms", "advance, ms", ",.1f"), Column("sort_ms", "full sorts, ms", ",.1f"),
    Column("ratio", "times as fast", ".1f"), Column("select_ms", "partitions, ms", ",.1f"),
    Column("select_ratio", "times as fast", ".1f"), Column("push_ms", "push, ms", ",.0f"),
    Column("state_bytes", "state, bytes", ",d"),
]  # fmt: skip
NOTES = f"""\
ORDER BY SUM(n) DESC LIMIT {LIMIT} over {WINDOWS} windows of 1 to {WINDOWS} minutes at once, {EVENTS:,} events a minute
of {KEYS:,} keys, whose shares of the events are as 1 to their rank (*skewed*), or all the same (*even*), where no head
can tell and what they are ordered by is read of all keys. CPU time of a minute, medians of {MINUTES}. *advance* gives
the rows of all windows. *Full sorts* begins with the sums of each minute and key, which are made for nothing, adds
those of a window to the window before it, and has `np.argsort` order all keys by their sum and then by themselves.
*Partitions* has `np.argpartition` find the first instead. Rows are equal at every minute. *Push* is what the engine
takes to fold the events of a minute."""


def run(quick: bool) -> Result:
    """Measure both kinds of streams."""
    keys, events = (KEYS // 50, EVENTS // 50) if quick else (KEYS, EVENTS)
    rows = [measure(what, keys, events) for what in ("skewed", "even")]
    return Result(
        "top_k", "The keys that come first", " ".join(NOTES.split()), COLUMNS, rows, {"batch_rows": events}
    )


def measure(what: str, keys: int, events: int) -> dict[str, Any]:
    """One stream: windows are filled, then each minute is answered by both, the first of them to warm up."""
    random = np.random.default_rng(5)
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    window = f"FROM s [RANGE {WINDOWS} MINUTES SLIDE 1 MINUTE] GROUP BY k"
    engine.register(f"SELECT k, SUM(n) AS n {window}", "all keys")  # keeps what the others will look at
    sums: list[np.ndarray] = []
    spent: dict[str, list[float]] = {"push": [], "engine": [], "sort": [], "select": []}
    for minute in range(WINDOWS + 1 + MINUTES):
        if minute == WINDOWS:
            for size in range(1, WINDOWS + 1):
                sized = window.replace(f"RANGE {WINDOWS}", f"RANGE {size}")
                engine.register(f"SELECT k, SUM(n) AS n {sized} ORDER BY n DESC LIMIT {LIMIT}", f"top {size}")
            engine.drop("all keys")
        key, n = make_events(what, keys, events, random)
        at = minute * MINUTE + np.arange(events) * (MINUTE // events)
        pushed, _ = cpu(lambda batch={"ts": at, "k": key, "n": n}: engine.push("s", batch))
        sums = [np.bincount(key, n, keys).astype(np.int64), *sums[: WINDOWS - 1]]
        if minute < WINDOWS:
            continue
        until = (minute + 1) * MINUTE
        answered, answers = cpu(lambda until=until: engine.advance(until=until))
        if minute == WINDOWS:
            continue
        sorted_in, wanted = cpu(lambda given=sums: by_sorting(given))
        selected_in, selected = cpu(lambda given=sums: by_selection(given))
        for name, took in zip(spent, (pushed, answered, sorted_in, selected_in), strict=True):
            spent[name].append(took)
        for size in range(1, WINDOWS + 1):
            table = answers[f"top {size}"]
            got = list(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True))
            assert got == wanted[size - 1] == selected[size - 1], f"{what}: {size} minutes differ"
    took = {name: statistics.median(each) * 1e3 for name, each in spent.items()}
    return {
        "what": what,
        "keys": keys,
        "windows": WINDOWS,
        "engine_ms": took["engine"],
        "sort_ms": took["sort"],
        "ratio": took["sort"] / took["engine"],
        "select_ms": took["select"],
        "select_ratio": took["select"] / took["engine"],
        "push_ms": took["push"],
        "state_bytes": engine.stats()["streams"]["s"]["bytes"],
    }


def make_events(
    what: str, keys: int, events: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Keys and numbers of a minute."""
    if what == "skewed":
        key = (keys ** random.random(events)).astype(np.int64) - 1  # rank r has a share of about 1 / r
    else:
        key = random.integers(0, keys, events)
    return key, random.integers(1, 10, events)


def by_sorting(sums: list[np.ndarray]) -> list[list[tuple[int, int]]]:
    """The first keys of each window, by a sort of all of them."""
    return [_rows(total, np.argsort(_places(total))[:LIMIT]) for total in _totals(sums)]


def by_selection(sums: list[np.ndarray]) -> list[list[tuple[int, int]]]:
    """The same by a selection."""
    found = []
    for total in _totals(sums):
        places = _places(total)
        first = np.argpartition(places, LIMIT)[:LIMIT]
        found.append(_rows(total, first[np.argsort(places[first])]))
    return found


def _totals(sums: list[np.ndarray]) -> Any:
    total = np.zeros_like(sums[0])
    for each in sums:
        total = total + each
        yield total


def _places(total: np.ndarray) -> np.ndarray:
    """What keys are ordered by: the greatest sum is first, then the least key."""
    places: np.ndarray = np.arange(len(total)) - (total << 24)
    return places


def _rows(total: np.ndarray, first: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(first.tolist(), total[first].tolist(), strict=True))


def cpu(action: Any) -> tuple[float, Any]:
    before = time.process_time()
    result = action()
    return time.process_time() - before, result
