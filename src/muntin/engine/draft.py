"""Drafts of a file: written beside it under a name of their own, and put in its place when they are whole.

    state                       the file
    state.1234-5f0c91ab.tmp     a draft, locked by whoever writes it

A draft that nobody holds the lock of was left by a process that is gone. It is removed by whoever next writes or reads
the file. Drafts of version 0.1.0 (`state.1234.tmp`) have no lock; they go when their process is gone.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_LONGEST_NAME = 255  # bytes that file systems take


@contextmanager
def drafted(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which is at `path` when the block is left; if it fails, nothing has changed."""
    remove_abandoned(path)
    draft, file = _open(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(draft, path)  # while it is locked: nobody takes it for abandoned
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_abandoned(path: Path) -> None:
    """Remove drafts of a file that nobody writes any more; what cannot be removed stays."""
    own = re.compile(rf"{re.escape(_stem(path))}\.(\d+)(-[0-9a-f]+)?\.tmp")
    with suppress(OSError):
        for each in path.parent.iterdir():
            if found := own.fullmatch(each.name):
                with suppress(OSError):
                    _remove_if_abandoned(each, None if found[2] else int(found[1]))


def _remove_if_abandoned(draft: Path, owner: int | None) -> None:
    if draft.is_symlink() or not draft.is_file():
        return
    if owner is not None and Path(f"/proc/{owner}").exists():
        return
    with open(draft, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error if it is being written
        draft.unlink()


def _open(path: Path) -> tuple[Path, IO[bytes]]:
    """A new draft, locked."""
    while True:
        draft = path.with_name(f"{_stem(path)}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = open(draft, "xb")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: drafts are told apart by their names
            return draft, file
        if draft.exists():  # else it was taken for abandoned before it was locked
            return draft, file
        file.close()


def _stem(path: Path) -> str:
    """What the names of drafts begin with: that of the file, cut where it leaves no room for more."""
    return os.fsdecode(os.fsencode(path.name)[: _LONGEST_NAME - 32])


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
