"""Figure 1 of Arasu & Widom counted, and windows by time beside windows by count; nothing here is timed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from benchmarks.figures.__main__ import module_of
from benchmarks.figures.arasu_widom.drive import InBatches, OneByOne
from benchmarks.figures.arasu_widom.fig01_growth import ROOM, power_of, row_of
from benchmarks.figures.arasu_widom.fig11t_times import Times, TimeWindows
from benchmarks.figures.arasu_widom.growth import COSTS, powers
from benchmarks.figures.arasu_widom.time_engine import Timed
from benchmarks.figures.arasu_widom.workload import uniform_runs, values
from benchmarks.measure import RESULTS

CHEAP = [cost for cost in COSTS if cost.structure in ("R-INT", "B-INT", "L-INT")]


@pytest.mark.parametrize("cost", CHEAP, ids=lambda cost: f"{cost.structure}, {cost.what}, {cost.against}")
def test_costs_grow_as_stated(cost):
    """As fast, not less, at small sizes, where they are counted in an instant."""
    assert row_of(cost, cost.sizes[:4])["fitted"] == pytest.approx(cost.power, abs=0.3)


def test_the_record_has_every_cost():
    rows = json.loads((RESULTS / "arasu_widom" / "fig01.json").read_text())["rows"]
    assert [(row["structure"], row["what"], row["against"]) for row in rows] == [
        (cost.structure, cost.what, cost.against) for cost in COSTS
    ]
    assert all(row["fitted"] <= row["power"] + ROOM for row in rows)


def test_a_cost_that_grows_faster_is_noticed():
    linear = replace(COSTS[0], count=lambda size: 3.0 * size)
    with pytest.raises(AssertionError, match="R-INT, update: a power of 1"):
        row_of(linear, powers(6, 10))


def test_power():
    assert power_of([1, 10, 100], [7, 7, 7]) == 0
    assert power_of([1, 2, 4, 8], [1, 4, 16, 64]) == pytest.approx(2)


def test_figure_of_windows_by_time(tmp_path):
    module = module_of("fig11t")
    record = asdict(module.run(quick=True))
    for mode in ("scalar", "batch", "update", "engine", "push"):
        (row, *_) = [row for row in record["rows"] if row["mode"] == mode]
        assert all(row[name + kind] > 0 for name in module.NAMES for kind in module.KINDS)
    module.CHART.draw(record, tmp_path / "one.svg")
    module.CHART.draw(record, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    for part in ("scalar", "batch", "engine"):
        assert "|---" in module.PARTS[part](record)


@pytest.mark.parametrize("driver", [OneByOne, InBatches])
def test_wrong_elements_are_noticed(driver):
    times = Times(2_000)
    windows = TimeWindows(
        driver("r_int", "sum", values(2_000, seed=1)), times, uniform_runs(50, 2_000, 20, 1, True)
    )
    windows.check()
    times.column["at"][:] = times.at[::-1].copy()  # which no binary search is right about
    with pytest.raises(AssertionError, match="elements between"):
        windows.check()


def test_wrong_answers_of_an_engine_are_noticed():
    timed = Timed(100, 1_000)
    timed.check()
    timed.history[-1] = timed.history[-1] + 1
    with pytest.raises(AssertionError, match="NumPy has"):
        timed.check()


def test_times_go_on():
    times = Times(1_000)
    before = times.at.copy()
    times.go_on(1_500)
    assert len(times.at) == 1_000
    assert (np.diff(times.at) >= 0).all()
    assert times.at[0] > before[0]
