"""Throughput by the number of rules that differ in WHERE, from the benchmarks `subscriptions` and `fraud_rules`."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import fraud_rules, subscriptions
from benchmarks.figures.page import Record, short
from benchmarks.figures.plot import Chart
from benchmarks.measure import RESULTS, Result
from benchmarks.report import origin_text, table_text

NAMES = {
    "muntin": "muntin", "each": "a filter each", "duckdb": "DuckDB, by hand", "polars": "polars, by hand",
    "duckdb_filter": "DuckDB, FILTER",
}  # fmt: skip
PANELS = {
    "subscriptions": "Subscriptions to a symbol, events per CPU second",
    "fraud_rules": "Fraud rules per account, events per CPU second",
}
# what a benchmark calls them
_SERVED_BY = {
    "subscriptions": {"lanes": "muntin", "a filter each": "each", "DuckDB": "duckdb", "polars": "polars",
                      "DuckDB, FILTER": "duckdb_filter"},
    "fraud_rules": {"shared": "muntin", "a filter each": "each", "DuckDB": "duckdb_filter"},
}  # fmt: skip
BENCHMARKS = tuple(PANELS)


def run(quick: bool) -> list[Result]:
    """Measure both benchmarks, which have results of their own."""
    return [subscriptions.run(quick), fraud_rules.run(quick)]


def record() -> Record | None:
    """Both results in one, a row for each number of rules; None if one has not been measured."""
    paths = [RESULTS / f"{name}.json" for name in BENCHMARKS]
    if not all(path.exists() for path in paths):
        return None
    records = {name: json.loads(path.read_text()) for name, path in zip(BENCHMARKS, paths, strict=True)}
    rows = [row for name, each in records.items() for row in rows_of_rules(name, each["rows"])]
    return {**records["subscriptions"], "rows": rows, "origins": list(records.values())}


def rows_of_rules(mode: str, rows: list[Record]) -> list[Record]:
    """Rates by the number of rules, of those who compare one column."""
    by_count: dict[int, dict[str, Any]] = {}
    for row in rows:
        name = _SERVED_BY[mode].get(row["how"])
        if name is not None and row.get("compared", 1) == 1:
            count = row["subscriptions"] if mode == "subscriptions" else row["rules"]
            by_count.setdefault(count, {"mode": mode, "rules": count})[name] = row["rate"]
    return [by_count[count] for count in sorted(by_count)]


def rates_table(shown: Record) -> str:
    """Rates by the number of rules."""
    columns = [{"key": "what", "label": "", "format": ""}, {"key": "rules", "label": "rules", "format": ",d"}]
    columns += [{"key": name, "label": label, "format": ">"} for name, label in NAMES.items()]
    rows = [
        {
            "what": row["mode"].replace("_", " "),
            "rules": row["rules"],
            **{name: short(row.get(name)) for name in NAMES},
        }
        for row in shown["rows"]
    ]
    return table_text(columns, rows)


def image(shown: Record) -> str:
    """The plot, which is there once something has been measured."""
    return "![Throughput by the number of rules](rules-filters.svg)"


def origins(shown: Record) -> str:
    """Where both were measured."""
    return "\n\n".join(map(origin_text, shown["origins"]))


CHART = Chart("rules", "rules", "events", NAMES, panels=PANELS)
PARTS = {"image": image, "table": rates_table, "origin": origins}
