"""Writes docs/benchmarks.md from the files in benchmarks/results; nothing there is edited by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT
from benchmarks.measure import RESULTS

PAGE = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmarks

Written by `python -m benchmarks --report` from `benchmarks/results/`; do not edit. Every benchmark checks
its answers against NumPy. Spread is the slowest run minus the fastest, as a part of the median.
"""


def write_page(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Write the page from all results there are."""
    page.write_text(page_text(results))


def page_text(results: Path = RESULTS) -> str:
    """The page: an introduction, then a section per result, by name."""
    records = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    return "\n".join([INTRODUCTION, *map(section, records)])


def section(record: dict[str, Any]) -> str:
    """A heading, what was measured, the table, and where it was measured."""
    return (
        f"## {record['title']}\n\n{record['notes']}\n\n{table_text(record['columns'], record['rows'])}\n\n"
        f"{origin_text(record)}\n"
    )


def table_text(columns: list[dict[str, str]], rows: list[dict[str, Any]]) -> str:
    """A Markdown table; numbers are aligned to the right.

    >>> print(table_text([{"key": "n", "label": "events/s", "format": ",d"}], [{"n": 1200}, {"n": None}]))
    | events/s |
    |---:|
    | 1,200 |
    | – |
    """
    lines = ["| " + " | ".join(column["label"] for column in columns) + " |"]
    lines.append("|" + "|".join("---:" if column["format"] else "---" for column in columns) + "|")
    for row in rows:
        lines.append("| " + " | ".join(cell_text(row.get(c["key"]), c["format"]) for c in columns) + " |")
    return "\n".join(lines)


def cell_text(value: Any, format: str) -> str:
    """A value under its column's format; a dash where there is none."""
    return "–" if value is None else f"{value:{format}}"


def origin_text(record: dict[str, Any]) -> str:
    """One line: machine, versions, commit, date."""
    machine = record["machine"]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "numba", "numpy", "pyarrow"))
    settings = ", ".join(f"{name} = {value}" for name, value in record["parameters"].items())
    return (
        f"<small>{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, load "
        f"average {machine['load']} when written; {versions}; "
        f"commit {record['commit']}, {record['date']}. {settings}.{_disturbance(machine.get('peace'))}</small>"
    )


def _disturbance(peace: dict[str, Any] | None) -> str:
    if peace is None:
        return ""
    found = peace["disturbed"]
    return f" Measured while the machine was busy: {'; '.join(found)}." if found else " Measured in peace."
