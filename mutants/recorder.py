"""A plugin of pytest that notes which blocks each test runs, and how long the test takes.

    python -m pytest -p mutants.recorder --reach FILE

A test that fails is left out: it could not tell a mutant from the code as it is. What the process remembers of queries
is forgotten before each test, so that the blocks of a test do not depend on the tests before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutants.memory import Memory
from mutants.probes import BLOCKS, HITS, install


def pytest_load_initial_conftests() -> None:
    """Before anything of muntin is imported."""
    install()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reach", metavar="FILE", help="where to write what each test reaches")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Recorder(Path(config.getoption("--reach"))))


class _Recorder:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._tests: list[str] = []
        self._seconds: list[float] = []
        self._hits: list[Any] = []
        self._failed: set[str] = set()
        self._memory: Memory | None = None

    def pytest_collection_finish(self) -> None:
        self._memory = Memory()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self._memory is not None:
            self._memory.forget()
        HITS[:] = bytes(len(HITS))
        start = time.process_time()
        result: Any = yield
        if item.nodeid not in self._failed:
            self._tests.append(item.nodeid)
            self._seconds.append(time.process_time() - start)
            self._hits.append(np.flatnonzero(np.frombuffer(HITS, np.uint8)).astype(np.uint16))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        np.savez_compressed(
            self._file,
            tests=np.array(self._tests, str),
            seconds=np.array(self._seconds),
            reached=np.concatenate(self._hits) if self._hits else np.zeros(0, np.uint16),
            counts=np.array([len(hits) for hits in self._hits], np.int64),
            paths=np.array([block.path for block in BLOCKS], str),
            lines=np.array([(block.first, block.last) for block in BLOCKS], np.int64).reshape(-1, 2),
        )
