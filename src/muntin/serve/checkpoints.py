"""The checkpoints of a service: the last two, each called by the last record of the log that it knows of."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from muntin.described import COUNT, Absent, Each, check_shape
from muntin.engine import Engine
from muntin.errors import CheckpointError
from muntin.serve.script import ROSTER

_log = logging.getLogger("muntin.serve")
_KEPT = 2
_NOTE = {
    "record": COUNT,
    "numbers": Each(COUNT),
    "producers": Absent([(str, COUNT)]),
    "roster": ROSTER,
    "delivered": Absent(Each((COUNT, COUNT))),  # by each sink
}


class Checkpoints:
    """Files in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def path(self, record: int) -> Path:
        """Of the checkpoint that knows the records up to this one."""
        return self._folder / f"{record:020}.muntin"

    def written_at(self, record: int) -> float | None:
        """When the one that knows the records up to this one was written; None if there is none."""
        path = self.path(record)
        return path.stat().st_mtime if path.exists() else None

    def found(self) -> list[Path]:
        """The newest first."""
        return sorted((each for each in self._folder.glob("*.muntin") if each.stem.isdigit()), reverse=True)

    def forget_old(self) -> int:
        """Remove all but the last ones; the first record that a start from one of these needs."""
        found = self.found()
        for old in found[_KEPT:]:
            old.unlink(missing_ok=True)
        return int(found[_KEPT - 1].stem) + 1 if len(found) >= _KEPT else 0

    def restored(self, first: int, options: dict[str, Any]) -> Engine | None:
        """The engine of the newest good one; None if there was none yet, and the log begins at its first record."""
        failed = list[str]()
        for path in self.found():
            try:
                engine = Engine.restore(path, **options)
                check_shape(engine.note, _NOTE, "the note")
                return engine
            except (CheckpointError, ValueError) as error:
                failed.append(str(error))
                _log.error("checkpoint %s cannot be used, the one before it is tried: %s", path.name, error)
        if first > 1:
            why = f": {'; '.join(failed)}" if failed else ""
            raise CheckpointError(
                f"no checkpoint in '{self._folder}' can be used, and the log begins at record {first}{why}"
            )
        return None
