"""HAVING over windows without SLIDE: the keys that pass by the index that the engine makes, beside all keys."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import muntin
from benchmarks.measure import Column, Result
from benchmarks.per_key import EVENTS, PASSING, SPAN, TURNS, beside, cpu, filled, make_events, taken, value_of

COLUMNS = [
    Column("what", "what"), Column("keys", "keys", ",d"), Column("before_us", "before, us", ",.0f"),
    Column("now_us", "now, us", ",.2f"), Column("best_us", "at best, us", ",.1f"), Column("beside", "beside"),
    Column("beside_us", "us", ",.2f"), Column("ratio", "times as fast as that", ".2f"),
    Column("rows", "rows", ",d"), Column("bytes_a_key", "bytes a key", ",.0f"),
]  # fmt: skip
NOTES = f"""\
Windows of 10 minutes without SLIDE that hold 600,000 of {EVENTS:,} events; HAVING is met by {PASSING} keys. *All
keys* is the same query with OR FALSE, which no index serves, *slices* the same with SLIDE 1 SECOND. The engine has
chosen the index itself, after as many look-ups as it wanted. APPROX has a tolerance of 0.1. *With pushes* is a
look-up after each 1,000 events, feeding included. *Before* is what the same took before events lay in runs by key.
CPU time of one core, medians of {TURNS} turns with what stands beside, and the fastest turn; answers are equal.
*Bytes a key* are of all state."""


def run(quick: bool) -> Result:
    """Measure each aggregate at 5,000 keys, and sums at fewer and at more."""
    events = EVENTS // 20 if quick else EVENTS
    rows = []
    for keys in (5_000,) if quick else (5_000, 1_000, 1_000_000):
        for call in ("COUNT(*)", "SUM(n)", "MAX(n)") if keys == 5_000 else ("SUM(n)",):
            rows += measure_having(call, keys, events)
    return Result("key_filters", "Keys that pass a threshold, without SLIDE", " ".join(NOTES.split()), COLUMNS, rows,
                  {"turns": TURNS})  # fmt: skip


def measure_having(call: str, keys: int, count: int) -> list[dict[str, Any]]:
    """A look-up by the index that the engine makes, beside all keys; and what else the same engine does."""
    events = make_events(keys, count)
    least = threshold(call, events, keys)
    window, sliced = "[RANGE 10 MINUTES]", "[RANGE 10 MINUTES SLIDE 1 SECOND]"
    rest = f"SELECT k, {call} AS v FROM s {window} GROUP BY k"
    queries = {
        "index": f"{rest} HAVING {call} > {least}", "all": f"{rest} HAVING {call} > {least} OR FALSE",
        "values": rest,
    }  # fmt: skip
    engine, push = filled(queries, events)
    by_slices, push_slices = filled({"index": queries["index"].replace(window, sliced)}, events)
    for _ in range(1_000):
        engine.lookup("index")
        if "_index" in engine.explain("index"):
            break
    assert "_index" in engine.explain("index"), "the engine has not chosen an index"
    engine.register(f"{rest} HAVING APPROX({call} > {least}, 0.1)", "rough")
    for _ in range(40):  # until runs are fed
        engine.lookup("index")
    answers = {name: engine.lookup(name).sort_by("k") for name in ("index", "all", "rough")}
    assert answers["index"].equals(answers["all"]), "the index differs"
    assert set(answers["index"]["k"].to_pylist()) <= set(answers["rough"]["k"].to_pylist()), (
        "APPROX lacks keys"
    )
    what, rows = f"HAVING {call}", answers["index"].num_rows
    before = {"before_us": 8_000.0} if keys == 5_000 else {}
    size = engine.stats()["streams"]["s"]["bytes"]
    made = [
        {"what": what, "keys": keys, **before, **beside(lambda: engine.lookup("index"), lambda: engine.lookup("all")),
         "beside": "all keys", "rows": rows, "bytes_a_key": size / keys},
        {"what": f"HAVING APPROX({call})", "keys": keys,
         **beside(lambda: engine.lookup("rough"), lambda: engine.lookup("index")), "beside": "exact",
         "rows": answers["rough"].num_rows},
        {"what": f"value(key) of {call}", "keys": keys, **({"before_us": 5_800} if before else {}),
         **taken(value_of(engine, "values", keys), 50)},
        {"what": "push of an event", "keys": keys, "now_us": push, "beside": "slices", "beside_us": push_slices,
         "ratio": push_slices / push},
    ]  # fmt: skip
    made.append(
        {"what": f"{what}, with pushes", "keys": keys, **with_pushes(engine, events), "beside": "all keys"}
    )
    del by_slices
    return made


def with_pushes(engine: muntin.Engine, events: dict[str, np.ndarray]) -> dict[str, float]:
    """Look-ups after each 1,000 events that come; in turns by the index and of all keys."""
    spent: dict[str, list[float]] = {"index": [], "all": []}
    for turn in range(2 * TURNS):
        some = {name: each[turn * 1_000 : turn * 1_000 + 1_000] for name, each in events.items()}
        engine.push("s", some | {"ts": SPAN + turn * 1_000_000 + np.arange(1_000)})
        engine.value("values", key=3)  # runs are fed for both
        for name in ("index", "all"):
            spent[name].append(cpu(lambda name=name: engine.lookup(name))[0] * 1e6)
    now, theirs = (statistics.median(spent[name]) for name in ("index", "all"))
    return {"now_us": now, "best_us": min(spent["index"]), "beside_us": theirs, "ratio": theirs / now}


def threshold(call: str, events: dict[str, np.ndarray], keys: int) -> int:
    """Half way between the keys that pass and all others."""
    if call == "MAX(n)":
        return 120
    held = events["ts"] >= SPAN - 600_000_000
    weight = events["n"][held] if call == "SUM(n)" else None
    totals = np.sort(np.bincount(events["k"][held], weight, minlength=keys))
    return int(totals[-PASSING] + totals[-PASSING - 1]) // 2
