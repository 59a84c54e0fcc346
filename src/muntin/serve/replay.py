"""What a start reads again from sources: messages whose ranges are in the log, behind the checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from muntin.engine import Engine
from muntin.errors import MuntinError
from muntin.serve.options import Given
from muntin.serve.source import Again, open_again
from muntin.serve.taken import Lost, Range, in_order, no_events
from muntin.view.folders import Folders

_log = logging.getLogger("muntin.serve")


class Replay:
    """Sources that were opened to be read again."""

    def __init__(self, engine: Engine, folders: Folders, skips_lost: bool):
        self._engine, self._folders, self._skips_lost = engine, folders, skips_lost
        self._open: dict[str, tuple[Given, Again]] = {}

    def events(
        self, name: str, options: Given, ranges: Sequence[Range], bad: Sequence[Sequence[str | int]]
    ) -> pa.RecordBatch:
        """The events of ranges, in the order of the first time."""
        stream = self._engine.streams[name]
        wanted = [each for each in ranges if each.messages]
        if not wanted:
            return no_events(stream)
        try:
            again = self._source(name, options)
            return in_order(stream, again.read(wanted, [(str(part), int(offset)) for part, offset in bad]))
        except MuntinError as error:
            if isinstance(error, Lost) and self._skips_lost:
                _log.warning("stream '%s' goes on without messages that are lost: %s", name, error)
                return no_events(stream)
            raise Lost(f"stream '{name}': {error}") from None

    def close(self) -> None:
        """Let go of all of them."""
        for _, again in self._open.values():
            again.close()
        self._open.clear()

    def _source(self, name: str, options: Given) -> Again:
        found = self._open.get(name)
        if found is not None and found[0] == options:
            return found[1]
        if found is not None:
            found[1].close()
        made = open_again(self._engine.streams[name], options, self._folders)
        self._open[name] = options, made
        return made
