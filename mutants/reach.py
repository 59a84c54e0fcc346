"""Reach: which tests run a line of the sources, and how long each of them takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import numpy as np

from mutants.probes import Block


class Reach:
    """The blocks that each test runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}  # by test
        self._tests_of: dict[Block, set[str]] = defaultdict(set)
        self._blocks_of: dict[str, set[Block]] = defaultdict(set)  # by path, all there are

    def add(self, record: Path, files: Collection[str]) -> None:
        """Add what a recorder wrote of the tests in some files."""
        with np.load(record) as kept:
            paths, lines = kept["paths"].tolist(), kept["lines"].tolist()
            blocks = [Block(path, *each) for path, each in zip(paths, lines, strict=True)]
            ends = np.cumsum(kept["counts"])[:-1]
            for test, seconds, reached in zip(
                kept["tests"].tolist(), kept["seconds"].tolist(), np.split(kept["reached"], ends), strict=True
            ):
                if test.partition("::")[0] in files:
                    self.seconds[test] = seconds
                    for number in reached.tolist():
                        self._tests_of[blocks[number]].add(test)
        for block in blocks:
            self._blocks_of[block.path].add(block)

    def tests_of(self, path: str, line: int) -> set[str]:
        """The tests that run the innermost block around a line."""
        around = [block for block in self._blocks_of[path] if block.first <= line <= block.last]
        if not around:
            return set()
        return self._tests_of[min(around, key=lambda block: block.last - block.first)]

    def ordered(self, tests: set[str], path: str, most_seconds: float) -> list[str]:
        """Those worth running: the quickest and the nearest first, as far as the time allows.

        Tests of one file come together, so that fixtures of the file are made once; but only some of each file
        come first, so that no file is waited for.
        """
        ranked = sorted(tests, key=lambda test: self.seconds[test] * distance(test, path))
        chosen, total = [], 0.0
        for test in ranked:
            total += self.seconds[test]
            if total > most_seconds and chosen:
                break
            chosen.append(test)
        rank: dict[str, int] = {}
        rounds: dict[str, int] = defaultdict(int)
        places = {}
        for test in chosen:
            file = test.partition("::")[0]
            rank.setdefault(file, len(rank))
            places[test] = (rounds[file] // _AT_ONCE, rank[file])
            rounds[file] += 1
        return sorted(chosen, key=lambda test: places[test])


_AT_ONCE = 8  # tests of one file that come together


def distance(test: str, path: str) -> float:
    """How far a test is from a source: by names, the only thing known of their meaning.

    >>> distance("tests/plan/test_choices.py::test_x", "src/muntin/plan/choices.py")
    0.1
    >>> distance("tests/plan/test_adapt.py::test_x", "src/muntin/plan/choices.py")
    0.4
    >>> distance("tests/test_cases.py::test_x", "src/muntin/plan/choices.py")
    1.0
    """
    file = test.partition("::")[0]
    stem, folder = path.rpartition("/")[2].removesuffix(".py"), path.split("/")[2]
    if file == path or file.rpartition("/")[2] in (f"test_{stem}.py", f"test_{stem}s.py"):
        return 0.1
    return 0.4 if f"/{folder}/" in file else 1.0
