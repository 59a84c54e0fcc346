"""Figures 14 to 16: the same for a window ten times as large."""

from __future__ import annotations

from benchmarks.figures.golab.choice import choice_table
from benchmarks.figures.golab.results import KEYS, QUICK_UPDATES, TUPLE_BYTES, UPDATES, Results
from benchmarks.figures.golab.series import (
    MEASURES,
    NAMES,
    findings_table,
    measure_series,
    times_table,
    touched_table,
)
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text

UNITS = {"quick": 3_600, "small": 216_000, "full": 5_000_000}
NUMBERS = (4, 9, 16, 25)
NOTES = f"""\
Results of {TUPLE_BYTES} bytes with {KEYS} keys, one a unit of time on average, updated {UPDATES} times a window; on
disk, flushed at each update. Means over a window of updates, a probe after each and three scans. Answers are
compared with NumPy after every update."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive every variant with every number of parts."""
    units = UNITS["quick" if quick else "full" if full else "small"]
    updates = QUICK_UPDATES if quick else UPDATES
    rows = measure_series(Results(units), (16,) if quick else NUMBERS, updates)
    return Result(
        name="golab/gp14",
        title="Index variants, large window",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", ""),
            Column("parts", "parts", "d"),
            *(Column(name, f"{label}, ms", ".3f") for name, label in NAMES.items()),
        ],
        rows=rows,
        parameters={"units": units, "updates": updates, "tuple_bytes": TUPLE_BYTES},
    )


CHART = Chart("parts", "parts", "milliseconds", NAMES, panels=MEASURES, dashed=("wata", "wata_swept"))
PARTS = {
    "chart": lambda record: "![Update, probe and scan by the number of parts, large window](golab-gp14.svg)",
    "update": lambda record: times_table(record, "update"),
    "probe": lambda record: times_table(record, "probe"),
    "scan": lambda record: times_table(record, "scan"),
    "touched": touched_table,
    "findings": findings_table,
    "choice": lambda record: choice_table(record, "large"),
    "origin": origin_text,
}
