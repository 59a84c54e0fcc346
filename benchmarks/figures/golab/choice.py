"""The paper's recommendations (section 5.8) beside what was measured: the least total of updates and probes."""

from __future__ import annotations

from benchmarks.figures.golab.series import NAMES, SQUARE
from benchmarks.figures.page import Record
from benchmarks.report import table_text
from muntin.archive.indexing import MANY, SMALL, Load, choose_indexing

CANDIDATES = ("reindex", "del", *SQUARE)
SIZES = {"small": SMALL, "large": SMALL + 1}


def choice_table(record: Record, size: str) -> str:
    """For few and for many probes between updates: what is chosen, what measured best, and how far apart."""
    rows = []
    for what, probes in (("few", 1), ("many", 20 * MANY)):
        chosen = choose_indexing(Load(SIZES[size], probes)).indexing
        totals = {
            (name, row["parts"]): row[name] + probes * probe[name]
            for row, probe in _pairs(record)
            for name in CANDIDATES
            if name in row
        }
        best = min(totals, key=totals.__getitem__)
        ours = totals.get((chosen.variant.name, chosen.parts))
        rows.append({
            "probes": f"{what} ({probes})", "chosen": chosen.label, "best": f"{NAMES[best[0]]}, {best[1]} parts",
            "ratio": "–" if ours is None else f"{ours / totals[best]:.2f}",
        })  # fmt: skip
    columns = [
        {"key": "probes", "label": "probes between two updates", "format": ""},
        {"key": "chosen", "label": "chosen", "format": ""},
        {"key": "best", "label": "least total here", "format": ""},
        {"key": "ratio", "label": "chosen / least", "format": ">"},
    ]
    return table_text(columns, rows)


def _pairs(record: Record) -> list[tuple[Record, Record]]:
    """Rows of updates and of probes with the same number of parts."""
    probes = {row["parts"]: row for row in record["rows"] if row["mode"] == "probe"}
    return [(row, probes[row["parts"]]) for row in record["rows"] if row["mode"] == "update"]
