"""The project: its folders, its sources and its files of tests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
SCRATCH = PROJECT / ".mutants"  # what is kept between runs; git ignores it


def relative(file: str | Path) -> str:
    """A file's path from the folder of the project on."""
    return Path(file).resolve().relative_to(PROJECT).as_posix()


def sources() -> list[str]:
    """The files that are mutated."""
    return sorted(relative(file) for file in (PROJECT / "src").rglob("*.py"))


def test_files() -> list[str]:
    """The files with tests of the sources; a source has some if there are examples in it."""
    tests = sorted(relative(file) for file in (PROJECT / "tests").rglob("test_*.py"))
    about_others = ("tests/benchmarks/", "tests/docs/", "tests/mutants/")
    return [path for path in tests if not path.startswith(about_others)] + [
        path for path in sources() if ">>>" in read(path)
    ]


def read(path: str) -> str:
    """The text of a file of the project."""
    return (PROJECT / path).read_text(encoding="utf-8")


def digest(paths: Iterable[str]) -> str:
    """A text that differs if one of the files does."""
    made = hashlib.sha256()
    for path in paths:
        made.update(f"{path}\0{read(path)}\0".encode())
    return made.hexdigest()[:16]
