"""Finding the keys above a threshold with a collective index, by the number of keys: tree and dense form."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.race import spread
from benchmarks.measure import RUNS, Column, Result, measure_side_by_side
from muntin.key_index.collective_index import CollectiveIndex

PARTS = 8
EVENTS_A_KEY = 20  # in the window, on average
BATCH = 1_000
LOOK_UPS = 50  # a run
SELECTED = 200  # keys above the threshold

COLUMNS = [
    Column("keys", "keys", ",d"), Column("form", "form"), Column("insert", "ns an event", ",.0f"),
    Column("look_up", "us a look-up", ",.1f"), Column("listed", "keys listed", ",d"), Column("right", "right", ",d"),
    Column("bytes", "bytes a key", ",.0f"), Column("spread", "spread", ".0%"),
]  # fmt: skip


def run(quick: bool) -> Result:
    """Both forms take turns at the same stream, for each number of keys."""
    rows = [row for keys in ((1_000,) if quick else (1_000, 10_000, 100_000)) for row in measure_keys(keys)]
    return Result(
        name="collective_index",
        title="Keys above a threshold",
        notes=(
            f"Which keys have more than v events in the window, v such that {SELECTED} have: candidates of a "
            f"collective index with p = {PARTS}, in ascending order, as one call from Python. The shares of the keys "
            f"follow Zipf's law, with {EVENTS_A_KEY} events a key in the window on average. Events come in batches of "
            f"{BATCH:,}; the time includes forgetting, and that the tree follows. CPU seconds, median of the runs; "
            "spread is that of the look-ups. The candidates hold all keys that NumPy finds."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": RUNS, "parts": PARTS, "batch": BATCH},
    )


def measure_keys(keys: int) -> list[dict[str, Any]]:
    """A row for each form."""
    random, window = np.random.default_rng(4), EVENTS_A_KEY * keys
    share = 1 / np.arange(1, keys + 1)
    key = random.choice(random.permutation(keys), window + (RUNS + 2) * BATCH, p=share / share.sum())
    at = np.arange(len(key))
    indexes = [CollectiveIndex("count", PARTS, form) for form in ("tree", "dense")]
    for index in indexes:
        index.add(key[:window], at[:window])
        index.candidates(0, 10)

    def insert(index: CollectiveIndex, run: int) -> None:
        part = slice(window + run * BATCH, window + (run + 1) * BATCH)
        index.add(key[part], at[part])
        index.forget(run * BATCH)
        len(index)

    inserts = measure_side_by_side([lambda run, index=index: insert(index, run) for index in indexes])
    since = (RUNS + 1) * BATCH
    counts = np.bincount(key[since : window + since], minlength=keys)
    low = int(np.sort(counts)[-SELECTED])
    look_ups = measure_side_by_side(
        [
            lambda run, index=index: [index.candidates(since, low) for _ in range(LOOK_UPS)]
            for index in indexes
        ]
    )
    rows = []
    for index, added, found in zip(indexes, inserts, look_ups, strict=True):
        right = np.flatnonzero(counts >= low)
        listed = index.candidates(since, low)
        assert np.isin(right, listed).all()
        rows.append({
            "keys": keys, "form": index.form, "insert": added.cpu_median / BATCH * 1e9,
            "look_up": found.cpu_median / LOOK_UPS * 1e6, "listed": len(listed), "right": len(right),
            "bytes": index.nbytes() / keys, "spread": spread(found),
        })  # fmt: skip
    return rows
