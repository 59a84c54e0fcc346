"""Figure 12 once more, through the engine: HAVING COUNT(*) > v over windows without SLIDE, by the parts of an index."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import muntin
from benchmarks.figures.arasu_widom.fig12_substreams import against_ends, best, ratio, selectivity
from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, Entrant, race
from benchmarks.figures.arasu_widom.trade_day import MINUTE, WINDOWS, Asked, Day, look_ups, trade_day
from benchmarks.figures.arasu_widom.workload import BATCH
from benchmarks.figures.page import MODE_TITLES, Check, checks_text, rates_text
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text
from muntin.key_index import finders

SYMBOLS, TRADES = 5_000, 1_000_000
QUICK_SYMBOLS, QUICK_TRADES = 300, 20_000
LEVELS = (1, 4, 64)
COUNTS = {"naive": 6, "scan": 20, "dense": 60}  # look-ups a run, and as many trades
CHECKED = 5  # answers of a run that are computed again
LONGEST = WINDOWS[-1]
NAMES = {"naive": "rescan", "scan": "runs, all symbols", "dense": "index and runs"}

NOTES = f"""\
The day of Figure 12, pushed into an engine: {TRADES:,} trades of {SYMBOLS:,} symbols. Twelve queries ask for symbols
with more than v trades in the last 15 minutes to 3 hours, without SLIDE: `SELECT symbol, COUNT(*) … GROUP BY symbol
HAVING COUNT(*) > v`. Inputs are trades and look-ups, from {LONGEST // MINUTE} minutes into the day on. rescan:
SYNOPSIS(rescan). runs, all symbols: the same without an index, by OR FALSE. index and runs: SYNOPSIS(collective_index)
with p parts, whose candidates are read from their runs. scalar: push of one trade, then a look-up. batch:
{BATCH // 2:,} trades in a push, then as many look-ups. Every look-up gives an Arrow table. Rates are inputs per CPU
second, median of the runs; all take turns. A sample of the answers is compared with NumPy."""


class Asking:
    """An engine that has seen the first trades of a day, and is asked in one of three ways."""

    def __init__(self, name: str, mode: str, day: Day, start: int, parts: int):
        self.name, self.mode, self.day, self.parts = name, mode, day, parts
        self.end = start
        self.engine = muntin.Engine(backlog_bytes=0)
        self.engine.execute("CREATE STREAM trades (ts BIGINT, symbol BIGINT) TIMESTAMP BY ts")
        hint = {"naive": "/*+ SYNOPSIS(rescan) */ ", "dense": "/*+ SYNOPSIS(collective_index) */ "}.get(
            name, ""
        )
        tail = "" if name == "dense" else " OR FALSE"
        texts = {}
        for window in WINDOWS:
            source = f"trades [RANGE {window // MINUTE} MINUTES] GROUP BY symbol"
            having = f"COUNT(*) > {day.threshold(window, start)}{tail}"
            texts[self._query(window)] = (
                f"SELECT {hint}symbol, COUNT(*) AS many FROM {source} HAVING {having}"
            )
        self.engine.register_many(texts)
        for at in range(0, start, 20_000):
            self._push(at, min(at + 20_000, start))
        for _ in range(30):  # until runs and index are fed
            self._ask(WINDOWS[-1])

    def _query(self, window: int) -> str:
        return f"w{window // MINUTE}"

    def _push(self, lo: int, hi: int) -> None:
        self.engine.push("trades", {"ts": self.day.at[lo:hi], "symbol": self.day.symbol[lo:hi]})

    def _ask(self, window: int) -> Any:
        before, finders.PARTS = finders.PARTS, self.parts
        try:
            return self.engine.lookup(self._query(window)).column(0)
        finally:
            finders.PARTS = before

    def take(self, asked: Asked) -> None:
        """A trade for each look-up, from where it stopped; remembers the answers."""
        size, step = len(asked.window), 1 if self.mode == "scalar" else BATCH // 2
        self.answers: list[tuple[int, int, Any]] = []  # trades seen, window, symbols
        for begin in range(0, size, step):
            end = min(begin + step, size)
            self._push(self.end, self.end + end - begin)
            self.end += end - begin
            for window in asked.window[begin:end].tolist():
                self.answers.append((self.end, window, self._ask(window)))

    def check(self) -> None:
        """Compare some answers of the last run with NumPy."""
        start = self.day.first_after(LONGEST)
        for n in np.linspace(0, len(self.answers) - 1, CHECKED).astype(int).tolist():
            seen, window, symbols = self.answers[n]
            counts = self.day.counts(int(self.day.at[seen - 1]) + 1 - window, seen)
            wanted = np.flatnonzero(counts > self.day.threshold(window, start))
            if sorted(symbols.to_pylist()) != wanted.tolist():
                raise AssertionError(
                    f"{self.name}, {self.mode}: {len(symbols)} symbols, NumPy has {len(wanted)}"
                )


def run(quick: bool) -> Result:
    """Measure every p in both modes."""
    day = trade_day(QUICK_SYMBOLS, QUICK_TRADES, 12) if quick else trade_day(SYMBOLS, TRADES, 12)
    parts = LEVELS[:2] if quick else LEVELS
    start = day.first_after(LONGEST)
    rows = [row for mode in MODE_TITLES for row in measure_mode(mode, day, start, parts, quick)]
    return Result(
        name="arasu_widom/fig12c",
        title="Trades and look-ups of busy symbols without SLIDE, through the engine",
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
    """The rows of a mode: all ways with all p, in turns; those without an index are the same for each p."""
    without = [Asking(name, mode, day, start, 1) for name in ("naive", "scan")]
    drivers = [[*without, Asking("dense", mode, day, start, p)] for p in parts]
    points = [[entrant(driver, day, start, quick) for driver in some] for some in drivers]
    rows = race(points, quick)
    for p, some, row in zip(parts, drivers, rows, strict=True):
        for driver in some:
            driver.check()
        found = float(np.mean([len(symbols) for *_, symbols in some[-1].answers]))
        row |= {"mode": mode, "parts": p, "selectivity": found / day.symbols}
    return rows


def entrant(driver: Asking, day: Day, start: int, quick: bool) -> Entrant:
    """One engine that works off trades and look-ups."""
    count = COUNTS[driver.name] // (10 if quick else 1)
    return Entrant(driver.name, partial(driver.take, look_ups(day, start, count, seed=13)), 2 * count)


CHECKS = (
    Check("rescan", "about 1 k inputs/s in the paper", lambda rows: f"{best(rows, 'naive')['naive'] / 1e3:.2f} k/s"),
    Check("index at its best / rescan", "10 to 30; 25 in the paper", lambda rows: ratio(rows, "dense", "naive")),
    Check("index at its best / runs of all symbols", "above 1", lambda rows: ratio(rows, "dense", "scan")),
    Check("index, best p", "between the ends", lambda rows: against_ends(rows, "dense")),
    Check("symbols found, as a part of all", ".03 to .05", lambda rows: selectivity(rows)),
)  # fmt: skip

CHART = Chart("parts", "levels of each size, p", "inputs per second", NAMES)
PARTS = {
    "table": lambda record: rates_text(record, "parts", "p", "d", NAMES, LEVELS),
    "checks": lambda record: checks_text(record, CHECKS),
    "origin": origin_text,
}
