"""Drafts: segments that an update writes before anybody refers to them."""

from __future__ import annotations

import itertools
from pathlib import Path

from muntin.archive.disk import remove

SUFFIX = ".arrow"


class Drafts:
    """Names new segments, from any thread, and can take all of them back."""

    def __init__(self, folder: Path, update: int, whose: str = ""):
        self._folder, self._begin = folder, f"{update:010d}-{whose}"
        self._numbers = itertools.count()  # handed out one at a time, also to threads
        self._made: list[Path] = []

    def path(self) -> Path:
        """A file that is not there yet."""
        path = self._folder / f"{self._begin}{next(self._numbers):04d}{SUFFIX}"
        while path.exists():  # to write over a segment would pull it from under those who have it mapped
            path = self._folder / f"{self._begin}{next(self._numbers):04d}{SUFFIX}"
        self._made.append(path)
        return path

    def discard(self) -> None:
        """Remove what has been written."""
        for path in self._made:
            remove(path)
