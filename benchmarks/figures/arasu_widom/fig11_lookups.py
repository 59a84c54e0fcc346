"""Figure 11: look-ups per second, by the width of the window, for sums, maxima and quantiles."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from benchmarks.figures.arasu_widom.drive import MODES, Driver
from benchmarks.figures.arasu_widom.one_by_one import count_pieces
from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, Entrant, race
from benchmarks.figures.arasu_widom.workload import BATCH, Runs, lifted, uniform_runs, values
from benchmarks.figures.page import Check, Record, at, checks_text, rates_text, short
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

KEPT = 100_000
QUICK_KEPT = 10_000
WIDTHS = (10, 32, 100, 316, 1_000, 3_162, 10_000, 31_623, 50_000, 100_000)
LOOK_UPS = {"r_int": 200_000, "b_int": 100_000, "quantile_tree": 5_000}  # a run
STEP = 12_347  # updates between two runs, so that the widest windows lie differently in each
COMPONENTS = {"r_int": "sum", "b_int": "max", "quantile_tree": "quantile"}
NAMES = {"r_int": "R-INT, SUM", "b_int": "B-INT, MAX", "quantile_tree": "quantile tree"}

NOTES = f"""\
Look-ups only, of windows of one width anywhere in the last Nmax = {KEPT:,} elements, suffix and historical. scalar:
one window at a time, in a compiled loop; quantiles of 1 to 99 percent. batch: {BATCH:,} windows a call from Python,
one percentile a call. Between the runs {STEP:,} elements are inserted, not timed. Rates are look-ups per CPU second,
median of the runs; structures take turns. A sample of the answers of the last run is compared with NumPy."""


def run(quick: bool) -> Result:
    """Measure every width in both modes."""
    kept = QUICK_KEPT if quick else KEPT
    widths = WIDTHS[:7:3] if quick else WIDTHS
    rows = [row for mode in MODES for row in measure_mode(mode, widths, kept, quick)]
    return Result(
        name="arasu_widom/fig11",
        title="Look-ups against the width of the window",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "mode"),
            Column("width", "W", ",d"),
            *(Column(name, label, ",.0f") for name, label in NAMES.items()),
        ],
        rows=rows,
        parameters={"kept": kept, "batch": BATCH, "runs": QUICK_RUNS if quick else RUNS},
    )


def measure_mode(mode: str, widths: tuple[int, ...], kept: int, quick: bool) -> list[dict[str, Any]]:
    """The rows of a mode: the same full structures asked for all widths, in turns."""
    drivers = [MODES[mode](name, component, values(kept, seed=1)) for name, component in COMPONENTS.items()]
    points = [Point(drivers, width, quick) for width in widths]
    more = values(STEP % kept, seed=12)

    def insert_some() -> None:
        for driver in drivers:
            driver.insert(more, lifted(driver.component, more))
        for point in points:
            point.move()

    rows = race([point.entrants() for point in points], quick, insert_some)
    for point, row in zip(points, rows, strict=True):
        point.check()
        row |= {"mode": mode, "width": point.width, **point.counted()}
    return rows


class Point:
    """Windows of one width, at the same places among the elements kept however far the stream has come."""

    def __init__(self, drivers: list[Driver], width: int, quick: bool):
        self.drivers, self.width = drivers, width
        self._counts: list[dict[str, float]] = []
        self._at_start = [
            uniform_runs(
                width, each.kept, LOOK_UPS[each.name] // (50 if quick else 1), 11, each.mode == "batch"
            )
            for each in drivers
        ]
        self._runs = self._at_start

    def move(self) -> None:
        """Let the windows of the coming run lie among the elements kept now, and count what they read."""
        first = self.drivers[0].end - self.drivers[0].kept
        self._runs = [runs.shifted(first) for runs in self._at_start]
        self._counts.append(pieces_read(self.drivers, self._runs[-1].sample(BATCH)))

    def entrants(self) -> list[Entrant]:
        """Each structure, asked for its windows."""
        return [
            Entrant(driver.name, lambda driver=driver, n=n: driver.look_up(self._runs[n]), len(runs.lo))
            for n, (driver, runs) in enumerate(zip(self.drivers, self._runs, strict=True))
        ]

    def check(self) -> None:
        """Compare a sample with NumPy."""
        for driver, runs in zip(self.drivers, self._runs, strict=True):
            driver.check_runs(runs)

    def counted(self) -> dict[str, float]:
        """What a look-up read, on average over the runs."""
        return {name: fmean(each[name] for each in self._counts) for name in self._counts[0]}


def pieces_read(drivers: list[Driver], runs: Runs) -> dict[str, float]:
    """Intervals that B-INT and a quantile tree read for these windows, on average."""
    _, b_int, tree = drivers
    pieces, loose = count_pieces(tree.structure._runs.rows, runs.lo, runs.hi)
    found = {"quantile_tree_pieces": pieces / len(runs.lo), "quantile_tree_loose": loose / len(runs.lo)}
    if b_int.mode == "batch":  # the compiled loops count nothing
        before = b_int.structure.reads
        b_int.structure.query(runs.lo, runs.hi)
        found["b_int_reads"] = (b_int.structure.reads - before) / len(runs.lo)
    return found


def rate(rows: list[Record], name: str, width: int) -> float:
    """The rate of one structure at one width."""
    return float(at(rows, "width", width)[name])


def swing(rows: list[Record], name: str) -> str:
    """Fastest through slowest, of all widths that more than one window has."""
    rates = [row[name] for row in rows if row["width"] < KEPT]
    return f"{max(rates) / min(rates):.2f}"


CHECKS = (
    Check("R-INT, slowest", "about 10 M/s in the paper",
          lambda rows: f"{min(row['r_int'] for row in rows) / 1e6:.1f} M/s"),
    Check("R-INT, fastest / slowest, W to 50,000", "near 1", lambda rows: swing(rows, "r_int")),
    Check("B-INT, W 100 / 50,000", "2 to 3",
          lambda rows: f"{rate(rows, 'b_int', 100) / rate(rows, 'b_int', 50_000):.1f}"),
    Check("R-INT / B-INT, W 50,000", "5 to 20",
          lambda rows: f"{rate(rows, 'r_int', 50_000) / rate(rows, 'b_int', 50_000):.1f}"),
    Check("B-INT / quantile tree, W 50,000", "100 to 1,000",
          lambda rows: f"{rate(rows, 'b_int', 50_000) / rate(rows, 'quantile_tree', 50_000):.0f}"),
    Check("quantile tree, W 50,000", "20 k/s or more", lambda rows: f"{short(rate(rows, 'quantile_tree', 50_000))}/s"),
    Check("quantile tree, W 100,000", "20 k/s or more; about 22 k/s in the paper",
          lambda rows: f"{short(rate(rows, 'quantile_tree', 100_000))}/s"),
)  # fmt: skip


def counts_table(record: Record) -> str:
    """What a look-up reads on any machine."""
    columns = [
        {"key": "width", "label": "W", "format": ",d"},
        {"key": "b_int_reads", "label": "B-INT: intervals a look-up", "format": ".1f"},
        {"key": "quantile_tree_pieces", "label": "quantile tree: sorted intervals", "format": ".1f"},
        {"key": "quantile_tree_loose", "label": "and loose elements", "format": ".1f"},
    ]
    return table_text(
        columns, [row for row in record["rows"] if row["mode"] == "batch" and row["width"] in SHOWN]
    )


SHOWN = (10, 100, 1_000, 10_000, 50_000, 100_000)
CHART = Chart("width", "width of the windows, W", "look-ups per second", NAMES, apart=(KEPT,))
PARTS = {
    "table": lambda record: rates_text(record, "width", "W", ",d", NAMES, SHOWN),
    "checks": lambda record: checks_text(record, CHECKS),
    "counts": counts_table,
    "origin": origin_text,
}
