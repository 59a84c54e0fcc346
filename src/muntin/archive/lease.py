"""Lease: an epoch that stays on disk for those who open its segments later, by name, while updates go on.

    readers/NAME/        links to the segments of the epoch
    readers/NAME.lock    locked by the process that took the lease, until it ends, however it does

Writers need not know: they remove their own names of segments, and the links remain. What is left of a process
that is gone goes when the archive is next leased, or opened to write.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO

from muntin.archive.directory import read_epoch
from muntin.archive.disk import remove
from muntin.archive.epoch import Epoch
from muntin.errors import ArchiveError

READERS = "readers"
_ATTEMPTS = 100  # to link an epoch while updates remove its segments


class Lease:
    """Keeps an epoch until it is released, or nobody refers to it, or the process ends.

    It costs a link a segment, and the space of those that updates have replaced meanwhile.
    """

    def __init__(self, folder: Path, epoch: Epoch, lock: IO[bytes]):
        self.folder = folder  # where its segments are, under their names
        self.epoch = epoch
        self._release = weakref.finalize(self, _end, folder, lock, os.getpid())

    @classmethod
    def take(cls, archive: str | Path) -> Lease:
        """Of the epoch published last in a folder, which must be one that this process may write to."""
        archive = Path(archive)
        read_epoch(archive)  # says what is missing
        remove_abandoned(archive)
        try:
            folder, lock = _make(archive / READERS)
            try:
                return cls(folder, _link(archive, folder), lock)
            except BaseException:
                _remove(folder, lock)
                raise
        except OSError as error:
            raise ArchiveError(f"'{archive}' cannot be leased: {error.strerror or error}") from error

    def release(self) -> None:
        """Let its segments go."""
        self._release()


def remove_abandoned(archive: Path) -> None:
    """Remove leases whose process has ended."""
    for path in (archive / READERS).glob("*.lock"):
        with suppress(OSError), open(path, "rb") as lock:  # gone meanwhile, or held
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path.with_suffix(""), lock)


def _make(readers: Path) -> tuple[Path, IO[bytes]]:
    """A name for a lease, and its lock, which is held."""
    readers.mkdir(exist_ok=True)
    while True:
        folder = readers / uuid.uuid4().hex
        lock = open(folder.with_suffix(".lock"), "xb")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.with_suffix(".lock").exists():  # else it was taken for abandoned before it was locked
            return folder, lock
        lock.close()


def _link(archive: Path, folder: Path) -> Epoch:
    """Link the segments of the epoch published last."""
    for _ in range(_ATTEMPTS):
        epoch = read_epoch(archive)
        folder.mkdir()
        try:
            for name in epoch.files():
                os.link(archive / name, folder / name)
            return epoch
        except FileNotFoundError:  # an update came between
            shutil.rmtree(folder)
    raise ArchiveError(f"archive '{archive}' changes faster than it can be leased")


def _end(folder: Path, lock: IO[bytes], owner: int) -> None:
    """End a lease, unless this is a fork of the process that took it."""
    if os.getpid() == owner:
        _remove(folder, lock)


def _remove(folder: Path, lock: IO[bytes]) -> None:
    """Links first: what has no lock any more must not be there."""
    shutil.rmtree(folder, ignore_errors=True)
    remove(folder.with_suffix(".lock"))
    lock.close()
