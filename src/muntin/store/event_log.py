"""The event log: the events of a stream that joins read, each kept once, in the order of arrival.

Events have numbers for life, counted from the first ever logged. Times are an array; the columns that some
query reads stay in Arrow, whatever their type, as chunks that are merged while they are small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.store.columns import Columns
from muntin.store.saved import Saved

_CHUNK = 1 << 17  # events of a chunk that is merged no more
# from this part of the log on it is copied into one chunk, and what is taken need not be put in order: a copy takes a
# fraction of a nanosecond a value, to find the chunk of a number takes a hundred
_MANY = 16


class EventLog:
    """
    >>> log = EventLog()
    >>> log.keep({"x": pa.string()})
    >>> log.extend(np.array([10, 20]), {"x": pa.array(["a", "b"])})
    >>> log.extend(np.array([30]), {"x": pa.array(["c"])})
    >>> log.drop_first(1)
    >>> log.take("x", np.array([2, 1])).to_pylist(), log.first, log.end
    (['c', 'b'], 1, 3)
    """  # fmt: skip

    def __init__(self) -> None:
        self._times = Columns({"at": np.dtype(np.int64)})
        self._starts: list[int] = []  # number of the first event of each chunk
        self._kinds: dict[str, pa.DataType] = {}  # by column
        self._chunks: dict[str, list[pa.Array]] = {}  # by column, oldest first
        self._bytes: int | None = None  # of the chunks; counted when asked for

    def __len__(self) -> int:
        return len(self._times)

    @property
    def first(self) -> int:
        """Number of the oldest event that is here."""
        return self._times.dropped

    @property
    def end(self) -> int:
        """The number that the next event will have."""
        return self._times.dropped + len(self._times)

    @property
    def at(self) -> Ints:
        """Times of the events from `first` on."""
        return self._times["at"]

    @property
    def columns(self) -> list[str]:
        return list(self._chunks)

    def keep(self, columns: Mapping[str, pa.DataType]) -> None:
        """Keep exactly these columns from now on; a new one is NULL in the events so far."""
        ends = [*self._starts[1:], self.end]
        rows = [end - start for start, end in zip(self._starts, ends, strict=True)] if self._starts else []
        self._kinds = dict(columns)
        self._bytes = None
        self._chunks = {
            name: self._chunks[name] if name in self._chunks else [pa.nulls(many, kind) for many in rows]
            for name, kind in columns.items()
        }

    def extend(self, at: Ints, columns: Mapping[str, pa.Array]) -> None:
        """Append events; their arrays become the log's own. O(log chunk) copies of each event."""
        if not len(at):
            return
        self._bytes = None
        self._starts.append(self.end)
        self._times.extend({"at": at})
        for name, chunks in self._chunks.items():
            chunks.append(columns[name])
        while len(self._starts) > 1:
            newest, before = self.end - self._starts[-1], self._starts[-1] - self._starts[-2]
            if before > 2 * newest or before + newest > _CHUNK:
                break
            self._starts.pop()
            for chunks in self._chunks.values():
                chunks[-2:] = [pa.concat_arrays(chunks[-2:])]

    def drop_first(self, count: int) -> None:
        """Forget the `count` oldest events; columns go chunk by chunk."""
        self._times.drop_first(count)
        while self._starts and (self._starts[1] if len(self._starts) > 1 else self.end) <= self.first:
            self._starts.pop(0)
            self._bytes = None
            for chunks in self._chunks.values():
                chunks.pop(0)

    def take(self, name: str, numbers: Ints) -> pa.Array:
        """A column of some events, by their numbers; O(events taken and chunks)."""
        chunks = self._chunks[name]
        if not len(numbers):
            return pa.array([], self._kinds[name])
        if len(chunks) == 1 or _MANY * len(numbers) >= len(self):
            whole = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
            return whole.take(pa.array(numbers - self._starts[0]))
        # chunk by chunk: few are not worth a copy of all
        chunk = np.searchsorted(self._starts, numbers, "right") - 1
        by_chunk = None if (chunk[1:] >= chunk[:-1]).all() else np.argsort(chunk, kind="stable")
        wanted, chunk = (numbers, chunk) if by_chunk is None else (numbers[by_chunk], chunk[by_chunk])
        bounds = np.searchsorted(chunk, np.arange(len(chunks) + 1))
        taken = pa.concat_arrays(
            [
                chunks[i].take(pa.array(wanted[bounds[i] : bounds[i + 1]] - self._starts[i]))
                for i in np.flatnonzero(np.diff(bounds)).tolist()
            ]
        )
        if by_chunk is None:
            return taken
        place = np.empty(len(numbers), np.int64)
        place[by_chunk] = np.arange(len(numbers))
        return taken.take(pa.array(place))

    def snapshot(self) -> dict[str, Any]:
        """Times and columns of what is here, without what only chunks still hold."""
        numbers = np.arange(self.first, self.end)
        return {"at": self.at} | {f"column {name}": self.take(name, numbers) for name in self._chunks}

    def restore(self, saved: Saved, first: int) -> None:
        """Have the events of a snapshot; the columns to keep are known already."""
        at = saved.times("at", order="any")
        columns = {
            name: saved.column(f"column {name}", {self._kinds[name]}, len(at)) for name in self._chunks
        }
        self._times.replace({"at": at})
        self._times.dropped = first
        self._starts = [first] if len(self) else []
        self._bytes = None
        self._chunks = {name: [columns[name]] if len(self) else [] for name in self._chunks}

    def nbytes(self) -> int:
        return self._times.nbytes() + self._column_bytes()

    def held_bytes(self) -> int:
        """Of its events alone: `nbytes` without what is set aside for more."""
        return self._times.held_bytes() + self._column_bytes()

    def _column_bytes(self) -> int:
        if self._bytes is None:  # every batch asks several times, and Arrow takes microseconds for a chunk
            self._bytes = sum(int(array.nbytes) for chunks in self._chunks.values() for array in chunks)
        return self._bytes

    def check(self) -> None:
        self._times.check()
        ends: Sequence[int] = [*self._starts[1:], self.end] if self._starts else []
        # chunks cover the events that are here, without a gap, and the same for each column
        assert not len(self) or self._starts[0] <= self.first
        # what is remembered of their size is their size
        counted, self._bytes = self._bytes, None
        assert counted is None or counted == self._column_bytes()
        for chunks in self._chunks.values():
            lengths = [end - start for start, end in zip(self._starts, ends, strict=True)]
            assert [len(chunk) for chunk in chunks] == lengths
