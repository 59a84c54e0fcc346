"""Folders that muntin reads and writes itself, without Spark's file systems: all processes reach them by one path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muntin.argument import text_of
from muntin.errors import MuntinError


def shared_path(what: str, given: Any) -> Path:
    """The path that an argument is; an error if it names another file system.

    >>> shared_path("history", "s3://past/trades")
    Traceback (most recent call last):
    muntin.errors.MuntinError: history 's3://past/trades' is on a file system that only Spark reads: give...
    """
    path = str(given) if isinstance(given, Path) else text_of(what, given)
    if "://" in path or path.startswith("file:"):
        raise MuntinError(
            f"{what} '{path}' is on a file system that only Spark reads: give the path of a folder that driver and "
            "executors have mounted at the same place"
        )
    return Path(path)
