"""Arrays: the types of arrays that pass between folders, and instants before and after all others; room for kernels."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

LONG_AGO = -(2**62)  # an instant before all others, with room to subtract from
FOREVER = 2**62  # an instant after all others, with room to add to


def order_of(values: Ints) -> Ints:
    """The places of values in ascending order, equal ones as they stand.

    >>> order_of(np.array([30, 10, 30, 20]))
    array([1, 3, 0, 2])
    """
    return in_order(values)[1]


def in_order(values: Ints) -> tuple[Ints, Ints]:
    """Values in ascending order, and their places before, equal ones as they stood.

    Numbers that hold a value and its place are sorted five times as fast as places by their values.
    """
    least, bits = int(values.min(initial=FOREVER)), len(values).bit_length()
    if (int(values.max(initial=least)) - least).bit_length() + bits > 63:
        order = np.argsort(values, kind="stable")
        return values[order], order
    packed = values - least
    packed <<= bits
    packed |= np.arange(len(values))
    packed.sort()
    return (packed >> bits) + least, packed & ((1 << bits) - 1)


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


class _Recycled(threading.local):
    """Large arrays that were handed out and may be handed out again; the newest at the end."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.nbytes = 0  # of all


_recycled = _Recycled()
_LARGE = 1 << 16  # bytes: smaller arrays come with pages that have been touched
_MOST_RECYCLED = 1 << 28  # bytes that are held though nobody may use them


def _holders(held: list[np.ndarray[Any, Any]], place: int) -> int:
    """How many references there are to an array; a view holds its base."""
    return sys.getrefcount(held[place])


_NOBODY_ELSE = _holders([np.empty(0)], 0)  # than the list; versions of Python count differently


def recycled(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array with anything in it, in memory of an earlier one that nobody has any more, if there is one.

    >>> first = recycled(10_000_000, np.int8)
    >>> address = first.ctypes.data
    >>> recycled(10_000_000, np.int8).ctypes.data == address  # `first` is still there
    False
    >>> del first
    >>> one, other = recycled(1_200_000, np.float64), recycled(1_200_000, np.float64)
    >>> address in (one.ctypes.data, other.ctypes.data)
    True
    """
    dtype = np.dtype(dtype)
    wanted = size * dtype.itemsize
    if wanted < _LARGE:
        return np.empty(size, dtype)
    held = _recycled.arrays
    for place in range(len(held)):
        if wanted <= held[place].nbytes <= 4 * wanted and _holders(held, place) == _NOBODY_ELSE:
            array = held.pop(place)
            break
    else:
        array = np.empty(wanted + wanted // 4, np.uint8)
        _recycled.nbytes += array.nbytes
    held.append(array)
    while len(held) > 1 and _recycled.nbytes > _MOST_RECYCLED:
        _recycled.nbytes -= held.pop(0).nbytes
    return array[:wanted].view(dtype)


def slots(items: int) -> np.ndarray[Any, Any]:
    """A hash table with anything in it, with places for twice as many items, until the same thread asks again.

    >>> len(slots(5)), len(slots(9))
    (16, 32)
    """
    return scratch("slots", 1 << max(2 * items - 1, 1).bit_length(), np.int32)


def joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Arrays one below the other; without a copy if they lie like that, as those of one look-up do."""
    whole = arrays[0].base
    if not isinstance(whole, np.ndarray) or not all(
        each.base is whole and each.flags.c_contiguous for each in arrays
    ):
        return np.concatenate(arrays)
    begins = [_address(each) for each in arrays]
    is_one = all(at + each.nbytes == then for at, each, then in zip(begins, arrays, begins[1:], strict=False))
    if not is_one or whole.ndim > 1 or not whole.flags.c_contiguous:
        return np.concatenate(arrays)
    first = begins[0] - _address(whole)  # the memory may have been given out for another type
    return whole.view(np.uint8)[first : first + sum(each.nbytes for each in arrays)].view(arrays[0].dtype)


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]  # `ctypes.data` makes two objects for it
    return address
