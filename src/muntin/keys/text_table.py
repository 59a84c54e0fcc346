"""A text table: ids of texts in order of first appearance, at any number of texts.

Texts are read from Arrow's buffers and those with an id kept in the same form, so that nothing is made of
Python objects and an Arrow array of all texts costs nothing. The loops are in kernels/text_table.py.
Arrow's `dictionary_encode`, whose distinct texts would have to be looked up here in any case, takes longer
by itself (benchmarks/keys.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.kernels.text_table import compact_texts, encode_texts, find_text, find_texts, words_of
from muntin.kernels.word_table import fill_hashed
from muntin.keys.table_room import (
    SALT,
    empty_table,
    enlarged,
    more_room,
    places_for,
    read_only,
    renumbered,
    room_in,
)
from muntin.store.words import ALL_VALID

Bytes = npt.NDArray[np.uint8]

MOST_BYTES = 2**31 - 1  # that Arrow's ordinary offsets reach; beyond, there are larger ones
_FEWEST_BYTES = 8192


class TextTable:
    """Ids of texts; NULL has one like any text. `find` and `encode` take O(bytes), `retain` O(bytes kept).

    >>> table = TextTable()
    >>> table.encode(pa.array(["b", "a", "b"]))
    array([0, 1, 0])
    """

    def __init__(self, salt: npt.NDArray[np.uint64] = SALT) -> None:
        self.null_id = -1
        self._salt = salt
        self._count = 0
        places = places_for(0)
        self._words: Ints = np.empty(
            room_in(places), np.int64
        )  # by id; its length is how many there is room for
        self._starts: npt.NDArray[Any] = np.zeros(room_in(places) + 1, np.int32)
        self._arena: Bytes = np.zeros(_FEWEST_BYTES, np.uint8)
        self._table, self._mix = empty_table(places, salt)

    def __len__(self) -> int:
        return self._count

    @property
    def starts(self) -> npt.NDArray[Any]:
        """Where each text begins in `arena`, and where the last one ends."""
        return self._starts[: self._count + 1]

    @property
    def arena(self) -> Bytes:
        """The bytes of all texts; a view that stays as it is while more come."""
        return self._arena[: int(self._starts[self._count])]

    def encode(self, texts: pa.Array) -> Ints:
        """The id of each text; new ones get the next ids."""
        offsets, data, valid = buffers_of(texts)
        ids = np.empty(len(texts), np.int64)
        before, done = self._count, 0
        while done < len(texts):
            done, self._count, self.null_id = encode_texts(
                offsets, data, valid, self._table, self._mix, self._words, self._starts, self._arena,
                self._count, self.null_id, ids, done,
            )  # fmt: skip
            if done < len(texts):
                room = more_room(self._count, self._count - before, done, len(texts))
                self._make_room(room, int(offsets[done + 1] - offsets[done]))
        return ids

    def find(self, texts: pa.Array, into: Ints | None = None) -> Ints:
        """Ids of known texts, -1 for unknown ones; in an array of their own or in one that is given."""
        ids = np.empty(len(texts), np.int64) if into is None else into
        find_texts(*buffers_of(texts), self._table, self._mix, self._starts, self._arena, self.null_id, ids)
        return ids

    def find_one(self, text: bytes) -> int:
        """The id of one text, -1 if it is unknown."""
        content = np.frombuffer(text.ljust(8, b"\0"), np.uint8)
        return int(find_text(content, 0, len(text), self._table, self._mix, self._starts, self._arena))

    def retain(self, kept: Bools) -> Ints:
        """Forget ids that are not kept; the others move up, in order. The new id of each, -1 if gone."""
        new_id = renumbered(kept)
        size = int(np.diff(self.starts)[kept].sum())
        starts = np.zeros(int(kept.sum()) + 1, np.int32 if size <= MOST_BYTES else np.int64)
        arena = np.zeros(max(size, _FEWEST_BYTES), np.uint8)
        compact_texts(self._starts, self._arena, kept, starts, arena)
        self._words = self._words[: self._count][kept]
        self._starts, self._arena = starts, arena
        self.null_id = int(new_id[self.null_id]) if self.null_id >= 0 else -1
        self._count = len(self._words)
        self._index(self._count)
        return new_id

    def fill(self, texts: pa.Array) -> None:
        """Have these texts, by id, in place of all that are here; at most one may be NULL."""
        offsets, data, valid = buffers_of(texts)
        first, last = int(offsets[0]), int(offsets[-1])
        self._count = len(texts)
        self._starts = offsets - first
        self._arena = np.zeros(max(last - first, _FEWEST_BYTES), np.uint8)
        self._arena[: last - first] = data[first:last]
        self.null_id = int(np.flatnonzero(~valid)[0]) if len(valid) else -1
        self._words = np.empty(self._count, np.int64)
        words_of(self._starts, self._arena, self._mix, self._words)
        self._index(self._count)

    def nbytes(self) -> int:
        return self._words.nbytes + self._table.nbytes + self._starts.nbytes + self._arena.nbytes

    def check(self) -> None:
        # texts lie one after another in the arena
        assert self._starts[0] == 0
        assert bool(np.all(np.diff(self.starts) >= 0))
        assert len(self.arena) <= len(self._arena)
        # every text is found again, under one id only
        valid = np.arange(self._count) != self.null_id
        ids = np.empty(self._count, np.int64)
        texts = read_only(self._starts), read_only(self._arena), read_only(valid)
        find_texts(*texts, self._table, self._mix, self._starts, self._arena, self.null_id, ids)
        assert np.array_equal(ids, np.arange(self._count))
        # the table has free places, so that every search ends
        assert self.null_id < self._count <= len(self._words) <= room_in(len(self._table) // 2)
        assert len(self._starts) == len(self._words) + 1

    def _make_room(self, room: int, length: int) -> None:
        """There is no room for another id, or for a text of `length` bytes."""
        if self._count == len(self._words):
            self._index(room)
        used = int(self._starts[self._count])
        if used + length > len(self._arena):
            # as many bytes for each of the ids there is room for as there have been so far, if not too many
            expected = used * len(self._words) // max(self._count, 1)
            self._arena = enlarged(self._arena, max(2 * used, min(8 * used, expected), used + length))
        if len(self._arena) > MOST_BYTES:
            self._starts = self._starts.astype(np.int64)

    def _index(self, room: int) -> None:
        """Make the table anew, with room for as many ids at least."""
        places = places_for(room)
        self._words = enlarged(self._words, room_in(places))
        self._starts = enlarged(self._starts, room_in(places) + 1)
        self._table, self._mix = empty_table(places, self._salt)
        fill_hashed(self._words[: self._count], self.null_id, self._table, self._mix)


def buffers_of(texts: pa.Array) -> tuple[npt.NDArray[Any], Bytes, Bools]:
    """Offsets, bytes and validity of texts, as they lie in memory; at least eight bytes."""
    width = (
        np.int64 if pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type) else np.int32
    )
    _, offsets, data = texts.buffers()
    starts = np.zeros(1, width) if offsets is None or not offsets.size else np.frombuffer(offsets, width)
    content = np.zeros(8, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if len(content) < 8:
        content = np.concatenate([content, np.zeros(8, np.uint8)])
    valid = np.asarray(texts.is_valid()) if texts.null_count else ALL_VALID
    starts = starts[texts.offset : texts.offset + len(texts) + 1]
    return read_only(starts), read_only(content), read_only(valid)
