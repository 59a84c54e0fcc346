"""Beside Figure 12: trades and look-ups per second, of symbols by MAX, by the length of the window."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.max_filters import FILTERS, Filter, StaircaseTree
from benchmarks.figures.arasu_widom.priced_day import MINUTE, TradeDay, trade_day
from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, Entrant, race
from benchmarks.figures.arasu_widom.workload import BATCH, Ints
from benchmarks.figures.page import MODE_TITLES, Check, Record, at, checks_text, rates_text, short
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

SYMBOLS, QUICK_SYMBOLS = 5_000, 200
RATE = 20.0  # trades a second
MORE_SYMBOLS, MORE_MINUTES = (1_000, 5_000, 20_000, 100_000, 500_000), 60  # of the second table
MORE_TRADES = {"staircase_tree": 1_000, "staircase_dense": 50}
WINDOWS = (15, 30, 60, 120, 180)  # minutes
TRADES = {"staircase_tree": 2_000, "staircase_dense": 500, "scan_keys": 50, "scan_columns": 50}  # a run
NAMES = {
    "staircase_tree": "staircases, tree",
    "staircase_dense": "staircases, dense",
    "scan_keys": "raw trades by symbol",
    "scan_columns": "raw trades in columns",
}

NOTES = f"""\
A made-up day of trades of {SYMBOLS:,} symbols, {RATE:.0f} a second; which symbols had a trade of more than v shares in
the last minutes? v is such that 3 to 5 percent of all symbols have. Inputs are a trade and a look-up in turns;
batch: {BATCH // 2} trades, then as many look-ups, each a call from Python. Rates are inputs per CPU second, median
of the runs; structures take turns. The last answer of each is compared with NumPy. symbols: one input at a time,
{MORE_MINUTES} minutes, and 0.2 percent of the symbols found."""


def run(quick: bool) -> Result:
    """Measure every window in both modes."""
    symbols, windows = (QUICK_SYMBOLS, WINDOWS[:2]) if quick else (SYMBOLS, WINDOWS)
    hours = (windows[-1] + (5 if quick else 60)) / 60
    day = trade_day(symbols, int(RATE * 3600 * hours), RATE, seed=12)
    rows = [row for mode in MODE_TITLES for row in measure_mode(mode, day, windows, quick)]
    rows += measure_symbols(quick)
    return Result(
        name="arasu_widom/fig12b",
        title="Symbols by MAX, against the length of the window",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "mode"),
            Column("minutes", "minutes", ",d"),
            *(Column(name, label, ",.0f") for name, label in NAMES.items()),
        ],
        rows=rows,
        parameters={
            "symbols": symbols, "rate": RATE, "batch": BATCH, "runs": QUICK_RUNS if quick else RUNS
        },
    )  # fmt: skip


def measure_mode(mode: str, day: TradeDay, windows: tuple[int, ...], quick: bool) -> list[dict[str, Any]]:
    """The rows of a mode, for structures that know the longest window."""
    points = [Point(mode, day, minutes, windows[-1], quick) for minutes in windows]
    rows = race([point.entrants() for point in points], quick)
    for point, row in zip(points, rows, strict=True):
        row |= {"mode": mode, "minutes": point.minutes, **point.checked()}
    return rows


def measure_symbols(quick: bool) -> list[dict[str, Any]]:
    """Both forms, one input at a time, by the number of symbols: 0.2 % of them are found."""
    points, minutes = [], 5 if quick else MORE_MINUTES
    for symbols in (300,) if quick else MORE_SYMBOLS:
        day = trade_day(symbols, int(RATE * 60 * 2 * minutes), RATE, seed=symbols)
        points.append(Point("scalar", day, minutes, minutes, quick, MORE_TRADES, part=(0.0015, 0.0025)))
    rows = race([point.entrants() for point in points], quick)
    for point, row in zip(points, rows, strict=True):
        row |= {"mode": "symbols", "minutes": minutes, "symbols": point.day.symbols, **point.checked()}
    return rows


class Point:
    """Structures at one length of the window, with thresholds that a `part` of the symbols is above."""

    def __init__(
        self, mode: str, day: TradeDay, minutes: int, longest: int, quick: bool,
        trades: dict[str, int] = TRADES, part: tuple[float, float] = (0.03, 0.05),
    ):  # fmt: skip
        self.minutes, self.day = minutes, day
        known = int(np.searchsorted(day.at, longest * MINUTE))
        self.trades = {name: each // (20 if quick else 1) for name, each in trades.items()}
        self.thresholds = thresholds(day, minutes * MINUTE, known, max(self.trades.values()), part)
        self.filters: list[Filter] = [
            make(day, minutes * MINUTE, known, mode) for name, make in FILTERS.items() if name in trades
        ]
        self.tree = next(each for each in self.filters if isinstance(each, StaircaseTree))
        self.before = self.tree.index.maxima.index.operations()[0]

    def entrants(self) -> list[Entrant]:
        """Each structure, at work on trades and look-ups in turns."""
        return [
            Entrant(
                each.name,
                lambda each=each: each.take(self.trades[each.name], self.thresholds),
                2 * self.trades[each.name],
            )
            for each in self.filters
        ]

    def checked(self) -> dict[str, float]:
        """What was counted, after all last answers have been compared with NumPy."""
        for each in self.filters:
            each.check()
        index = self.tree.index
        changed = index.maxima.index.operations()[0] - self.before
        before = index.maxima.index.operations()[1]
        since = int(self.day.at[self.tree.end - 1]) + 1 - self.tree.window
        found = len(index.keys_in(since, int(self.thresholds[0]), None, low_open=True))
        return {
            "selectivity": float(self.tree.sizes.mean()) / self.day.symbols,
            "steps": len(index.maxima),
            "pairs": index.maxima.index.pairs(),
            "pairs_changed": changed / self.tree.asked,
            "pairs_looked_at": index.maxima.index.operations()[1] - before,
            "pairs_found": found,
            "tree_bytes": index.nbytes(),
        }


def thresholds(day: TradeDay, window: int, known: int, count: int, part: tuple[float, float]) -> Ints:
    """Thresholds that such a part of the symbols is above, as of trade `known`."""
    inside = slice(int(np.searchsorted(day.at, day.at[known - 1] + 1 - window)), known)
    best = np.zeros(day.symbols, np.int64)
    np.maximum.at(best, day.symbol[inside], day.shares[inside])
    below = 1 - np.random.default_rng(13).uniform(*part, count)
    return np.quantile(best, below, method="lower").astype(np.int64)


def ratio(one: str, other: str, minutes: int) -> Check:
    """How many times as fast one is as another, at a window."""
    expected = {
        ("staircase_tree", "scan_keys"): "above 1",
        (
            "staircase_tree",
            "staircase_dense",
        ): "above 1; 20 to 33, 1 / selectivity, at most",
        ("scan_keys", "scan_columns"): "near 1",
    }[one, other]
    return Check(f"{NAMES[one]} / {NAMES[other]}, {minutes} minutes", expected, lambda rows: (
        f"{at(rows, 'minutes', minutes)[one] / at(rows, 'minutes', minutes)[other]:.1f}"))  # fmt: skip


CHECKS = (
    *(ratio("staircase_tree", "scan_keys", minutes) for minutes in (15, 180)),
    *(ratio("staircase_tree", "staircase_dense", minutes) for minutes in (15, 180)),
    ratio("scan_keys", "scan_columns", 180),
    Check("pairs put and taken for a trade, 180 minutes", "about 15, one trade at a time",
          lambda rows: f"{at(rows, 'minutes', 180)['pairs_changed']:.1f}"),
)  # fmt: skip


def counts_table(record: Record) -> str:
    """What the tree holds and looks at, on any machine."""
    columns = [
        {"key": "minutes", "label": "minutes", "format": ",d"},
        {"key": "selectivity", "label": "symbols found", "format": ".1%"},
        {"key": "steps", "label": "steps of all staircases", "format": ",d"},
        {"key": "pairs", "label": "pairs at nodes", "format": ",d"},
        {"key": "pairs_changed", "label": "pairs put and taken for a trade", "format": ".1f"},
        {"key": "pairs_looked_at", "label": "pairs looked at in a look-up", "format": ",d"},
        {"key": "pairs_found", "label": "to find", "format": ",d"},
    ]
    return table_text(columns, [row for row in record["rows"] if row["mode"] == "scalar"])


def symbols_table(record: Record) -> str:
    """Both forms by the number of symbols."""
    columns = [
        {"key": "symbols", "label": "symbols", "format": ",d"},
        {"key": "selectivity", "label": "found", "format": ".2%"},
        *({"key": name, "label": NAMES[name], "format": ">"} for name in MORE_TRADES),
        {"key": "ratio", "label": "tree / dense", "format": ".2f"},
        {"key": "tree_bytes", "label": "bytes, tree", "format": ">"},
    ]
    rows = [row for row in record["rows"] if row["mode"] == "symbols"]
    shown = [
        {
            **row,
            **{name: short(row[name]) for name in (*MORE_TRADES, "tree_bytes")},
            "ratio": row["staircase_tree"] / row["staircase_dense"],
        }
        for row in rows
    ]
    return table_text(columns, shown)


CHART = Chart("minutes", "length of the window in minutes", "inputs per second", NAMES)
PARTS = {
    "table": lambda record: rates_text(record, "minutes", "minutes", ",d", NAMES, WINDOWS),
    "checks": lambda record: checks_text(record, CHECKS),
    "counts": counts_table,
    "symbols": symbols_table,
    "origin": origin_text,
}
