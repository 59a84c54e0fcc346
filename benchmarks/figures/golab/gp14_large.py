"""Figures 14 to 16: the same for a large window, of which nothing is in memory."""

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

UNITS = {"quick": 3_600, "small": 216_000, "full": 1_000_000}
MEASURED = {"quick": QUICK_UPDATES, "small": 12, "full": 8}  # updates, of a window that is full
SHOWN = 16  # parts at which all variants are measured
SOME = ("reindex", "del", "wata_swept", "rebuild", "no_rebuild")  # with other numbers of parts
NOTES = f"""\
Results of {TUPLE_BYTES} bytes with {KEYS} keys, one a unit of time on average, updated {UPDATES} times a window; on
disk, flushed at each update. Before each update, probe and scan the system is made to forget what it holds of the
archive in memory, so that all of it comes from disk, as with results of which memory holds next to nothing; what an
update has had read from disk is counted. Means over some updates of a full window, a probe after each and two or
three scans. Answers are compared with NumPy after every update."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive every variant with 16 parts, some with others."""
    size = "quick" if quick else "full" if full else "small"
    units, updates = UNITS[size], MEASURED[size]
    rows = measure_series(Results(units), (SHOWN,), updates, is_cold=True)
    if not quick:
        rows += measure_series(Results(units), (4, 9, 25), updates, True, SOME)
        rows.sort(key=lambda row: (list(MEASURES).index(row["mode"]), row["parts"]))
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
