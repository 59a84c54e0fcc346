"""Writes docs/benchmarks.md from the files in benchmarks/results; nothing there is edited by hand."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import wrap
from typing import Any

from benchmarks import BENCHMARKS
from benchmarks.machine import ROOT
from benchmarks.measure import RESULTS
from benchmarks.remarks import LOST, remark_on

PAGE = ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmarks

Written by `python -m benchmarks --report` from `benchmarks/results/`; do not edit. Every benchmark checks
its answers against NumPy. Spread is the slowest run minus the fastest, as a part of the median; where a table has no
such column, it was not recorded.
"""
WIDE = 0.3  # a spread that has to be explained
_ALONE = 1.5  # a load average below which others can hardly have worked on the machine


def write_page(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Write the page from all results there are."""
    page.write_text(page_text(results))


def page_text(results: Path = RESULTS) -> str:
    """The page: an introduction, then a section per result, by name."""
    records = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    return "\n".join([INTRODUCTION, how_measured(records, results), *map(section, records)])


def how_measured(records: list[dict[str, Any]], results: Path = RESULTS) -> str:
    """How many results were measured in what way, and what has none."""
    kinds = {
        "in peace": 0,
        "while the machine was busy": 0,
        "before it was noted what else the machine did": 0,
    }
    for record in records:
        peace = record["machine"].get("peace")
        kinds[list(kinds)[2 if peace is None else bool(peace["disturbed"])]] += 1
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    dates = sorted(record["date"] for record in records)
    text = (
        f"Of {len(records)} results, {told}. They are of {dates[0]} to {dates[-1]}, and each names its commit: the "
        "code is newer than some, and a figure may have become better or worse since."
        if records
        else "Nothing has been measured."
    )
    missing = ", ".join(f"`{name}`" for name in not_measured(results))
    return "\n".join(wrap(text, 118)) + "\n" + (f"\nNot measured yet: {missing}.\n" if missing else "")


def not_measured(results: Path = RESULTS) -> list[str]:
    """The benchmarks that have no result."""
    return [name for name in BENCHMARKS if not (results / f"{name}.json").exists()]


def section(record: dict[str, Any]) -> str:
    """A heading, what was measured, the table, why it may mislead, and where it was measured."""
    spreads = [
        row[key] for row in record["rows"] for key in row if key.endswith("spread") and row[key] is not None
    ]
    remarks = [why_wide(record, spreads, "rows"), remark_on(record["name"], record["commit"])]
    told = "".join(f"{remark}\n\n" for remark in remarks if remark)
    return (
        f"## {record['title']}\n\n{record['notes']}\n\n{table_text(columns_of(record), record['rows'])}\n\n"
        f"{told}{origin_text(record)}\n"
    )


def columns_of(record: dict[str, Any]) -> list[dict[str, str]]:
    """The columns of a result, and the spreads that its rows have besides. Of one run there is none.

    >>> [column["label"] for column in columns_of({"columns": [], "rows": [{"polars_spread": 0.1}]})]
    ['polars, spread']
    """
    shown = record["columns"]
    if record.get("parameters", {}).get("runs") == 1:
        return [column for column in shown if not column["key"].endswith("spread")]
    known = [column["key"] for column in shown]
    more = dict.fromkeys(
        key for row in record["rows"] for key in row if key.endswith("_spread") and key not in known
    )
    names = {key: key.removesuffix("_spread").replace("_", " ") for key in more}
    return shown + [{"key": key, "label": f"{name}, spread", "format": ".0%"} for key, name in names.items()]


def why_wide(record: dict[str, Any], spreads: list[float], points: str) -> str:
    """How many points spread widely, and why, as far as it is known; else nothing.

    >>> print(why_wide({"machine": {"load": 3.4, "cores": 2}, "parameters": {"runs": 11}}, [0.1, 0.5], "points"))
    1 of 2 points spread by more than 30%: others worked on the same machine (a load average of 3.4 on 2 cores, of which
    the run itself is 1). The spread is of the slowest of 11 runs and the fastest; what is shown is their median.
    """
    wide = sum(each > WIDE for each in spreads)
    if not wide or "machine" not in record:  # a result that has not been saved has none
        return ""
    machine, runs = record["machine"], record["parameters"].get("runs", "some")
    if record.get("why_wide"):
        why = record["why_wide"]
    elif disturbed := (machine.get("peace") or {}).get("disturbed"):
        why = f"the machine was busy ({'; '.join(disturbed)})"
    elif machine["load"] > _ALONE:
        load = (
            f"a load average of {machine['load']} on {machine['cores']} cores, of which the run itself is 1"
        )
        why = f"others worked on the same machine ({load})"
    else:
        why = f"why, was not noted; the load average of {machine['load']} at its end does not tell"
    told = (
        f"{wide} of {len(spreads)} {points} spread by more than {WIDE:.0%}: {why}. The spread is of the slowest of "
        f"{runs} runs and the fastest; what is shown is their median."
    )
    return "\n".join(wrap(told, 118))


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
        f"commit {commit_text(record['commit'])}, {record['date']}. {settings}."
        f"{_disturbance(machine.get('peace'))}</small>"
    )


def commit_text(commit: str) -> str:
    """A commit, and whether its code can be had.

    >>> commit_text("0123abc"), commit_text("0123abc+")
    ('0123abc', '0123abc with changes that were not committed')
    """
    known = commit.rstrip("+")
    told = (
        f"{known} (of a branch that was rewritten, no longer in the repository)" if known in LOST else known
    )
    return told + (" with changes that were not committed" if commit.endswith("+") else "")


def _disturbance(peace: dict[str, Any] | None) -> str:
    if peace is None:
        return ""
    found = peace["disturbed"]
    if found:
        return f" Measured while the machine was busy: {'; '.join(found)}."
    ends = "" if "meanwhile" in peace else " before the run and after it"
    pace = ", on a processor whose pace no earlier result tells" if peace.get("fastest", 0.0) is None else ""
    return f" Measured in peace{ends}{pace}."
