"""Figure 9: mixed inputs per second, by the share of updates, for five ways to keep 1,000 sums."""

from __future__ import annotations

from functools import partial
from itertools import chain, pairwise
from math import log
from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.drive import MODES, Driver
from benchmarks.figures.arasu_widom.race import QUICK_RUNS, RUNS, Entrant, race
from benchmarks.figures.arasu_widom.workload import BATCH, mixed_inputs, uniform_runs, values
from benchmarks.figures.page import Check, Record, at, checks_text, rates_text, short
from benchmarks.figures.plot import Chart
from benchmarks.measure import Column, Result
from benchmarks.report import origin_text, table_text

WINDOWS = 1_000  # SUM over S[N, 0], N = 0 … 999
KEPT = WINDOWS - 1
SHARES = tuple(n / 10 for n in range(11))
STEP = 331  # updates between two runs, not timed, so that windows lie differently even without updates
INPUTS = 200_000  # a run, or fewer where the model says that many would take long
OPERATIONS = 20_000_000
LOOK_UPS = 20_000  # a run, where scans are measured alone
SCANNED = ("b_int", "materialize_none")
NAMES = {
    "r_int": "R-INT", "b_int": "B-INT", "psoup": "PSoup",
    "materialize_all": "materialize-all", "materialize_none": "materialize-none",
}  # fmt: skip
SHOWN = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # in the table

NOTES = f"""\
SUM of 64-bit integers over the last 0, 1, … {KEPT} elements: {WINDOWS:,} windows. Each input is an update or a
look-up of one window, drawn uniformly. scalar: one input at a time, in a compiled loop. batch: {BATCH:,} inputs a
call from Python, updates first. Rates are inputs per CPU second, median of the runs; structures take turns. A
sample of the answers of each series is compared with NumPy. Two rows a mode more: look-ups alone, of windows of 1
to {KEPT} elements anywhere, for SUM and for MAX."""


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
    rows = [row for mode in MODES for row in measure_mode(mode, shares, quick)]
    rows += [row for mode in MODES for row in measure_scans(mode, quick)]
    return Result(
        name="arasu_widom/fig09",
        title="Mixed inputs against the share of updates",
        notes=" ".join(NOTES.split()),
        columns=[
            Column("mode", "mode"),
            Column("share", "updates", ".0%"),
            *(Column(name, label, ",.0f") for name, label in NAMES.items()),
        ],
        rows=rows,
        parameters={"windows": WINDOWS, "batch": BATCH, "runs": QUICK_RUNS if quick else RUNS},
    )


def measure_mode(mode: str, shares: tuple[float, ...], quick: bool) -> list[dict[str, Any]]:
    """The rows of a mode: all structures at all shares, in turns."""
    fill = values(KEPT, seed=1)
    drivers = {share: [MODES[mode](name, "sum", fill) for name in NAMES] for share in shares}
    points = [[entrant(each, share, quick) for each in drivers[share]] for share in shares]
    more = mixed_inputs(1.0, STEP, WINDOWS, seed=10)

    def insert_some() -> None:
        for each in chain(*drivers.values()):
            each.take(more)

    rows = race(points, quick, insert_some)
    for share, row in zip(shares, rows, strict=True):
        for driver in drivers[share]:
            driver.check_inputs()
        row |= {"mode": mode, "share": share, **counted(drivers[share])}
        row |= {f"{name}_model": operations(name, share) for name in NAMES}
    return rows


def entrant(driver: Driver, share: float, quick: bool) -> Entrant:
    """A structure at work on inputs with one share of updates."""
    inputs = mixed_inputs(share, input_count(driver.name, share, quick), WINDOWS, seed=9)
    assert inputs.batches  # lifted and cut up before the clock runs
    return Entrant(driver.name, lambda: driver.take(inputs), len(inputs.is_update))


def measure_scans(mode: str, quick: bool) -> list[dict[str, Any]]:
    """Look-ups alone, B-INT against scans, for partials of two numbers (SUM) and of one (MAX)."""
    kept, count = KEPT, LOOK_UPS // (10 if quick else 1)
    widths = np.random.default_rng(13).integers(1, kept + 1, count)
    runs = uniform_runs(widths, kept, count, seed=14, in_batches=mode == "batch")
    drivers = {
        component: [MODES[mode](name, component, values(kept, seed=1)) for name in SCANNED]
        for component in ("sum", "max")
    }
    rows = race(
        [
            [Entrant(each.name, partial(each.look_up, runs), count) for each in some]
            for some in drivers.values()
        ],
        quick,
    )
    for (component, some), row in zip(drivers.items(), rows, strict=True):
        for driver in some:
            driver.check_runs(runs)
        row |= {"mode": f"{mode}, look-ups of {component.upper()}", "share": 0.0}
    return rows


def input_count(name: str, share: float, quick: bool) -> int:
    """Inputs of a run, whole batches."""
    most = 2 * BATCH if quick else INPUTS
    return max(1, round(min(most, OPERATIONS / operations(name, share)) / BATCH)) * BATCH


def counted(drivers: list[Driver]) -> dict[str, Any]:
    """What B-INT and PSoup can tell: combinations an update, intervals a look-up, height of the tree."""
    b_int, psoup = (each for each in drivers if each.name in ("b_int", "psoup"))
    if b_int.mode == "scalar":  # the compiled loops count nothing
        return {}
    return {
        "b_int_combines": b_int.structure.combines / b_int.end,
        "b_int_reads": b_int.structure.reads / b_int.asked if b_int.asked else None,
        "psoup_height": psoup.structure.height(),
    }


def ratio(rows: list[Record], name: str, other: str, share: float) -> float:
    """How many times as fast as another, at one share."""
    row = at(rows, "share", share)
    return float(row[name] / row[other])


def least_ratio(rows: list[Record], name: str, other: str, since: float) -> float:
    """How many times as fast as another at least, from one share on."""
    return min(row[name] / row[other] for row in rows if row["share"] >= since)


def where_fastest(rows: list[Record], name: str) -> str:
    """The shares at which a structure is ahead of all others."""
    shares = [f"{row['share']:.0%}" for row in rows if row[name] == max(row[each] for each in NAMES)]
    return ", ".join(shares) if len(shares) < 3 else f"{shares[0]} to {shares[-1]} ({len(shares)} points)"


def crossing(rows: list[Record], name: str, other: str) -> str:
    """The first share at which `name` falls behind `other`, between two points."""
    for row, following in pairwise(rows):
        ahead, behind = (log(each[name] / each[other]) for each in (row, following))
        if ahead >= 0 > behind:
            share = row["share"] + (following["share"] - row["share"]) * ahead / (ahead - behind)
            return f"{share:.2f}"
    return "none"


CHECKS = (
    Check("R-INT is the fastest at", "all but the ends", lambda rows: where_fastest(rows, "r_int")),
    Check("R-INT / B-INT, no updates", "2 or more", lambda rows: f"{ratio(rows, 'r_int', 'b_int', 0):.1f}"),
    Check("B-INT / PSoup, no updates", "near 1 in the paper", lambda rows: f"{ratio(rows, 'b_int', 'psoup', 0):.1f}"),
    Check("B-INT / PSoup, least from 50 % updates on", "2 or more",
          lambda rows: f"{least_ratio(rows, 'b_int', 'psoup', 0.5):.1f}"),
    Check("PSoup, only updates / only look-ups", "below 1",
          lambda rows: f"{rows[-1]['psoup'] / rows[0]['psoup']:.2f}"),
    Check("B-INT, only updates / only look-ups", "above 1",
          lambda rows: f"{rows[-1]['b_int'] / rows[0]['b_int']:.2f}"),
    Check("materialize-all falls behind materialize-none at share", "near 1/3 by the model",
          lambda rows: crossing(rows, "materialize_all", "materialize_none")),
    Check("B-INT / materialize-none, 50 % updates", "above 1; less in batches",
          lambda rows: f"{ratio(rows, 'b_int', 'materialize_none', 0.5):.1f}"),
    Check("B-INT / materialize-none, 90 % updates", "above 1; less in batches",
          lambda rows: f"{ratio(rows, 'b_int', 'materialize_none', 0.9):.1f}"),
)  # fmt: skip


def model_table(record: Record) -> str:
    """Operations an input by the model, and what was counted."""
    columns = [{"key": "share", "label": "updates", "format": ".0%"}]
    columns += [
        {"key": f"{name}_model", "label": NAMES[name], "format": ",.1f"} for name in NAMES if name != "psoup"
    ]
    columns += [
        {"key": "b_int_combines", "label": "B-INT: combinations an update", "format": ".2f"},
        {"key": "b_int_reads", "label": "B-INT: intervals a look-up", "format": ".2f"},
        {"key": "psoup_height", "label": "PSoup: height", "format": "d"},
    ]
    rows = [row for row in record["rows"] if row["mode"] == "batch" and row["share"] in (0.0, 0.5, 1.0)]
    return table_text(columns, rows)


def scans_table(record: Record) -> str:
    """Look-ups a second of B-INT and of scans, by aggregate."""
    columns = [{"key": "mode", "label": "", "format": ""}]
    columns += [{"key": name, "label": NAMES[name], "format": ">"} for name in SCANNED]
    columns += [{"key": "ratio", "label": "B-INT / materialize-none", "format": ".1f"}]
    rows = [
        {
            "mode": row["mode"].replace("scalar", "one at a time").replace("batch", "in batches"),
            **{name: short(row[name]) for name in SCANNED},
            "ratio": row["b_int"] / row["materialize_none"],
        }
        for row in record["rows"]
        if row["mode"] not in MODES
    ]
    return table_text(columns, rows)


CHART = Chart("share", "updates among the inputs", "inputs per second", NAMES, is_log=False)
PARTS = {
    "table": lambda record: rates_text(record, "share", "updates", ".0%", NAMES, SHOWN),
    "checks": lambda record: checks_text(record, CHECKS),
    "counts": model_table,
    "scans": scans_table,
    "origin": origin_text,
}
