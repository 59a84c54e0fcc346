"""Finding the keys that pass a threshold: by index beside visiting all keys, and thousands of rules at once."""

from __future__ import annotations

import resource
import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

import muntin
from benchmarks.measure import Column, Result

KEYS = 1_000_000
BATCH_ROWS = 500_000
SECONDS = 60
RULES = 8_000
CALLS = ("COUNT(*)", "SUM(n)", "MAX(n)")
COLUMNS = [
    Column("what", "what"), Column("keys", "keys", ",d"), Column("found", "keys found", ",d"),
    Column("index_us", "index, us", ",.0f"), Column("all_us", "all keys, us", ",.0f"),
    Column("ratio", "times as fast", ".1f"), Column("value_us", "value of one key, us", ".1f"),
    Column("feed_us", "feeding, us per event", ".2f"), Column("state_bytes", "state, bytes", ",d"),
    Column("events_per_second", "events per CPU s", ",.0f"), Column("memory", "peak memory, GB", ".1f"),
]  # fmt: skip
NOTES = f"""\
HAVING over {KEYS:,} keys of which about 100 qualify, [RANGE {SECONDS} SECONDS SLIDE 1 SECOND], 100,000 events a second
of event time; one look-up by the index and one of all keys in turns, CPU time, medians of 15; the answers are equal.
*Feeding* is what the next look-up pays for events that came since the last. *Value* is `engine.value` of keys drawn at
random. The last row is {RULES:,} rules HAVING SUM, COUNT or MAX above a threshold over 20,000 keys, windows of 1 to 10
minutes sliding by 1 to 10 seconds, every second answered: events per CPU second on one core, and the peak memory of
the process."""


def run(quick: bool) -> Result:
    """Measure each aggregate, then many rules."""
    keys = KEYS // 50 if quick else KEYS
    rows = [measure_rules(200 if quick else RULES, quick)]
    rows = [measure_index(call, keys, quick) for call in CALLS] + rows
    return Result("having", "Keys that pass a threshold", " ".join(NOTES.split()), COLUMNS, rows,
                  {"batch_rows": BATCH_ROWS})  # fmt: skip


def measure_index(call: str, keys: int, quick: bool) -> dict[str, Any]:
    """One aggregate."""
    index = "staircase_index" if call.startswith("MAX") else "collective_index"
    least = {"COUNT(*)": 300, "SUM(n)": 1_500, "MAX(n)": 105}[call]
    engine = muntin.Engine(backlog_bytes=0)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    rest = f"k, {call} AS v FROM s [RANGE {SECONDS} SECONDS SLIDE 1 SECOND] GROUP BY k"
    engine.register(f"SELECT {rest}", "values")
    engine.register(f"SELECT {rest} HAVING {call} > {least} OR FALSE", "all keys")
    engine.register(f"SELECT /*+ SYNOPSIS({index}) */ {rest} HAVING {call} > {least}", "index")
    batches = 2 if quick else SECONDS // 5 + 2
    for number in range(batches):
        engine.push("s", make_batch(number, keys, call))
    engine.lookup("index")
    engine.push("s", make_batch(batches, keys, call))
    feeding, _ = cpu(lambda: engine.lookup("index"))
    pairs = [(cpu(lambda: engine.lookup("index")), cpu(lambda: engine.lookup("all keys"))) for _ in range(15)]
    assert all(by_index.equals(by_all) for (_, by_index), (_, by_all) in pairs), "the index differs"
    index_us, all_us = (statistics.median(pair[side][0] for pair in pairs) * 1e6 for side in (0, 1))
    some = [int(key) for key in np.random.default_rng(1).integers(0, keys, 5_000)]
    engine.value("values", key=some[0])
    seconds, _ = cpu(lambda: [engine.value("values", key=key) for key in some])
    return {
        "what": f"HAVING {call} > {least}",
        "keys": keys,
        "found": pairs[0][0][1].num_rows,
        "index_us": index_us,
        "all_us": all_us,
        "ratio": all_us / index_us,
        "value_us": seconds / len(some) * 1e6,
        "feed_us": feeding / BATCH_ROWS * 1e6,
        "state_bytes": engine.stats()["streams"]["s"]["bytes"],
    }


def make_batch(number: int, keys: int, call: str) -> pa.Table:
    """A hundredth of the events are of a hundred keys, which stand out."""
    random = np.random.default_rng(number)
    at = (np.arange(BATCH_ROWS) + number * BATCH_ROWS) * 10
    key, n = random.integers(0, keys, BATCH_ROWS), random.integers(1, 10, BATCH_ROWS)
    hot = random.random(BATCH_ROWS) < 0.01
    key[hot] = random.integers(0, 100, hot.sum())
    if call.startswith("MAX"):
        n[hot] += 100
    return pa.table({"ts": pa.array(at).cast(pa.timestamp("us")), "k": key, "n": n})


def measure_rules(rules: int, quick: bool) -> dict[str, Any]:
    """Many rules over one stream of 100,000 events a second, registered when their windows are full."""
    keys, rate = 20_000, 100_000
    random = np.random.default_rng(8)
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY ts")
    for number, call in enumerate(CALLS):
        engine.register(
            f"SELECT k, {call} FROM s [RANGE 10 MINUTES SLIDE 1 SECOND] GROUP BY k", f"all {number}"
        )
    fill, timed = (5, 3) if quick else (600, 20)
    found, spent = 0, 0.0
    for second in range(fill + timed):
        at = second * 1_000_000 + np.arange(rate) * 10
        n = random.integers(0, 100, rate)
        n[random.random(rate) < 2e-5] = random.integers(100, 2_000)  # few keys stand out by their MAX
        batch = {"ts": at, "k": random.integers(0, keys, rate), "n": n}
        if second == fill:
            engine.register_many(make_rules(rules, rate / keys, random))
        seconds, answers = cpu(lambda batch=batch: push_and_advance(engine, batch))
        if second > fill:  # the first round compiles what is not compiled yet, and makes readings
            spent += seconds
            found += sum(table.num_rows for name, table in answers.items() if name.startswith("rule"))
    return {
        "what": f"{rules:,} rules HAVING",
        "keys": keys,
        "found": found // (timed - 1),
        "events_per_second": (timed - 1) * rate / spent,
        "state_bytes": engine.stats()["streams"]["s"]["bytes"],
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def make_rules(rules: int, per_second: float, random: np.random.Generator) -> dict[str, str]:
    """Thresholds that few keys, or none, are above."""
    windows = [(60 * minutes, slide) for minutes in range(1, 11) for slide in (1, 2, 5, 10)]
    texts = {}
    for number in range(rules):
        size, slide = windows[number % len(windows)]
        call = CALLS[number % 3]
        count = size * per_second
        usual = {"COUNT(*)": count, "SUM(n)": 50 * count, "MAX(n)": 100}[call]
        above = {"COUNT(*)": count**0.5, "SUM(n)": 58 * count**0.5, "MAX(n)": 300}[call]
        least = int(usual + above * random.uniform(3, 6))
        texts[f"rule {number}"] = (
            f"SELECT k, {call} AS v FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] "
            f"GROUP BY k HAVING {call} > {least}"
        )
    return texts


def push_and_advance(engine: muntin.Engine, batch: dict[str, Any]) -> dict[str, pa.Table]:
    engine.push("s", batch)
    return engine.advance()


def cpu(action: Any) -> tuple[float, Any]:
    before = time.process_time()
    result = action()
    return time.process_time() - before, result
