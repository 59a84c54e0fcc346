"""The page of numbers is made from the results and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, first_line, main
from benchmarks.machine import git
from benchmarks.measure import RESULTS, Column, Result, measure
from benchmarks.remarks import LOST, REMARKS
from benchmarks.report import PAGE, how_measured, page_text, section
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


def record_of(**more):
    return {
        "name": "made", "title": "Made", "notes": "Notes.", "commit": "0123abc", "date": "2026-01-01",
        "columns": [{"key": "n", "label": "n", "format": ",d"}], "rows": [{"n": 1}], "parameters": {"runs": 5},
        "machine": {"cpu": "X", "cores": 2, "memory_gib": 8, "load": 1.0, "python": "3", "numba": "0", "numpy": "2",
                    "pyarrow": "26"}, **more,
    }  # fmt: skip


def test_a_wide_spread_says_why():
    """The benchmark's own reason, or what is known of the machine; of a narrow one nothing is said."""
    rows = [{"n": 1, "spread": 0.31}, {"n": 2, "spread": 0.1}]
    said = section(record_of(rows=rows, why_wide="each run begins with an empty cache"))
    assert "1 of 2 rows spread by more than 30%: each run begins with an empty cache." in said
    assert "was not noted" in section(record_of(rows=rows))
    assert "rows spread" not in section(record_of(rows=rows[1:]))


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_no_table_has_a_wide_spread_without_a_word(path):
    record = json.loads(path.read_text())
    wide = [row[key] for row in record["rows"] for key in row if key.endswith("spread") and row[key] > 0.3]
    assert bool(wide) == ("spread by more than" in section(record))


def test_spreads_of_others_are_shown_and_that_of_one_run_is_not():
    rows = [{"n": 1, "polars_spread": 0.25}]
    assert "| n | polars, spread |" in section(record_of(rows=rows))
    assert "spread" not in section(record_of(rows=rows, parameters={"runs": 1}))


def test_commits_that_the_repository_lacks_are_marked():
    """All of them, and no others: what cannot be looked at is not the code of this repository."""
    commits = {json.loads(path.read_text())["commit"].rstrip("+") for path in RESULTS.rglob("*.json")}
    here = git("log", "--format=%H").split()
    lost = {each for each in commits if not any(one.startswith(each) for one in here)}
    if lost == commits or git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("no history to look at")
    assert lost == set(LOST)
    assert "no longer in the repository" in section(record_of(commit=f"{min(LOST)}+"))
    assert "with changes that were not committed" in section(record_of(commit="0123abc+"))


def test_what_has_no_result_is_said(tmp_path, capsys):
    (tmp_path / "keys.json").write_text("{}")
    said = how_measured([], tmp_path)
    assert "`lookups`" in said
    assert "`keys`" not in said
    main(["--list"])
    without = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "Not measured yet" in line]
    assert without == [name for name in BENCHMARKS if not (RESULTS / f"{name}.json").exists()]


def test_a_remark_goes_when_its_result_is_measured_again():
    """So no remark is about a result that is not there."""
    there = {
        (record["name"], record["commit"])
        for record in map(json.loads, map(Path.read_text, RESULTS.glob("*.json")))
    }
    assert set(REMARKS) <= there
