"""When ids are forgotten.

A key that was silent for longer than the longest window has no event left in any store, but its id and its value are
still in the dictionary. When a dictionary has doubled since it was last looked at, a `Sweeper` has the ids in use
marked, the others forgotten, and those left numbered anew, in their order: O(1) amortised per key that comes. It is
looked at once more when the longest window went.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from muntin.arrays import Bools, Ints

_FEW = 4096  # ids that are not worth a sweep
_GROWTH = 2  # a dictionary is looked at again when it has grown by this factor


class Forgetful(Protocol):
    """A dictionary that can forget."""

    def __len__(self) -> int: ...

    def retain(self, kept: Bools) -> Ints:
        """Forget what is not kept; the new id of each, -1 for those gone."""


class Sweeper:
    """When to sweep one dictionary."""

    def __init__(self) -> None:
        self._due_at = 0  # ids

    def look_again(self) -> None:
        """Ids that were in use may be so no longer, though none have come."""
        self._due_at = 0

    def sweep(
        self, dictionary: Forgetful, mark: Callable[[Bools], None], renumber: Callable[[Ints], None]
    ) -> None:
        """Sweep if it is due; `mark` sets which ids are in use, `renumber` tells what they are called now."""
        if len(dictionary) < max(self._due_at, _FEW, 1):
            return
        used = np.zeros(len(dictionary), np.bool_)
        mark(used)
        if 4 * int(used.sum()) <= 3 * len(used):
            renumber(dictionary.retain(used))
        self._due_at = max(_FEW, _GROWTH * len(dictionary))
