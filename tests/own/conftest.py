"""The functions of `functions.py` are there for these tests alone: names are those of the whole process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from registry import BOOKS, books_restored

collect_ignore = ["functions.py"]  # to look for doctests would be to import it, for all tests
sys.path.append(str(Path(__file__).parents[1] / "spark"))  # where a case runs without a JVM


@cache
def entries() -> list[dict[str, Any]]:
    with books_restored():
        before = [set(book) for book in BOOKS]
        import tests.own.functions  # noqa: F401

        return [
            {name: book[name] for name in book.keys() - names}
            for book, names in zip(BOOKS, before, strict=True)
        ]


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    with books_restored():
        for book, mine in zip(BOOKS, entries(), strict=True):
            book.update(mine)
        yield
