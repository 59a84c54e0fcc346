"""Removal: an archive goes from disk, whole or damaged, and nothing that is not its own goes with it."""

from __future__ import annotations

import shutil
from pathlib import Path

from muntin.archive import lock
from muntin.archive.directory import NAME
from muntin.archive.disk import SUFFIX
from muntin.archive.lease import READERS
from muntin.errors import ArchiveError

_WAITING = "waiting"  # results that Spark keeps beside the segments until their instant has come


def remove_archive(folder: Path) -> None:
    """Remove the archive in a folder that nobody writes, and the folder."""
    check_removal(folder)
    held = lock.WriterLock(folder)
    try:
        remove_files(folder)
    finally:
        held.close()


def check_removal(folder: Path) -> None:
    """Raise an error if a folder is no archive's, or holds anything else besides."""
    if folder.is_symlink() or not (folder / NAME).is_file():
        raise ArchiveError(f"'{folder}' is not the folder of an archive; nothing was removed")
    for path in sorted(folder.iterdir()):
        is_folder = path.is_dir() and not path.is_symlink()
        if path.name not in (READERS, _WAITING) if is_folder else not _is_own(path):
            raise ArchiveError(f"'{path}' is no part of the archive; move it elsewhere. Nothing was removed")


def remove_files(folder: Path) -> None:
    """Remove what `check_removal` has let pass, by the one who holds the lock.

    The directory goes first: without it there is no archive, whatever of it is left.
    """
    try:
        (folder / NAME).unlink()
        for path in sorted(folder.iterdir()):
            if path.name != lock.NAME:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (folder / lock.NAME).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        raise ArchiveError(
            f"'{error.filename or folder}' cannot be removed: {error.strerror or error}; "
            f"{'the archive is as it was' if (folder / NAME).exists() else 'the rest of the archive is gone'}"
        ) from error


def _is_own(path: Path) -> bool:
    return path.name in (NAME, lock.NAME) or path.suffix in (SUFFIX, ".tmp")
