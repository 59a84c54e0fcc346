"""A folder as a source: files that appear in it, each read once, in the order of their names.

A file is complete when it appears. So whoever writes one gives it a name that begins with a dot or an underscore, or
writes it elsewhere on the same disk, and renames it once it is whole. Names ascend: a file whose name stands before
one that was read is not read any more, and is counted as bad. The format follows from the ending. A file stays until
a checkpoint has left it behind: a replay reads it again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from muntin.engine.event_file import EventFile
from muntin.errors import MuntinError, SchemaError
from muntin.serve.options import Given, filled
from muntin.serve.taken import ALL, Bad, Lost, Piece, Range, SourceFailed, Taken, no_events
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.stream import Stream
from muntin.view.folders import Folders

_log = logging.getLogger("muntin.serve")
_ROWS = 65_536  # taken at once
_PAUSE = 0.2  # seconds between two looks at the folder


class FolderSource:
    """Gives rows of files as they appear, from a position on."""

    def __init__(
        self,
        stream: Stream,
        given: Given,
        position: dict[str, int],
        folders: Folders,
        count_bad: Callable[[int, str], None],
    ):
        options = filled(given, "source")
        self._stream, self._folder, self._folders = stream, Path(str(options["path"])), folders
        self._skips = options["bad"] == "skip"
        self._count_bad = count_bad
        self._last, self._row = next(iter(position.items()), ("", ALL))
        self._rows: Iterator[Piece] | None = None
        if self._last and self._row != ALL:
            self._rows = self._read(self._last, self._row)
        self._folders.require(self._folder, "the folder of a source")
        self._seen = {
            name for name in self._names() if name <= self._last
        }  # that are not to be read any more

    def next(self, seconds: float) -> Taken | None:
        """Rows of the file at hand or of the next one; None if there is none within this time."""
        until = time.monotonic() + seconds
        while True:
            if self._rows is not None:
                piece = next(self._rows, None)
                if piece is not None:
                    return Taken((piece,))
                self._rows = None
            if name := self._next_name():
                self._last, self._rows = name, self._read(name, 0)
            elif time.monotonic() >= until:
                return None
            else:
                time.sleep(min(_PAUSE, max(0.0, until - time.monotonic())))

    @property
    def lag(self) -> int | None:
        """Files that wait."""
        return sum(name > self._last for name in self._names())

    def set_aside(self, piece: Piece, why: str) -> None:
        """A row that the engine refuses."""
        place = f"row {piece.start:,} of '{self._folder / piece.part}'"
        if not self._skips:
            raise SourceFailed(f"{place} cannot be taken: {why}")
        self._count_bad(1, f"{place}: {why}")

    def close(self) -> None:
        """Nothing is held."""
        self._rows = None

    def _names(self) -> list[str]:
        try:
            return sorted(
                each.name for each in self._folder.iterdir() if each.name[0] not in "._" and each.is_file()
            )
        except OSError as error:
            raise MuntinError(f"folder '{self._folder}' cannot be read: {error.strerror or error}") from None

    def _next_name(self) -> str | None:
        """The next file; those that came too late are counted."""
        names = self._names()
        passed = {name for name in names if name <= self._last}
        for name in passed - self._seen - {self._last}:
            self._count_bad(
                1, f"file '{self._folder / name}' came after '{self._last}', and is not read: names ascend"
            )
        self._seen = passed
        return next((name for name in names if name > self._last), None)

    def _read(self, name: str, row: int) -> Iterator[Piece]:
        """The rows of a file from one on; the last piece, which may have none, says that this was all."""
        path, held = self._folder / name, None
        try:
            self._folders.require(path, "the file of a source")  # it may be a link
            for piece in _pieces(self._stream, path, row):
                if held is not None:
                    yield held
                held, row = piece, piece.end
        except MuntinError as error:
            if not self._skips:
                if held is not None:
                    yield held
                raise SourceFailed(f"file '{path}' is no file of events: {error}") from None
            self._count_bad(1, f"the rest of file '{path}' from row {row:,} on: {error}")
        if held is None:
            none = np.empty(0, np.int64)
            held = Piece(name, row, row, none, none, no_events(self._stream))
        yield Piece(name, held.start, ALL, held.offsets, held.row_ends, held.events)


class FolderAgain:
    """Gives rows that were taken once more."""

    def __init__(self, stream: Stream, given: Given, folders: Folders):
        self._stream, self._folder, self._folders = stream, Path(str(given["path"])), folders
        self._name, self._row = "", 0
        self._rows: Iterator[Piece] = iter(())

    def read(self, ranges: Sequence[Range], bad: Sequence[Bad]) -> list[pa.RecordBatch]:
        """The events of ranges."""
        return [self._range(each, {offset for _, offset in bad}) for each in ranges]

    def close(self) -> None:
        """Nothing is held."""

    def _range(self, wanted: Range, bad: set[int]) -> pa.RecordBatch:
        path = self._folder / wanted.part
        found, rows = list[pa.RecordBatch](), 0
        if (wanted.part, wanted.start) != (self._name, self._row):
            self._rows = _pieces(self._stream, path, wanted.start)
        try:
            while rows < wanted.messages and (piece := next(self._rows, None)) is not None:
                if rows + len(piece.offsets) > wanted.messages:
                    piece, rest = piece.cut(wanted.messages - rows)
                    self._rows = _before(rest, self._rows)
                found.append(piece.events)
                rows += len(piece.offsets)
        except MuntinError as error:
            asked = f"rows {wanted.start:,} to {wanted.start + wanted.messages:,} of '{path}'"
            raise Lost(f"{asked} must be read again, and cannot be: {error}") from None
        if rows < wanted.messages:
            raise Lost(f"file '{path}' has lost rows: it ends at {wanted.start + rows:,}")
        self._name, self._row = wanted.part, wanted.start + rows
        batch = pa.concat_batches(found) if found else no_events(self._stream)
        if not bad:
            return batch
        keep = [wanted.start + number not in bad for number in range(batch.num_rows)]
        return batch.filter(pa.array(keep))


def _before(first: Piece, others: Iterator[Piece]) -> Iterator[Piece]:
    yield first
    yield from others


def _pieces(stream: Stream, path: Path, row: int) -> Iterator[Piece]:
    """The rows of a file from one on."""
    at = 0
    for batch in EventFile(path, stream).batches(_ROWS):
        if at + batch.num_rows > row:
            skipped = max(0, row - at)
            events = to_record_batch(stream, batch.slice(skipped))
            try:
                to_times(stream, events)
            except SchemaError as error:
                raise SchemaError(f"rows from {at + skipped:,} on: {error}") from None
            first, end = at + skipped, at + batch.num_rows
            yield Piece(path.name, first, end, np.arange(first, end), np.arange(1, end - first + 1), events)
        at += batch.num_rows
