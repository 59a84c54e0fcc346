"""The figures of the papers run, answer as NumPy does, and draw what was measured; nothing here is timed."""

from __future__ import annotations

import re
from dataclasses import asdict

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from benchmarks.figures.__main__ import RESULTS, main, module_of, paper_of, part_of
from benchmarks.figures.arasu_widom.drive import CLASSES, MODES, InBatches, OneByOne
from benchmarks.figures.arasu_widom.substreams import LONGEST, Indexed, Naive, stamps_of
from benchmarks.figures.arasu_widom.trade_day import look_ups, trade_day
from benchmarks.figures.arasu_widom.workload import lifted, mixed_inputs, uniform_runs, values
from benchmarks.figures.page import fill, pages, rows_of
from benchmarks.figures.peers.queries import PANELS
from benchmarks.machine import ROOT
from effort import THOROUGH

COMPONENT = {"quantile_tree": "quantile"}
SERIES = {
    "fig09": {"r_int", "b_int", "psoup", "materialize_all", "materialize_none"},
    "fig10": {"r_int", "b_int", "quantile_tree"},
    "fig11": {"r_int", "b_int", "quantile_tree"},
    "fig12": {"naive", "scan", "tree", "dense", "tree_probe", "dense_probe"},
    "fig12c": {"naive", "scan", "dense"},
    "fig12b": {"staircase_tree", "staircase_dense", "scan_keys", "scan_columns"},
}  # of figures with a panel for one input at a time and one for batches


@pytest.mark.parametrize("name", SERIES if THOROUGH else ["fig10", "fig12"])  # one for each kind of driver
def test_figure_runs_and_is_drawn(name, tmp_path):
    """All of a figure in one test, so that it is run once: its answers are compared with NumPy on the way."""
    record = asdict(module_of(name).run(quick=True))
    assert record["name"] == f"{paper_of(name)}/{name}"
    assert_series_in_both_modes(record, name)
    assert_drawn_from_the_result_alone(record, name, tmp_path)
    if name == "fig10":
        assert all(0.9 < row["b_int_combines"] < 1 for row in rows_of(record, "batch"))
    if name == "fig11":
        for row in rows_of(record, "batch"):
            assert 1 <= row["b_int_reads"] <= max(1, 2 * int(np.log2(row["width"])))


def assert_series_in_both_modes(record, name):
    assert {row["mode"] for row in record["rows"]} >= {"scalar", "batch"}
    assert set(module_of(name).CHART.names) == SERIES[name]
    for row in rows_of(record, "scalar") + rows_of(record, "batch"):
        for series in SERIES[name]:
            assert row[series] > 0
            assert row[f"{series}_inputs"] > 0
            assert row[f"{series}_spread"] >= 0


def assert_drawn_from_the_result_alone(record, name, folder):
    chart = module_of(name).CHART
    chart.draw(record, folder / "one.svg")
    chart.draw(record, folder / "two.svg")
    assert (folder / "one.svg").read_bytes() == (folder / "two.svg").read_bytes()
    for part in set(module_of(name).PARTS) - {"checks", "origin"}:  # those need points or a machine
        assert "|---" in module_of(name).PARTS[part](record)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CLASSES)
def test_wrong_answers_are_noticed(name, mode):
    driver = MODES[mode](name, COMPONENT.get(name, "sum"), values(100, seed=1))
    if name == "quantile_tree":
        driver.history[0] = driver.history[0] + 1  # what NumPy is given, not what the structure was
        with pytest.raises(AssertionError, match="NumPy has"):
            driver.check_runs(uniform_runs(50, 100, 5, seed=3, in_batches=True))
        return
    driver.take(mixed_inputs(0.5, 100, windows=101, seed=2))
    driver.check_inputs()
    driver.last[2][-1] += 1
    with pytest.raises(AssertionError, match=f"{name}, {mode}"):
        driver.check_inputs()


@pytest.mark.parametrize(("name", "component"), [("r_int", "sum"), ("b_int", "sum"), ("b_int", "max")])
def test_one_by_one_leaves_the_state_of_the_structure(name, component):
    fill_, more = values(100, seed=1), values(1_000, seed=2)
    one, all_ = OneByOne(name, component, fill_), InBatches(name, component, fill_)
    for driver in (one, all_):
        driver.insert(more, lifted(component, more))
    one.structure.end, one.structure.first = all_.structure.end, all_.structure.first
    one.structure.check()
    for lo in range(one.end - 100, one.end):
        run = np.array([lo]), np.array([one.end])
        assert one.structure.query(*run) == all_.structure.query(*run)


@pytest.mark.parametrize("mode", ["scalar", "batch"])
@pytest.mark.parametrize("name", sorted(SERIES["fig12"]))
def test_wrong_symbols_are_noticed(name, mode):
    """A look-up of busy symbols that is one off fails the run."""
    day = trade_day(50, 3_000, seed=1)
    start = day.first_after(LONGEST)
    more = {} if name in ("naive", "scan") else {"parts": 2}
    driver = (Indexed if more else Naive)(name, mode, day, stamps_of(day), start, **more)
    driver.take(look_ups(day, start, 100, seed=2))
    driver.check()
    driver.answers[-1, 1] += 1
    with pytest.raises(AssertionError, match=f"{name}, {mode}"):
        driver.check()


def test_last_sum_that_overflows_is_still_known():
    huge = np.full(300, 2**62)
    driver = OneByOne("r_int", "sum", huge[:100])
    driver.insert(huge, lifted("sum", huge))
    driver.check_runs(uniform_runs(1, 100, 50, seed=3, in_batches=False).shifted(driver.end - 100))


@pytest.mark.skipif(not any(RESULTS.glob("arasu_widom/*.json")), reason="nothing has been measured")
def test_pages_are_what_the_results_say():
    assert pages()
    for page in pages():
        assert page.read_text() == fill(page.read_text(), part_of), "run: python -m benchmarks.figures --draw"


def test_panels_with_scales_of_their_own_say_each_what_they_count(tmp_path):
    """And one legend above them names the lines, wherever they end."""
    rows = [
        {"mode": mode, "queries": count, "muntin": 1e6 * count, "polars": 2e6}
        for mode in PANELS
        for count in (1, 10)
    ]
    module_of("queries").CHART.draw({"rows": rows}, tmp_path / "made.svg")
    drawn = (tmp_path / "made.svg").read_text()
    assert drawn.count("<!-- per CPU second -->") == len(PANELS)
    assert drawn.count("<!-- polars -->") == 1


def test_pictures_of_the_readme_were_measured_in_peace():
    """Or, before that was noted, while hardly anything ran besides."""
    shown = re.findall(r"docs/reproduce/[\w-]+-(\w+)\.svg", (ROOT / "README.md").read_text())
    assert shown
    for name in shown:
        machine = module_of(name).record()["machine"]
        peace = machine.get("peace")
        assert not peace["disturbed"] if peace else machine["load"] <= 1.0, name


def test_kinds_that_were_not_measured_are_named():
    """In words instead of an empty table."""
    shown = {"rows": [{"mode": "Joins", "why": ""}], "parameters": {"runs": 1}, "machine": {}}
    said = module_of("queries").measured(shown)
    assert "*Joins*: one run." in said
    assert "Not measured yet: *Windows per key*" in said
    assert "|" not in module_of("queries").streams_table(shown)


def test_unknown_figure_is_refused(capsys):
    assert main(["fig99"]) == 2
    assert "fig09" in capsys.readouterr().err
