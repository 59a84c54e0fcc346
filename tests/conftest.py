"""What tests have in common: how many examples they take, and how to make what they try small and quick.

Hypothesis takes the same examples on every run, unless MUNTIN_THOROUGH asks for more of them (effort.py):
MUNTIN_THOROUGH=30 pytest tests/test_machine.py
"""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from effort import THOROUGH, some_of
from muntin.sketch import geometry

_DAEMON = Path(__file__).parent / "spark" / "daemon"
# A session of the tests lives for minutes and sees few rows: what Spark prepares for large ones is not won back.
_QUICK_JAVA = {
    # the first of Java's two compilers, classes as they are, no threads that collect garbage beside the program, and
    # room from the start, so that there is little to collect
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote -XX:+UseSerialGC -Xms1g -Xmn512m -XX:MetaspaceSize=256m",
    "spark.ui.enabled": "false",
}
_FOR_FEW_ROWS = _QUICK_JAVA | {
    # plans are interpreted: to write and compile Java for each of them costs more than it saves
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",  # a job for each stage of a query, to see how large it becomes
}
# workers are forked with muntin imported: some hundred of them start
_FORKED_WORKERS = {"spark.python.daemon.module": "daemon_with_muntin"}
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=some_of(100, 40),
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


@pytest.fixture(scope="session", autouse=True)
def no_flushing() -> Iterator[None]:
    """What tests write need not survive a loss of power, which none of them can bring about: a checkpoint, an archive
    or a log waits for the disk several times, and tests write thousands of them. A process that is killed loses nothing
    by that. Tests of the flushing itself put their own functions here, and child processes do flush."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
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
    """Processes that a test starts have the Java of `spark`, and plans and workers as everyone's Spark."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", _submit_arguments(_QUICK_JAVA))


@pytest.fixture
def quick_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts have a Spark set up as that of `spark`."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", _submit_arguments(_FOR_FEW_ROWS | _FORKED_WORKERS))
    monkeypatch.setenv("PYTHONPATH", str(_DAEMON), prepend=os.pathsep)


def _submit_arguments(settings: dict[str, str]) -> str:
    told = (f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    return " ".join([*told, "pyspark-shell"])


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests of a process."""
    pytest.importorskip("pyspark")
    import muntin.spark

    settings = _FOR_FEW_ROWS | _FORKED_WORKERS | _connect_server()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(_DAEMON), prepend=os.pathsep)  # Java hands it on
        # a second attempt, no third: in tests where tasks fail, each attempt takes its workers with it
        session = muntin.spark.local_session(memory="1g", master="local[2,2]", settings=settings)
    _write_no_checksums(session)
    yield session
    session.stop()


def _write_no_checksums(session: Any) -> None:
    """Beside each file that it writes Java has another one with its checksums, and starts a process for each of both
    to set its permissions: hundreds for a short stream."""
    local = session._jvm.org.apache.hadoop.fs.FileSystem.getLocal(session._jsc.hadoopConfiguration())
    local.setWriteChecksum(False)


def _connect_server() -> dict[str, str]:
    """Settings of a session that clients of Spark Connect can use, too: a server of their own would be one more JVM."""
    if importlib.util.find_spec("grpc") is None:
        return {}
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "localhost",
        "spark.connect.grpc.binding.port": "0",  # whichever is free when it starts
    }
