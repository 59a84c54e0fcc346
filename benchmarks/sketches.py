"""Quantiles and frequent items of sliding windows at eps = 0.01: sketches beside exact answers and rivals."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from benchmarks.measure import Column, Result
from benchmarks.sketch_rivals import (
    SLICES,
    ExponentialHistogram,
    Ring,
    Sliced,
    SlicedItems,
    WholeStreamCounts,
    WholeStreamQuantiles,
    true_counts,
    update_each,
    update_floats,
    update_items,
)
from muntin.sketch import SampledCounts, SampledQuantiles, SlidingCounts, SlidingQuantiles

EPS = 0.01
DELTA = 0.01
SUPPORT = 0.02  # of the items that are asked for
PHIS = (0.01, 0.1, 0.5, 0.9, 0.99)
BATCH = 65_536
FLOAT = np.dtype(np.float64)

COLUMNS = [
    Column("of", "of"), Column("method", "method"), Column("rate", "M elements/s", ",.1f"),
    Column("bytes", "bytes", ",d"), Column("smaller", "ring / bytes", ",.0f"),
    Column("error", "largest error / n", ".4f"), Column("promised", "promised", ".3f"),
    Column("look_up", "us a look-up", ",.0f"),
]  # fmt: skip


def run(quick: bool) -> Result:
    """Every method takes in the same stream, and is asked for three windows of it."""
    window = 2**16 if quick else 2**22
    rows = [*measure_quantiles(window), *measure_counts(window)]
    return Result(
        name="sketches",
        title="Approximate quantiles and counts",
        notes=(
            f"A stream of twice {window:,} elements that drifts, in batches of {BATCH:,}; then windows of the last "
            f"{window:,}, a half and a tenth of that. Error: of quantiles (five of them) by how many ranks, of "
            "counts by how much of any item, the largest over all windows, as a part of the window's n. Promised: "
            "the part of n that it may be; sketches for one length (bounded) promise it of the longest. Samples "
            f"may fail with probability {DELTA}. Apache DataSketches: a sketch for each of {SLICES} slices, merged "
            "at the look-up, with the usual parameters; they promise nothing of windows that begin within a "
            "slice. Whole stream: Greenwald-Khanna and Misra-Gries, which know no windows. The exponential "
            "histogram counts the one most frequent item. The ring has 8 bytes an element. CPU seconds; look-ups "
            f"after a batch, for all phi, or for all items above {SUPPORT:.0%}; rivals list all that they "
            "have. Items are Zipf's, of which others are frequent after a while, where nothing else is said."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"window": window, "eps": EPS},
    )


def measure_quantiles(window: int) -> list[dict[str, Any]]:
    """A row for each way to quantiles."""
    from datasketches import kll_doubles_sketch, req_floats_sketch, tdigest_double

    random = np.random.default_rng(1)
    stream = random.lognormal(size=2 * window) * (1 + np.arange(2 * window) / window)

    methods: list[tuple[str, Any, float | None]] = [
        ("exact ring", Ring(window), 0.0),
        ("sliding_quantiles", SlidingQuantiles(FLOAT, EPS), EPS),
        ("sliding_quantiles, bounded", SlidingQuantiles(FLOAT, EPS, window), EPS),
        ("sampled_quantiles", SampledQuantiles(FLOAT, EPS, DELTA), EPS),
        ("sliding_quantiles, eps = 0.1", SlidingQuantiles(FLOAT, 10 * EPS), 10 * EPS),
        ("sampled_quantiles, eps = 0.1", SampledQuantiles(FLOAT, 10 * EPS, DELTA), 10 * EPS),
        ("KLL, by slices", Sliced(window, lambda: kll_doubles_sketch(200), update_each), None),
        ("REQ, by slices", Sliced(window, lambda: req_floats_sketch(12), update_floats), None),
        ("t-digest, by slices", Sliced(window, lambda: tdigest_double(100), update_each), None),
        ("Greenwald-Khanna, whole stream", WholeStreamQuantiles(EPS), None),
    ]
    return [_row("quantiles", stream, window, *method, rank_error) for method in methods]


def measure_counts(window: int) -> list[dict[str, Any]]:
    """A row for each way to counts."""
    from datasketches import frequent_items_sketch

    random = np.random.default_rng(2)
    stream = (random.zipf(1.2, 2 * window) + np.arange(2 * window) // (window // 3)) % 10**6
    often = int(true_counts(stream[window:]).most_common(1)[0][0])

    methods: list[tuple[str, Any, float | None]] = [
        ("exact ring", Ring(window), 0.0),
        ("sliding_counts", SlidingCounts(EPS), EPS),
        ("sliding_counts, bounded", SlidingCounts(EPS, window), EPS),
        ("sampled_counts", SampledCounts(EPS, DELTA), EPS),
        ("sliding_counts, eps = 0.1", SlidingCounts(10 * EPS), 10 * EPS),
        (
            "frequent items, by slices",
            SlicedItems(window, lambda: frequent_items_sketch(10), update_items),
            None,
        ),
        ("Misra-Gries, whole stream", WholeStreamCounts(EPS), None),
        ("exponential histogram", ExponentialHistogram(often, EPS), EPS),
    ]
    rows = [_row("counts", stream, window, *method, count_error) for method in methods]
    # the fewer items repeat, the more there is to do for each
    others = {
        "a million items alike": random.integers(0, 10**6, 2 * window),
        "no item twice": np.arange(2 * window),
    }
    for name, other in others.items():
        rows.append(
            _row("counts", other, window, f"sliding_counts, {name}", SlidingCounts(EPS), EPS, count_error)
        )
    return rows


def _row(of: str, stream: np.ndarray, window: int, name: str, method: Any, promised: float | None,
         error_of: Callable[[Any, np.ndarray, int], tuple[float, float]]) -> dict[str, Any]:  # fmt: skip
    _compile(method, stream)
    before = process_time()
    for lo in range(0, len(stream), BATCH):
        method.extend(stream[lo : lo + BATCH])
    spent = process_time() - before
    found = [error_of(method, stream, rows) for rows in (window, window // 2, window // 10)]
    errors = [error if "bounded" not in name else error * rows / window
              for (error, _), rows in zip(found, (window, window // 2, window // 10), strict=True)]  # fmt: skip
    if promised is not None:
        assert max(errors) <= promised, f"{name} is wrong by {max(errors)}"
    return {
        "of": of, "method": name, "rate": len(stream) / spent / 1e6, "bytes": method.nbytes(),
        "smaller": 8 * window / max(1, method.nbytes()), "error": max(errors), "promised": promised,
        "look_up": 1e6 * float(np.median([seconds for _, seconds in found])),
    }  # fmt: skip


def _compile(method: Any, stream: np.ndarray) -> None:
    """Kernels are compiled beforehand, on a sketch like it."""
    if hasattr(method, "copy"):
        other = method.copy()
        other.extend(stream[: 4 * BATCH])
        other.summary(rows=BATCH)


def rank_error(method: Any, stream: np.ndarray, rows: int) -> tuple[float, float]:
    """The largest error of some quantiles of the last elements, as a part of them, and CPU seconds of the look-up."""
    before = process_time()
    if hasattr(method, "summary"):
        found = method.summary(rows=rows).quantiles(PHIS)
    else:
        found = method.quantiles(rows, PHIS)
    spent = process_time() - before
    window = np.sort(stream[len(stream) - rows :])
    worst = 0.0
    for phi, value in zip(PHIS, found, strict=True):
        rank = np.ceil(phi * rows)
        first, last = np.searchsorted(window, value, "left") + 1, np.searchsorted(window, value, "right")
        worst = max(worst, first - rank, rank - max(first, last))
    return max(0.0, worst) / rows, spent


def count_error(method: Any, stream: np.ndarray, rows: int) -> tuple[float, float]:
    """The largest error of any item's count, likewise."""
    before = process_time()
    if hasattr(method, "summary"):
        summary = method.summary(rows=rows)
        summary.frequent(SUPPORT)
        spent = process_time() - before
        found = dict(zip(summary.item.tolist(), summary.count_of.tolist(), strict=True))
    else:
        found = method.counts(rows)
        spent = process_time() - before
    true = true_counts(stream[len(stream) - rows :])
    items = [method.item] if isinstance(method, ExponentialHistogram) else {*true, *found}
    return max(abs(true[item] - found.get(item, 0)) for item in items) / rows, spent
