"""The geometry of blocks is that of the paper where it is right, and promises hold by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor, log2

import pytest

from muntin.kernels.ladder import Shape, lowest_level, scale_of
from muntin.sketch.geometry import bounded, unbounded


@pytest.mark.parametrize(
    ("inverse", "levels"), [(2, 4), (4, 5), (8, 6), (16, 7), (64, 9), (128, 10), (1024, 13)]
)
def test_the_papers_levels(inverse: int, levels: int) -> None:
    window = 2**24
    shape = bounded(window, 1 / inverse).shape
    top = levels - 1
    assert shape.levels == levels
    assert 1 << shape.unit_bits == window // inverse // 4
    for level in range(levels):
        eps_of_level = Fraction(1, 2 * (2 * top + 2) * inverse) * 2 ** (top - level)  # as printed
        assert shape.entries << level == 1 / eps_of_level
    assert shape.unit_bits + top == 24  # the largest block is the window


@pytest.mark.parametrize(("inverse", "entries"), [(16, 3_136), (64, 20_736), (128, 51_200), (1024, 692_224)])
def test_the_papers_space(inverse: int, entries: int) -> None:
    """Active blocks: as many of each level as fit the window. A ring is smaller up to so many elements."""
    shape = bounded(2**24, 1 / inverse).shape
    top = shape.levels - 1
    assert sum((shape.entries << level) * 2 ** (top - level) for level in range(top + 1)) == entries
    assert bounded(entries, 1 / inverse).is_exact
    assert not bounded(2**20, 1 / inverse).is_exact


@pytest.mark.parametrize(
    ("window", "eps", "reach", "inverse"), [(1000, 0.1, 1024, 16), (1500, 0.03, 2048, 64)]
)
def test_rounding_to_powers_of_two(window: int, eps: float, reach: int, inverse: int) -> None:
    geometry = bounded(window, eps, is_auto=False)
    assert geometry.shape.reach == reach
    assert geometry.shape.levels == log2(4 * inverse) + 1
    assert geometry.window == window
    assert reach / inverse <= window * eps


def test_m1_windows_below_four_over_eps_have_no_blocks() -> None:
    """W >= 1 / eps, as printed, leaves a smallest block of a quarter of an element."""
    window, eps = 16, 1 / 16
    assert eps * window / 4 < 1
    assert bounded(window, eps, is_auto=False).is_exact
    assert not bounded(4 * window, eps, is_auto=False).is_exact


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("eps", [0.5, 0.3, 0.125, 0.05, 0.01])
def test_every_window_is_within_its_budget(eps: float, is_counted: bool) -> None:
    """By trying all: where windows may begin, how they are covered, and what that leaves out and adds up to."""
    shape, base = unbounded(eps, is_counted).shape, unbounded(eps, is_counted).base
    bases = [1, 2, 3, 5, 8, 11, 13, 16, 21, 37, *(range(38, 130) if eps > 0.2 else ())]
    for sketched in (base * each for each in bases):
        for left_out, error, age in covers(shape, sketched, is_counted):
            assert left_out + error <= eps * (age + left_out + 1e-9)


def covers(shape: Shape, sketched: int, is_counted: bool) -> Iterator[tuple[int, float, int]]:
    """Of each place where a window can begin: the most elements that are left out, the errors of the blocks that
    cover it, and how old it is."""
    starts = [0]
    while (start := following(shape, starts[-1], sketched)) < sketched:
        starts.append(start)
    error = {sketched: 0.0}
    for start in reversed(starts):
        scale = scale_of(shape, sketched + shape.margin - start)
        bits = max(
            shape.unit_bits + scale + level
            for level in range(lowest_level(shape, scale), shape.levels, shape.radix_bits)
            if start % (1 << (shape.unit_bits + scale + level)) == 0
            and start + (1 << (shape.unit_bits + scale + level)) <= sketched
        )
        error[start] = error[start + (1 << bits)] + block_error(shape, bits, scale, is_counted)
    for before, start in zip([-1, *starts], starts, strict=False):
        yield start - before - 1, error[start], sketched + shape.margin - start


def following(shape: Shape, start: int, sketched: int) -> int:
    """The next place where a block begins."""
    scale = scale_of(shape, sketched + shape.margin - start)
    size = 1 << (shape.unit_bits + scale + lowest_level(shape, scale))
    if scale == 0:
        return start + size
    border = max(start + 1, sketched + shape.margin - (shape.reach << (scale - 1)))
    finer = 1 << (shape.unit_bits + scale - 1 + lowest_level(shape, scale - 1))
    return min(start + size, -(-border // finer) * finer)


def block_error(shape: Shape, bits: int, scale: int, is_counted: bool) -> float:
    """Of counts what an entry stands for. Of quantiles half of it, and how far values are from the middle: half as
    far again in the other direction each time that they are halved; and half of it when it was new and large."""
    weight = (1 << (shape.unit_bits + scale)) / shape.entries
    if is_counted:
        return weight
    born = max(0, bits - shape.anchor)
    first = weight / 2 ** (scale - born)
    shift = 0.0
    for each in range(scale - born):
        shift += first * 2**each / 2 * (-1) ** each
    return weight / 2 + abs(shift) + (first / 2 if born else 0)


@pytest.mark.parametrize("inverse", [2, 8, 64])
def test_m6_number_of_the_papers_sketches(inverse: int) -> None:
    """One for each power of two from 2 / eps to the first above N: one more than printed."""
    for count in range(2 * inverse, 3000):
        top = count.bit_length()  # 2 ** (top - 1) <= count < 2 ** top
        members = [j for j in range(top + 1) if 2**j >= 2 * inverse]
        assert len(members) == floor(log2(count / inverse)) + 1


@pytest.mark.parametrize("eps", [0.0, -1.0, 0.6, 1e-9, float("nan")])
def test_no_such_error(eps: float) -> None:
    with pytest.raises(ValueError, match="eps must lie between"):
        unbounded(eps, is_counted=True)
