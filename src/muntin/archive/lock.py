"""Lock: who may write an archive. The system lets go of it when the process ends, however it does."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from muntin.errors import ArchiveError

NAME = "lock"


class WriterLock:
    """The lock of an archive's folder, held from now on until it is closed; an error if another writer holds it.

    A fork of the process that took the lock does not hold it, and neither does anybody once the folder is gone or
    is another one.
    """

    def __init__(self, folder: Path):
        self._folder, self._owner = folder, os.getpid()
        while True:
            try:
                self._file = open(folder / NAME, "ab")  # noqa: SIM115
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
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._folder / NAME))
        except OSError:
            return False
