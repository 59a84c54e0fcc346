"""Fill the pages in docs/reproduce from result files: no number on them is typed by hand.

A part stands between `<!-- from FIGURE: PART -->` and `<!-- end -->`; the figure's module makes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT
from benchmarks.report import table_text, why_wide

PAGES = ROOT / "docs" / "reproduce"
MODE_TITLES = {"scalar": "One input at a time", "batch": "In batches"}
_PART = re.compile(r"(<!-- from (\w+): (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

Record = dict[str, Any]


def fill(text: str, part_of: Callable[[str, str], str]) -> str:
    """A page with its parts as `part_of(figure, part)` makes them.

    >>> print(fill("<!-- from fig01: rate -->\\n<!-- end -->", lambda figure, part: f"The {part} of {figure}."))
    <!-- from fig01: rate -->
    <BLANKLINE>
    The rate of fig01.
    <BLANKLINE>
    <!-- end -->
    """
    return _PART.sub(lambda match: f"{match[1]}\n{part_of(match[2], match[3])}\n\n{match[5]}", text)


def pages() -> list[Path]:
    """The pages that have parts to fill."""
    return [page for page in sorted(PAGES.glob("*.md")) if _PART.search(page.read_text())]


def short(value: float | None) -> str:
    """A rate in three digits.

    >>> short(12_345_678.0), short(987_654.0), short(1_234.0), short(56.78), short(None)
    ('12.3 M', '988 k', '1.23 k', '56.8', '–')
    """
    if value is None:
        return "–"
    for unit, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 0.9995 * unit:
            return _three_digits(value / unit) + sign
    return _three_digits(value)


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def rows_of(record: Record, mode: str) -> list[Record]:
    """The rows of one mode."""
    return [row for row in record["rows"] if row["mode"] == mode]


def rates_text(record: Record, x: str, x_label: str, x_format: str, names: dict[str, str],
               shown: Iterable[float]) -> str:  # fmt: skip
    """A table of rates for each mode, at some values of x."""
    shown = set(shown)
    columns = [{"key": x, "label": x_label, "format": x_format}]
    columns += [{"key": name, "label": label, "format": ">"} for name, label in names.items()]
    parts = []
    for mode, title in MODE_TITLES.items():
        rows = [
            {x: row[x], **{name: short(row.get(name)) for name in names}}
            for row in rows_of(record, mode)
            if row[x] in shown
        ]
        spreads = [row[f"{name}_spread"] for row in rows_of(record, mode) for name in names]
        parts.append(f"{title} ({spread_text(spreads)}):\n")
        parts.append(table_text(columns, rows) + "\n")
    every = [row[key] for row in record["rows"] for key in row if key.endswith("_spread")]
    return "\n".join([*parts, why_wide(record, every, "points")]).rstrip()


def spread_text(spreads: Iterable[float]) -> str:
    """How far the runs of points lie apart.

    >>> spread_text([0.1, 0.2, 0.9])
    'spread of a point: 20% as a rule, 90% at most'
    """
    ordered = sorted(spreads)
    return f"spread of a point: {ordered[len(ordered) // 2]:.0%} as a rule, {ordered[-1]:.0%} at most"


@dataclass(frozen=True)
class Check:
    """One thing to look for in a figure: what was expected, and how to read it off the rows of a mode."""

    what: str
    expected: str
    read: Callable[[list[Record]], str]


def checks_text(record: Record, checks: Iterable[Check]) -> str:
    """A table of what was expected and what was found, by mode."""
    columns = [
        {"key": "what", "label": "", "format": ""},
        {"key": "expected", "label": "expected", "format": ""},
    ]
    columns += [{"key": mode, "label": title.lower(), "format": ""} for mode, title in MODE_TITLES.items()]
    rows = []
    for check in checks:
        found = {mode: check.read(rows_of(record, mode)) for mode in MODE_TITLES}
        rows.append({"what": check.what, "expected": check.expected, **found})
    return table_text(columns, rows)


def at(rows: list[Record], x: str, value: float) -> Record:
    """The row of one value of x."""
    return next(row for row in rows if row[x] == value)
