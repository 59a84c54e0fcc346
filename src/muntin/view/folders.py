"""Folders: where an engine reads and writes files whose names come from statements or calls; and its shelf of views."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from muntin.archive import View
from muntin.archive.epoch import NAME as DIRECTORY
from muntin.archive.lock import remove_archive
from muntin.errors import MuntinError, damaged
from muntin.view.materialized_view import FAILURES, known_of
from muntin.view_select import KnownView


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


# Folder names: a folder for the name of each view, whatever the name is, and the name back.
#
# Folder names are made of lower-case letters, digits, `_`, `-` and `%`, so that no name leads elsewhere,
# two names never meet in one folder, not even where disks take upper for lower case, and any disk takes
# them.

_PLAIN = re.compile(r"[a-z0-9_-]")
_LONGEST = 200  # characters: disks take 255 bytes
_DEVICES = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")  # which some systems keep for themselves
_EMPTY, _CUT = "%", "%%"  # no other name is encoded so


def folder_name(view: str) -> str:
    """The name of a view's folder.

    >>> folder_name("by_symbol"), folder_name("Sales 2"), folder_name(".."), folder_name("")
    ('by_symbol', '%53ales%202', '%2E%2E', '%')
    """
    encoded = "".join(each if _PLAIN.match(each) else _escaped(each) for each in view)
    if _DEVICES.fullmatch(encoded):
        encoded = _escaped(encoded[0]) + encoded[1:]
    if len(encoded) > _LONGEST:
        digest = hashlib.sha256(view.encode(errors="surrogatepass")).hexdigest()
        encoded = f"{encoded[: _LONGEST // 2]}{_CUT}{digest}"
    return encoded or _EMPTY


def view_name(folder: str) -> str:
    """The name of the view in a folder of that name; the folder's own, if the view's was too long to be in it.

    >>> view_name("%2E%2E"), view_name("%")
    ('..', '')
    """
    if folder == _EMPTY:
        return ""
    return folder if _CUT in folder else unquote(folder, errors="replace")


def folder_of(archive: Path, view: str) -> Path:
    """The folder of a view in an archive: the one that version 0.1 made, if that is there, which had capitals and
    dots as they are."""
    made, old = folder_name(view), quote(view, safe="", errors="surrogatepass")
    if old not in ("", ".", "..", made) and archive.is_dir() and old in os.listdir(archive):
        return archive / old
    return archive / made


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))


class StoredView(NamedTuple):
    """A view on disk; of one that is damaged, or was not opened, only what is known."""

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

    def views(self, kept: Mapping[Path, StoredView] = MappingProxyType({})) -> dict[str, StoredView]:
        """All views by name. One that is damaged is there too, and harms no other. To open a view is to open all of
        its files: those of the folders in `kept` are taken as they are given."""
        found: dict[str, StoredView] = {}
        if self.folder is None or not self.folder.is_dir():
            return found
        for path in sorted(self.folder.iterdir()):
            if (path / DIRECTORY).exists():
                stored = kept[path] if path in kept else self._open(path)
                if stored.known.name not in found or path == self.folder_of(stored.known.name):
                    found[stored.known.name] = stored
        return found

    def remove(self, name: str) -> None:
        """Remove a view that nobody writes."""
        remove_archive(self.views()[name].folder)

    def _open(self, folder: Path) -> StoredView:
        try:
            self._allowed.require(folder, "view")  # its folder may be a link
            view = View.open(folder)
            return StoredView(folder, view, known_of(view))
        except FAILURES as error:
            damage = str(error)
        except (LookupError, TypeError, ValueError) as error:
            damage = f"the directory in '{folder}' describes no view ({type(error).__name__}: {error})"
        return StoredView(folder, None, KnownView.damaged(view_name(folder.name), damage))
