"""Error, bytes and speed beside sketches of Apache DataSketches, one for each slice, merged at the look-up."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import product
from time import process_time
from typing import Any

import numpy as np

from benchmarks.figures.arasu_manku.chart import RivalsChart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from benchmarks.sketch_rivals import Sliced, SlicedItems, update_each, update_floats, update_items
from benchmarks.sketches import FLOAT, count_error, rank_error
from muntin.sketch import SlidingCounts, SlidingQuantiles

BATCH = 65_536
EPSILONS = (0.1, 0.03, 0.01, 0.003)
SLICES = (64, 256, 1024)
PARAMETERS = {
    "KLL": (100, 200, 400),
    "REQ": (6, 12, 24),
    "t-digest": (50, 100, 200),
    "frequent items": (6, 8, 10),
}
INSTANTS = 7  # at which windows are asked for

COLUMNS = [
    Column("of", "of"), Column("method", "method"), Column("setting", "setting"),
    Column("error", "largest error / n", ".5f"), Column("bytes", "bytes", ",d"),
    Column("rate", "M elements/s", ",.1f"), Column("look_up", "us a look-up", ",.0f"),
]  # fmt: skip
EQUAL = [
    Column("of", "of"), Column("method", "beside"), Column("setting", "setting"),
    Column("error", "largest error / n", ".5f"), Column("bytes", "bytes / ours", ".2f"),
    Column("rate", "rate / ours", ".2f"),
    Column("look_up", "look-up / ours", ".1f"),
]  # fmt: skip


def run(quick: bool) -> Result:
    """Every method at several settings, over the same streams."""
    window = 2**16 if quick else 2**20
    return Result(
        name="arasu_manku/x16",
        title="Sketches of windows beside merged sketches of slices",
        notes=(
            f"A drifting stream; the last {window:,} elements at {INSTANTS} instants that fall within slices. Error: "
            "the largest over all instants, as a part of the window. Settings: eps; or slices of a window, and the "
            "parameter of the sketch of each."
        ),
        columns=COLUMNS,
        rows=[*quantile_rows(window), *count_rows(window)],
        parameters={"window": window},
    )


def quantile_rows(window: int) -> list[dict[str, Any]]:
    """Of lognormal numbers that grow."""
    from datasketches import kll_doubles_sketch, req_floats_sketch, tdigest_double

    length = 2 * window + INSTANTS * (window // 10)
    stream = np.random.default_rng(1).lognormal(size=length) * (1 + np.arange(length) / window)
    methods: list[tuple[str, str, Any]] = [
        ("sliding_quantiles", f"{eps:g}", SlidingQuantiles(FLOAT, eps)) for eps in EPSILONS
    ]
    methods += [
        ("sliding_quantiles, bounded", f"{eps:g}", SlidingQuantiles(FLOAT, eps, window)) for eps in EPSILONS
    ]
    made = {
        "KLL": (kll_doubles_sketch, update_each),
        "REQ": (req_floats_sketch, update_floats),
        "t-digest": (tdigest_double, update_each),
    }
    for (name, (kind, update)), slices in product(made.items(), SLICES):
        for parameter in PARAMETERS[name]:
            sketch = Sliced(window, partial(kind, parameter), update, slices)
            methods.append((name, f"{slices} x {parameter}", sketch))
    return [_row("quantiles", stream, window, *method) for method in methods]


def count_rows(window: int) -> list[dict[str, Any]]:
    """Of Zipf's items, of which others are frequent after a while."""
    from datasketches import frequent_items_sketch

    length = 2 * window + INSTANTS * (window // 10)
    stream = (np.random.default_rng(2).zipf(1.2, length) + np.arange(length) // (window // 3)) % 10**6
    methods: list[tuple[str, str, Any]] = [
        ("sliding_counts", f"{eps:g}", SlidingCounts(eps)) for eps in EPSILONS
    ]
    methods += [("sliding_counts, bounded", f"{eps:g}", SlidingCounts(eps, window)) for eps in EPSILONS]
    for slices, size in product(SLICES, PARAMETERS["frequent items"]):  # the logarithm of its table
        sketch = SlicedItems(window, partial(frequent_items_sketch, size), update_items, slices)
        methods.append(("frequent items", f"{slices} x 2^{size}", sketch))
    return [_row("counts", stream, window, *method) for method in methods]


def _row(of: str, stream: np.ndarray, window: int, method: str, setting: str, sketch: Any) -> dict[str, Any]:
    """One method at one setting; the first window is for the compiler and the caches."""
    measure = rank_error if of == "quantiles" else count_error
    spent, found, done = 0.0, [], 0
    for instant in range(INSTANTS + 1):
        until = 2 * window + instant * (window // 10) - 777 * instant
        before = process_time()
        for lo in range(done, until, BATCH):
            sketch.extend(stream[lo : min(lo + BATCH, until)])
        spent += process_time() - before if instant else 0.0
        done = until
        found.append(measure(sketch, stream[:until], window))
    elements = done - 2 * window
    return {
        "of": of, "method": method, "setting": setting, "error": max(error for error, _ in found[1:]),
        "bytes": sketch.nbytes(), "rate": elements / spent / 1e6,
        "look_up": 1e6 * float(np.median([seconds for _, seconds in found[1:]])),
    }  # fmt: skip


def equal_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every rival, at each setting that no other of it beats in both error and bytes, beside the smallest of ours,
    for any length, whose observed error is no larger."""
    found = []
    for row in rows:
        alike = [each for each in rows if each["of"] == row["of"]]
        ours = [
            each
            for each in alike
            if each["method"] in ("sliding_quantiles", "sliding_counts") and each["error"] <= row["error"]
        ]
        if row["method"].startswith("sliding") or not ours or _is_beaten(row, alike):
            continue
        best = min(ours, key=lambda each: each["bytes"])
        times = {key: row[key] / best[key] for key in ("bytes", "rate", "look_up")}
        found.append({key: row[key] for key in ("of", "method", "setting", "error")} | times)
    return found


def _is_beaten(row: dict[str, Any], alike: list[dict[str, Any]]) -> bool:
    """Whether another setting of the same method has less of one and no more of the other."""
    place = row["error"], row["bytes"]
    others = [(each["error"], each["bytes"]) for each in alike if each["method"] == row["method"]]
    return any(error <= place[0] and size <= place[1] and (error, size) != place for error, size in others)


CHART = RivalsChart()
PARTS = {
    "table": lambda record: table_text(record["columns"], record["rows"]),
    "equal": lambda record: table_text([asdict(column) for column in EQUAL], equal_rows(record["rows"])),
    "origin": origin_text,
}
