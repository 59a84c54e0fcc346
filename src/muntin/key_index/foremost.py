"""Foremost: the keys that come first in a window by one component, chosen from the partials of all keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.aggregates.contract import Partial
from muntin.arrays import Ints
from muntin.band import sort_keys
from muntin.kernels.answers import add_rests, any_overflown
from muntin.store.needs import Need

_BLOCKS = 16  # for each key that is looked for; the more there are, the closer is the bound


class Foremost(NamedTuple):
    """Keys by id, ascending: all whose word is at most `bound`. The least word is first."""

    keys: Ints
    bound: int
    is_up: bool  # whether the greatest value is first

    def holds(self, value: float) -> bool:
        """Whether every key that comes before a value, or beside it, is among these.

        >>> from muntin.query import Input
        >>> some = foremost(Need(Input(None), "count"), (np.array([3, 9, 0, 7]),), 2)
        >>> some.keys, some.holds(7), some.holds(6)
        (array([1, 3]), True, False)
        """
        (word,) = words(np.array([value]), self.is_up)
        return int(word) <= self.bound


def foremost(need: Need, partial: Partial, many: int) -> Foremost | None:
    """The keys whose COUNT, SUM or MAX is greatest (MIN: least), `many` or more of them; None if one of the sums has
    overflown. `partial` has a place for each key. O(keys)."""
    value = partial[0]
    if need.component == "sum":
        if value.dtype == np.int64:
            if any_overflown(*partial):
                return None
        else:
            value = np.empty(len(partial[0]))
            add_rests(*partial, value)
    is_up = need.component != "min"
    word = words(value, is_up)
    bound = bound_of_first(word, min(many, len(word)))
    return Foremost(np.flatnonzero(word <= bound), bound, is_up)


def words(value: np.ndarray[tuple[int], np.dtype[np.float64 | np.int64]], is_up: bool) -> Ints:
    """Integers in the order of the values, or in the opposite order if the greatest is to be first."""
    order = sort_keys(value)
    return ~order if is_up else order


def bound_of_first(word: Ints, many: int) -> int:
    """A word that at least so many do not exceed. The least of each of many blocks are words of different rows, so one
    pass over all and a selection among few tell. Rows beside each other, which are often alike, are in different
    blocks."""
    blocks = _BLOCKS * many
    size = len(word) // blocks
    if size > 1:
        word = word[: blocks * size].reshape(size, blocks).min(axis=0)
    return int(np.partition(word, many - 1)[many - 1])
