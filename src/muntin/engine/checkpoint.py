"""Checkpoints: a snapshot on disk, in one file.

    8 bytes   MUNTIN and the format version
    32 bytes  SHA-256 of what follows
    the rest  description and arrays, packed (packed.py)

Written to a temporary file beside it, flushed to disk and renamed: a crash leaves the old checkpoint or the
new one. What a process left behind that was killed meanwhile is removed by the next one that writes or reads
the same checkpoint (`draft.py`). No pickle, nothing executable.
"""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Any

import numpy as np

from muntin.engine.draft import drafted, remove_abandoned
from muntin.errors import CheckpointError, NotFound
from muntin.store.packed import pack, refusing, unpack

_MAGIC = b"MUNTIN"
_VERSION = b"03"


def write_checkpoint(given: Path, description: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Replace the file at a path, or leave it as it is."""
    path = _place(given)
    body = pack(description, arrays)
    head = _MAGIC + _VERSION + hashlib.sha256(body).digest()
    try:
        with drafted(path) as file:
            file.write(head)
            file.write(body)
    except OSError as error:
        raise CheckpointError(f"checkpoint '{given}' cannot be written: {error.strerror or error}") from None


def read_checkpoint(given: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Description and arrays; an error if the file is not exactly what was written."""
    path = _place(given)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no checkpoint '{path}'") from None
    except OSError as error:
        raise CheckpointError(f"checkpoint '{path}' cannot be read: {error.strerror or error}") from None
    remove_abandoned(path)
    if content[:6] != _MAGIC:
        raise CheckpointError(f"'{path}' is not a muntin checkpoint")
    if content[6:8] != _VERSION:
        version = content[6:8].decode(errors="replace")
        raise CheckpointError(
            f"checkpoint '{path}' has format version {version}; this muntin reads {_VERSION.decode()}"
        )
    body = memoryview(content)[40:]
    if hashlib.sha256(body).digest() != content[8:40]:
        raise CheckpointError(
            f"checkpoint '{path}' is damaged: its checksum does not match ({len(content):,} bytes)"
        )
    with refusing(f"checkpoint '{path}'"):
        description, arrays = unpack(body)
    return description, {
        name: array.copy() if isinstance(array, np.ndarray) else array for name, array in arrays.items()
    }


def _place(given: Path) -> Path:
    """The file that is meant: where a symbolic link leads to. An error if there can be no checkpoint."""
    try:
        path = given.resolve()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError) as error:  # links that lead in a circle are the latter
        raise CheckpointError(
            f"checkpoint '{given}' cannot be reached: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise CheckpointError(f"'{given}' is {kind}: a checkpoint is a file; give the path of one")
    return path
