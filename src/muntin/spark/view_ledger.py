"""The ledger of a view: what its operator keeps of the inputs, on disk beside the results.

    state/0000000063.base     a snapshot of the operator as of a micro-batch
    state/0000000064.entry    what that micro-batch brought, and so on

The directory of the archive says which micro-batch is the last that counts. An entry is on disk before its micro-batch
is published, and a base only after: whatever is killed, the entries up to the last micro-batch are there, on top of
some base. An entry of a micro-batch that was not published is written over by its next attempt. Files are replaced
whole, and hold a checksum.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

from muntin.archive.disk import remove, replace, sync_folder
from muntin.archive.lock import STATE
from muntin.errors import ArchiveError
from muntin.spark.ledger import outgrows
from muntin.store.saved import pack, unpack

_MAGIC = b"MUNTVL01"
_BASE, _ENTRY = "base", "entry"
_NAME = re.compile(rf"(\d+)\.({_BASE}|{_ENTRY})")

Packed = tuple[dict[str, Any], dict[str, Any]]  # a description that JSON can hold, and named arrays


class Kept(NamedTuple):
    """What is on disk up to a micro-batch."""

    base: Packed | None  # None: entries go back to the first micro-batch
    entries: list[Packed]


class ViewLedger:
    """One writer at a time, the one who holds the archive's lock."""

    def __init__(self, folder: Path):
        self._folder = folder / STATE

    def append(self, batch: int, entry: Packed) -> None:
        """Have what a micro-batch brought on disk; it counts once the micro-batch is published."""
        self._write(batch, _ENTRY, entry)

    def read(self, last: int) -> Kept:
        """All that counts up to the last micro-batch that was published."""
        files = self._files()
        bases = [batch for batch, kind in files if kind == _BASE and batch <= last]
        base = max(bases, default=None)
        since = range(0 if base is None else base + 1, last + 1)
        return Kept(
            None if base is None else self._read(base, _BASE), [self._read(each, _ENTRY) for each in since]
        )

    def is_due(self, last: int) -> bool:
        """Whether it is time for a new base, as of the last micro-batch."""
        files = self._files()
        base = max((batch for batch, kind in files if kind == _BASE), default=-1)
        log = [size for (batch, kind), size in files.items() if kind == _ENTRY and base < batch <= last]
        return outgrows(len(log), sum(log), files.get((base, _BASE), 0))

    def write_base(self, last: int, snapshot: Packed) -> None:
        """Have a snapshot as of the last micro-batch, in place of all that came before."""
        if self._write(last, _BASE, snapshot):
            for batch, kind in self._files():
                if batch < last or (batch == last and kind == _ENTRY):
                    remove(self._path(batch, kind))

    def _files(self) -> dict[tuple[int, str], int]:
        """Bytes by micro-batch and kind."""
        found = {}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if (name := _NAME.fullmatch(path.name)) is not None:
                found[int(name[1]), name[2]] = path.stat().st_size
        return found

    def _path(self, batch: int, kind: str) -> Path:
        return self._folder / f"{batch:010d}.{kind}"

    def _write(self, batch: int, kind: str, packed: Packed) -> bool:
        """True if it survives a loss of power."""
        body = pack(*packed)
        try:
            if not self._folder.is_dir():
                self._folder.mkdir()
                sync_folder(self._folder.parent)
        except OSError as error:
            raise ArchiveError(f"'{self._folder}' cannot be made: {error.strerror or error}") from None
        return replace(
            self._path(batch, kind), b"".join((_MAGIC, hashlib.sha256(body).digest(), memoryview(body)))
        )

    def _read(self, batch: int, kind: str) -> Packed:
        path = self._path(batch, kind)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise ArchiveError(f"the state of the view is damaged: '{path}' is missing") from None
        except OSError as error:
            raise ArchiveError(f"'{path}' cannot be read: {error.strerror or error}") from None
        body = memoryview(content)[40:]
        if content[:6] == _MAGIC[:6] and content[:8] != _MAGIC:
            version = content[6:8].decode(errors="replace")
            raise ArchiveError(f"'{path}' has format version {version}; this muntin reads 01")
        if content[:8] != _MAGIC or hashlib.sha256(body).digest() != content[8:40]:
            raise ArchiveError(f"the state of the view is damaged: the checksum of '{path}' does not match")
        return unpack(body)
