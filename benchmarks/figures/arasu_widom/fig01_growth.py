"""Figure 1 as a table: the powers with which costs grow, fitted over sizes, beside those that the theorems state."""

from __future__ import annotations

import json
from math import log2
from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.growth import COSTS, Cost, by_both
from benchmarks.figures.page import Record
from benchmarks.measure import RESULTS, Column, Result
from benchmarks.report import origin_text, table_text

ROOM = 0.15  # by how much a fitted power may exceed the one that is stated: steps of rings, few sizes
SIZES = {"fig10": "kept", "fig11": "width"}  # the column of sizes of the figures that are timed
RINGS = {"fig11": 100_000}  # a size of which there is only one window

NOTES = f"""\
Costs are counted at sizes that grow. The fitted power is the slope of a line through the logarithms of x and of the
counts, x being the size, its logarithm or n log n, whichever the statement is a power of. A power that exceeds the
one stated by more than {ROOM} ends the run. CPU time is that of Figures 10 and 11, one input at a time."""


def run(quick: bool) -> Result:
    """Count all costs at all sizes."""
    rows = [row_of(cost, cost.sizes[:4] if quick else cost.sizes) for cost in COSTS]
    return Result(
        name="arasu_widom/fig01",
        title="How costs grow",
        notes=" ".join(NOTES.split()),
        columns=[Column("structure", "structure"), Column("what", "cost"), Column("against", "against"),
                 Column("stated", "stated"), Column("power", "stated power", "g"),
                 Column("fitted", "fitted power", ".2f")],
        rows=rows,
        parameters={"costs": len(COSTS)},
    )  # fmt: skip


def row_of(cost: Cost, sizes: tuple[int, ...]) -> dict[str, Any]:
    """One cost at its sizes, and the power that fits."""
    found = [float(cost.count(size)) for size in sizes]
    fitted = power_of([cost.scale(size) for size in sizes], found)
    assert fitted <= cost.power + ROOM, (
        f"{cost.structure}, {cost.what}: a power of {fitted:.2f} by {cost.against}"
    )
    return {
        "mode": "growth", "structure": cost.structure, "what": cost.what, "of": cost.of, "against": cost.against,
        "stated": cost.stated, "power": cost.power, "sizes": list(sizes), "found": found, "fitted": fitted,
    }  # fmt: skip


def power_of(size: list[float], found: list[float]) -> float:
    """The power of the size with which a cost grows: the slope of a line through the logarithms, by least squares.

    >>> round(power_of([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    x, y = np.log(np.array(size, float)), np.log(np.array(found, float))
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())


def growth_table(record: Record) -> str:
    """All costs: what is stated, what was counted, and the power of CPU time where it was measured."""
    columns = [
        {"key": "structure", "label": "structure", "format": ""}, {"key": "what", "label": "cost", "format": ""},
        {"key": "stated", "label": "stated", "format": ""}, {"key": "against", "label": "by", "format": ""},
        {"key": "power", "label": "stated power", "format": ">"}, {"key": "fitted", "label": "fitted", "format": ".2f"},
        {"key": "counts", "label": "counted", "format": ""},
        {"key": "time", "label": "power of CPU time", "format": ">"},
    ]  # fmt: skip
    rows = []
    for row, cost in zip(record["rows"], COSTS, strict=True):
        sizes, found = row["sizes"], row["found"]
        power = f"{row['power']:g}" if cost.scale is float else f"{row['power']:g}, of {_scale_text(cost)}"
        counts = f"{row['of']}: {_short(found[0])} at {sizes[0]:,}, {_short(found[-1])} at {sizes[-1]:,}"
        rows.append({**row, "power": power, "counts": counts, "time": timed_power(cost)})
    return table_text(columns, rows)


def timed_power(cost: Cost) -> str:
    """That of CPU time in Figure 10 or 11, of the logarithm where the count is."""
    path = RESULTS / "arasu_widom" / f"{cost.timed[0]}.json" if cost.timed else None
    if cost.timed is None or path is None or not path.exists():
        return "–"
    figure, name = cost.timed
    rows = [row for row in json.loads(path.read_text())["rows"] if row["mode"] == "scalar"]
    points = [(row[SIZES[figure]], 1 / row[name]) for row in rows if row[SIZES[figure]] != RINGS.get(figure)]
    scale = float if cost.scale is float else log2
    return f"{power_of([scale(size) for size, _ in points], [time for _, time in points]):.2f}"


def _scale_text(cost: Cost) -> str:
    size = cost.against.partition(",")[0]
    return f"{size} log {size}" if cost.scale is by_both else f"log {size}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


PARTS = {"table": growth_table, "origin": origin_text}
