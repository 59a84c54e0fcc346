"""The figures of Golab, Prahladka & Özsu run, answer as NumPy does, and touch what the formulas say."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import asdict

import pytest

pytest.importorskip("matplotlib")

from benchmarks.figures.__main__ import FIGURES, module_of
from benchmarks.figures.golab.counted import CountedResults
from benchmarks.figures.golab.drive import Drive
from benchmarks.figures.golab.results import UPDATES, Results
from benchmarks.figures.golab.series import NAMES, label_of

NAMED = [name for name in FIGURES if name.startswith("gp")]


pytestmark = pytest.mark.usefixtures("no_flushing")


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
    record, chart = asdict(module_of(name).run(quick=True)), module_of(name).CHART
    assert {row["mode"] for row in record["rows"]} == set(chart.panels)
    assert all(row[series] > 0 for row in record["rows"] for series in chart.names if series in row)
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
