"""Figures 10 to 12: update, probe and scan of every variant, by the number of parts, for a small window."""

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
from benchmarks.figures.golab.series import PARTS as NUMBERS
from benchmarks.figures.golab.space import order_table, space_table
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text

UNITS = {"quick": 1_800, "small": 54_000, "full": 500_000}
NOTES = f"""\
Results of {TUPLE_BYTES} bytes with {KEYS} keys, one a unit of time on average, updated {UPDATES} times a window; on
disk, flushed at each update. Means over a window of updates, a probe after each and three scans. WATA leaves the
dead until a part is thrown away, and begins with those of a window; WATA, swept, deletes them in all parts but the
oldest, as the paper's must. Answers are compared with NumPy after every update."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive every variant with every number of parts."""
    units = UNITS["quick" if quick else "full" if full else "small"]
    updates = QUICK_UPDATES if quick else UPDATES
    rows = measure_series(Results(units), (4, 16) if quick else NUMBERS, updates)
    return Result(
        name="golab/gp10",
        title="Index variants, small window",
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
    "chart": lambda record: "![Update, probe and scan by the number of parts, small window](golab-gp10.svg)",
    "update": lambda record: times_table(record, "update"),
    "probe": lambda record: times_table(record, "probe"),
    "scan": lambda record: times_table(record, "scan"),
    "touched": touched_table,
    "space": space_table,
    "order": order_table,
    "findings": findings_table,
    "choice": lambda record: choice_table(record, "small"),
    "origin": origin_text,
}
