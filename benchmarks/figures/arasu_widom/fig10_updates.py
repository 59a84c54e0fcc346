"""Figure 10: updates per second, by the number of elements kept, for sums, maxima and quantiles."""

from __future__ import annotations

from typing import Any

from benchmarks.figures.arasu_widom.drive import MODES, Driver
from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, Entrant, race
from benchmarks.figures.arasu_widom.workload import BATCH, CHECKED, lifted, uniform_runs, values
from benchmarks.figures.page import Check, Record, at, checks_text, rates_text
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text
from muntin.kernels.sorted_runs import LEAF

KEPT = (100, 316, 1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
UPDATES = 1 << 20  # a run: as long as the longest interval or longer, so that each run merges the same number
COMPONENTS = {"r_int": "sum", "b_int": "max", "quantile_tree": "quantile"}
NAMES = {"r_int": "R-INT, SUM", "b_int": "B-INT, MAX", "quantile_tree": "quantile tree"}

NOTES = f"""\
Updates only, of 64-bit integers, into structures that are full: each update also makes the oldest element go.
scalar: one element at a time, in a compiled loop. batch: {BATCH:,} elements a call from Python, or Nmax where
that is less. Rates are updates per CPU second, median of the runs; structures take turns. After the runs some
windows are looked up and compared with NumPy."""


def run(quick: bool) -> Result:
    """Measure every number of elements in both modes."""
    sizes = KEPT[:5:2] if quick else KEPT
    rows = [row for mode in MODES for row in measure_mode(mode, sizes, quick)]
    return Result(
        name="arasu_widom/fig10",
        title="Updates against the number of elements kept",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "mode"),
            Column("kept", "Nmax", ",d"),
            *(Column(name, label, ",.0f") for name, label in NAMES.items()),
        ],
        rows=rows,
        parameters={"updates": UPDATES, "batch": BATCH, "runs": QUICK_RUNS if quick else RUNS},
    )


def measure_mode(mode: str, sizes: tuple[int, ...], quick: bool) -> list[dict[str, Any]]:
    """The rows of a mode: all structures of all sizes, in turns."""
    value = values(UPDATES >> 6 if quick else UPDATES, seed=10)
    partial = {component: lifted(component, value) for component in COMPONENTS.values()}
    drivers = {
        kept: [MODES[mode](name, component, values(kept, seed=1)) for name, component in COMPONENTS.items()]
        for kept in sizes
    }

    def entrant(driver: Driver) -> Entrant:
        return Entrant(driver.name, lambda: driver.insert(value, partial[driver.component]), len(value))

    rows = race([[entrant(driver) for driver in drivers[kept]] for kept in sizes], quick)
    for kept, row in zip(sizes, rows, strict=True):
        check(drivers[kept])
        row |= {"mode": mode, "kept": kept, "quantile_tree_levels": levels(kept)}
        if mode == "batch":  # the compiled loops count nothing
            b_int = drivers[kept][1]
            row["b_int_combines"] = b_int.structure.combines / b_int.end
    return rows


def check(drivers: list[Driver]) -> None:
    """Look some windows up and compare with NumPy."""
    for driver in drivers:
        width = max(1, driver.kept // 3)
        runs = uniform_runs(width, driver.kept, CHECKED, seed=2, in_batches=driver.mode == "batch")
        driver.check_runs(runs.shifted(driver.end - driver.kept))


def levels(kept: int) -> int:
    """Sorted intervals that an element of a quantile tree becomes part of: lengths of 16 and up that fit.

    >>> levels(15), levels(16), levels(100), levels(1_000_000)
    (0, 1, 3, 16)
    """
    return max(0, (kept // LEAF).bit_length())


def swing(rows: list[Record], name: str) -> str:
    """Fastest through slowest, of the points from 1,000 elements on."""
    rates = [row[name] for row in rows if row["kept"] >= 1_000]
    return f"{max(rates) / min(rates):.2f}"


def slowest(rows: list[Record], name: str) -> str:
    """The least rate, in millions."""
    return f"{min(row[name] for row in rows) / 1e6:.1f} M/s"


def fall(rows: list[Record], name: str) -> str:
    """How many times as fast with 1,000 elements as with 1,000,000."""
    return f"{at(rows, 'kept', 1_000)[name] / at(rows, 'kept', 1_000_000)[name]:.2f}"


CHECKS = (
    Check("R-INT, slowest", "millions a second", lambda rows: slowest(rows, "r_int")),
    Check("B-INT, slowest", "millions a second", lambda rows: slowest(rows, "b_int")),
    Check("R-INT, fastest / slowest, Nmax from 1,000 on", "near 1, up to the caches",
          lambda rows: swing(rows, "r_int")),
    Check("B-INT, fastest / slowest, Nmax from 1,000 on", "near 1, up to the caches",
          lambda rows: swing(rows, "b_int")),
    Check("quantile tree, Nmax 1,000 / 1,000,000", "2.0 if it goes with log2 Nmax",
          lambda rows: fall(rows, "quantile_tree")),
    Check("R-INT / quantile tree, Nmax 100,000", "above 1",
          lambda rows: f"{at(rows, 'kept', 100_000)['r_int'] / at(rows, 'kept', 100_000)['quantile_tree']:.0f}"),
)  # fmt: skip


def counts_table(record: Record) -> str:
    """What an update costs on any machine."""
    columns = [
        {"key": "kept", "label": "Nmax", "format": ",d"},
        {"key": "b_int_combines", "label": "B-INT: combinations an update", "format": ".3f"},
        {"key": "quantile_tree_levels", "label": "quantile tree: sorted intervals an element becomes part of",
         "format": "d"},
    ]  # fmt: skip
    rows = [row for row in record["rows"] if row["mode"] == "batch" and row["kept"] in KEPT[::2]]
    return table_text(columns, rows)


CHART = Chart("kept", "elements kept, Nmax", "updates per second", NAMES)
PARTS = {
    "table": lambda record: rates_text(record, "kept", "Nmax", ",d", NAMES, KEPT[::2]),
    "checks": lambda record: checks_text(record, CHECKS),
    "counts": counts_table,
    "origin": origin_text,
}
