"""Figure 13: what it costs that results come at a rate that changes at random by up to four times."""

from __future__ import annotations

from typing import Any

from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.ratios import RatioChart, Row
from benchmarks.figures.golab.results import QUICK_UPDATES, TUPLE_BYTES, UPDATES, Results
from benchmarks.figures.golab.series import NAMES, label_of
from benchmarks.figures.page import Record
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

UNITS = {"quick": 1_800, "small": 54_000, "full": 500_000}
SHOWN = {name: NAMES[name] for name in ("reindex", "del", "rebuild", "no_rebuild")}
MODES = {"steady": "steady rate", "varying": "rate varying by up to 4"}
NOTES = f"""\
As figure 10, updates only, with a rate that is drawn anew for each of the {UPDATES} updates of a window, from a range
whose ends are 4 times apart and whose mean is that of the steady stream."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive some variants with both streams."""
    units = UNITS["quick" if quick else "full" if full else "small"]
    updates = QUICK_UPDATES if quick else UPDATES
    rows = []
    for mode, factor in (("steady", 1.0), ("varying", 4.0)):
        for parts in (4, 16) if quick or full else (4, 9, 16, 25):
            row: dict[str, Any] = {"mode": mode, "parts": parts}
            for name in SHOWN:
                label = label_of(name, parts)
                assert label is not None
                one = Drive(label, Results(units, factor=factor), updates).run()
                row |= {name: one["update_ms"], f"{name}_cpu": one["update_cpu_ms"], f"{name}_touched": one["touched"],
                        f"{name}_moved": one["bytes_read"] + one["bytes_written"]}  # fmt: skip
            rows.append(row)
    return Result(
        name="golab/gp13",
        title="Rates that vary",
        notes=" ".join(NOTES.split()),
        columns=[Column("mode", ""), Column("parts", "parts", "d"),
                 *(Column(name, f"{label}, ms", ".1f") for name, label in SHOWN.items())],
        rows=rows,
        parameters={"units": units, "updates": updates, "tuple_bytes": TUPLE_BYTES},
    )  # fmt: skip


def increase_table(record: Record) -> str:
    """How much longer updates take when the rate varies, and how much more they move."""
    by_mode = {(row["mode"], row["parts"]): row for row in record["rows"]}
    rows = []
    for parts in sorted({row["parts"] for row in record["rows"]}):
        steady, varying = by_mode["steady", parts], by_mode["varying", parts]
        row = {"parts": parts}
        for name in SHOWN:
            clock, cpu, moved = (
                varying[f"{name}{kind}"] / steady[f"{name}{kind}"] - 1 for kind in ("", "_cpu", "_moved")
            )
            row[name] = f"{clock:+.0%}, CPU {cpu:+.0%}, bytes {moved:+.0%}"
        rows.append(row)
    columns = [{"key": "parts", "label": "parts", "format": "d"}]
    columns += [{"key": name, "label": label, "format": ">"} for name, label in SHOWN.items()]
    return table_text(columns, rows)


def chart_rows(record: Record) -> list[Row]:
    """The varying rate, relative to the steady one."""
    by_mode = {(row["mode"], row["parts"]): row for row in record["rows"]}
    found = []
    for parts in sorted({row["parts"] for row in record["rows"]}):
        steady, varying = by_mode["steady", parts], by_mode["varying", parts]
        for name, label in SHOWN.items():
            ratios = {
                kind: varying[f"{name}{kind}"] / steady[f"{name}{kind}"] for kind in ("", "_cpu", "_moved")
            }
            ratios["_cpu_moved"] = ratios["_cpu"] / ratios["_moved"]
            found.append(Row(f"{parts} parts", label, name, ratios))
    return found


CHART = RatioChart(
    chart_rows, {"_moved": "bytes moved", "_cpu": "CPU time", "_cpu_moved": "CPU time a byte", "": "clock"}
)
PARTS = {
    "chart": lambda record: "![Updates at a varying rate, compared with a steady one](golab-gp13.svg)",
    "table": increase_table,
    "origin": origin_text,
}
