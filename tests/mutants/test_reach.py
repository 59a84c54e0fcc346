"""Which tests judge a mutant: those that run its block, the near and quick ones first, as far as time allows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from mutants import recorded as recorded_by_us
from mutants.mutation import Mutation
from mutants.reach import Reach
from mutants.results import Result, append, load, report

PATH = "src/muntin/plan/choices.py"
TESTS = [
    "tests/plan/test_choices.py::a",
    "tests/plan/test_x.py::b",
    "tests/test_y.py::c",
    "tests/test_y.py::d",
]


def recorded(folder: Path) -> Reach:
    file = folder / "0.npz"
    np.savez(
        file, tests=TESTS, seconds=[2.0, 1.0, 0.5, 9.0], counts=[2, 1, 2, 1], reached=[0, 1, 0, 0, 1, 0],
        paths=[PATH, PATH], lines=[(1, 9), (3, 4)],
    )  # fmt: skip
    reach = Reach()
    reach.add(file, {test.partition("::")[0] for test in TESTS})
    return reach


def test_the_innermost_block_decides(tmp_path: Path) -> None:
    reach = recorded(tmp_path)
    assert reach.tests_of(PATH, 3) == reach.tests_of(PATH, 4) == {TESTS[0], TESTS[2]}
    assert reach.tests_of(PATH, 5) == set(TESTS)
    assert reach.tests_of(PATH, 10) == reach.tests_of("src/muntin/window.py", 3) == set()


def test_near_and_quick_tests_come_first_until_the_time_is_up(tmp_path: Path) -> None:
    reach = recorded(tmp_path)
    assert reach.ordered(set(TESTS), PATH, 100) == TESTS
    assert reach.ordered(set(TESTS), PATH, 3) == TESTS[:2]
    assert reach.ordered(set(TESTS), "src/muntin/window.py", 0.1) == TESTS[2:3]  # one at least


def test_tests_of_files_that_changed_are_left_out(tmp_path: Path) -> None:
    recorded(tmp_path)
    reach = Reach()
    reach.add(tmp_path / "0.npz", {"tests/test_y.py"})
    assert reach.tests_of(PATH, 5) == set(TESTS[2:])


@pytest.mark.parametrize(
    ("ended", "is_kept"), [(0, True), (1, True), (5, True), (2, False), (-2, False), (-9, False)]
)
def test_a_record_that_was_stopped_is_made_again(
    tmp_path: Path, monkeypatch, ended: int, is_kept: bool
) -> None:
    """It may have been written, but not with all tests."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        Path(command[command.index("--reach") + 1]).touch()
        return subprocess.CompletedProcess(command, ended)

    monkeypatch.setattr(recorded_by_us, "_folder", lambda: tmp_path)
    monkeypatch.setattr(recorded_by_us.subprocess, "run", run)
    recorded_by_us._record_portion(3, ["tests/mutants/test_reach.py"])
    assert [each.name for each in recorded_by_us._records()] == (["3.npz"] if is_kept else [])


def test_results_are_kept_and_reported(tmp_path: Path) -> None:
    kept = tmp_path / "results.jsonl"
    assert load(kept) == []
    for line, outcome in enumerate(("killed", "survived", "unreached"), 1):
        tests = 7 if outcome != "unreached" else 0
        append(kept, Result(Mutation(PATH, "constant", line, 0, 3, "x"), outcome, "", tests, 1.0))
    text = report(load(kept))
    assert f"{PATH}:2  constant, 7 tests passed" in text
    assert f"{PATH}:3  constant, no quick test runs this line" in text
    assert f"{PATH}:1 " not in text
    assert text.splitlines()[-1].split() == ["all", "3", "1", "1", "1"]
