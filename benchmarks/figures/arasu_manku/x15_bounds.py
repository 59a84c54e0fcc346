"""Theorems 1 to 8: the largest error beside the promised one, and space beside the bound, by window and eps."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

from benchmarks.figures.arasu_manku.chart import BoundsChart
from benchmarks.figures.arasu_manku.streams import STREAMS
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from muntin.sketch import SlidingCounts, SlidingQuantiles

INT = np.dtype(np.int64)
WINDOWS = (2**10, 2**12, 2**14, 2**16, 2**18, 2**20, 2**22)
INVERSES = (16, 64, 256)  # 1 / eps
PHIS = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
KINDS = {"bounded": "one length", "unbounded": "any length"}

COLUMNS = [
    Column("of", "of"), Column("kind", "windows of"), Column("window", "W", ",d"), Column("inverse", "1 / eps", "d"),
    Column("error", "largest error / promised", ".3f"), Column("entries", "entries", ",d"),
    Column("bound", "bound", ",d"), Column("smaller", "ring / bytes", ",.1f"),
    Column("nanoseconds", "ns an element", ",.0f"),
]  # fmt: skip


def run(quick: bool) -> Result:
    """All streams for each point; errors are checked by sorting and counting."""
    windows, inverses = (WINDOWS[2:4], INVERSES[:2]) if quick else (WINDOWS, INVERSES)
    rows = [
        measure_point(of, kind, window, inverse)
        for of in ("quantiles", "counts")
        for kind in KINDS
        for window in windows
        for inverse in inverses
    ]
    return Result(
        name="arasu_manku/x15",
        title="The bounds of Arasu & Manku",
        notes=(
            f"{', '.join(STREAMS)} streams of two windows, then windows of W, W / 2 and W / 10 elements, and after "
            "elements were forgotten, W / 3: the largest error of any of them, as a part of what is promised. "
            "Space is that of the largest, with room to spare, beside a ring of 8 bytes an element; the bound is "
            "the paper's for finished blocks and those under construction, and for the elements that wait. A "
            "sketch for one length is a ring where that is smaller."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"streams": len(STREAMS)},
    )


def measure_point(of: str, kind: str, window: int, inverse: int) -> dict[str, Any]:
    """One kind of sketch at one size, over all streams."""
    eps, worst, entries, size, spent = 1 / inverse, 0.0, 0, 0, 0.0
    for number, make in enumerate(STREAMS.values()):
        stream = make(np.random.default_rng(number), 2 * window).astype(np.int64)
        limit = window if kind == "bounded" else None
        sketch: Any = SlidingQuantiles(INT, eps, limit) if of == "quantiles" else SlidingCounts(eps, limit)
        before = process_time()
        sketch.extend(stream)
        spent += process_time() - before
        entries, size = max(entries, sketch.entries()), max(size, sketch.nbytes())
        measure = rank_error if of == "quantiles" else count_error
        for rows in (window, window // 2, window // 10, window // 3):
            if rows == window // 3:
                sketch.forget(sketch.end - rows)
            promised = eps * (rows if limit is None else window)
            worst = max(worst, measure(sketch.summary(rows=rows), stream[len(stream) - rows :]) / promised)
    assert worst <= 1, f"{of}, {kind}: the error is {worst} of what was promised"
    return {
        "of": of, "kind": kind, "window": window, "inverse": inverse, "error": worst, "entries": entries,
        "bound": bound_of(sketch, window), "smaller": 8 * window / size,
        "nanoseconds": spent / (2 * window * len(STREAMS)) * 1e9,
    }  # fmt: skip


def bound_of(sketch: Any, window: int) -> int | None:
    """The paper's entries for one length: those of active blocks and of blocks under construction."""
    if not sketch.geometry.window:
        return None
    if sketch.geometry.is_exact:
        return window
    shape = sketch.geometry.shape
    top = shape.levels - 1
    rising = (top + 1) * (2 ** (top + 1) - 1)
    if isinstance(
        sketch, SlidingQuantiles
    ):  # Greenwald and Khanna: 11 / (2 eta) * log2(2 eta n), eta of half a share
        rising *= int(11 * max(1.0, shape.unit_bits - np.log2(top + 1)))
    return ((top + 1) ** 2 << top) + rising + sketch.geometry.base


def rank_error(summary: Any, window: np.ndarray) -> float:
    """The largest error of some quantiles, in ranks."""
    if not summary.count:
        return float(len(window))
    ordered, worst = np.sort(window), 0.0
    for phi, value in zip(PHIS, summary.quantiles(PHIS), strict=True):
        rank = np.ceil(phi * len(window))
        first, last = np.searchsorted(ordered, value, "left") + 1, np.searchsorted(ordered, value, "right")
        worst = max(worst, first - rank, rank - last)
    return float(worst)


def count_error(summary: Any, window: np.ndarray) -> float:
    """The largest error of any item's count."""
    item, often = np.unique(window, return_counts=True)
    assert np.isin(summary.item, item).all(), "an item that is not in the window"
    found = np.zeros(len(item), np.int64)
    found[np.searchsorted(item, summary.item)] = summary.count_of
    assert (found <= often).all(), "a count is too high"
    return float((often - found).max())


CHART = BoundsChart()
PARTS = {
    "table": lambda record: table_text(record["columns"], record["rows"]),
    "origin": origin_text,
}
