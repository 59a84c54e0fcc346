"""The page of what became of each figure, table and theorem has them all, and names tests and files that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "reproduce" / "status.md"
# What is numbered in each paper, as printed; a proof that repeats its theorem in an appendix counts once.
NUMBERED = {
    "Arasu & Widom": {
        "Figure": [str(n) for n in range(1, 13)],
        "Theorem": ["3.1", "3.2", "3.3", "3.4", "4.1"],
        "Lemma": ["4.1"],
        "Definition": ["3.1", "3.2", "4.1"],
    },
    "Arasu & Manku": {
        "Figure": ["1", "2"],
        "Table": ["1"],
        "Theorem": [str(n) for n in range(1, 9)],
        "Lemma": [str(n) for n in range(1, 6)],
    },
    "Golab, Prahladka & Özsu": {
        "Figure": [str(n) for n in range(1, 18)],
        "Table": ["1", "2"],
        "Theorem": ["1"],
        "Algorithm": ["1", "2", "3", "4"],
    },
    "Patroumpas & Sellis": {
        "Figure": [str(n) for n in range(1, 13)],
        "Definition": ["1"],
        "Algorithm": ["1"],
    },
}
STATUSES = ("measured", "tested", "built", "drawing", "open")


def rows(paper: str) -> list[list[str]]:
    section = PAGE.read_text().split(f"\n## {paper}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in cells if row[0].strip() != "item"]


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_numbered_item_has_one_row(paper):
    """No more and no fewer."""
    wanted = sorted(f"{kind} {number}" for kind, numbers in NUMBERED[paper].items() for number in numbers)
    assert sorted(row[0] for row in rows(paper)) == wanted


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_row_says_what_became_of_it(paper):
    """By one of five words, and where; what is open says what is missing."""
    for item, what, status, where in rows(paper):
        assert what, item
        assert status.startswith(STATUSES), item
        assert where or status.startswith("open"), item
        assert "open" not in status or re.search(r"\bopen: \w", status), f"{item}: what is missing?"


@pytest.mark.parametrize("paper", NUMBERED)
def test_what_is_measured_is_on_a_page(paper):
    """The row links to it."""
    for item, _, status, where in rows(paper):
        assert "measured" not in status or re.search(r"\[[^]]*\]\([a-z-]+\.md#", where), item


def test_tests_and_files_that_are_named_exist():
    """`path::name` is a function of that file."""
    named = re.findall(r"`((?:src|tests)/[\w./]+)(?:::(\w+))?`", PAGE.read_text())
    assert len(named) > 50
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert not name or re.search(rf"^\s*def {name}\(", (ROOT / path).read_text(), re.MULTILINE), (
            f"{path}::{name}"
        )
