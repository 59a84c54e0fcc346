"""Arrays: the types of arrays that pass between folders, and instants before and after all others; room for kernels."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

LONG_AGO = -(2**62)  # an instant before all others, with room to subtract from
FOREVER = 2**62  # an instant after all others, with room to add to


class _Scratch(threading.local):
    """Room that kernels need for the length of a call, kept for the next one of the same thread.

    Arrays of some hundred kilobytes come from the system with pages that have never been touched, which costs more
    than what is done with them.
    """

    def __init__(self) -> None:
        self.arrays: dict[Any, np.ndarray[Any, Any]] = {}


_scratch = _Scratch()


def unchanged(size: int, value: int | bool) -> np.ndarray[Any, Any]:
    """An array of one value, integers or flags, that nobody writes to.

    >>> unchanged(3, True)
    array([ True,  True,  True])
    """
    key = type(value), value
    array = _scratch.arrays.get(key)
    if array is None or len(array) < size:
        array = _scratch.arrays[key] = np.full(max(1024, 2 * size), value)
    return array[:size]


def scratch(name: str, size: int, dtype: type = np.int64) -> np.ndarray[Any, Any]:
    """An array with anything in it, until the same thread asks for the same name again.

    >>> len(scratch("doctest", 5)), scratch("doctest", 3).base is scratch("doctest", 2).base
    (5, True)
    """
    array = _scratch.arrays.get(name)
    if array is None or len(array) < size:
        array = _scratch.arrays[name] = np.empty(max(1024, 2 * size), dtype)
    return array[:size]


def slots(items: int) -> np.ndarray[Any, Any]:
    """A hash table with anything in it, with places for twice as many items, until the same thread asks again.

    >>> len(slots(5)), len(slots(9))
    (16, 32)
    """
    return scratch("slots", 1 << max(2 * items - 1, 1).bit_length(), np.int32)
