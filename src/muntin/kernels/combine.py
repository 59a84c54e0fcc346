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
from types import FunctionType
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import lower_builtin, overload, type_callable
from numba.np.arrayobj import load_item, make_array, store_item

from muntin.component.rules import MARKED
from muntin.kernels.jit import PART, inner, kernel

SMALLEST = 64  # capacity of an empty ring
_HALF = 2**63
_RULES: dict[Callable[..., Any], Callable[..., Any]] = {}


def _compiled(rule: Callable[..., Any]) -> Callable[..., Any]:
    """To be pasted into kernels, with the marked functions that it calls: none of them is compiled by itself."""
    if rule not in _RULES:
        seen = rule.__globals__
        called = {
            name: _compiled(seen[name]) for name in rule.__code__.co_names if _is_marked(seen.get(name))
        }
        _RULES[rule] = inner(_with_globals(rule, called) if called else rule)
    return _RULES[rule]


def _is_marked(named: object) -> bool:
    return isinstance(named, FunctionType) and named in MARKED


def _with_globals(rule: Callable[..., Any], others: dict[str, Any]) -> Callable[..., Any]:
    return FunctionType(rule.__code__, rule.__globals__ | others, rule.__name__, None, rule.__closure__)


def combine(cells, left, right):
    """The partial of two neighbouring runs from theirs; `cells` only says of which component."""
    return type(cells).combine(left, right)


@overload(combine, jit_options=PART)
def _compile_combine(cells, left, right):
    rule = _compiled(cells.instance_class.combine)
    return lambda cells, left, right: rule(left, right)


def fold(cells, state, value, at):
    """A partial with one more event in it."""


@overload(fold, jit_options=PART)
def _compile_fold(cells, state, value, at):
    kind = cells.instance_class
    if hasattr(kind, "fold"):
        rule = _compiled(kind.fold)
        return lambda cells, state, value, at: rule(state, value, at)
    lift, merge = _compiled(kind.lift), _compiled(kind.combine)
    return lambda cells, state, value, at: merge(state, lift(value, at))


def lift(cells, value, at):
    """The partial of one event."""


@overload(lift, jit_options=PART)
def _compile_lift(cells, value, at):
    rule = _compiled(cells.instance_class.lift)
    return lambda cells, value, at: rule(value, at)


def subtract(cells, whole, part):
    """What is left of a run without its beginning."""


@overload(subtract, jit_options=PART)
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


def put(arrays, i, element):
    """Set element `i` of parallel arrays."""
    for array, value in zip(arrays, element, strict=True):
        array[i] = value


# Both are emitted as instructions where they stand. As functions, each would be compiled again for every kind of cells
# and every type of index, a tenth of a second each time. The index is unsigned: that spares the test whether it counts
# from the end, and lets loops be vectorised.


@type_callable(take)
def _type_take(context):
    def result(arrays, i):
        if _are_arrays(arrays) and isinstance(i, types.Integer):
            return types.Tuple([array.dtype for array in arrays])
        return None

    return result


@lower_builtin(take, types.BaseTuple, types.Integer)
def _emit_take(context, builder, signature, arguments):
    kinds, index = signature.args
    places = _places(context, builder, kinds, arguments[0], index, arguments[1])
    elements = [load_item(context, builder, kind, place) for kind, place in zip(kinds, places, strict=True)]
    return context.make_tuple(builder, signature.return_type, elements)


@type_callable(put)
def _type_put(context):
    def result(arrays, i, element):
        if (
            _are_arrays(arrays)
            and all(array.mutable for array in arrays)
            and isinstance(i, types.Integer)
            and isinstance(element, types.BaseTuple)
            and len(element) == len(arrays)
        ):
            return types.none
        return None

    return result


@lower_builtin(put, types.BaseTuple, types.Integer, types.BaseTuple)
def _emit_put(context, builder, signature, arguments):
    kinds, index, given = signature.args
    places = _places(context, builder, kinds, arguments[0], index, arguments[1])
    for n, (kind, place) in enumerate(zip(kinds, places, strict=True)):
        value = context.cast(builder, builder.extract_value(arguments[2], n), given[n], kind.dtype)
        store_item(context, builder, kind, value, place)
    return context.get_dummy_value()


def _are_arrays(arrays):
    return isinstance(arrays, types.BaseTuple) and all(
        isinstance(array, types.Array) and array.ndim == 1 for array in arrays
    )


def _places(context, builder, kinds, arrays, index_kind, index):
    """The address of one element in each of the arrays."""
    at = context.cast(builder, index, index_kind, types.uintp)
    for n, kind in enumerate(kinds):
        array = make_array(kind)(context, builder, builder.extract_value(arrays, n))
        shape = cgutils.unpack_tuple(builder, array.shape, 1)
        strides = cgutils.unpack_tuple(builder, array.strides, 1)
        yield cgutils.get_item_pointer2(context, builder, array.data, shape, strides, kind.layout, [at])


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


def as_words(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same memory as integers, where numbers have 64 bits: one kernel then moves cells of many kinds.

    >>> [array.dtype.name for array in as_words((np.zeros(2), np.zeros(2, np.int64), np.zeros(2, bool)))]
    ['int64', 'int64', 'bool']
    """
    return tuple(
        array.view(np.int64) if array.dtype.kind in "iuf" and array.itemsize == 8 else array
        for array in arrays
    )


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
