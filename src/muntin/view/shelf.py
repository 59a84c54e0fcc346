"""Shelf: the folder in which an engine's views stand on disk, each in a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from muntin.archive import View
from muntin.archive.directory import NAME as DIRECTORY
from muntin.archive.removal import remove_archive
from muntin.errors import damaged
from muntin.view.folders import Folders, folder_of, view_name
from muntin.view.materialized_view import FAILURES, known_of
from muntin.view_query import KnownView


class Stored(NamedTuple):
    """A view on disk; of one that is damaged, only that."""

    folder: Path
    view: View | None
    known: KnownView


class Shelf:
    """What is in the folder, whoever writes it; each question looks anew. Without a folder there is nothing."""

    def __init__(self, folder: str | Path | None, allowed: Folders):
        if folder is not None:
            allowed.require(folder, "archive")
        self.folder = None if folder is None else Path(folder)
        self._allowed = allowed

    def folder_of(self, name: str) -> Path:
        """Where a view of that name stands, or would."""
        assert self.folder is not None
        return folder_of(self.folder, name)

    def refuse_damaged(self, name: str) -> None:
        """Raise an error if a view is there and cannot be read."""
        if (self.folder_of(name) / DIRECTORY).exists():
            known = self._open(self.folder_of(name)).known
            if known.damage is not None:
                raise damaged(name, known.damage)

    def views(self) -> dict[str, Stored]:
        """All views by name. One that is damaged is there too, and harms no other."""
        found: dict[str, Stored] = {}
        if self.folder is None or not self.folder.is_dir():
            return found
        for path in sorted(self.folder.iterdir()):
            if (path / DIRECTORY).exists():
                stored = self._open(path)
                if stored.known.name not in found or path == self.folder_of(stored.known.name):
                    found[stored.known.name] = stored
        return found

    def remove(self, name: str) -> None:
        """Remove a view that nobody writes."""
        remove_archive(self.views()[name].folder)

    def _open(self, folder: Path) -> Stored:
        try:
            self._allowed.require(folder, "view")  # its folder may be a link
            view = View.open(folder)
            return Stored(folder, view, known_of(view))
        except FAILURES as error:
            damage = str(error)
        except (LookupError, TypeError, ValueError) as error:
            damage = f"the directory in '{folder}' describes no view ({type(error).__name__}: {error})"
        return Stored(folder, None, KnownView.damaged(view_name(folder.name), damage))
