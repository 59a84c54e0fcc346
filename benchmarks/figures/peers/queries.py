"""Throughput by the number of queries beside polars, DuckDB and Spark's windows, from results of three benchmarks."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import keyed_answers, subscriptions
from benchmarks.figures.page import Record, short
from benchmarks.figures.plot import Chart
from benchmarks.figures.spark import native
from benchmarks.measure import RESULTS, Result
from benchmarks.report import origin_text, table_text

NAMES = {"muntin": "muntin", "polars": "polars", "duckdb": "DuckDB", "window": "Spark's window()"}
PANELS = {
    "windows": "Windows per key, events per CPU second",
    "filters": "A filter each, events per CPU second",
    "spark": "On Spark, events per second",
}
RESULTS_OF = {"windows": "keyed_answers", "filters": "subscriptions", "spark": "spark/native"}
_FILTERS_BY = {"lanes": "muntin", "DuckDB": "duckdb", "polars": "polars"}


def run(quick: bool) -> list[Result]:
    """Measure the three, which have results of their own."""
    return [keyed_answers.run(quick), subscriptions.run(quick), native.run(quick)]


def record() -> Record | None:
    """All results in one, a row for each number of queries; None if one has not been measured."""
    paths = {panel: RESULTS / f"{name}.json" for panel, name in RESULTS_OF.items()}
    if not all(path.exists() for path in paths.values()):
        return None
    records = {panel: json.loads(path.read_text()) for panel, path in paths.items()}
    rows = [{"mode": panel, **row} for panel, each in records.items() for row in _ROWS[panel](each["rows"])]
    return {**records["windows"], "rows": rows, "origins": list(records.values())}


def _of_windows(rows: list[Record]) -> list[Record]:
    return [{name: row[name] for name in ("queries", "muntin", "polars", "duckdb")} for row in rows]


def _of_filters(rows: list[Record]) -> list[Record]:
    by_count: dict[int, dict[str, Any]] = {}
    for row in rows:
        name = _FILTERS_BY.get(row["how"])
        if name is not None and row["compared"] == 1:
            count = row["subscriptions"]
            by_count.setdefault(count, {"queries": count})[name] = row["rate"]
    return [by_count[count] for count in sorted(by_count)]


def _of_spark(rows: list[Record]) -> list[Record]:
    """By the clock; of Spark's windows only what was measured, without the line through it."""
    measured = [row for row in rows if row["mode"] == "clock"]
    return [
        {
            "queries": row["queries"],
            "muntin": row["muntin"],
            **({"window": row["window"]} if row["queries"] <= 8 else {}),
        }
        for row in measured
    ]


_ROWS = {"windows": _of_windows, "filters": _of_filters, "spark": _of_spark}


def rates_table(shown: Record) -> str:
    """Rates by the number of queries."""
    columns = [
        {"key": "what", "label": "", "format": ""},
        {"key": "queries", "label": "queries", "format": ",d"},
    ]
    columns += [{"key": name, "label": label, "format": ">"} for name, label in NAMES.items()]
    rows = [
        {
            "what": PANELS[row["mode"]].partition(",")[0],
            "queries": row["queries"],
            **{name: short(row.get(name)) for name in NAMES},
        }
        for row in shown["rows"]
    ]
    return table_text(columns, rows)


def image(shown: Record) -> str:
    """The plot, which is there once something has been measured."""
    return "![Throughput by the number of queries](peers-queries.svg)"


def origins(shown: Record) -> str:
    """Where all of them were measured."""
    return "\n\n".join(map(origin_text, shown["origins"]))


CHART = Chart("queries", "queries", "events", NAMES, panels=PANELS)
PARTS = {"image": image, "table": rates_table, "origin": origins}
