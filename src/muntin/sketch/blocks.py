"""The finished blocks of a ladder, in rows by scale and level: room for them, and how they are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Bools, Ints, unchanged
from muntin.errors import CheckpointError
from muntin.kernels.ladder import (
    FACTS,
    HELD,
    LOST,
    SLACK,
    USED,
    Blocks,
    Shape,
    coarsen_blocks,
    cover,
    find_start,
    first_start,
    no_blocks,
    promote,
    rooms,
    scale_of,
)
from muntin.store.columns import Columns
from muntin.store.saved import COUNTS, Saved

_KEPT = ("item", "count", "about", "first", "size")


class BlockStore:
    """Blocks of the elements before `sketched`, a position that comes with every question."""

    def __init__(self, shape: Shape, scales: int, is_counted: bool):
        self.shape = shape
        self.is_counted = is_counted
        self.arrays: Blocks = no_blocks(shape, scales, is_counted)

    @property
    def scales(self) -> int:
        return len(self.arrays.size)

    def promote(self, sketched: int, needed_from: int) -> None:
        """Move blocks on that are too old for their scale, and drop those from before `needed_from`."""
        promote(self.shape, self.arrays, sketched, needed_from)

    def fit(self, sketched: int, needed_from: int) -> None:
        """Have as many scales as the oldest block asks for; one more is no waste."""
        scales = 1 + int(scale_of(self.shape, sketched + self.shape.margin - needed_from))
        if self.scales - 1 <= scales <= self.scales:  # nearly always
            return
        top = np.flatnonzero(self.arrays.size.any(axis=1))
        fewest = max(scales, int(top[-1]) + 1 if len(top) else 1)
        if scales > self.scales or fewest < self.scales - 1:
            self._resize(max(scales, fewest))

    def _resize(self, scales: int) -> None:
        old, new = self.arrays, no_blocks(self.shape, scales, self.is_counted)
        both = min(len(old.size), scales)
        for name in ("item", "count", "about"):
            source, into = getattr(old, name), getattr(new, name)
            common = min(len(source), len(into))
            into[:common] = source[:common]
        new.first[:both], new.size[:both] = old.first[:both], old.size[:both]
        self.arrays = new

    def first_start(self, position: int, sketched: int) -> int:
        """The first position from there on at which a block starts."""
        return int(first_start(self.shape, self.arrays, position, sketched))

    def find(self, instant: int, sketched: int) -> tuple[int, int, int]:
        """Where the first block starts that has nothing older than an instant, where the one before it (-1 if it is
        gone), and how many elements of that may be as young."""
        start, before, young = find_start(self.shape, self.arrays, instant, sketched)
        return int(start), int(before), int(young)

    def cover(self, start: int, end: int, sketched: int) -> Ints:
        """The fewest blocks that make up [start, end): rows of (facts, first entry, level)."""
        found = np.empty((4 * self.shape.levels + 64, 3), np.int64)
        pieces = cover(self.shape, self.arrays, start, end, sketched, found)
        if pieces < 0:
            raise CheckpointError(
                f"the state is damaged: elements of a sketch from {start} on have no blocks"
            )
        return found[:pieces]

    def coarsened(self, shape: Shape) -> BlockStore:
        """The same blocks with half as many entries, for a ladder of twice the error."""
        other = BlockStore(shape, self.scales + 1, self.is_counted)
        coarsen_blocks(self.shape, self.arrays, other.arrays)
        return other

    def shifted(self, shape: Shape) -> BlockStore:
        """The same blocks, for a ladder whose smallest blocks are half as large: each is one scale higher there."""
        other = BlockStore(shape, self.scales + 1, self.is_counted)
        old, new = self.arrays, other.arrays
        for name in ("item", "count", "about"):
            source = getattr(old, name)
            into = getattr(new, name)
            into[len(into) - len(source) :] = (
                source  # rows of a scale have the same room, one after the other
            )
        new.first[1:], new.size[1:] = old.first, old.size
        return other

    def live(self) -> Ints:
        """Places of the facts of all blocks there are."""
        parts = [places for _, _, places in self._rows()]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def entry_slices(self) -> Iterator[slice]:
        """Where the entries of each block are."""
        for scale, level, places in self._rows():
            row = self.arrays.entry_start[scale, level]
            for place in places.tolist():
                start = row + (place - self.arrays.block_start[scale, level]) * (self.shape.entries << level)
                yield slice(start, start + self.arrays.about[place, USED])

    def _rows(self) -> Iterator[tuple[int, int, Ints]]:
        blocks = self.arrays
        for scale, level in np.argwhere(blocks.size > 0).tolist():
            number = blocks.first[scale, level] + np.arange(blocks.size[scale, level])
            yield scale, level, blocks.block_start[scale, level] + number % blocks.room[scale, level]

    def entries(self) -> int:
        """Entries of all blocks."""
        return int(self.arrays.about[self.live(), USED].sum())

    def room(self) -> int:
        """Entries that there is room for."""
        return len(self.arrays.item)

    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self.arrays)

    def snapshot(self) -> Arrays:
        """State as named arrays."""
        return {
            "scales": np.array([self.scales], np.int64),
            **{f"blocks {name}": getattr(self.arrays, name).ravel().copy() for name in _KEPT},
        }

    def restore(self, saved: Saved, sketched: int) -> None:
        """Go on from a snapshot of blocks of the same shape."""
        (scales,) = saved.numbers("scales", (0, 64))
        room = rooms(self.shape, scales)  # so much must be there before so much is made room for
        entries = int((room * (self.shape.entries << np.arange(self.shape.levels))).sum())
        kept = {
            "item": saved.array("blocks item", np.dtype(np.int64), entries),
            "count": saved.array("blocks count", np.dtype(np.uint32), entries if self.is_counted else 0),
            "about": saved.array("blocks about", np.dtype(np.int64), FACTS * int(room.sum())),
            "first": saved.ints("blocks first", COUNTS, room.size),
            "size": saved.ints("blocks size", (0, 2**62), room.size),
        }
        if bool((kept["size"] > room.ravel()).any()):
            raise saved.damaged("blocks size", "has more blocks than there is room for")
        self.arrays = no_blocks(self.shape, scales, self.is_counted)
        for name, array in kept.items():
            into = getattr(self.arrays, name)
            into[...] = array.reshape(into.shape)
        self.check(sketched)
        self._check_facts(saved)

    def _check_facts(self, saved: Saved) -> None:
        """No block has more entries than there is room for, or counts more elements than it has."""
        for scale, level, places in self._rows():
            about = self.arrays.about[places]
            held, used = about[:, HELD], about[:, USED]
            most = 1 << (self.shape.unit_bits + scale + level)
            is_wrong = (held < 0) | (held > most) | (used < 0) | (used > self.shape.entries << level)
            is_wrong |= np.abs(about[:, SLACK]) > 2**61
            if self.is_counted:
                is_wrong |= (
                    (about[:, SLACK] < 0) | (about[:, LOST] < about[:, SLACK]) | (held < about[:, LOST])
                )
            if bool(is_wrong.any()):
                raise saved.damaged("blocks about", "has blocks that cannot be")

    def copy(self) -> BlockStore:
        """Another with the same blocks."""
        other = BlockStore(self.shape, 0, self.is_counted)
        other.arrays = Blocks(*(array.copy() for array in self.arrays))
        return other

    def check(self, sketched: int) -> None:
        """Assert every invariant."""
        blocks, shape = self.arrays, self.shape
        # no row has more blocks than room
        assert bool((blocks.size <= blocks.room).all())
        for scale, level in np.argwhere(blocks.size > 0).tolist():
            bits = shape.unit_bits + scale + level
            first, size = int(blocks.first[scale, level]), int(blocks.size[scale, level])
            ages = [sketched + shape.margin - (number << bits) for number in (first, first + size - 1)]
            # none is older, or younger, than its scale allows, and none has elements that have not come
            assert ages[0] <= shape.reach << scale
            assert scale == 0 or ages[1] > shape.reach << (scale - 1)
            assert (first + size) << bits <= sketched


# Fresh elements: those that are too new to be in blocks, as they came.
#
# Times, and which elements count, take no room until there are any times, or any that does not count.

_INT, _FLAG = np.dtype(np.int64), np.dtype(np.bool_)


class Fresh:
    """
    >>> fresh = Fresh()
    >>> fresh.extend(np.array([5, 6, 7]), np.array([True, False, True]), None)
    >>> fresh.drop_first(1)
    >>> fresh.code, fresh.counted(0)
    (array([6, 7]), array([7]))
    """

    def __init__(self, most: int = 0) -> None:
        """`most`: of them at a time, if that is known."""
        self.most = most
        self._columns = Columns({"code": _INT}, most)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def code(self) -> Ints:
        return self._columns["code"]

    @property
    def at(self) -> Ints:
        """Times; all 0 if none were given."""
        if "at" in self._columns:
            return self._columns["at"]
        return np.zeros(len(self), np.int64)

    def run(self, count: int) -> tuple[Ints, Bools, Ints]:
        """Codes, which count, and times of the first `count` elements; not to be written to."""
        times = self._columns["at"][:count] if "at" in self._columns else unchanged(count, 0)
        flags = self._columns["valid"][:count] if "valid" in self._columns else unchanged(count, True)
        return self.code[:count], flags, times

    def counted(self, first: int) -> Ints:
        """The codes of elements that count, from an index on."""
        code = self.code[first:]
        return code[self._columns["valid"][first:]] if "valid" in self._columns else code

    def counted_at(self) -> Ints:
        """The times of elements that count."""
        at = self.at
        return at[self._columns["valid"]] if "valid" in self._columns else at.copy()

    def extend(self, code: Ints, valid: Bools, at: Ints | None) -> None:
        """Append elements."""
        if "valid" not in self._columns and not bool(valid.all()):
            self._columns.add("valid", _FLAG, True)
        if "at" not in self._columns and at is not None:
            self._columns.add("at", _INT, 0)
        given = {"code": code, "valid": valid} | ({} if at is None else {"at": at})
        self._columns.extend_with(given, {"at": 0})

    def drop_first(self, count: int) -> None:
        """Forget the oldest."""
        self._columns.drop_first(count)

    def compact(self) -> None:
        """Without room to spare."""
        self._columns = self._columns.copy()

    def nbytes(self) -> int:
        return self._columns.nbytes()

    def snapshot(self) -> Arrays:
        return {f"fresh {name}": self._columns[name].copy() for name in self._columns.names()}

    def restore(self, saved: Saved) -> None:
        """Have the elements of a snapshot; times, and which of them count, may not be in it."""
        kept: Arrays = {"code": saved.array("fresh code", _INT)}
        if "fresh valid" in saved:
            kept["valid"] = saved.flags("fresh valid", len(kept["code"]))
        if "fresh at" in saved:
            kept["at"] = saved.times("fresh at", len(kept["code"]))
        self._columns = Columns({name: each.dtype for name, each in kept.items()}, self.most)
        self._columns.replace(kept)

    def copy(self) -> Fresh:
        """Another with the same elements."""
        other = Fresh(0)
        other.most, other._columns = self.most, self._columns.copy()
        return other

    def check(self) -> None:
        self._columns.check()


# A rising block: one that has not all its elements yet.

WAITS = -1  # the start of a rising block that has none yet


class Rising(ABC):
    """What a one-pass algorithm knows of the elements that came."""

    start: int = WAITS
    at: int = LONG_AGO  # the time of its first element
    held: int = 0  # elements that count

    @abstractmethod
    def begin(self, start: int, at: int) -> None:
        """A block without elements, at its place."""

    @abstractmethod
    def clone(self) -> Any:
        """Another that knows the same."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """What it knows."""

    @abstractmethod
    def room(self) -> int:
        """Entries that it can have without growing."""

    @abstractmethod
    def nbytes(self) -> int: ...
