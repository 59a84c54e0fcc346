"""Locks and leases: who may write an archive, or remove it; and epochs that stay on disk for readers.

The system lets go of a lock when the process ends, however it does.

An archive goes from disk whole or damaged, and nothing that is not its own goes with it.

A *lease* is an epoch that stays for those who open its segments later, by name, while updates go on.

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

from muntin.archive.disk import SUFFIX, remove
from muntin.archive.epoch import NAME, Epoch, read_epoch
from muntin.errors import ArchiveError

LOCK = "lock"


class WriterLock:
    """The lock of an archive's folder, held from now on until it is closed; an error if another writer holds it.

    A fork of the process that took the lock does not hold it, and neither does anybody once the folder is gone or
    is another one.
    """

    def __init__(self, folder: Path):
        self._folder, self._owner = folder, os.getpid()
        while True:
            try:
                self._file = open(folder / LOCK, "ab")  # noqa: SIM115
            except OSError as error:
                raise ArchiveError(
                    f"archive '{folder}' cannot be locked: {error.strerror or error}"
                ) from None
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._file.close()
                raise ArchiveError(
                    f"archive '{folder}' is being written by another process; open a View to read it"
                ) from None
            if self._is_there():
                return
            self._file.close()  # it was removed between the two steps

    @property
    def is_closed(self) -> bool:
        """Whether it has been let go of."""
        return self._file.closed

    def require(self) -> None:
        """Raise an error unless this process may write."""
        if self.is_closed:
            raise ArchiveError(f"archive '{self._folder}' is closed: open it again to write")
        if os.getpid() != self._owner:
            raise ArchiveError(
                f"archive '{self._folder}' was opened by another process, of which this one is a fork; only that "
                "one may write"
            )
        if not self._is_there():
            raise ArchiveError(
                f"archive '{self._folder}' has been removed or replaced since it was opened to write"
            )

    def close(self) -> None:
        """Let another process write."""
        self._file.close()

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._folder / LOCK))
        except OSError:
            return False


WAITING = "waiting"  # results that Spark keeps beside the segments until their instant has come
STATE = "state"  # what Spark keeps of a view's inputs


def remove_archive(folder: Path) -> None:
    """Remove the archive in a folder that nobody writes, and the folder."""
    check_removal(folder)
    held = WriterLock(folder)
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
        if path.name not in (READERS, WAITING, STATE) if is_folder else not _is_own(path):
            raise ArchiveError(f"'{path}' is no part of the archive; move it elsewhere. Nothing was removed")


def remove_files(folder: Path) -> None:
    """Remove what `check_removal` has let pass, by the one who holds the lock.

    The directory goes first: without it there is no archive, whatever of it is left.
    """
    try:
        (folder / NAME).unlink()
        for path in sorted(folder.iterdir()):
            if path.name != LOCK:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        raise ArchiveError(
            f"'{error.filename or folder}' cannot be removed: {error.strerror or error}; "
            f"{'the archive is as it was' if (folder / NAME).exists() else 'the rest of the archive is gone'}"
        ) from error


def _is_own(path: Path) -> bool:
    return path.name in (NAME, LOCK) or path.suffix in (SUFFIX, ".tmp")


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
