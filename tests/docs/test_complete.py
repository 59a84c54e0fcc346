"""The docs leave nothing public out."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import muntin
from muntin import errors
from muntin.aggregates import AGGREGATES
from muntin.sql.vocabulary import FUNCTIONS, aggregate_names
from tests.docs.markdown import ROOT, pages

PUBLIC = sorted(muntin.__all__)
METHODS = sorted(name for name, value in inspect.getmembers(muntin.Engine) if not name.startswith("_"))
ERRORS = sorted(
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.MuntinError)
)


def reference(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text()


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_docstring(name):
    value = getattr(muntin, name)
    if not isinstance(value, str):  # __version__
        assert inspect.getdoc(value), f"muntin.{name} has no docstring"


@pytest.mark.parametrize("name", METHODS)
def test_engine_method_is_documented(name):
    assert inspect.getdoc(getattr(muntin.Engine, name)), f"Engine.{name} has no docstring"
    assert re.search(rf"`(\w+\.)?{name}\b", reference("python-api.md")), f"{name} is not in python-api.md"


SIGNATURES = re.findall(
    r"^\| `(?:Engine\.)?(\w+)\((.*?)\)`", reference("python-api.md").split("\n## `muntin.spark`")[0], re.M
)


@pytest.mark.parametrize(("name", "written"), [each for each in SIGNATURES if each[0] in METHODS])
def test_method_can_be_called_as_it_is_written(name, written):
    """The parameters are there, and those that must be named stand behind a `*`."""
    known = inspect.signature(getattr(muntin.Engine, name)).parameters
    before, _, behind = written.partition("*")
    for parameters, named in ((before, False), (behind, True)):
        for parameter in re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", parameters):
            assert parameter in known, f"{name} has no {parameter}"
            assert (known[parameter].kind is inspect.Parameter.KEYWORD_ONLY) == named, f"{name}({written})"


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_in_the_reference(name):
    assert f"`{name}" in reference("python-api.md") + reference("errors.md")


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_in_the_reference(name):
    assert f"`{name}`" in reference("errors.md")


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_aggregate_is_in_the_reference(name):
    word = {"count_distinct": "COUNT(DISTINCT"}.get(name, name.upper())
    assert word in reference("query-language.md")


def test_every_decision_is_in_the_index():
    index = (ROOT / "docs" / "decisions" / "index.md").read_text()
    for page in pages():
        if page.parent.name == "decisions" and page.name != "index.md":
            assert f"({page.name})" in index


def test_changelog_has_a_waiting_slot():
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text()


def test_readme_is_short():
    """Ten minutes: a program embedded and on Spark, what can be asked, when to use something else, where next."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 152


def test_lock_names_no_index_and_no_path():
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert not re.search(r"^-", lock, re.MULTILINE), "pip options do not belong in the lock"
    assert not re.search(r" @ |(^|\s)[./]", lock), "a requirement by path"


@pytest.mark.parametrize("name", sorted({*aggregate_names(), *FUNCTIONS}))
def test_function_is_in_the_reference(name):
    assert re.search(rf"\b{name}\b", reference("query-language.md"))


def test_generated_parts_are_fresh():
    made = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert made.returncode == 0, f"{made.stdout}{made.stderr}\nrun `make docs`"
