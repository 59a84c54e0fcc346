"""Cells and the rules of their kind: how kernels fold an event into a partial, and combine two.

Most kernels are the same for every component, so they are written once, over *cells*: a NamedTuple of a component's
state arrays, one element per partial. Its class has the rules (`muntin.component.rules`). Numba resolves `combine`,
`fold` and `subtract` by that class when it compiles a kernel, so that no branch on the component is left in a loop and
partials stay in registers. (An op code was the alternative: it forces one set of types on all components, and times
would pass through a float.)

Cells lie in *rings*: cell `i & (capacity - 1)` holds number `i`, for a capacity that is a power of 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from muntin.kernels.jit import inner, kernel

SMALLEST = 64  # capacity of an empty ring
_HALF = 2**63
_RULES: dict[Callable[..., Any], Callable[..., Any]] = {}


def _compiled(rule: Callable[..., Any]) -> Callable[..., Any]:
    if rule not in _RULES:
        _RULES[rule] = inner(rule)
    return _RULES[rule]


def combine(cells, left, right):
    """The partial of two neighbouring runs from theirs; `cells` only says of which component."""
    return type(cells).combine(left, right)


@overload(combine)
def _compile_combine(cells, left, right):
    rule = _compiled(cells.instance_class.combine)
    return lambda cells, left, right: rule(left, right)


def fold(cells, state, value, at):
    """A partial with one more event in it."""


@overload(fold)
def _compile_fold(cells, state, value, at):
    kind = cells.instance_class
    if hasattr(kind, "fold"):
        rule = _compiled(kind.fold)
        return lambda cells, state, value, at: rule(state, value, at)
    lift, merge = _compiled(kind.lift), _compiled(kind.combine)
    return lambda cells, state, value, at: merge(state, lift(value, at))


def lift(cells, value, at):
    """The partial of one event."""


@overload(lift)
def _compile_lift(cells, value, at):
    rule = _compiled(cells.instance_class.lift)
    return lambda cells, value, at: rule(value, at)


def subtract(cells, whole, part):
    """What is left of a run without its beginning."""


@overload(subtract)
def _compile_subtract(cells, whole, part):
    rule = _compiled(cells.instance_class.subtract)
    return lambda cells, whole, part: rule(whole, part)


def combine_plain(kind: Any, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """`combine` of two partials of plain numbers, of a kind of cells. Its integers have 64 bits.

    >>> from muntin.component.sum import IntSums
    >>> combine_plain(IntSums, (2**62, 0.0), (2**62, 0.0))[0] == -(2**63)
    True
    """
    return wrapped(kind.combine(left, right))


def wrapped(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """A partial of plain numbers whose integers may have left the 64 bits that they have in arrays."""
    for number in numbers:
        if type(number) is int and not -_HALF <= number < _HALF:
            return tuple(
                (each + _HALF) % (2 * _HALF) - _HALF if type(each) is int else each for each in numbers
            )
    return numbers


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


@kernel
def scan_runs(cells, lo, hi, out):
    """The combination of cells [lo[r], hi[r]) into element r of `out`, which holds identities."""
    for r in range(len(lo)):
        total = take(out, r)
        for i in range(lo[r], hi[r]):
            total = combine(cells, total, take(cells, i))
        put(out, r, total)
