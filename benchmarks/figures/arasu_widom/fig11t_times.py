"""Section 6.2, windows by time: what it costs that a window's elements have to be found by their times."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.drive import MODES, Driver
from benchmarks.figures.arasu_widom.fig11_lookups import COMPONENTS, KEPT, LOOK_UPS, NAMES, QUICK_KEPT
from benchmarks.figures.arasu_widom.one_by_one import find_each
from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, Entrant, race
from benchmarks.figures.arasu_widom.time_engine import measure_engine
from benchmarks.figures.arasu_widom.workload import BATCH, Ints, Runs, lifted, uniform_runs, values
from benchmarks.figures.page import Record, rows_of, short, spread_text
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text, why_wide
from muntin.store.columns import Columns

WIDTHS = (10, 100, 1_000, 10_000, 50_000)
GAP = 20  # microseconds between two elements, on average; one in twenty has the time of the one before
UPDATES = 50_000  # a run
UPDATE = 0  # in place of a width: the row of updates
KINDS = {"": "by count", "_time": "by time"}
ENGINE_WIDTHS = (100, 10_000)
UPDATES_OF = {"batch": "update", "engine": "push"}  # modes of look-ups, and of their updates

NOTES = f"""\
The structures of Figure 11 with {KEPT:,} elements, which also have times, {GAP} microseconds apart on average. by
count: windows [lo, hi) of elements. by time: the same windows, given by the times between which their elements lie;
two binary searches find them, as `EventRing` does, and then the look-up is the same. scalar: compiled loops. batch:
{BATCH:,} windows a call from Python. Updates, in batches alone: the times are appended to a column, the oldest are
dropped. Rates are of CPU seconds, median of the runs; both kinds take turns. engine: look-ups by `value` of `[ROWS
n]` and of `[RANGE …]` over the same events, and pushes of {BATCH:,} events to an engine that has the three queries
of one kind. The elements found are compared, a sample of answers with NumPy."""


def run(quick: bool) -> Result:
    """Measure every width in both modes, and updates."""
    kept, widths = (QUICK_KEPT, WIDTHS[:2]) if quick else (KEPT, WIDTHS)
    rows = [row for mode in MODES for row in measure_mode(mode, widths, kept, quick)]
    rows += [
        with_ratios(row) for row in measure_engine(ENGINE_WIDTHS[:1] if quick else ENGINE_WIDTHS, kept, quick)
    ]
    return Result(
        name="arasu_widom/fig11t",
        title="Windows by time beside windows by count",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "mode"), Column("width", "W", ",d"),
            *(Column(name + kind, f"{label}, {text}", ",.0f") for name, label in NAMES.items()
              for kind, text in KINDS.items()),
        ],
        rows=rows,
        parameters={"kept": kept, "batch": BATCH, "runs": QUICK_RUNS if quick else RUNS},
    )  # fmt: skip


def measure_mode(mode: str, widths: tuple[int, ...], kept: int, quick: bool) -> list[dict[str, Any]]:
    """The rows of a mode."""
    drivers = [MODES[mode](name, component, values(kept, seed=1)) for name, component in COMPONENTS.items()]
    times = Times(kept)
    points, windows = [], []
    for width in widths:
        point = []
        for driver in drivers:
            count = LOOK_UPS[driver.name] // (50 if quick else 4)
            runs = uniform_runs(width, kept, count, 11, driver.mode == "batch")
            window = TimeWindows(driver, times, runs)
            window.check()
            windows.append(window)
            point += [
                Entrant(driver.name, lambda driver=driver, runs=runs: driver.look_up(runs), count),
                Entrant(f"{driver.name}_time", window.look_up, count),
            ]
        points.append(point)
    rows = [
        {"mode": mode, "width": width, **row} for width, row in zip(widths, race(points, quick), strict=True)
    ]
    rows = [with_ratios(row) for row in rows]
    return rows if mode == "scalar" else [*rows, measure_updates(drivers, times, quick)]


def measure_updates(drivers: list[Driver], times: Times, quick: bool) -> dict[str, Any]:
    """Rates of updates without and with times."""
    value = values(UPDATES // (50 if quick else 1), seed=5)
    partial = {component: lifted(component, value) for component in COMPONENTS.values()}
    entrants = []
    for driver in drivers:
        insert = lambda driver=driver: driver.insert(value, partial[driver.component])  # noqa: E731
        entrants += [
            Entrant(driver.name, insert, len(value)),
            Entrant(
                f"{driver.name}_time", lambda insert=insert: (insert(), times.go_on(len(value))), len(value)
            ),
        ]
    (row,) = race([entrants], quick)
    return with_ratios({"mode": "update", "width": UPDATE, **row})


def with_ratios(row: dict[str, Any]) -> dict[str, Any]:
    """The rates by time as a part of those by count."""
    return row | {f"{name}_ratio": row[f"{name}_time"] / row[name] for name in NAMES}


class Times:
    """The times of the elements that are kept."""

    def __init__(self, kept: int):
        random = np.random.default_rng(8)
        gaps = random.geometric(1 / GAP, kept) * (random.random(kept) > 0.05)
        self.column, self.kept = Columns({"at": np.dtype(np.int64)}), kept
        self.column.extend({"at": np.cumsum(gaps)})

    @property
    def at(self) -> Ints:
        """Ascending."""
        return self.column["at"]

    def go_on(self, count: int) -> None:
        """So many more elements come, as many go."""
        for begin in range(0, count, BATCH):
            some = min(BATCH, count - begin)
            self.column.extend({"at": self.at[-1] + GAP * np.arange(1, some + 1)})
            self.column.drop_first(len(self.column) - self.kept)


class TimeWindows:
    """Windows of elements, and the times that they are given by."""

    def __init__(self, driver: Driver, times: Times, runs: Runs):
        self.driver, self.times, self.percent = driver, times, runs.percent
        at = np.append(times.at, times.at[-1] + 1)
        self.since, self.until = at[runs.lo], at[runs.hi]

    def look_up(self) -> Ints:
        """Find their elements, and answer."""
        return self.driver.look_up(self.found())

    def found(self) -> Runs:
        """The elements between the times."""
        at = self.times.at
        if self.driver.mode == "scalar":
            lo, hi = np.empty_like(self.since), np.empty_like(self.since)
            find_each(at, self.since, self.until, lo, hi)
        else:
            parts = [slice(begin, begin + BATCH) for begin in range(0, len(self.since), BATCH)]
            lo = np.concatenate([at.searchsorted(self.since[part]) for part in parts])
            hi = np.concatenate([at.searchsorted(self.until[part]) for part in parts])
        return Runs(lo, hi, self.percent)

    def check(self) -> None:
        """Compare the elements with those that a mask has, and answers with NumPy."""
        found, at = self.found().sample(), self.times.at
        for lo, hi, since, until in zip(found.lo, found.hi, self.since, self.until, strict=False):
            inside = np.flatnonzero((at >= since) & (at < until))
            assert len(inside) == hi - lo, (
                f"{hi - lo} elements between {since} and {until}, not {len(inside)}"
            )
            assert not len(inside) or inside[0] == lo
        some = found.hi > found.lo
        self.driver.check_runs(Runs(found.lo[some], found.hi[some], found.percent[some]))


def beside_table(record: Record, mode: str) -> str:
    """Rates of both kinds, and their ratio."""
    columns = [{"key": "width", "label": "W", "format": ">"}]
    columns += [
        {"key": name + kind, "label": f"{label}, {text}", "format": ">"}
        for name, label in NAMES.items()
        for kind, text in [*KINDS.items(), ("_ratio", "ratio")]
    ]
    rows = []
    for row in rows_of(record, mode) + rows_of(record, UPDATES_OF.get(mode, "")):
        cells = {f"{name}{kind}": short(row[f"{name}{kind}"]) for name in NAMES for kind in KINDS}
        ratios = {f"{name}_ratio": f"{row[f'{name}_ratio']:.2f}" for name in NAMES}
        rows.append({"width": f"{row['width']:,}" if row["width"] else "updates", **cells, **ratios})
    return table_text(columns, rows)


def all_spreads(record: Record) -> str:
    """How far runs lay apart, and why."""
    spreads = [row[f"{name}{kind}_spread"] for row in record["rows"] for name in NAMES for kind in KINDS]
    told = spread_text(spreads)
    return f"{told[0].upper()}{told[1:]}. {why_wide(record, spreads, 'points')}".rstrip()


CHART = Chart(
    "width", "width of the windows, W", "rate by time / rate by count",
    {f"{name}_ratio": label for name, label in NAMES.items()}, is_log_y=False, y_text=lambda value: f"{value:.1f}",
)  # fmt: skip
PARTS = {
    "scalar": lambda record: beside_table(record, "scalar"),
    "batch": lambda record: beside_table(record, "batch"),
    "engine": lambda record: beside_table(record, "engine"),
    "spread": all_spreads,
    "origin": origin_text,
}
