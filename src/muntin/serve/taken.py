"""What is taken from a source at once: ranges of its messages, and the events in them.

The log keeps the ranges alone: a partition or a file, where it begins and ends, how many messages there were, and
which of them were bad. A replay reads the same messages again from the source and gets the same events in the
same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.errors import MuntinError
from muntin.shard.record_batch import to_times
from muntin.stream import Stream

ALL = -1  # the end of a range that is the whole rest of a file


class Range(NamedTuple):
    """Messages of one part of a source, in [start, end)."""

    part: str  # a partition of a topic, or the name of a file
    start: int  # an offset, or a row
    end: int
    messages: int  # in it, with bad ones


Bad = tuple[str, int]  # the part and the offset of a message that is no event


class Lost(MuntinError):
    """What a source was to give again and has no more."""


class SourceFailed(MuntinError):
    """A source that stops until somebody has looked at it."""


@dataclass(frozen=True)
class Piece:
    """Messages of one part of a source, decoded."""

    part: str
    start: int
    end: int
    offsets: np.ndarray  # of the good messages
    row_ends: np.ndarray  # the rows up to the end of each
    events: pa.RecordBatch
    bad: tuple[int, ...] = ()  # offsets
    raw: Sequence[Any] = ()  # the good messages as they came, if the source may need them

    @property
    def range(self) -> Range:
        """As it stands in the log."""
        return Range(self.part, self.start, self.end, len(self.offsets) + len(self.bad))

    def cut(self, messages: int) -> tuple[Piece, Piece]:
        """The first good messages, and the others."""
        if messages >= len(self.offsets):
            empty = self.events.slice(self.events.num_rows)
            none = self.offsets[:0]
            return self, Piece(self.part, self.end, self.end, none, none, empty)
        border = int(self.offsets[messages])
        rows = int(self.row_ends[messages - 1]) if messages else 0
        head = Piece(
            self.part, self.start, border, self.offsets[:messages], self.row_ends[:messages],
            self.events.slice(0, rows), tuple(each for each in self.bad if each < border), self.raw[:messages],
        )  # fmt: skip
        tail = Piece(
            self.part, border, self.end, self.offsets[messages:], self.row_ends[messages:] - rows,
            self.events.slice(rows), tuple(each for each in self.bad if each >= border), self.raw[messages:],
        )  # fmt: skip
        return head, tail

    def without_events(self) -> Piece:
        """The same messages, all of them bad."""
        bad = tuple(sorted((*self.bad, *map(int, self.offsets))))
        none = self.offsets[:0]
        return replace(self, offsets=none, row_ends=none, events=self.events.slice(0, 0), bad=bad, raw=())


@dataclass(frozen=True)
class Taken:
    """Pieces that are given to the engine together."""

    pieces: tuple[Piece, ...]

    @property
    def ranges(self) -> list[Range]:
        """As they stand in the log."""
        return [each.range for each in self.pieces]

    @property
    def bad(self) -> list[Bad]:
        """Messages that are no events."""
        return [(each.part, offset) for each in self.pieces for offset in each.bad]

    def halves(self) -> tuple[Taken, Taken] | None:
        """Both halves of the messages; None if there is one message."""
        if any(len(each.offsets) > 1 for each in self.pieces):
            cuts = [each.cut((len(each.offsets) + 1) // 2) for each in self.pieces]
            heads, tails = zip(*cuts, strict=True)
            return Taken(heads), Taken(tuple(each for each in tails if each.start != each.end))
        if len(self.pieces) > 1:
            middle = len(self.pieces) // 2
            return Taken(self.pieces[:middle]), Taken(self.pieces[middle:])
        return None


def no_events(stream: Stream) -> pa.RecordBatch:
    """A batch of nothing."""
    return pa.RecordBatch.from_pylist([], schema=stream.schema)


def in_order(stream: Stream, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The events of several partitions as one batch, by time: what one partition is ahead must not make the events of
    another late. The events of a single one stay as they came."""
    if len(batches) < 2:
        return batches[0] if batches else no_events(stream)
    joined = pa.concat_batches(batches)
    return joined.take(pa.array(np.argsort(to_times(stream, joined), kind="stable")))
