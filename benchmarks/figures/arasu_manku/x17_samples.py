"""Theorems 3, 4, 7 and 8: randomised sketches beside the deterministic ones: error, space, and how often they fail."""

from __future__ import annotations

from math import floor, log, log2
from time import process_time
from typing import Any

import numpy as np

from benchmarks.figures.arasu_manku.streams import STREAMS
from benchmarks.figures.arasu_manku.x15_bounds import INT, PHIS, count_error
from benchmarks.figures.page import Record
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from muntin.sketch import SampledCounts, SampledQuantiles, SlidingCounts, SlidingQuantiles
from muntin.sketch.geometry import bounded

WINDOWS, QUICK_WINDOWS = (2**14, 2**17, 2**20), (2**14,)
INVERSES = (16, 64)  # 1 / eps
DELTA = 0.1  # large, so that failures would be seen
SEEDS, QUICK_SEEDS = 20, 3
STREAM_OF = {"quantiles": "drifting", "counts": "Zipf"}  # counts of items that are all rare say nothing
KINDS = {"one": "one length", "any": "any length"}
THEOREMS = {("counts", "one"): 3, ("quantiles", "one"): 4, ("counts", "any"): 7, ("quantiles", "any"): 8}
# where the paper's randomised quantiles begin to sample: windows, 1 / eps and delta
PAPER = ((2**20, 16, 0.1), (2**20, 64, 0.1), (2**22, 128, 0.01), (2**26, 128, 0.01), (2**34, 128, 0.01))

COLUMNS = [
    Column("theorem", "theorem", "d"), Column("of", "of"), Column("kind", "windows of"), Column("window", "W", ",d"),
    Column("inverse", "1 / eps", "d"), Column("sure_entries", "entries, deterministic", ",d"),
    Column("entries", "entries, randomised", ",d"), Column("stated", "most that we state", ",d"),
    Column("bytes_ratio", "bytes, randomised / deterministic", ".2f"),
    Column("rate_ratio", "elements a second, randomised / deterministic", ".1f"),
    Column("sure_error", "largest error / promised, deterministic", ".3f"),
    Column("error", "randomised", ".3f"), Column("failed", "answers that failed", ".2%"),
]  # fmt: skip


def run(quick: bool) -> Result:
    """Both kinds of sketches over the same stream, the randomised ones with many seeds."""
    windows, seeds = (QUICK_WINDOWS, QUICK_SEEDS) if quick else (WINDOWS, SEEDS)
    rows = [
        measure_point(of, kind, window, inverse, seeds)
        for of, kind in THEOREMS
        for window in windows
        for inverse in INVERSES
    ]
    rising = [rising_share(window, inverse) for window in windows[-1:] for inverse in INVERSES]
    return Result(
        name="arasu_manku/x17",
        title="Randomised sketches beside deterministic ones",
        notes=(
            f"A drifting stream of two windows, then windows of W, W / 2 and W / 10 elements: errors of {len(PHIS)} "
            "quantiles; of a stream of Zipf's, those of the counts of all items. Randomised sketches may fail with a "
            f"chance of {DELTA} an answer: {seeds} seeds. Space is that after the last element; rates are of CPU "
            "seconds. A share of failures above delta ends the run."
        ),
        columns=COLUMNS,
        rows=[*rows, *rising],
        parameters={"delta": DELTA, "seeds": seeds},
    )


def measure_point(of: str, kind: str, window: int, inverse: int, seeds: int) -> dict[str, Any]:
    """One theorem at one size."""
    eps, limit = 1 / inverse, window if kind == "one" else None
    stream = STREAMS[STREAM_OF[of]](np.random.default_rng(1), 2 * window).astype(np.int64)
    if of == "quantiles":
        sure: Any = SlidingQuantiles(INT, eps, limit)
        samples: list[Any] = [SampledQuantiles(INT, eps, DELTA, limit, seed) for seed in range(seeds)]
    else:
        sure = SlidingCounts(eps, limit)
        samples = [SampledCounts(eps, DELTA, limit, seed) for seed in range(seeds)]
    sure_seconds = take_in(sure, stream)
    seconds = sorted(take_in(sample, stream) for sample in samples)[seeds // 2]
    sure_error = max(errors_of(of, sure, stream, window, eps, limit))
    found = [error for sample in samples for error in errors_of(of, sample, stream, window, eps, limit)]
    failed = sum(error > 1 for error in found) / len(found)
    assert sure_error <= 1, f"{of}, {kind}: the error is {sure_error} of what was promised"
    assert failed <= DELTA, f"{of}, {kind}: {failed:.0%} of answers failed"
    largest = max(samples, key=lambda sample: sample.nbytes())
    return {
        "mode": "beside", "theorem": THEOREMS[of, kind], "of": of, "kind": KINDS[kind], "window": window,
        "inverse": inverse, "sure_entries": sure.entries(), "entries": max(each.entries() for each in samples),
        "stated": largest.most_entries(), "bytes": largest.nbytes(), "sure_bytes": sure.nbytes(),
        "bytes_ratio": largest.nbytes() / sure.nbytes(), "rate_ratio": sure_seconds / seconds,
        "sure_error": sure_error, "error": max(found), "failed": failed,
    }  # fmt: skip


def take_in(sketch: Any, stream: np.ndarray) -> float:
    """CPU seconds; the first elements are for the compiler."""
    first = len(stream) // 8
    sketch.extend(stream[:first])
    before = process_time()
    sketch.extend(stream[first:])
    return process_time() - before


def errors_of(
    of: str, sketch: Any, stream: np.ndarray, window: int, eps: float, limit: int | None
) -> list[float]:
    """Of every answer, as a part of what was promised."""
    found: list[float] = []
    for rows in (window, window // 2, window // 10):
        promised, inside = eps * (limit or rows), stream[len(stream) - rows :]
        summary = sketch.summary(rows=rows)
        ranks = rank_errors(summary, inside) if of == "quantiles" else [count_error(summary, inside)]
        found += [error / promised for error in ranks]
    return found


def rank_errors(summary: Any, window: np.ndarray) -> list[float]:
    """By how many ranks each quantile is wrong."""
    ordered, found = np.sort(window), []
    for phi, value in zip(PHIS, summary.quantiles(PHIS), strict=True):
        rank = np.ceil(phi * len(window))
        first, last = np.searchsorted(ordered, value, "left") + 1, np.searchsorted(ordered, value, "right")
        found.append(float(max(0, first - rank, rank - last)))
    return found


def rising_share(window: int, inverse: int) -> dict[str, Any]:
    """The part of a deterministic sketch that blocks under construction take: all that the paper's sampling saves."""
    stream = STREAMS[STREAM_OF["quantiles"]](np.random.default_rng(1), 2 * window).astype(np.int64)
    sketch = SlidingQuantiles(INT, 1 / inverse, window)
    sketch.extend(stream)
    rising = sum(sketch._rising_entries())
    return {
        "mode": "rising",
        "window": window,
        "inverse": inverse,
        "entries": sketch.entries(),
        "rising": rising,
    }


def beside_table(record: Record) -> str:
    """All theorems."""
    return table_text(record["columns"], [row for row in record["rows"] if row["mode"] == "beside"])


def rising_table(record: Record) -> str:
    """What blocks under construction take."""
    columns = [
        {"key": "window", "label": "W", "format": ",d"}, {"key": "inverse", "label": "1 / eps", "format": "d"},
        {"key": "entries", "label": "entries, deterministic", "format": ",d"},
        {"key": "rising", "label": "in blocks under construction", "format": ",d"},
        {"key": "share", "label": "share", "format": ".0%"},
    ]  # fmt: skip
    rows = [
        row | {"share": row["rising"] / row["entries"]} for row in record["rows"] if row["mode"] == "rising"
    ]
    return table_text(columns, rows)


def paper_table(record: Record) -> str:
    """Where the paper's RQ samples at all, by its own arithmetic; nothing here is measured."""
    columns = [
        {"key": "window", "label": "W", "format": ",d"}, {"key": "inverse", "label": "1 / eps", "format": "d"},
        {"key": "delta", "label": "delta", "format": "g"}, {"key": "levels", "label": "sizes of blocks", "format": "d"},
        {"key": "smallest", "label": "smallest block", "format": ",d"},
        {"key": "needed", "label": "its sample", "format": ",d"},
        {"key": "largest", "label": "largest block", "format": ",d"},
        {"key": "most", "label": "its sample", "format": ",.3g"},
        {"key": "sampled", "label": "sizes that are sampled", "format": "d"},
        {"key": "begins", "label": "sampling begins at W", "format": ",.3g"},
    ]  # fmt: skip
    return table_text(columns, [paper_row(*each) for each in PAPER])


def paper_row(window: int, inverse: int, delta: float) -> dict[str, Any]:
    """One of the paper's sketches.

    >>> row = paper_row(2**22, 128, 0.01)
    >>> row["levels"], row["smallest"], row["sampled"]
    (10, 8192, 0)
    """
    shape = bounded(window, 1 / inverse, is_auto=False).shape
    top = shape.levels - 1
    sizes = [1 << (shape.unit_bits + level) for level in range(top + 1)]
    needed = [sample_of(level, top, delta) for level in range(top + 1)]
    rates = [max(0, floor(log2(size / sample))) for size, sample in zip(sizes, needed, strict=True)]
    return {
        "window": window, "inverse": inverse, "delta": delta, "levels": top + 1, "smallest": sizes[0],
        "needed": round(needed[0]), "largest": sizes[-1], "most": needed[-1],
        "sampled": sum(rate > 0 for rate in rates), "begins": 2 * needed[0] * window / sizes[0],
    }  # fmt: skip


def sample_of(level: int, top: int, delta: float) -> float:
    """Elements that RQAlg has to sample of a block: half of the block's error is for sampling, half of that for the
    grid, and all 2L + 2 blocks of a cover must be right (Hoeffding)."""
    error = 2.0**-level / (top + 1) / 4
    return 2 / error**2 * log(4 / (error * delta / (2 * top + 2)))


PARTS = {"beside": beside_table, "rising": rising_table, "paper": paper_table, "origin": origin_text}
