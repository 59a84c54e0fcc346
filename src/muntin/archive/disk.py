"""Disk: files that are whole or not there.

Everything the archive does to files goes through here, so that tests can make any step fail or be the last.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from muntin.errors import ArchiveError


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to; on disk for good when the block is left, gone if it fails."""
    try:
        with open(path, "wb", buffering=0) as file:
            yield file
            os.fsync(file.fileno())
    except OSError as error:
        remove(path)
        raise cannot_write(path, error) from error
    except BaseException:
        remove(path)
        raise


def cannot_write(path: Path, error: OSError) -> ArchiveError:
    """What is said of a file that the disk does not take."""
    return ArchiveError(f"'{path}' cannot be written: {error.strerror or error}")


def replace(path: Path, content: bytes) -> bool:
    """Put `content` in the place of a file at once: readers see the old or the new one.

    True if that is known to survive a loss of power as well.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with written(temporary) as file:
        write(file, content)
    try:
        os.replace(temporary, path)
    except OSError as error:
        remove(temporary)
        raise ArchiveError(f"'{path}' cannot be replaced: {error.strerror or error}") from error
    return sync_folder(path.parent)


def write(file: BinaryIO, content: object) -> None:
    """Write all of it: a disk that is nearly full takes a part and says so."""
    rest = memoryview(content).cast("B")  # type: ignore[arg-type]
    while rest:
        rest = rest[file.write(rest) :]


def sync_folder(folder: Path) -> bool:
    """Have names in a folder survive a loss of power; False if the disk cannot tell."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file, if it is there and can be removed; what stays is removed at the next opening."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


# Mapped files: in memory as far as they are used.
#
# Arrow maps files too, but has the system read at once all that is mapped, and systems read megabytes
# around what is touched: to open an archive would read most of it, however much larger than memory it is.

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_FAILED = ctypes.c_void_p(-1).value


class MappedFile:
    """A file that stays mapped as long as this or a buffer of it is referred to; it may be removed meanwhile.

    No descriptor stays open: thousands of files can be mapped.
    """

    def __init__(self, path: Path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would never be open
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise ValueError("it is no regular file")
            self.size = about.st_size
            if self.size == 0:
                raise ValueError("it is empty")
            self._address = _libc.mmap(None, self.size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        finally:
            os.close(descriptor)
        if self._address == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(path))
        _libc.madvise(self._address, self.size, mmap.MADV_RANDOM)  # nothing is read that was not asked for
        weakref.finalize(self, _libc.munmap, self._address, self.size).atexit = False

    def slice(self, offset: int, length: int) -> pa.Buffer:
        """A part of it, without a copy."""
        return pa.foreign_buffer(self._address + offset, length, base=self)

    def read_ahead(self, offset: int, length: int) -> None:
        """Have the system read a part that is about to be used, in one piece."""
        begin = offset - offset % mmap.PAGESIZE
        _libc.madvise(self._address + begin, offset + length - begin, mmap.MADV_WILLNEED)


# Drafts: segments that an update writes before anybody refers to them.

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
