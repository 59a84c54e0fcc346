"""Folders that muntin reads and writes itself, without Spark's file systems: all processes reach them by one path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from muntin.argument import text_of
from muntin.errors import MuntinError

_OTHER = re.compile(r"file:|[A-Za-z][A-Za-z0-9+.-]+:/")  # s3a://bucket, hdfs:/folder; a drive has one letter


def shared_path(what: str, given: Any) -> Path:
    """The path that an argument is; an error if it names another file system.

    >>> shared_path("history", "s3://past/trades")
    Traceback (most recent call last):
    muntin.errors.MuntinError: history 's3://past/trades' is on a file system that only Spark reads: give...
    """
    path = str(given) if isinstance(given, Path) else text_of(what, given)
    if _OTHER.match(path):
        raise MuntinError(
            f"{what} '{path}' is on a file system that only Spark reads: give the path of a folder that driver and "
            "executors have mounted at the same place"
        )
    return Path(path)
