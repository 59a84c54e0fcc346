"""What muntin finds of all that it uses, for `muntin doctor`."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

_NEEDED = ("muntin", "numba", "numpy", "pyarrow", "sqlglot")
_FOR_SPARK = ("pyspark", "pandas", "protobuf")
_FOR_SERVING = ("fastapi", "uvicorn", "httptools", "uvloop", "confluent-kafka")
_FOR_DELTA = ("deltalake",)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    what: str
    found: str
    is_missing: bool = False

    def __str__(self) -> str:
        return f"{'missing' if self.is_missing else 'ok':8} {self.what:16} {self.found}"


def examine() -> list[Finding]:
    """Everything muntin uses, found or not. Of what is optional, nothing is asked to be there."""
    return [*_python(), *_serving(), *_spark()]


def _python() -> Iterator[Finding]:
    from muntin.kernels.jit import CACHE

    yield Finding("Python", platform.python_version())
    for name in _NEEDED:
        yield _package(name, "reinstall muntin")
    yield Finding(
        "kernel cache", str(CACHE) if CACHE else "no writable directory: compiled anew in every process"
    )


def _serving() -> Iterator[Finding]:
    for name in _FOR_SERVING:
        yield _package(name, "needed for muntin serve only: pip install 'muntin[serve]'")


def _spark() -> Iterator[Finding]:
    for name in _FOR_SPARK:
        yield _package(name, "needed for Spark only: pip install 'muntin[spark]'")
    for name in _FOR_DELTA:
        yield _package(name, "needed for Delta tables on Spark only: pip install 'muntin[delta]'")
    if find_spec("pyspark") is None:
        return
    from muntin.errors import MuntinError
    from muntin.spark.java import find_java

    try:
        java = find_java()
    except MuntinError as error:
        yield Finding("Java", str(error), is_missing=True)
    else:
        yield Finding("Java", f"{java.version}, by {java.found}: {java.home}")


def _package(name: str, remedy: str) -> Finding:
    try:
        return Finding(name, version(name))
    except PackageNotFoundError:
        return Finding(name, remedy, is_missing=True)
