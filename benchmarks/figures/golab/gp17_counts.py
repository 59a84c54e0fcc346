"""Figure 17: updates of results of windows by count, whose expiry is only guessed."""

from __future__ import annotations

from typing import Any

from benchmarks.figures.golab.counted import CountedResults
from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.results import KEYS, QUICK_UPDATES, TUPLE_BYTES, UPDATES
from benchmarks.figures.page import Record
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

UNITS = {"quick": 1_800, "small": 54_000, "full": 500_000}
SHAPES = {4: "2x2", 9: "3x3", 16: "4x4", 160: "8x2", 161: "2x8"}  # the last two have 16 parts as well
NAMES = {
    "reindex": "R-ins", "del": "D-ins", "rebuild": "Rebuild", "no_rebuild": "NoRebuild",
    "count_rebuild": "CountRebuild", "count_no_rebuild": "CountNoRebuild",
}  # fmt: skip
FLAT = ("reindex", "del")
MODES = {"one_slot": "looking one slot around", "as_rates_vary": "looking as far as rates vary"}
NOTES = f"""\
Results of {TUPLE_BYTES} bytes with {KEYS} keys over two windows by count, updated {UPDATES} times while a window fills,
of which half are measured at full size;
the rates of both streams are drawn anew for each update, up to 4 times apart. Guesses are by the smoothed rate; an
update looks one slot around its own, as the paper's, or as far as the variance of the rates demands. Results that
outlive their guess are guessed anew. Answers are compared with NumPy after every update."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive the variants in all shapes."""
    units = UNITS["quick" if quick else "full" if full else "small"]
    updates = QUICK_UPDATES if quick else UPDATES // 2 if full else UPDATES
    rows = []
    for mode, reach in (("one_slot", 1), ("as_rates_vary", None)):
        for parts, shape in SHAPES.items():
            if (quick and parts != 4) or (full and parts == 9):
                continue
            row: dict[str, Any] = {"mode": mode, "parts": parts, "shape": shape}
            for name in NAMES:
                if not _is_measured(name, parts, mode, full):
                    continue
                label = f"{name} {parts}" if name in FLAT else f"{name} {shape}"
                one = Drive(label, CountedResults(units, reach=reach), updates).run()
                row |= {name: one["update_ms"], f"{name}_cpu": one["update_cpu_ms"], f"{name}_dead": one["dead"],
                        f"{name}_touched": one["touched"],
                        f"{name}_moved": one["bytes_read"] + one["bytes_written"]}  # fmt: skip
            rows.append(row)
    return Result(
        name="golab/gp17",
        title="Windows by count",
        notes=" ".join(NOTES.split()),
        columns=[Column("mode", ""), Column("shape", "shape"),
                 *(Column(name, f"{label}, ms", ".1f") for name, label in NAMES.items())],
        rows=rows,
        parameters={"units": units, "updates": updates, "tuple_bytes": TUPLE_BYTES},
    )  # fmt: skip


def _is_measured(name: str, parts: int, mode: str, full: bool) -> bool:
    """At full size, what the paper compares."""
    if name in FLAT:  # they look at all parts, so at all slots
        return parts <= 16 and mode == "one_slot"
    return name.startswith("count") or not full or (parts <= 16 and mode == "one_slot")


def counts_table(record: Record) -> str:
    """Milliseconds of the clock and of CPU time, parts touched and dead results kept, by shape."""
    columns = [{"key": "mode", "label": "", "format": ""}, {"key": "shape", "label": "shape", "format": ""}]
    columns += [{"key": name, "label": label, "format": ">"} for name, label in NAMES.items()]

    def cell(row: Record, name: str) -> str:
        if name not in row:
            return "–"
        return (
            f"{row[name]:.0f} ms, CPU {row[f'{name}_cpu']:.0f}; {row[f'{name}_touched']:.1f} parts; "
            f"{row[f'{name}_dead']} dead"
        )

    rows = [
        {"mode": MODES[row["mode"]], "shape": row["shape"], **{name: cell(row, name) for name in NAMES}}
        for row in record["rows"]
    ]
    return table_text(columns, rows)


CHART = Chart(
    "shape", "parts, by generation and by expiry", "milliseconds an update", NAMES, panels=MODES,
    apart=("8x2", "2x8"), places=("2x2", "4x4", "8x2", "2x8"), dashed=("reindex", "del"),
)  # fmt: skip
PARTS = {
    "chart": lambda record: "![Updates of results of windows by count](golab-gp17.svg)",
    "table": counts_table,
    "origin": origin_text,
}
