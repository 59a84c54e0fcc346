"""Mapped files: in memory as far as they are used.

Arrow maps files too, but has the system read at once all that is mapped, and systems read megabytes around what is
touched: to open an archive would read most of it, however much larger than memory it is.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
import weakref
from pathlib import Path

import pyarrow as pa

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
