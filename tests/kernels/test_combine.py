"""The rules of a component, compiled into a kernel, give what they give plain Python; elements go where they should."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from muntin.component import RULES, Rules
from muntin.component.pairs import pair_dtype
from muntin.component.rules import FLOAT, INT
from muntin.kernels.combine import combine, fold, lift, put, subtract, take, wrapped
from muntin.kernels.jit import kernel

Array = np.ndarray[Any, Any]
FAR = [2**62, -(2**63), 2**63 - 1, 0, -1]
ODD = [np.nan, np.inf, -np.inf, -0.0, 1e16, 1.0, -1e16, 1e308, 1e308]
EACH = [(rules, dtype) for rules in RULES for dtype in (INT, FLOAT)]


def compiled(kind: Any, has_subtract: bool) -> Any:
    """All rules of a kind in one kernel: lifted events, folded ones, neighbours combined and taken apart."""

    def run(value, at, lifted, folded, combined, left):  # type: ignore[no-untyped-def]
        ones, sums, pairs, rests = kind(*lifted), kind(*folded), kind(*combined), kind(*left)
        state = take(sums, 0)
        for i in range(len(value)):
            put(ones, i, lift(ones, value[i], at[i]))
            state = fold(sums, state, value[i], at[i])
            put(sums, i + 1, state)
        for i in range(1, len(value)):
            put(pairs, i, combine(ones, take(ones, i - 1), take(ones, i)))
            if has_subtract:
                put(rests, i, subtract(ones, take(pairs, i), take(ones, i - 1)))

    return kernel(run, False)


def plain(
    kind: Any, values: list[Any], at: list[int], nothing: tuple[Any, ...]
) -> list[list[tuple[Any, ...]]]:
    """The same, number by number in Python: lifted, folded, combined, taken apart."""
    ones = [wrapped(kind.lift(value, time)) for value, time in zip(values, at, strict=True)]
    sums = [nothing]
    for value, time, one in zip(values, at, ones, strict=True):
        has_fold = hasattr(kind, "fold")
        sums.append(wrapped(kind.fold(sums[-1], value, time) if has_fold else kind.combine(sums[-1], one)))
    pairs = [wrapped(kind.combine(left, right)) for left, right in pairwise(ones)]
    rests = []
    if hasattr(kind, "subtract"):
        rests = [wrapped(kind.subtract(pair, one)) for pair, one in zip(pairs, ones, strict=False)]
    return [ones, sums, pairs, rests]


@pytest.mark.parametrize(("rules", "dtype"), EACH, ids=lambda each: getattr(each, "name", None))
def test_rules_agree_with_plain_python(rules: Rules, dtype: np.dtype) -> None:
    """Integers that leave 64 bits, NaN, infinities and numbers that rounding loses among the values."""
    rng = np.random.default_rng(7)
    if dtype == INT:
        values = np.array([*FAR, *rng.integers(-50, 50, 40)])
    else:
        values = np.array([*rng.normal(size=40), *ODD])
    at = rng.integers(0, 9, len(values))
    given = values
    if rules.name == "arg_max":
        given = np.empty(len(values), pair_dtype(dtype))
        given["value"], given["rank"] = values, rng.integers(0, 9, len(values))
    kind = rules.kind(dtype)
    cells = [rules.start(dtype, len(values) + 1) for _ in range(4)]
    nothing = tuple(array[0].item() for array in cells[0])
    has_subtract = hasattr(kind, "subtract")
    compiled(kind, has_subtract)(given, at, *cells)
    as_plain = [each.item() for each in values] if given is values else list(map(_pair, given))
    with np.errstate(all="ignore"):
        wanted = plain(kind, as_plain, at.tolist(), nothing)
    for found, rows, first in zip(cells, wanted, (0, 0, 1, 1), strict=True):
        for column, array in enumerate(found):
            expected = np.array([row[column] for row in rows], array.dtype)
            got = array[first : first + len(rows)]
            assert np.array_equal(got, expected, equal_nan=array.dtype.kind == "f"), (column, got, expected)


def _pair(each: Any) -> dict[str, Any]:
    return {"value": each["value"].item(), "rank": each["rank"].item()}


@kernel
def swap(arrays, first, second):  # type: ignore[no-untyped-def]
    kept = take(arrays, first)
    put(arrays, first, take(arrays, second))
    put(arrays, second, kept)


@pytest.mark.parametrize("index", [np.int64, np.int32, np.uint64, np.uint8])
def test_elements_of_parallel_arrays(index: Any) -> None:
    """Of several types, one with gaps between its elements, by indices of any type."""
    ints, flags = np.arange(5), np.array([True, False, False, False, False])
    apart = np.arange(10, dtype=np.float32)[::2]
    swap((ints, flags, apart), index(0), index(4))
    assert ints.tolist() == [4, 1, 2, 3, 0]
    assert flags.tolist() == [False, False, False, False, True]
    assert apart.tolist() == [8, 2, 4, 6, 0]
    assert apart.base.tolist()[1::2] == [1, 3, 5, 7, 9]


@kernel
def store(arrays, i, element):  # type: ignore[no-untyped-def]
    put(arrays, i, element)


def test_an_element_takes_the_types_of_its_arrays() -> None:
    floats, ints, bits = np.zeros(2), np.zeros(2, np.int64), np.zeros(2, np.uint8)
    store((floats, ints, bits), 1, (7, 2.9, 258))
    assert (floats.tolist(), ints.tolist(), bits.tolist()) == ([0, 7], [0, 2], [0, 2])


def test_what_cannot_be_put_is_refused() -> None:
    """Before anything is written: an array that is read only, too few numbers, arrays of rows."""
    fixed = np.zeros(2)
    fixed.setflags(write=False)
    for arrays, element in (
        ((fixed,), (1.0,)),
        ((np.zeros(2), np.zeros(2)), (1.0,)),
        ((np.zeros((2, 2)),), (1.0,)),
    ):
        with pytest.raises(TypingError):
            store(arrays, 0, element)
