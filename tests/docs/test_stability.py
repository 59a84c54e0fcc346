"""Every public name has a mark, every mark has a name; what is deprecated works and says what to use."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import muntin
from muntin.sql.vocabulary import aggregate_names
from muntin.testing import TradeStream
from tests.docs.markdown import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import matrix
import stability

sys.path.insert(0, str(ROOT / "tests" / "compatibility"))
from names import public_names

PAGE = (ROOT / "docs" / "reference" / "stability.md").read_text()


def marked(marks: stability.Marks) -> list[str]:
    return [name for mark in marks._fields for name in marks.of(mark)]


def assert_complete(marks: stability.Marks, names: set[str]) -> None:
    listed = marked(marks)
    assert len(listed) == len(set(listed)), "a name has two marks"
    assert set(listed) == names


@pytest.fixture(scope="module")
def names() -> dict[str, dict[str, list[str]]]:
    return public_names()


@pytest.mark.parametrize(
    "module", ["muntin", "muntin.archive", "muntin.sketch", "muntin.spark", "muntin.testing"]
)
def test_names_of_a_module(module: str, names: dict[str, dict[str, list[str]]]) -> None:
    assert_complete(stability.PYTHON[module], {name for name in names[module] if "." not in name})


def test_methods_of_an_engine() -> None:
    public = {name for name, _ in inspect.getmembers(muntin.Engine) if not name.startswith("_")}
    assert_complete(stability.PYTHON["muntin.Engine"], public)


def test_commands(names: dict[str, dict[str, list[str]]]) -> None:
    """But for the groups of commands, which do nothing by themselves."""
    paths = set(names["command line"])
    assert_complete(
        stability.COMMANDS,
        {path for path in paths if not any(each.startswith(f"{path} ") for each in paths)},
    )


def test_addresses_of_a_server(tmp_path: Path) -> None:
    """All of its OpenAPI description."""
    from muntin.serve.access import Limits, Tokens
    from muntin.serve.http import make_app
    from muntin.serve.service import Service
    from muntin.serve.settings import Settings

    service = Service(tmp_path, TradeStream().create_statement, Settings())
    try:
        paths: dict[str, Any] = make_app(service, Tokens(None), Limits()).openapi()["paths"]
    finally:
        service.stop(is_kept=False)
    assert_complete(
        stability.HTTP, {f"{method.upper()} {path}" for path, of in paths.items() for method in of}
    )


def test_aggregates() -> None:
    assert_complete(stability.AGGREGATES, set(aggregate_names()))


def test_forms_that_are_experimental_exist() -> None:
    forms = {entry.what for entry in (*matrix.QUERIES, *matrix.STATEMENTS, *matrix.VIEWS)}
    assert set(stability.EXPERIMENTAL_FORMS) <= forms


def test_what_is_deprecated_stands_on_the_page() -> None:
    listed = set(
        re.findall(r"^\| [\d.]+ \| `([\w.]+)` \|", PAGE.partition("\n## Deprecated\n")[2], re.MULTILINE)
    )
    deprecated = {
        area if name.startswith("all names") else f"{area}.{name}"
        for area, marks in stability.PYTHON.items()
        for name in marks.of("deprecated")
    }
    assert listed == deprecated


def test_the_old_name_of_sketches_works_and_warns() -> None:
    sys.modules.pop("muntin.synopsis.sketch", None)
    with pytest.warns(DeprecationWarning, match=r"muntin\.sketch") as told:
        old = import_module("muntin.synopsis.sketch")
    assert old.__all__ == importlib.import_module("muntin.sketch").__all__
    assert all(getattr(old, name) is getattr(muntin.sketch, name) for name in old.__all__)
    assert len(told) == 1


@pytest.mark.spark
def test_the_old_name_of_keep_view_works_and_warns() -> None:
    """At the line that calls it: what it does is `keep_view`, as the error of a wrong call shows."""
    from muntin.spark import archive_join, keep_view

    assert inspect.signature(archive_join) == inspect.signature(keep_view)
    with pytest.warns(DeprecationWarning, match="keep_view") as told, pytest.raises(muntin.MuntinError):
        archive_join("SELECT 1", {}, time="ts", archive="/views", checkpoint="/spark")
    assert told[0].filename == __file__
