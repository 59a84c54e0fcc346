"""Checkpoints: a snapshot on disk, in one file.

    8 bytes   MUNTIN and the format version
    32 bytes  SHA-256 of what follows
    the rest  description and arrays, packed (packed.py)

Written to a temporary file, flushed to disk and renamed: a crash leaves the old checkpoint or the
new one. No pickle, nothing executable.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from muntin.errors import CheckpointError, NotFound
from muntin.operator.packed import pack, refusing, unpack

_MAGIC = b"MUNTIN"
_VERSION = b"03"


def write_checkpoint(path: Path, description: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Replace the file at `path`, or leave it as it is."""
    body = pack(description, arrays)
    head = _MAGIC + _VERSION + hashlib.sha256(body).digest()
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(head)
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(f"checkpoint '{path}' cannot be written: {error.strerror or error}") from None


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Description and arrays; an error if the file is not exactly what was written."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no checkpoint '{path}'") from None
    except OSError as error:
        raise CheckpointError(f"checkpoint '{path}' cannot be read: {error.strerror or error}") from None
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


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
