"""What tests have in common: how many examples they take, and how to make what they try small and quick.

Hypothesis takes the same examples on every run, unless MUNTIN_THOROUGH asks for more of them (effort.py):
MUNTIN_THOROUGH=30 pytest tests/test_machine.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from effort import THOROUGH, some_of
from muntin.archive import disk
from muntin.sketch import geometry

_ONE_COMPILER = "-XX:TieredStopAtLevel=1"  # of Java's two
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=some_of(100, 60),
    database=None,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "further", deadline=None, max_examples=100 * max(1, THOROUGH), suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile("further" if THOROUGH > 1 else "ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that need a session of Spark come first: several processes that share the tests begin in different places
    and take from each other only in the end, so that one of them starts a session, and the others need not."""
    with_session = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in with_session)


@pytest.fixture(scope="module")
def no_flushing() -> Iterator[None]:
    """Archives in tests need not survive a loss of power: flushing is what would take the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk.os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def small_blocks() -> Iterator[None]:
    """Some hundred events are then more than a sketch keeps as they are, and short streams have many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "SMALLEST_BASE", 1)
        patch.setattr(geometry, "SMALLEST_UNIT", 1)
        yield


@pytest.fixture
def quick_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts have a Spark like that of `spark`: Java's second compiler, and a page that nobody
    looks at, take more than they give in a minute."""
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        f"--driver-java-options {_ONE_COMPILER} --conf spark.ui.enabled=false pyspark-shell",
    )


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests of a process."""
    pytest.importorskip("pyspark")
    import muntin.spark

    settings = {
        # a session lives for minutes: what Java's second compiler takes is not won back
        "spark.driver.extraJavaOptions": _ONE_COMPILER,
        # workers are forked with muntin imported: some hundred of them start
        "spark.python.daemon.module": "daemon_with_muntin",
    }
    daemon = str(Path(__file__).parent / "spark" / "daemon")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", daemon, prepend=os.pathsep)  # Java hands it on
        # a second attempt, no third: in tests where tasks fail, each attempt takes its workers with it
        session = muntin.spark.local_session(memory="1g", master="local[2,2]", settings=settings)
    yield session
    session.stop()
