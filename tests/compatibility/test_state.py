"""State that earlier versions wrote is read, answers as it did then, and goes on; or it is refused clearly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from story import COLUMNS, FILES, HERE, MIDDLE, answers, move_spark, push, run_on_spark

import muntin
from answers import is_close

VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / "answers.json").exists())
REFUSED: dict[tuple[str, str], str] = {}  # (version, what was written) and the words of its refusal


@pytest.fixture(params=VERSIONS)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what a version wrote."""
    return Path(shutil.copytree(HERE / request.param, tmp_path / request.param))


def test_there_is_state_of_the_first_version() -> None:
    """Nothing below passes for want of files."""
    assert "0.1.0" in VERSIONS


def test_a_checkpoint_with_its_archive_answers_as_it_did_and_goes_on(state: Path) -> None:
    """Every kind of store, structure, index, sketch, join and view: at the checkpoint, and after more events."""
    expected = json.loads((state / "answers.json").read_text())
    if words := REFUSED.get((state.name, "engine.muntin")):
        with pytest.raises(muntin.CheckpointError, match=words):
            muntin.Engine.restore(state / "engine.muntin", archive=state / "archive")
        return
    engine = muntin.Engine.restore(state / "engine.muntin", archive=state / "archive")
    engine.check()
    assert_equal(answers(engine), expected["at the checkpoint"])
    push(engine, state / "events", range(MIDDLE, FILES))
    assert_equal(answers(engine), expected["after it"])
    engine.check()
    engine.close()


def test_an_archive_is_read_without_its_checkpoint(state: Path) -> None:
    """A view outlives its engine, whatever version wrote it."""
    expected = json.loads((state / "answers.json").read_text())["at the checkpoint"]["views"]
    engine = muntin.Engine(archive=state / "archive")
    for name, columns in COLUMNS.items():
        if words := REFUSED.get((state.name, name)):
            with pytest.raises(muntin.MuntinError, match=words):
                engine.execute(f"SELECT {columns} FROM {name}")
        else:
            found = engine.execute(f"SELECT {columns} FROM {name}").select(columns.split(", "))
            rows = [{column: row[column] for column in found.column_names} for row in expected[name]]
            assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, rows))
    engine.close()


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_on_spark_goes_on_from_its_checkpoint(state: Path, spark: Any) -> None:
    """The micro-batches after the stop give what a job that never stopped gives."""
    move_spark(state / "spark", "file:/stopped/checkpoint", f"file:{state / 'spark' / 'checkpoint'}")
    expected = json.loads((state / "answers.json").read_text())["spark"]
    if words := REFUSED.get((state.name, "spark")):
        with pytest.raises(Exception, match=words):
            run_on_spark(spark, state / "events", state / "spark")
        return
    assert_equal(run_on_spark(spark, state / "events", state / "spark"), expected)


def assert_equal(got: Any, expected: Any, where: str = "answers") -> None:
    """Equal texts, numbers, names and order of rows; floats as close as sums in another order are."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys(), where
        for name in expected:
            assert_equal(got[name], expected[name], f"{where}, {name}")
    elif isinstance(expected, list):
        assert len(got) == len(expected), where
        for number, each in enumerate(expected):
            assert_equal(got[number], each, f"{where}, row {number}")
    else:
        assert is_close(got, expected), f"{where}: {got} instead of {expected}"
