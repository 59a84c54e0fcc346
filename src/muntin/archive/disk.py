"""Disk: files that are whole or not there.

Everything the archive does to files goes through here, so that tests can make any step fail or be the last.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

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
