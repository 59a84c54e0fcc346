"""Figure 12: seconds per timestamp to sum over 10,000 windows of each class, by the rate of the stream."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean, median
from time import process_time
from typing import Any, TypeVar

import numpy as np

from benchmarks.figures.page import Record
from benchmarks.figures.patroumpas_sellis.connections import SECOND, Batch, connections
from benchmarks.figures.patroumpas_sellis.standing import Standing
from benchmarks.figures.patroumpas_sellis.window_classes import CLASSES, LONGEST, draw_windows
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

T = TypeVar("T")
WINDOWS, QUICK_WINDOWS = 10_000, 40
RATES, QUICK_RATES = (1_000, 10_000, 30_000, 100_000), (50,)
FILL = LONGEST + max(CLASSES.values())  # timestamps after which every window is full
RUNS, QUICK_RUNS = 5, 2
TIMED, QUICK_TIMED = 8, 1  # timestamps of a run
NUMPY_EACH = 4  # timestamps
NUMPY_TO = 10_000  # the greatest rate at which every window is summed on its own
NAMES = {
    "tables": "slices, to tables", "numbers": "slices, all to numbers", "slices": "slices", "panes": "panes",
    "paired_windows": "paired windows", "numpy": "each window summed",
}  # fmt: skip

NOTES = f"""\
SUM over {WINDOWS:,} windows of a class, sizes up to {LONGEST} timestamps of a second, on a made-up trace of
connections. A timestamp is the push of one second of the stream, and then: slices, panes, paired windows: what the
structure has of every different window that slides; slices are as planned (R-INT over slices), the others by hint.
to tables: the answers of all windows that slide, by `advance`. all to numbers: the answers of all {WINDOWS:,}, slid or
not, by `lookup_many`. each window summed: NumPy sums the events of each of the windows that slide, without the
push, up to {NUMPY_TO:,} a second, at one timestamp in {NUMPY_EACH}. CPU seconds a timestamp, once all windows are full:
the mean over the {TIMED} timestamps of a run, median of {RUNS} runs; ways take turns. Garbage is collected between
runs only. All answers are compared with prefix sums of NumPy."""


def run(quick: bool) -> Result:
    """Measure every class at every rate."""
    count, rates, timed = (QUICK_WINDOWS, QUICK_RATES, QUICK_TIMED) if quick else (WINDOWS, RATES, TIMED)
    runs = QUICK_RUNS if quick else RUNS
    rows = [row for name in CLASSES for row in measure(name, count, rates, timed, runs)]
    return Result(
        name="patroumpas_sellis/ps12",
        title="Evaluation against the rate of the stream",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "class"), Column("rate", "connections/s", ",d"),
            Column("slid", "windows that slide", ",.0f"),
            *(Column(way, f"{label}, s", ".4f") for way, label in NAMES.items()),
        ],
        rows=rows,
        parameters={"windows": count, "timestamps": timed, "runs": runs},
    )  # fmt: skip


def measure(
    name: str, count: int, rates: tuple[int, ...], timed: int, runs_made: int
) -> list[dict[str, Any]]:
    """The rows of a class: the same engines at one rate after the other."""
    windows = draw_windows(name, count, seed=12)
    ways = {
        "slices": Standing(windows),
        "panes": Standing(windows, "panes"),
        "paired_windows": Standing(windows, "paired_windows"),
    }
    slide, second, rows = np.array(windows)[:, 1], 0, []
    for rate in rates:
        recent: deque[Batch] = deque(maxlen=FILL)
        for batch in connections(rate, second, FILL, seed=rate):
            recent.append(batch)
            for standing in ways.values():
                standing.push(batch)
        second += FILL
        ways["slices"].owe_from(second)
        ways["slices"].answers(second)  # what is prepared once for all look-ups is no part of a timestamp
        runs = [Run() for _ in range(runs_made)]
        for number, run in enumerate(runs):
            with uncollected():
                for batch in connections(rate, second, timed, seed=rate + 1 + number):
                    second += 1
                    recent.append(batch)
                    run.take(ways, batch, recent, second, slide, rate)
        ways["slices"].owe_nothing()
        rows.append({"mode": name, "rate": rate, **row_of(runs)})
    return rows


class Run:
    """Seconds of each way at the timestamps of a run."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self.slid: list[int] = []

    def take(
        self,
        ways: dict[str, Standing],
        batch: Batch,
        recent: deque[Batch],
        second: int,
        slide: Any,
        rate: int,
    ) -> None:
        """One timestamp."""
        self.slid.append(int((second % slide == 0).sum()))
        found = take_timestamp(ways, batch, recent, second)
        if rate <= NUMPY_TO and (len(self.slid) - 1) % NUMPY_EACH == 0:
            found["numpy"] = sum_each(ways["slices"], recent, second)
        for way, seconds in found.items():
            self.spent.setdefault(way, []).append(seconds)

    def means(self) -> dict[str, float]:
        """Seconds a timestamp."""
        return {way: fmean(each) for way, each in self.spent.items()}


def row_of(runs: list[Run]) -> dict[str, Any]:
    """Medians of the runs, and how far they lie apart."""
    means = [run.means() for run in runs]
    row: dict[str, Any] = {"slid": fmean(each for run in runs for each in run.slid)}
    for way in means[0]:
        each = [mean[way] for mean in means]
        row |= {way: median(each), f"{way}_spread": (max(each) - min(each)) / median(each)}
    return row


@contextmanager
def uncollected() -> Iterator[None]:
    """A collection would hit some timestamps and not others: with 10,000 queries it takes longer than any of them."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def take_timestamp(
    ways: dict[str, Standing], batch: Batch, recent: deque[Batch], second: int
) -> dict[str, float]:
    """CPU seconds of each way for one timestamp; its answers are checked."""
    spent = {}
    for way, standing in ways.items():
        pushing, _ = clocked(lambda standing=standing: standing.push(batch))
        finding, found = clocked(lambda standing=standing: standing.find(second))
        standing.check_found(recent, second, found)
        spent[way] = pushing + finding
        if way == "slices":
            looking, numbers = clocked(lambda standing=standing: standing.answers(second))
            standing.compare(numbers, standing.expected(recent, second))
            closing, tables = clocked(lambda standing=standing: standing.closed(second))
            standing.check_closed(recent, second, tables)
            spent |= {"numbers": pushing + looking, "tables": pushing + closing}
    return spent


def clocked(action: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of an action, and what it gives."""
    before = process_time()
    found = action()
    return process_time() - before, found


def sum_each(standing: Standing, recent: deque[Batch], second: int) -> float:
    """CPU seconds in which NumPy sums every window that slides, each on its own."""
    at, value = (np.concatenate(columns) for columns in zip(*recent, strict=True))
    right = standing.expected(recent, second)
    before = process_time()
    found = {}
    for number, (size, slide) in enumerate(standing.windows):
        if second % slide == 0:
            lo, hi = np.searchsorted(at, ((second - size) * SECOND, second * SECOND))
            found[number] = value[lo:hi].sum()
    seconds = process_time() - before
    assert all(right[number] == total for number, total in found.items())
    return seconds


def times_table(record: Record) -> str:
    """Milliseconds per timestamp."""
    columns = [
        {"key": "mode", "label": "class", "format": ""},
        {"key": "rate", "label": "connections/s", "format": ",d"},
        {"key": "slid", "label": "windows that slide", "format": ",.0f"},
        *({"key": way, "label": f"{label}, ms", "format": ",.1f"} for way, label in NAMES.items()),
    ]
    rows = [
        {**row, **{way: None if row.get(way) is None else 1e3 * row[way] for way in NAMES}}
        for row in record["rows"]
    ]
    widest = {
        label: max(row[f"{way}_spread"] for row in record["rows"] if f"{way}_spread" in row)
        for way, label in NAMES.items()
    }
    head = "Spread of a point, at most: " + ", ".join(f"{label} {most:.0%}" for label, most in widest.items())
    return f"{head}.\n\n{table_text(columns, rows)}"


def milliseconds_text(value: float) -> str:
    """Seconds as milliseconds."""
    return f"{value * 1e3:,.3g} ms"


CHART = Chart(
    "rate", "connections per second", "CPU time per timestamp", NAMES, y_text=milliseconds_text,
    panels={name: f"{name}: slides up to {most}" for name, most in CLASSES.items()},
)  # fmt: skip
PARTS = {"table": times_table, "origin": origin_text}
