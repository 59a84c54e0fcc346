"""How large tables of ids are, and how they grow and shrink.

A table has places for words and their ids, 16 bytes each; their number is a power of two. While it fits the
caches it is kept rather empty, which saves collisions (10,000 words in 32,768 places were encoded 1.7
times as fast as in 16,384). A large one is filled further: a million words in four million places
instead of two took longer, since more of the table then lies outside the caches.
"""

from __future__ import annotations

import secrets
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from muntin.arrays import Bools, Ints

# Odd multipliers of the hash, drawn anew by each process: nobody can prepare keys that collide. They show
# in no answer, since ids follow the order of appearance.
SALT = np.array([secrets.randbits(64) | 1, secrets.randbits(64) | 1], np.uint64)

_FEWEST_PLACES = 1024
_SMALL = 2**18  # places: 4 MB
_AT_ONCE = 8  # times as large as before, at most

T = TypeVar("T", bound=npt.NDArray[Any])


def room_in(places: int) -> int:
    """How many ids a table takes."""
    return places * 3 // 8 if places <= _SMALL else places * 11 // 16


def places_for(ids: int) -> int:
    """The smallest table that takes as many ids.

    >>> places_for(0), places_for(384), places_for(385)
    (1024, 1024, 2048)
    """
    places = _FEWEST_PLACES
    while room_in(places) < ids:
        places *= 2
    return places


def empty_table(places: int, salt: npt.NDArray[np.uint64]) -> tuple[Ints, npt.NDArray[np.uint64]]:
    """A table without ids, and what its hash needs to know: see kernels/word_table.py."""
    shift = np.array([64 - (places.bit_length() - 1)], np.uint64)
    return np.full(2 * places, -1, np.int64), np.concatenate([salt, shift])


def more_room(count: int, fresh: int, done: int, rows: int) -> int:
    """How many ids to make room for, when `count` fill it and `fresh` of them came with the first `done`
    of `rows` rows: twice as many, or more if the rest of the rows may well bring them.

    >>> more_room(1_000, 0, 0, 50_000), more_room(1_000, 1_000, 1_936, 10_000)
    (2000, 5032)
    """
    expected = count + fresh * (rows - done) // (done + 64)
    return max(2 * count, min(_AT_ONCE * count, expected))


def enlarged(array: T, length: int) -> T:
    """A longer copy; what is beyond the old end is not set."""
    longer = np.empty(length, array.dtype)
    longer[: len(array)] = array
    return longer  # type: ignore[return-value]


def read_only(array: T) -> T:
    """The same array for reading only. Kernels are compiled for each kind of array, and columns of a batch
    come in both kinds: without this the second kind would have to wait for the compiler."""
    view = array.view()
    view.flags.writeable = False
    return view


def renumbered(kept: Bools) -> Ints:
    """New ids for those that are kept, in order, and -1 for the others.

    >>> renumbered(np.array([True, False, True]))
    array([ 0, -1,  1])
    """
    return np.where(kept, np.cumsum(kept) - 1, -1)
