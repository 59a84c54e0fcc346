"""Figures 14 to 16 at the paper's size: a window of 5,000,000 results of 1000 bytes, 5 GB."""

from __future__ import annotations

from benchmarks.figures.golab.ratios import RatioChart, Row
from benchmarks.figures.golab.results import KEYS, QUICK_UPDATES, TUPLE_BYTES, UPDATES, Results
from benchmarks.figures.golab.series import MEASURES, NAMES, measure_series, times_table, touched_table
from benchmarks.figures.page import Record
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text

UNITS = {"quick": 3_600, "small": 216_000, "full": 5_000_000}
MEASURED = {"quick": QUICK_UPDATES, "small": 4, "full": 4}  # updates, of a window that is full
SHOWN = {name: label for name, label in NAMES.items() if name != "wata"}  # which keeps all 5 GB and more
SOME = ("reindex", "rebuild", "no_rebuild")  # with other numbers of parts
CHUNK = 2_500_000  # in two parts: each part that comes while an index is built has it written once more
NOTES = f"""\
Results of {TUPLE_BYTES} bytes with {KEYS} keys, one a unit of time on average, updated {UPDATES} times a window; on
disk, flushed at each update. A result lives for half a window on average, so that half of a window's results are alive.
Before each update, probe and scan the system is made to forget what it holds of the archive in memory. Means over the
first updates of a full window, a probe after each and two scans. Answers are compared with NumPy after every update."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive every variant with 16 parts, some with others."""
    size = "quick" if quick else "full" if full else "small"
    units, updates = UNITS[size], MEASURED[size]
    results = Results(units, chunk=CHUNK)
    rows = measure_series(results, (16,), updates, True, SHOWN)
    if not quick:
        rows += measure_series(results, (4, 9, 25), updates, True, SOME)
    rows.sort(key=lambda row: (list(MEASURES).index(row["mode"]), row["parts"]))
    return Result(
        name="golab/gp14b",
        title="Index variants, a window of 5 GB",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", ""),
            Column("parts", "parts", "d"),
            *(Column(name, f"{label}, ms", ".3f") for name, label in SHOWN.items()),
        ],
        rows=rows,
        parameters={"units": units, "updates": updates, "tuple_bytes": TUPLE_BYTES},
    )


def chart_rows(record: Record) -> list[Row]:
    """Every variant, relative to R-ins with as many parts."""
    by_mode = {(row["mode"], row["parts"]): row for row in record["rows"]}
    found = []
    for parts in sorted({row["parts"] for row in record["rows"]}):
        for name, label in SHOWN.items():
            if name == "reindex" or name not in by_mode["update", parts]:
                continue
            of = {mode: by_mode[mode, parts] for mode in MEASURES}
            ratios = {mode: row[f"{name}_cpu"] / row["reindex_cpu"] for mode, row in of.items()}
            moved = {each: _moved(of["update"], each) for each in (name, "reindex")}
            found.append(
                Row(f"{parts} parts", label, name, ratios | {"moved": moved[name] / moved["reindex"]})
            )
    return found


def _moved(row: Record, name: str) -> float:
    return float(row[f"{name}_bytes_read"] + row[f"{name}_bytes_written"])


CHART = RatioChart(
    chart_rows,
    {
        "moved": "bytes of an update",
        "update": "update, CPU time",
        "probe": "probe, CPU time",
        "scan": "scan, CPU time",
    },
)
PARTS = {
    "chart": lambda record: (
        "![Bytes and CPU time of every variant, compared with R-ins with as many parts, 5 GB](golab-gp14b.svg)"
    ),
    "clock": lambda record: times_table(record, "update"),
    "update": lambda record: times_table(record, "update", "_cpu"),
    "probe": lambda record: times_table(record, "probe", "_cpu"),
    "scan": lambda record: times_table(record, "scan", "_cpu"),
    "touched": touched_table,
    "origin": origin_text,
}
