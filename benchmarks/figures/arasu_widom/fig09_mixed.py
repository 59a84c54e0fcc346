"""Figure 9: mixed inputs per second, by the share of updates, for five ways to keep 1,000 sums."""

from __future__ import annotations

from typing import Any

from benchmarks.figures.arasu_widom.drive import MODES, Driver
from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, race
from benchmarks.figures.arasu_widom.workload import BATCH, mixed_inputs, values
from benchmarks.figures.page import Check, checks_text, rates_text
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result

WINDOWS = 1_000  # SUM over S[N, 0], N = 0 … 999
KEPT = WINDOWS - 1
SHARES = tuple(n / 10 for n in range(11))
STRUCTURES = ("r_int", "b_int", "psoup", "materialize_all", "materialize_none")
INPUTS = 200_000  # a run, or fewer where the model says that many would take long
OPERATIONS = 20_000_000
SHOWN = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # in the table

NOTES = f"""\
SUM of 64-bit integers over the last 0, 1, … {KEPT} elements: {WINDOWS:,} windows. Each input is an update or a
look-up of one window, drawn uniformly. scalar: one input at a time, in a compiled loop. batch: {BATCH:,} inputs a
call from Python, updates first. Rates are inputs per CPU second, median of the runs; structures take turns. A
sample of the answers of each series is compared with NumPy."""


def operations(name: str, share: float) -> float:
    """What an input costs by the model: reads, writes and combinations of partials."""
    update, look_up = {
        "r_int": (1.0, 1.0),
        "b_int": (2.0, 8.5),
        "psoup": (20.0, 20.0),  # twice log2 of the elements: not of the paper, only to choose how many inputs
        "materialize_all": (float(WINDOWS), 1.0),
        "materialize_none": (1.0, WINDOWS / 2),
    }[name]
    return share * update + (1 - share) * look_up


def run(quick: bool) -> Result:
    """Measure every share in both modes."""
    shares = SHARES[::5] if quick else SHARES
    rows = [measure_share(mode, share, quick) for mode in MODES for share in shares]
    return Result(
        name="arasu_widom/fig09",
        title="Mixed inputs against the share of updates",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "mode"),
            Column("share", "updates", ".0%"),
            *(Column(name, name, ",.0f") for name in STRUCTURES),
        ],
        rows=rows,
        parameters={"windows": WINDOWS, "batch": BATCH, "runs": QUICK_RUNS if quick else RUNS},
    )


def measure_share(mode: str, share: float, quick: bool) -> dict[str, Any]:
    """One row: all structures on inputs with this share of updates."""
    fill = values(KEPT, seed=1)
    drivers = [MODES[mode](name, "sum", fill) for name in STRUCTURES]
    counts = [input_count(name, share, quick) for name in STRUCTURES]
    inputs = {count: mixed_inputs(share, count, WINDOWS, seed=9) for count in set(counts)}
    for each in inputs.values():
        assert each.batches  # lifted and cut up before the clock runs
    mine = dict(zip(STRUCTURES, counts, strict=True))
    row = race(drivers, lambda driver: driver.take(inputs[mine[driver.name]]), counts, quick)
    for driver in drivers:
        driver.check_inputs()
    model = {f"{name}_model": operations(name, share) for name in STRUCTURES}
    return {"mode": mode, "share": share, **row, **model, **counted(drivers, share)}


def input_count(name: str, share: float, quick: bool) -> int:
    """Inputs of a run, whole batches."""
    most = 2 * BATCH if quick else INPUTS
    return max(1, round(min(most, OPERATIONS / operations(name, share)) / BATCH)) * BATCH


def counted(drivers: list[Driver], share: float) -> dict[str, Any]:
    """What B-INT counted: combinations an update, base intervals a look-up (in batches, all runs)."""
    driver = next(each for each in drivers if each.name == "b_int")
    if driver.mode == "scalar":
        return {}
    inserted = driver.end
    asked = sum(len(answers) for answers in driver.answers_of_runs)
    return {
        "b_int_combines": driver.structure.combines / inserted,
        "b_int_reads": driver.structure.reads / asked if asked else None,
    }
