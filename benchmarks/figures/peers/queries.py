"""Throughput by the number of queries beside polars and DuckDB, a panel for each kind of query; from `peers`."""

from __future__ import annotations

import json

from benchmarks import peers
from benchmarks.figures.page import Record, rows_of, short
from benchmarks.figures.plot import Chart
from benchmarks.measure import RESULTS, Result
from benchmarks.peers import streams
from benchmarks.report import origin_text, table_text

DRAWN = {"muntin": "muntin", "polars": "polars", "duckdb": "DuckDB"}
PANELS = {kind.title: f"{kind.title}, {kind.unit}" for kind in peers.KINDS}


def run(quick: bool) -> Result:
    """Measure; the result is that of the benchmark."""
    return peers.run(quick)


def record() -> Record | None:
    """The result, whose panels are kinds of queries; None if it has not been measured."""
    path = RESULTS / "peers.json"
    if not path.exists():
        return None
    found: Record = json.loads(path.read_text())
    return {**found, "rows": [{"mode": row["kind"], **row} for row in found["rows"]]}


def rates_table(shown: Record) -> str:
    """Rates of each kind by the number of queries, in CPU time, and of two threads by the clock."""
    columns = [
        {"key": "what", "label": "", "format": ""}, {"key": "queries", "label": "queries", "format": ",d"},
        *({"key": name, "label": label, "format": ">"} for name, label in DRAWN.items()),
        {"key": "polars_ratio", "label": "beside polars", "format": ",.2f"},
        {"key": "duckdb_ratio", "label": "beside DuckDB", "format": ",.2f"},
        {"key": "clock", "label": "two threads, by the clock", "format": ",.2f"},
    ]  # fmt: skip
    rows = []
    for kind in PANELS:
        for row in rows_of(shown, kind):
            two, one = row.get("muntin_2_clock"), row.get("muntin_clock")
            rows.append({
                **row, "what": kind, "clock": two / one if two and one else None,
                **{name: short(row.get(name)) for name in DRAWN},
            })  # fmt: skip
    return table_text(columns, rows)


def measured(shown: Record) -> str:
    """What the result holds, how often it was measured, and what is still to be measured."""
    there = [kind for kind in PANELS if rows_of(shown, kind)]
    lacking = [kind for kind in PANELS if kind not in there]
    if not rows_of(shown, streams.TITLE):
        lacking.append("anything beside Flink and Spark")
    runs, disturbed = shown["parameters"]["runs"], (shown["machine"].get("peace") or {}).get("disturbed")
    told = [
        f"**What is measured.** {_listed(there)}: {'one run' if runs == 1 else f'medians of {runs} runs'}."
    ]
    if disturbed:
        told.append("The machine was busy with other work: look at large differences, not at small ones.")
    if lacking:
        told.append(f"Not measured yet: {_listed(lacking)}.")
    return " ".join(told)


def _listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> _listed(["Windows per key", "Joins"])
    '*Windows per key*, *Joins*'
    """
    return ", ".join(f"*{name}*" for name in names)


def streams_table(shown: Record) -> str:
    """Rates beside stream processors, if there are any."""
    if not rows_of(shown, streams.TITLE):
        return "*Not measured yet.*"
    names = {"muntin": "muntin", "flink": "Flink", "spark": "Spark's windows"}
    columns = [{"key": "queries", "label": "queries", "format": ",d"}]
    columns += [{"key": name, "label": label, "format": ">"} for name, label in names.items()]
    columns += [
        {"key": f"{name}_ratio", "label": f"beside {label}", "format": ",.0f"}
        for name, label in list(names.items())[1:]
    ]
    columns.append({"key": "flink_reading", "label": "of Flink's time, reading", "format": ".0%"})
    rows = [
        {**row, **{name: short(row.get(name)) for name in names}} for row in rows_of(shown, streams.TITLE)
    ]
    return table_text(columns, rows)


def slower(shown: Record) -> str:
    """Where somebody else is faster, from the rows."""
    found = []
    for kind in PANELS:
        for name in ("polars", "duckdb"):
            behind = [row for row in rows_of(shown, kind) if row.get(f"{name}_ratio", 1.0) < 1]
            if behind:
                each = ", ".join(f"{1 / row[f'{name}_ratio']:.1f} with {row['queries']:,}" for row in behind)
                found.append(f"* {kind}: {DRAWN[name]} is faster, so many times: {each} queries.")
    return "\n".join(found) or "* Nowhere in this table."


def left_out(shown: Record) -> str:
    """Who takes no part in what, and why."""
    found = [
        f"* {row['kind']}, {row['queries']:,} queries: {row['why']}." for row in shown["rows"] if row["why"]
    ]
    return "\n".join(found) or "* Nobody."


def brief(value: float) -> str:
    """A number of queries where there is little room.

    >>> brief(100.0), brief(10_000.0)
    ('100', '10 k')
    """
    return f"{value / 1000:.0f} k" if value >= 1000 else f"{value:.0f}"


def image(shown: Record) -> str:
    """The plot, which is there once something has been measured."""
    return "![Throughput by the number of queries](peers-queries.svg)"


CHART = Chart(
    "queries",
    "queries",
    "per CPU second",
    DRAWN,
    x_text=brief,
    panels=PANELS,
    columns=3,
    has_one_scale=False,
    says_ends=True,
    has_legend=True,
)
PARTS = {
    "image": image, "measured": measured, "table": rates_table, "streams": streams_table,
    "slower": slower, "left_out": left_out, "origin": origin_text,
}  # fmt: skip
