"""Figure 9: Rebuild with 16 parts in three shapes, relative to 4x4."""

from __future__ import annotations

from typing import Any

from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.ratios import RatioChart, Row
from benchmarks.figures.golab.results import KEYS, QUICK_UPDATES, TUPLE_BYTES, UPDATES, Results
from benchmarks.figures.golab.series import MEASURES
from benchmarks.figures.page import Record
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

SHAPES = {"shape_4x4": "4x4", "shape_8x2": "8x2", "shape_2x8": "2x8"}
UNITS = {"quick": 1_800, "small": 54_000, "full": 500_000}
NOTES = f"""\
Results of {TUPLE_BYTES} bytes with {KEYS} keys, one a unit of time on average, updated {UPDATES} times a window; on
disk, flushed at each update. Means over a window of updates, a probe after each and three scans. Answers are compared
with NumPy after every update."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive the three shapes."""
    units = UNITS["quick" if quick else "full" if full else "small"]
    updates = QUICK_UPDATES if quick else UPDATES
    found = {name: Drive(f"rebuild {shape}", Results(units), updates).run() for name, shape in SHAPES.items()}
    rows: list[dict[str, Any]] = []
    for mode in MEASURES:
        row: dict[str, Any] = {"mode": mode, "parts": 16}
        for name, one in found.items():
            row[name] = one[f"{mode}_ms"]
            row[f"{name}_cpu"] = one[f"{mode}_cpu_ms"]
            for what in ("touched", "bytes_read", "bytes_written"):
                row[f"{name}_{what}"] = one[what]
        rows.append(row)
    return Result(
        name="golab/gp09",
        title="Shapes of 16 parts",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", ""),
            *(Column(name, f"{shape}, ms", ".3f") for name, shape in SHAPES.items()),
        ],
        rows=rows,
        parameters={"units": units, "updates": updates, "tuple_bytes": TUPLE_BYTES},
    )


def relative_table(record: Record) -> str:
    """Times relative to 4x4, and what an update touches."""
    columns = [{"key": "what", "label": "", "format": ""}]
    columns += [{"key": name, "label": shape, "format": ">"} for name, shape in SHAPES.items()]
    rows = [
        {
            "what": f"{mode}{what}",
            **{name: f"{row[name + kind] / row['shape_4x4' + kind]:.2f}" for name in SHAPES},
        }
        for mode, row in zip(MEASURES.values(), record["rows"], strict=True)
        for what, kind in (("", ""), (", CPU time", "_cpu"))
    ]
    update = record["rows"][0]
    rows.append({"what": "parts touched", **{name: f"{update[f'{name}_touched']:.1f}" for name in SHAPES}})
    rows.append(
        {"what": "MB read and written", **{name: f"{_moved(update, name) / 1e6:.1f}" for name in SHAPES}}
    )
    return table_text(columns, rows)


def chart_rows(record: Record) -> list[Row]:
    """Both other shapes, relative to 4x4."""
    by_mode = {row["mode"]: row for row in record["rows"]}
    update = by_mode["update"]

    def ratios(name: str) -> dict[str, float]:
        found = {
            mode + kind: row[name + kind] / row["shape_4x4" + kind]
            for mode, row in by_mode.items()
            for kind in ("", "_cpu")
        }
        return found | {"moved": _moved(update, name) / _moved(update, "shape_4x4")}

    return [Row("", shape, name, ratios(name)) for name, shape in SHAPES.items() if name != "shape_4x4"]


def _moved(row: Record, name: str) -> float:
    return float(row[f"{name}_bytes_read"] + row[f"{name}_bytes_written"])


CHART = RatioChart(
    chart_rows,
    {"moved": "bytes of an update", "update_cpu": "update, CPU time", "update": "update, clock",
     "probe_cpu": "probe, CPU time", "scan_cpu": "scan, CPU time"},
)  # fmt: skip
PARTS = {
    "chart": lambda record: "![Update, probe and scan of 8x2 and 2x8, compared with 4x4](golab-gp09.svg)",
    "table": relative_table,
    "origin": origin_text,
}
