"""What earlier versions wrote beside the checkpoints of engines is read, and calls that were right are right."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from apart import INDEXINGS, LATER, ON_SPARK, SUMMARIES, UPDATES, asked, dataframes, kept_rows, says, update
from names import public_names
from story import HERE
from test_state import VERSIONS, assert_equal

import muntin
from muntin.archive import Archive, View

ROOT = Path(__file__).parents[2]


def copied(version: str, part: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / version / part, tmp_path / part))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", INDEXINGS)
def test_an_archive_made_by_hand_is_read_and_goes_on(version: str, name: str, tmp_path: Path) -> None:
    """Each layout: what it answers as it stands, and after the updates that follow."""
    folder = copied(version, "archives", tmp_path)
    expected = json.loads((folder / "answers.json").read_text())[name]
    assert_equal(asked(View.open(folder / name)), expected["then"])
    archive = Archive.open(folder / name)
    archive.check()
    update(archive, range(UPDATES + 1, UPDATES + LATER + 1))
    archive.check()
    assert_equal(asked(archive.view), expected["later"])
    archive.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SUMMARIES)
def test_texts_of_summaries_say_what_they_said(version: str, name: str) -> None:
    told = json.loads((HERE / version / "summaries.json").read_text())[name]
    assert told["says"]["count"] > 1_000
    assert_equal(says(told["texts"]), told["says"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_view_that_spark_kept_is_read(version: str, tmp_path: Path) -> None:
    folder = copied(version, "views_on_spark", tmp_path)
    rows = json.loads((folder / "rows.json").read_text())
    assert len(rows) > 50
    assert kept_rows(folder) == rows


@pytest.mark.slow
@pytest.mark.spark
def test_a_view_that_0_1_0_kept_on_spark_is_not_gone_on_with(tmp_path: Path, spark: Any) -> None:
    """It does not say which checkpoint is its own: the error says what to do, and nothing has changed."""
    folder = copied("0.1.0", "views_on_spark", tmp_path)
    streams = dataframes(spark, HERE / "0.1.0" / "events")
    kept = muntin.spark.keep_view(
        ON_SPARK, streams, time="ts", archive=str(folder), checkpoint=str(tmp_path / "c")
    )
    words = "by muntin 0.1.0 on Spark.*No checkpoint can go on with it: start with a new checkpoint"
    with pytest.raises(Exception, match=f"(?s){words}.*DROP MATERIALIZED VIEW"):
        kept.trigger(availableNow=True).start().awaitTermination()
    assert kept_rows(folder) == json.loads((folder / "rows.json").read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_what_could_be_called_can_be_called_still(version: str) -> None:
    """Every public name with every parameter, in its place: or the page on stability lists the name as removed."""
    before, now = json.loads((HERE / version / "names.json").read_text()), public_names()
    page = (ROOT / "docs" / "reference" / "stability.md").read_text()
    removed = set(re.findall(r"`([\w.]+)`", page.partition("\n## Removed\n")[2]))
    missing = {
        f"{area}: {name}({', '.join(parameters)})"
        for area, names in before.items()
        for name, parameters in names.items()
        if not takes(now[area].get(name), parameters) and f"{area}.{name}" not in removed
    }
    assert not missing


def takes(now: list[str] | None, before: list[str]) -> bool:
    """Whether a call that was right is right: places are kept, no new parameter is required.

    >>> takes(["df", "*time", "*ahead="], ["df", "*time"]), takes(["df", "*time", "*ahead"], ["df", "*time"])
    (True, False)
    >>> takes(["b", "a"], ["a", "b"]), takes(["*a="], ["a="])
    (False, False)
    >>> takes(["--conf", "--out", "<script>"], ["--out", "<script>"])  # options may be left out, and have no place
    True
    """
    if now is None:
        return False
    by_place = [each.rstrip("=") for each in before if each[0] not in "*-<"]
    is_required = {each for each in now if each[-1] != "=" and each[0] != "-"} - set(before)
    return (
        [each.rstrip("=") for each in now if each[0] not in "*-<"][: len(by_place)] == by_place
        and {each.rstrip("=") for each in before} <= {each.rstrip("=") for each in now}
        and not is_required
    )
