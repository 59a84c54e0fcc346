"""Folders: where an engine reads and writes files whose names come from statements or calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muntin.errors import MuntinError


class Folders:
    """Allows what is in these folders or below, wherever links lead; everything, if it is given None."""

    def __init__(self, given: Sequence[str | Path] | None = None):
        if given is not None and (isinstance(given, (str, os.PathLike)) or not isinstance(given, Sequence)):
            raise MuntinError(f"folders is a list of folders, such as ['/data'], not {given!r}")
        self._allowed = None if given is None else [_resolved(each, "folders") for each in given]

    def require(self, path: Any, what: str) -> None:
        """Raise an error that names `what` a path is for, unless it lies in one of the folders."""
        if self._allowed is None:
            return
        place = _resolved(path, what)
        if not any(place.is_relative_to(each) for each in self._allowed):
            shown = ", ".join(f"'{each}'" for each in self._allowed) or "none"
            raise MuntinError(f"{what} '{path}' is outside of the folders of this engine: {shown}")


def _resolved(path: Any, what: str) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, TypeError, ValueError) as error:  # a loop of links, or no path at all
        raise MuntinError(f"{what}: {path!r} is no path of a file or folder: {error}") from None
