"""The page of numbers is made from the results and from nothing else."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import BENCHMARKS, first_line, main
from benchmarks.measure import RESULTS, Column, Result, measure
from benchmarks.report import PAGE, page_text, section
from benchmarks.workloads import LONGEST, WindowSet


@pytest.mark.skipif(not any(RESULTS.glob("*.json")), reason="nothing has been measured")
def test_page_is_what_the_results_say():
    assert PAGE.read_text() == page_text(), "run: python -m benchmarks --report"


def test_result_keeps_machine_and_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.measure.RESULTS", tmp_path)
    columns = [Column("windows", "windows", ",d"), Column("ratio", "ratio", ".2f")]
    path = Result(
        "push", "Pushing", "Notes.", columns, [{"windows": 10_000, "ratio": 0.5}], {"runs": 5}
    ).save("0123abc")
    record = json.loads(path.read_text())
    assert record["commit"] == "0123abc"
    assert {"machine", "date", "parameters"} <= record.keys()
    assert {"cpu", "cores", "python", "numba", "numpy"} <= record["machine"].keys()
    assert "| 10,000 | 0.50 |" in section(record)


def test_measure_leaves_warm_ups_out():
    seen = []
    timing = measure(seen.append, runs=5, warm_ups=2)
    assert seen == list(range(7))
    assert len(timing.seconds) == 5
    assert min(timing.seconds) <= timing.median <= max(timing.seconds)


def test_every_benchmark_says_what_it_measures(capsys):
    assert all(first_line(name).endswith(".") for name in BENCHMARKS)
    assert main(["--list"]) == 0
    assert main(["no_such_benchmark"]) == 2
    assert "push_throughput" in capsys.readouterr().err


def test_windows_are_distinct_and_inside_the_longest():
    bounds = WindowSet(10_000, keyed=False, slide=True).bounds()
    assert bounds[0] == (LONGEST, 0)
    assert len(set(bounds)) == 10_000
    assert all(0 <= to < size <= LONGEST for size, to in bounds)
