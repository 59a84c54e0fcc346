"""Figure 12: look-ups of the busy symbols and trades, per second, by the parts p of a collective index."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, Entrant, race
from benchmarks.figures.arasu_widom.substreams import LONGEST, Indexed, Naive, stamps_of
from benchmarks.figures.arasu_widom.trade_day import MINUTE, Day, look_ups, trade_day
from benchmarks.figures.arasu_widom.workload import BATCH
from benchmarks.figures.page import MODE_TITLES, Check, Record, at, checks_text, rates_text
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

SYMBOLS, TRADES = 5_000, 1_000_000
QUICK_SYMBOLS, QUICK_TRADES = 300, 20_000
LEVELS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
SHOWN = (1, 2, 4, 8, 16, 32, 64)
FEW, MANY = 100, 1_000  # look-ups a run, and as many trades: of the naive way, and of all others
NAMES = {
    "naive": "R-INT, all symbols",
    "scan": "probe, all symbols",
    "tree": "tree, R-INT",
    "dense": "dense, R-INT",
    "tree_probe": "tree, probe",
    "dense_probe": "dense, probe",
}

NOTES = f"""\
A made-up day of {TRADES:,} trades of {SYMBOLS:,} symbols whose shares follow Zipf's law. Inputs are a trade and a
look-up in turns, from {LONGEST // MINUTE} minutes into the day on: the symbols with more than v trades in the last 15
minutes to 3 hours, v such that 4 % of them have more. R-INT per symbol counts exactly: of all symbols, or of those
that a collective index with p parts names, in its tree or its dense form. probe: one comparison per symbol, of event
v + 1 from the end, instead of R-INT's search. scalar: one
input at a time, in a compiled loop. batch: {BATCH:,} inputs a batch from Python, trades first, a call for each look-up.
Rates are inputs per CPU second, median of the runs; all take turns. A sample of the answers is compared with NumPy."""


def run(quick: bool) -> Result:
    """Measure every p in both modes."""
    day = trade_day(QUICK_SYMBOLS, QUICK_TRADES, 12) if quick else trade_day(SYMBOLS, TRADES, 12)
    parts = LEVELS[:8:3] if quick else LEVELS
    start = day.first_after(LONGEST)
    rows = [row for mode in MODE_TITLES for row in measure_mode(mode, day, start, parts, quick)]
    return Result(
        name="arasu_widom/fig12",
        title="Trades and look-ups of busy symbols against the parts of the index",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "mode"),
            Column("parts", "p", "d"),
            *(Column(name, label, ",.0f") for name, label in NAMES.items()),
        ],
        rows=rows,
        parameters={"symbols": day.symbols, "trades": len(day.at), "runs": QUICK_RUNS if quick else RUNS},
    )


def measure_mode(
    mode: str, day: Day, start: int, parts: tuple[int, ...], quick: bool
) -> list[dict[str, Any]]:
    """The rows of a mode: all structures with all p, in turns."""
    stamps = stamps_of(day)
    drivers: list[list[Naive]] = [
        [*(Naive(name, mode, day, stamps, start) for name in ("naive", "scan")),
         *(Indexed(name, mode, day, stamps, start, p) for name in list(NAMES)[2:])]
        for p in parts
    ]  # fmt: skip
    points = [[entrant(driver, day, start, quick) for driver in some] for some in drivers]
    rows = race(points, quick)
    for p, some, row in zip(parts, drivers, rows, strict=True):
        row |= {"mode": mode, "parts": p}
        for driver in some:
            driver.check()
            if isinstance(driver, Indexed):
                row |= driver.counted()
        row["found"] = float(np.mean(some[-1].answers[:, 0]))
        row["selectivity"] = row["found"] / day.symbols
    return rows


def entrant(driver: Naive, day: Day, start: int, quick: bool) -> Entrant:
    """One structure that works off a trade and a look-up in turns."""
    count = (FEW if driver.name == "naive" else MANY) // (10 if quick else 1)
    return Entrant(driver.name, partial(driver.take, look_ups(day, start, count, seed=13)), 2 * count)


def best(rows: list[Record], name: str) -> Record:
    """The row where a structure is fastest."""
    return max(rows, key=lambda row: float(row[name]))


def ratio(rows: list[Record], name: str, other: str) -> str:
    """How much faster one at its best is than another there."""
    row = best(rows, name)
    return f"{row[name] / row[other]:.1f}, p = {row['parts']}"


def against_ends(rows: list[Record], name: str) -> str:
    """The best rate through those at the least and the greatest p."""
    top = best(rows, name)
    first, last = (top[name] / at(rows, "parts", p)[name] for p in (LEVELS[0], LEVELS[-1]))
    return f"p = {top['parts']}; {first:.2f} and {last:.2f} times the ends"


def selectivity(rows: list[Record]) -> str:
    """The part of the symbols that look-ups found."""
    found = [row["selectivity"] for row in rows]
    return f"{min(found):.3f} to {max(found):.3f}"


CHECKS = (
    Check("naive", "about 1 k inputs/s in the paper", lambda rows: f"{best(rows, 'naive')['naive'] / 1e3:.1f} k/s"),
    Check("tree at its best / naive", "10 to 30; 25 in the paper", lambda rows: ratio(rows, "tree", "naive")),
    Check("dense at its best / naive", "10 or more", lambda rows: ratio(rows, "dense", "naive")),
    Check("tree, probe / probe of all", "less than over naive", lambda rows: ratio(rows, "tree_probe", "scan")),
    Check("dense, probe / probe of all", "less than over naive", lambda rows: ratio(rows, "dense_probe", "scan")),
    Check("tree, best p", "between the ends", lambda rows: against_ends(rows, "tree")),
    Check("dense, best p", "between the ends", lambda rows: against_ends(rows, "dense")),
    Check("symbols found, as a part of all", ".03 to .05", lambda rows: selectivity(rows)),
)  # fmt: skip


def counts_table(record: Record) -> str:
    """What happens on any machine."""
    columns = [
        {"key": "parts", "label": "p", "format": "d"},
        {"key": "tree_changed", "label": "stamps an update changes", "format": ".1f"},
        {"key": "tree_listed", "label": "symbols a look-up lists", "format": ",.0f"},
        {"key": "found", "label": "of which right", "format": ",.0f"},
    ]
    return table_text(columns, [row for row in record["rows"] if row["mode"] == "scalar"])


CHART = Chart("parts", "levels of each size, p", "inputs per second", NAMES)
PARTS = {
    "table": lambda record: rates_text(record, "parts", "p", "d", NAMES, SHOWN),
    "checks": lambda record: checks_text(record, CHECKS),
    "counts": counts_table,
    "origin": origin_text,
}
