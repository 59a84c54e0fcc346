"""Theorem 1: how far the sizes of parts lie from their mean, with round-robin and with chronological splitting."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.figures.golab.results import UPDATES, Results
from benchmarks.figures.page import Record
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from muntin.archive.indexing import Indexing

SIDES = (2, 3, 4)  # that divide the updates of a window, as the formulas want
UNITS = {"quick": 36_000, "small": 2_000_000}
RATES = {"steady": 1.0, "varying": 4.0}
ROOM = 0.05  # by how much what is measured may differ from the formula at a steady rate
NOTES = f"""\
Results dealt out to parts as an archive deals them, {UPDATES} updates in a window. As the theorem has it, a result
expires in any of the {UPDATES} slots after the one that it is generated in. After each update of a full window: the
squared deviations of the sizes of all parts from their mean, added up, on average over the updates. The unit is the
number of results of a pair of slots, so that the formulas apply. Formulas: the theorem's for round-robin, p^2 / 4
(1 - 1 / n); for chronological splitting the paper's, printed, and corrected: in q consecutive updates only one row
and one column of parts change. A measurement at a steady rate that differs by {ROOM:.0%} from a right formula ends
the run."""


def run(quick: bool) -> Result:
    """Measure both ways to split, with both streams."""
    units = UNITS["quick" if quick else "small"]
    rows: list[dict[str, Any]] = []
    for side in SIDES:
        row: dict[str, Any] = {"mode": "sizes", "parts": side * side}
        right = {"rebuild": round_robin(side), "chronological": corrected(side)}
        for rate, factor in RATES.items():
            results = Results(units, factor=factor)
            for name, formula in right.items():
                found = deviations(results, f"{name} {side}x{side}")
                row[f"{name}_{rate}"] = found
                if rate == "steady" and not quick:
                    assert abs(found / formula - 1) < ROOM, f"{name} {side}x{side}: {found}, not {formula}"
        rows.append(row | {"rebuild": right["rebuild"], "chronological": right["chronological"],
                           "printed": printed(side)})  # fmt: skip
    return Result(
        name="golab/gpt1",
        title="Sizes of parts",
        notes=" ".join(NOTES.split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"units": units, "updates": UPDATES},
    )


def deviations(results: Results, label: str) -> float:
    """Squared deviations of the sizes of parts, added up, on average over a window of updates."""
    indexing, definition = Indexing.parse(label), results.definition
    count = [results.slot_count(slot) for slot in range(2 * UPDATES)]
    born = np.repeat(np.arange(2 * UPDATES), count)
    dies = born + np.random.default_rng(results.seed).integers(1, UPDATES + 1, len(born))
    part = indexing.generation_class(born, definition) * indexing.expiries + indexing.expiry_class(
        dies, definition
    )
    unit, found = results.window / UPDATES**2, []
    for slot in range(UPDATES, 2 * UPDATES):
        alive = (born <= slot) & (dies > slot)
        sizes = np.bincount(part[alive], minlength=indexing.parts) / unit
        found.append(float(((sizes - sizes.mean()) ** 2).sum()))
    return float(np.mean(found))


def round_robin(side: int, slots: int = UPDATES) -> float:
    """The theorem's formula."""
    return slots**2 / 4 * (1 - 1 / side**2)


def corrected(side: int, slots: int = UPDATES) -> float:
    """Of chronological splitting, with the parts that do change."""
    q, mean = slots // side, slots * (slots + 1) / 2 / side**2
    changing = sum((q * (q - i) - mean) ** 2 + (i * q - mean) ** 2 for i in range(q))
    resting = (q * q - mean) ** 2 + mean**2
    return (
        side * (q * (q + 1) / 2 - mean) ** 2
        + (side - 1) / q * changing
        + (side - 1) * (side - 2) / 2 * resting
    )


def printed(side: int, slots: int = UPDATES) -> float:
    """Of chronological splitting, as in the paper's appendix, where all parts off the diagonal change."""
    q, mean = slots // side, slots * (slots + 1) / 2 / side**2
    changing = sum((q * (q - i) - mean) ** 2 + (i * q - mean) ** 2 for i in range(q))
    return side * (q * (q + 1) / 2 - mean) ** 2 + (side * side - side) / 2 / q * changing


COLUMNS = [
    Column("parts", "parts", "d"),
    Column("rebuild", "round-robin, formula", ",.0f"), Column("rebuild_steady", "measured", ",.0f"),
    Column("rebuild_varying", "at a varying rate", ",.0f"),
    Column("printed", "chronological, as printed", ",.0f"), Column("chronological", "corrected", ",.0f"),
    Column("chronological_steady", "measured", ",.0f"), Column("chronological_varying", "at a varying rate", ",.0f"),
]  # fmt: skip


def sizes_table(record: Record) -> str:
    """Formulas beside what was measured."""
    return table_text(record["columns"], record["rows"])


PARTS = {"table": sizes_table, "origin": origin_text}
