"""Section 5.3 besides its figures: keys by a power law, and no index at all."""

from __future__ import annotations

from typing import Any

from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.ratios import RatioChart, Row
from benchmarks.figures.golab.results import KEYS, QUICK_UPDATES, TUPLE_BYTES, UPDATES, Results
from benchmarks.figures.golab.series import MEASURES, NAMES, label_of
from benchmarks.figures.page import Record
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

UNITS = {"quick": 1_800, "small": 200_000, "full": 500_000}
MEASURED = {"quick": QUICK_UPDATES, "small": UPDATES // 3, "full": UPDATES // 2}
PARTS_SHOWN = 16
SHOWN = NAMES | {"none": "no index"}
POWERS = {"uniform": 0.0, "power": 1.0}
NOTES = f"""\
As figure 10 with {PARTS_SHOWN} parts, with {KEYS} keys that come alike (uniform) and with key k coming with a
chance that goes with 1 / k (power law with a coefficient of 1); no index: 4x4 parts by round-robin, without any
order by key, so that a probe reads everything. Probes ask for the same keys, drawn uniformly, with both. Answers
are compared with NumPy after every update."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive every variant with both distributions of keys."""
    size = "quick" if quick else "full" if full else "small"
    units, updates = UNITS[size], MEASURED[size]
    driven = {  # a variant with both, one after the other: what else the machine does is alike for them
        (name, keys): Drive(_label(name), Results(units, power=power), updates).run()
        for name in SHOWN
        for keys, power in POWERS.items()
    }
    rows: list[dict[str, Any]] = []
    for keys in POWERS:
        for measure in MEASURES:
            row: dict[str, Any] = {"mode": measure, "keys": keys, "parts": PARTS_SHOWN}
            for name in SHOWN:
                one = driven[name, keys]
                row |= {
                    name: one[f"{measure}_ms"],
                    f"{name}_cpu": one[f"{measure}_cpu_ms"],
                    f"{name}_bytes": one["bytes"],
                    f"{name}_moved": one["bytes_read"] + one["bytes_written"],
                }
            rows.append(row)
    return Result(
        name="golab/gp53",
        title="Keys by a power law, and no index",
        notes=" ".join(NOTES.split()),
        columns=[Column("mode", ""), Column("keys", "keys"),
                 *(Column(name, f"{label}, ms", ".3f") for name, label in SHOWN.items())],
        rows=rows,
        parameters={"units": units, "updates": updates, "tuple_bytes": TUPLE_BYTES},
    )  # fmt: skip


def _label(name: str) -> str:
    label = "none 4x4" if name == "none" else label_of(name, PARTS_SHOWN)
    assert label is not None
    return label


def by_keys(record: Record) -> dict[tuple[str, str], Record]:
    """The rows by measure and distribution of keys."""
    return {(row["mode"], row["keys"]): row for row in record["rows"]}


def chart_rows(record: Record) -> list[Row]:
    """The power law, relative to keys that come alike."""
    rows = by_keys(record)
    found = []
    for name, label in SHOWN.items():
        ratios = {
            measure: rows[measure, "power"][f"{name}_cpu"] / rows[measure, "uniform"][f"{name}_cpu"]
            for measure in MEASURES
        }
        moved = (rows["update", keys][f"{name}_moved"] for keys in ("power", "uniform"))
        found.append(Row("", label, name, ratios | {"moved": next(moved) / next(moved)}))
    return found


def power_table(record: Record) -> str:
    """CPU milliseconds with both, by variant."""
    rows = by_keys(record)
    columns = [{"key": "name", "label": "", "format": ""}]
    columns += [
        {"key": f"{measure} {keys}", "label": f"{text}, {keys}", "format": ",.2f"}
        for measure, text in MEASURES.items()
        for keys in POWERS
    ]
    cells = [
        {"name": label, **{f"{measure} {keys}": rows[measure, keys][f"{name}_cpu"] for measure in MEASURES
                           for keys in POWERS}}
        for name, label in SHOWN.items()
    ]  # fmt: skip
    return table_text(columns, cells)


def none_table(record: Record) -> str:
    """No index beside those that have the same parts and one that has none of their cost."""
    rows = by_keys(record)
    columns = [
        {"key": "what", "label": "", "format": ""},
        {"key": "paper", "label": "expected", "format": ""},
        *({"key": keys, "label": f"found, {keys} keys", "format": ".2f"} for keys in POWERS),
    ]
    asked = (
        ("update, no index / Rebuild", "about 0.8", "update", "none", "update", "rebuild"),
        ("update, no index / NoRebuild", "about 0.8", "update", "none", "update", "no_rebuild"),
        ("probe, no index / scan, Rebuild", "about 1", "probe", "none", "scan", "rebuild"),
        ("probe, no index / probe, Rebuild", "about 100", "probe", "none", "probe", "rebuild"),
        ("scan, no index / scan, Rebuild", "about 1", "scan", "none", "scan", "rebuild"),
    )
    cells = [
        {"what": what, "paper": paper,
         **{keys: rows[one, keys][f"{name}_cpu"] / rows[other, keys][f"{beside}_cpu"] for keys in POWERS}}
        for what, paper, one, name, other, beside in asked
    ]  # fmt: skip
    return table_text(columns, cells)


CHART = RatioChart(chart_rows, {"moved": "bytes an update moves"} | {
    measure: f"{text}, CPU time" for measure, text in MEASURES.items()
})  # fmt: skip
PARTS = {
    "chart": lambda record: "![Keys by a power law, compared with keys that come alike](golab-gp53.svg)",
    "power": power_table,
    "none": none_table,
    "origin": origin_text,
}
