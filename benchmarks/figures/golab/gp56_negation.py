"""Section 5.6: what negation adds to updates and probes, when some results end before their time."""

from __future__ import annotations

from typing import Any

from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.ratios import RatioChart, Row
from benchmarks.figures.golab.results import KEYS, QUICK_UPDATES, TUPLE_BYTES, UPDATES, Results
from benchmarks.figures.page import Record
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

UNITS = {"quick": 1_800, "small": 54_000, "full": 500_000}
NAMES = {"rebuild": "Rebuild", "no_rebuild": "NoRebuild"}
MODES = {"update": "update", "probe": "probe of one key"}
ENDED = (0, 1, 3)  # of 100 keys, at each update
NOTES = f"""\
As figure 10 with 4x4 parts; at each of {UPDATES} updates, all results with some of the {KEYS} keys end before their
time. Ended results lie in every part; parts that are not due keep a list, and probes leave out what it names."""


def run(quick: bool, full: bool = False) -> Result:
    """Drive both variants without and with negation."""
    units = UNITS["quick" if quick else "full" if full else "small"]
    updates = QUICK_UPDATES if quick else UPDATES
    found = {
        (name, ended): Drive(f"{name} 4x4", Results(units, ended=ended), updates).run()
        for ended in ENDED
        for name in NAMES
    }
    rows: list[dict[str, Any]] = []
    for mode in MODES:
        for ended in ENDED:
            row: dict[str, Any] = {"mode": mode, "ended": ended + 1, "keys": ended}
            for name in NAMES:
                one = found[name, ended]
                row |= {name: one[f"{mode}_ms"], f"{name}_cpu": one[f"{mode}_cpu_ms"], f"{name}_bytes": one["bytes"],
                        f"{name}_moved": one["bytes_read"] + one["bytes_written"]}  # fmt: skip
            rows.append(row)
    return Result(
        name="golab/gp56",
        title="Negation",
        notes=" ".join(NOTES.split()),
        columns=[Column("mode", ""), Column("keys", "keys ended an update", "d"),
                 *(Column(name, f"{label}, ms", ".3f") for name, label in NAMES.items())],
        rows=rows,
        parameters={"units": units, "updates": updates, "tuple_bytes": TUPLE_BYTES},
    )  # fmt: skip


def overhead_table(record: Record) -> str:
    """Times with negation against those without, by the clock and by CPU, for what is then left to index."""
    by_keys = {(row["mode"], row["keys"]): row for row in record["rows"]}
    rows = []
    for mode, title in MODES.items():
        plain = by_keys[mode, 0]
        for ended in ENDED[1:]:
            row = by_keys[mode, ended]
            cells = {}
            for name in NAMES:
                clock, cpu, size = (
                    row[f"{name}{kind}"] / plain[f"{name}{kind}"] for kind in ("", "_cpu", "_bytes")
                )
                cells[name] = f"{clock - 1:+.0%}, CPU {cpu - 1:+.0%}, with {size:.0%} of the bytes"
            rows.append({"what": title, "keys": ended, **cells})
    columns = [
        {"key": "what", "label": "", "format": ""},
        {"key": "keys", "label": "keys ended at an update", "format": "d"},
        *({"key": name, "label": label, "format": ">"} for name, label in NAMES.items()),
    ]
    return table_text(columns, rows)


def chart_rows(record: Record) -> list[Row]:
    """With negation, relative to without; times also by the byte, as less is left to move and to read."""
    by_keys = {(row["mode"], row["keys"]): row for row in record["rows"]}
    found = []
    for ended in (each for each in ENDED[1:] if ("update", each) in by_keys):
        for name, label in NAMES.items():
            ratios = {}
            for mode, kind in (("update", "_moved"), ("probe", "_bytes")):
                row, plain = by_keys[mode, ended], by_keys[mode, 0]
                size = row[name + kind] / plain[name + kind]
                cpu = row[f"{name}_cpu"] / plain[f"{name}_cpu"]
                ratios |= {f"{mode}_size": size, f"{mode}_cpu": cpu, f"{mode}_each": cpu / size}
            found.append(Row(f"{ended} of {KEYS} keys ended", label, name, ratios))
    return found


CHART = RatioChart(
    chart_rows,
    {"update_size": "bytes an update moves", "update_cpu": "update, CPU time", "update_each": "CPU time a byte",
     "probe_cpu": "probe, CPU time"},
)  # fmt: skip
PARTS = {
    "chart": lambda record: "![Updates and probes with negation, compared with none](golab-gp56.svg)",
    "table": overhead_table,
    "origin": origin_text,
}
