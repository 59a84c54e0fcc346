"""The figures of Golab, Prahladka & Özsu run, answer as NumPy does, and touch what the formulas say."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("matplotlib")

from benchmarks.figures.__main__ import FIGURES, module_of
from benchmarks.figures.golab.counted import CountedResults
from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.gpt1_sizes import corrected, deviations, printed, round_robin
from benchmarks.figures.golab.ratios import RatioChart, Row, places_of
from benchmarks.figures.golab.results import KEYS, UPDATES, Results
from benchmarks.figures.golab.series import NAMES, label_of

NAMED = [name for name in FIGURES if name.startswith("gp")]


@pytest.fixture
def only_new_garbage() -> Iterator[None]:
    """Cold drives collect garbage before each probe: not among all objects that tests before have left, 0.4 seconds
    each."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize("name", NAMED)
def test_figure_runs_and_is_drawn(name, tmp_path):
    """Its probes are compared with NumPy on the way; gp09 and gp10 touch the parts that the formulas say."""
    record = asdict(module_of(name).run(quick=True))
    if chart := getattr(module_of(name), "CHART", None):
        assert_lines_or_ratios(chart, record)
        chart.draw(record, tmp_path / "one.svg")
        chart.draw(record, tmp_path / "two.svg")
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    for part in set(module_of(name).PARTS) - {"chart", "origin"}:
        assert "|---" in module_of(name).PARTS[part](record)
    updates = [row for row in record["rows"] if row["mode"] == "update"]
    if name == "gp09":
        assert [updates[0][f"shape_{shape}_touched"] for shape in ("4x4", "8x2", "2x8")] == [7, 9, 9]
    if name == "gp10":
        assert_parts_touched({row["parts"]: row for row in updates})


def assert_lines_or_ratios(chart, record):
    if isinstance(chart, RatioChart):
        rows = chart.rows_of(record)
        assert len(rows) > 1
        assert all(row.ratios[panel] > 0 for row in rows for panel in chart.panels)
        return
    assert {row["mode"] for row in record["rows"]} == set(chart.panels)
    assert all(row[series] > 0 for row in record["rows"] for series in chart.names if series in row)


def assert_parts_touched(by_parts):
    of_sixteen = {"reindex": 16, "del": 16, "rebuild": 7, "no_rebuild": 7, "wata": 1}
    assert {name: by_parts[16][f"{name}_touched"] for name in of_sixteen} == of_sixteen
    assert by_parts[4]["rebuild_touched"] == 3


def test_labels():
    assert label_of("wata", 1) is None
    assert label_of("lazy_rebuild", 4) is None
    assert label_of("rebuild", 2) is None
    assert {label_of(name, 9) for name in NAMES} >= {"reindex 9", "rebuild 3x3", "lazy_no_rebuild 3x3"}


@pytest.mark.parametrize("results", [Results(1_800), Results(1_800, ended=3), CountedResults(1_800)])
def test_wrong_answers_are_noticed(results, monkeypatch):
    label = "count_rebuild 2x2" if isinstance(results, CountedResults) else "rebuild 2x2"
    Drive(label, results, updates=3).run()
    right = type(results).count_alive
    monkeypatch.setattr(type(results), "count_alive", lambda self, slot, key: right(self, slot, key) + 1)
    with pytest.raises(AssertionError, match=f"{label} finds"):
        Drive(label, results, updates=3).run()


def test_rates_vary_around_the_same_mean():
    counts = [Results(36_000, factor=4.0).slot(slot).num_rows for slot in range(UPDATES)]
    assert max(counts) / min(counts) > 2
    assert 0.8 < sum(counts) / 36_000 < 1.2


def test_keys_by_a_power_law():
    """The first key comes about as often as the harmonic number says, and twice as often as the second."""
    keys = Results(360_000, power=1.0)._times(0)[0]
    often = np.bincount(keys, minlength=KEYS) / len(keys)
    harmonic = (1 / np.arange(1, KEYS + 1)).sum()
    assert often[0] == pytest.approx(1 / harmonic, rel=0.1)
    assert often[0] / often[1] == pytest.approx(2, rel=0.15)
    assert often.min() > 0


def test_an_index_may_be_built_in_any_number_of_parts():
    """What is alive at the end of a window is the same."""
    few, many = (list(Results(3_600, chunk=chunk).initial()) for chunk in (100, 10_000))
    assert len(few) > len(many) == 1
    assert pa.concat_tables(each["results"] for each in few) == many[0]["results"]


def test_sizes_of_parts_follow_the_formulas():
    """Theorem 1, with enough results that chance hardly matters; printed values are those of the paper."""
    results = Results(1_000_000)
    for side in (2, 3, 4):
        assert deviations(results, f"rebuild {side}x{side}") == pytest.approx(round_robin(side), rel=0.05)
        assert deviations(results, f"chronological {side}x{side}") == pytest.approx(corrected(side), rel=0.05)
    of_the_paper = {(2, 8): 52, (3, 6): 14, (3, 36): 10584, (4, 8): 27}
    assert {case: round(printed(*case), 6) for case in of_the_paper} == of_the_paper


def test_rows_lie_below_the_names_of_their_groups():
    rows = [Row(group, "", "rebuild", {}) for group in ("one", "one", "two")]
    places, groups = places_of(rows)
    assert places == sorted(places)
    assert groups["one"] < places[0] < places[1] < groups["two"] < places[2]
