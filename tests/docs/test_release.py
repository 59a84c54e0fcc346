"""The version is the same wherever it stands, and the changelog tells what it brings."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires

import muntin
from tests.docs.markdown import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADINGS = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)


def test_the_version_is_the_same_everywhere() -> None:
    """In the package, its metadata, the citation, and as the newest version of the changelog."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited
    assert {muntin.__version__, cited[1], HEADINGS[1]} == {project["version"]}


def test_versions_of_the_changelog_stand_newest_first() -> None:
    assert HEADINGS[0] == "Unreleased"
    numbers = [tuple(map(int, heading.split("."))) for heading in HEADINGS[1:]]
    assert numbers == sorted(numbers, reverse=True)


def test_every_version_of_the_changelog_has_left_state() -> None:
    """Which the tests of compatibility read."""
    kept = {path.parent.name for path in ROOT.glob("tests/compatibility/*/answers.json")}
    assert kept == set(HEADINGS[1:])


def test_the_citation_says_when_and_the_metadata_how_mature() -> None:
    """A day for whoever cites it; and what is called stable is no alpha."""
    assert re.search(r'^date-released: "\d{4}-\d\d-\d\d"$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "Development Status :: 4 - Beta" in project["classifiers"]


def test_a_released_version_can_be_read_in_five_minutes() -> None:
    """At 250 words a minute, and it begins with what matters most, in one paragraph."""
    for section in re.split(r"^## .+$", CHANGELOG, flags=re.MULTILINE)[2:-1]:
        assert len(section.split()) < 1250
        assert not section.lstrip().startswith(("#", "*"))


def test_what_the_readme_installs_exists() -> None:
    """The extras that the README names are extras of the package."""
    named = set(re.findall(r"muntin\[(\w+)\]", (ROOT / "README.md").read_text()))
    assert named
    assert all(any(f'extra == "{name}"' in each for each in requires("muntin") or ()) for name in named)
