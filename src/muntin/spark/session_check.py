"""What a session must be for shared windows to run in it, checked before anything runs: later it fails deep in Java."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from muntin.errors import MuntinError
from muntin.spark.session import PROVIDER, STATE_SETTINGS

_SET_PYTHON = (
    "set PYSPARK_PYTHON (or spark.pyspark.python) to a Python that has muntin {version} wherever tasks run, before the "
    "session starts"
)
_checked: WeakSet[SparkSession] = WeakSet()  # sessions whose workers are known to be right


def check_session(session: SparkSession, is_streaming: bool) -> None:
    """Raise an error that names the setting to change, if a session cannot run shared windows."""
    if is_streaming:
        _check_state_store(session)
    if session not in _checked:
        _check_workers(session)
        _checked.add(session)


def _check_state_store(session: SparkSession) -> None:
    found = str(session.conf.get(PROVIDER))
    if not found.endswith("RocksDBStateStoreProvider"):
        raise MuntinError(
            f"a stream of shared windows keeps its state in RocksDB, but {PROVIDER} is {found}: "
            f"set it to {STATE_SETTINGS[PROVIDER]}"
        )


def _check_workers(session: SparkSession) -> None:
    """Ask one worker which muntin it has. Anything else that is wrong there, the job itself will tell."""
    own = str(sys.modules["muntin"].__version__)
    advice = _SET_PYTHON.format(version=own)
    try:
        (row,) = (
            session.range(1, numPartitions=1).mapInArrow(_asking(), "python STRING, found STRING").collect()
        )
    except PySparkException as error:
        if "PYTHON_VERSION_MISMATCH" in str(error):
            raise MuntinError(f"tasks run another version of Python than this process: {advice}") from error
        return
    if row["found"] != own:
        found = f"has muntin {row['found']}, not {own}" if row["found"] else "has no muntin"
        raise MuntinError(f"the Python of tasks, '{row['python']}', {found}: {advice}")


def _asking() -> Any:
    # a function made here travels by value: where there is no muntin, none of its modules can be named
    def ask(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib
        import sys

        import pyarrow

        try:
            found = importlib.import_module("muntin").__version__
        except ImportError:
            found = None
        told = [pyarrow.array([each], pyarrow.string()) for each in (sys.executable, found)]
        yield from (
            pyarrow.RecordBatch.from_arrays(told, names=["python", "found"])
            for each in batches
            if each.num_rows
        )

    return ask
