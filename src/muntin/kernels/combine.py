"""Cells: partials of one component in parallel arrays, and how two of them combine.

B-INT and L-INT are the same for every component, so their kernels are written once, over *cells*: a
NamedTuple of the component's state arrays, one element per partial. Its class says which component
it is. Numba resolves `combine` by that class when it compiles a kernel, so that no branch on the
component is left in a loop and partials stay in registers. (An op code was the alternative: it
forces one set of types on all components, and times would pass through a float.)

`combine(cells, left, right)` is associative, up to rounding for float sums and m2; it is never
assumed to be commutative. The rules are those of `merge`: NaN is the greatest number, FIRST and LAST
go by time.

Cells lie in *rings*: cell `i & (capacity - 1)` holds number `i`, for a capacity that is a power of 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from muntin.kernels.jit import kernel

SMALLEST = 64  # capacity of an empty ring


class Counts(NamedTuple):
    count: Any


class IntSums(NamedTuple):
    total: Any
    shadow: Any


class FloatSums(NamedTuple):
    high: Any
    low: Any


class Leasts(NamedTuple):
    value: Any


class Greatests(NamedTuple):
    value: Any


class Firsts(NamedTuple):
    value: Any
    at: Any


class Lasts(NamedTuple):
    value: Any
    at: Any


class Moments(NamedTuple):
    count: Any
    mean: Any
    m2: Any


def _combine_counts(cells, left, right):
    return (left[0] + right[0],)


def _combine_int_sums(cells, left, right):
    return left[0] + right[0], left[1] + right[1]


def _combine_float_sums(cells, left, right):
    a, b = left[0], right[0]
    s = a + b
    c = s - a
    lost = (a - (s - c)) + (b - c)  # what the addition rounded away (two-sum)
    low = left[1] + (lost + right[1]) if np.isfinite(lost) else left[1]
    return s, low


def _combine_leasts(cells, left, right):
    # NaN is greatest: it yields to anything and replaces nothing
    return right if right[0] < left[0] or left[0] != left[0] else left


def _combine_greatests(cells, left, right):
    return right if right[0] > left[0] or right[0] != right[0] else left


def _combine_firsts(cells, left, right):
    return right if right[1] < left[1] else left


def _combine_lasts(cells, left, right):
    return right if right[1] >= left[1] else left  # equal times: the later arrival wins


def _combine_moments(cells, left, right):
    n, m = left[0], right[0]
    if m == 0:
        return left
    if n == 0:
        return right
    both = n + m
    step = right[1] - left[1]
    return both, left[1] + step * m / both, left[2] + (right[2] + step * step * n * m / both)


_COMBINE: dict[Any, Callable[..., Any]] = {
    Counts: _combine_counts,
    IntSums: _combine_int_sums,
    FloatSums: _combine_float_sums,
    Leasts: _combine_leasts,
    Greatests: _combine_greatests,
    Firsts: _combine_firsts,
    Lasts: _combine_lasts,
    Moments: _combine_moments,
}


def combine(cells, left, right):
    """The partial of two neighbouring runs from theirs; `cells` only says of which component."""
    return _COMBINE[type(cells)](cells, left, right)


def combine_plain(kind: type, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """`combine` of two partials of plain numbers; `kind` is the class of cells, whose integers have 64 bits.

    >>> combine_plain(IntSums, (2**62, 0.0), (2**62, 0.0))[0] == -(2**63)
    True
    """
    merged = _COMBINE[kind](None, left, right)
    return ((merged[0] + 2**63) % 2**64 - 2**63, merged[1]) if kind is IntSums else merged


@overload(combine)
def _compile_combine(cells, left, right):
    return _COMBINE.get(getattr(cells, "instance_class", None))


def take(arrays, i):
    """Element `i` of parallel arrays."""
    return tuple(array[i] for array in arrays)


@overload(take)
def _compile_take(arrays, i):
    return (_take_1, _take_2, _take_3)[len(arrays) - 1]


def put(arrays, i, element):
    """Set element `i` of parallel arrays."""
    for array, value in zip(arrays, element, strict=True):
        array[i] = value


@overload(put)
def _compile_put(arrays, i, element):
    return (_put_1, _put_2, _put_3)[len(arrays) - 1]


# An unsigned index spares the test whether it counts from the end, and lets loops be vectorised.


def _take_1(arrays, i):
    return (arrays[0][np.uint64(i)],)


def _take_2(arrays, i):
    return arrays[0][np.uint64(i)], arrays[1][np.uint64(i)]


def _take_3(arrays, i):
    return arrays[0][np.uint64(i)], arrays[1][np.uint64(i)], arrays[2][np.uint64(i)]


def _put_1(arrays, i, element):
    arrays[0][np.uint64(i)] = element[0]


def _put_2(arrays, i, element):
    arrays[0][np.uint64(i)] = element[0]
    arrays[1][np.uint64(i)] = element[1]


def _put_3(arrays, i, element):
    arrays[0][np.uint64(i)] = element[0]
    arrays[1][np.uint64(i)] = element[1]
    arrays[2][np.uint64(i)] = element[2]


_CELLS: dict[str, tuple[type, type]] = {  # for integers, for floats
    "count": (Counts, Counts),
    "sum": (IntSums, FloatSums),
    "min": (Leasts, Leasts),
    "max": (Greatests, Greatests),
    "first": (Firsts, Firsts),
    "last": (Lasts, Lasts),
    "m2": (Moments, Moments),
}


def cells_of(component: str, dtype: np.dtype, arrays: tuple[np.ndarray, ...]) -> Any:
    """The state arrays of a component, by its name, as cells.

    >>> cells_of("max", np.dtype(np.int64), (np.array([3, 1]),))
    Greatests(value=array([3, 1]))
    """
    return _CELLS[component][0 if dtype == np.int64 else 1](*arrays)


def ring_capacity(capacity: int, needed: int) -> int:
    """The capacity a ring should have to hold `needed` cells, having `capacity` now.

    It doubles when too small and shrinks when at most a quarter is needed, so that moving cells from
    ring to ring costs O(1) amortised per cell that comes or goes.

    >>> ring_capacity(64, 65), ring_capacity(1024, 257), ring_capacity(1024, 256), ring_capacity(1024, 0)
    (128, 1024, 512, 64)
    """
    if needed > capacity:
        return 1 << (needed - 1).bit_length()
    if 4 * needed <= capacity:
        return max(SMALLEST, 2 << (needed - 1).bit_length()) if needed else SMALLEST
    return capacity


@kernel
def move(old, old_base, old_capacity, new, new_base, new_capacity, first, end):
    """Copy the cells numbered `first .. end - 1` from a ring that begins at `old_base` to another."""
    for i in range(first, end):
        put(new, new_base + (i & (new_capacity - 1)), take(old, old_base + (i & (old_capacity - 1))))
