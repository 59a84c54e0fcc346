"""Equivalents: mutants that answer as the code does, each with the reason; they are left out of samples.

A mutant is known by its file and its line before and after, so that it is found again when lines move.
"""

from __future__ import annotations

from mutants.project import PROJECT
from mutants.results import Entry

_LIST = PROJECT / "mutants" / "equivalents.txt"


def equivalents() -> set[Entry]:
    """All that are known. An entry is four lines: file, `-` line before, `+` line after, `#` reason."""
    lines = [line for line in _LIST.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {
        (path, before.removeprefix("- "), after.removeprefix("+ "))
        for path, before, after, _ in zip(*[iter(lines)] * 4, strict=True)
    }
