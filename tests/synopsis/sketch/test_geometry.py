"""The geometry of blocks is that of the paper where it is right, and promises hold by arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor, log2

import pytest

from muntin.kernels.ladder import Shape, lowest_level, scale_of
from muntin.synopsis.sketch.geometry import bounded, unbounded


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


@pytest.mark.parametrize("eps", [0.5, 0.3, 0.1, 0.05, 0.01, 0.001, 1e-4])
def test_unbounded_budget(eps: float) -> None:
    """Left out and covered, the errors of a window in scale k add up to its share of the window."""
    geometry = unbounded(eps)
    shape = geometry.shape
    for scale in range(20):
        reach, unit = shape.reach << scale, 2 << (shape.unit_bits + scale)
        smallest = 1 << (shape.unit_bits + scale + lowest_level(shape, scale))
        assert smallest in (unit, unit // 2)
        # at most three blocks of each size that is less than a quarter of the reach, and the rest as one
        sizes = [size for size in (smallest << shape.radix_bits * k for k in range(64)) if 4 * size <= reach]
        covered = (3 * len(sizes) + 1) * Fraction(unit, 2 * shape.entries)
        shortest = reach // 2 + 1  # of the windows whose first block is of this scale
        assert smallest - 1 + covered <= Fraction(str(eps)) * shortest
        # one that starts among blocks of the next scale, and whose first block is of this
        assert 2 * unit - 1 + covered <= Fraction(str(eps)) * (reach - 2 * unit + 1)


@pytest.mark.parametrize("eps", [0.5, 0.3, 0.125, 0.05])
def test_every_cover_is_within_its_budget(eps: float) -> None:
    """By trying all: where windows may begin, how they are covered, and what that leaves out and adds up to."""
    shape, base = unbounded(eps).shape, unbounded(eps).base
    for sketched in (base, 2 * base, 5 * base, 8 * base, 13 * base, 16 * base, 37 * base):
        before = 0  # where the block before starts, none of which is in the window
        start = 0
        while start < sketched:
            scale = scale_of(shape, sketched + shape.margin - start)
            error = Fraction(start - before - 1 if start else 0)
            error += sum(naive_cover(shape, start, sketched))
            assert error <= Fraction(str(eps)) * (sketched + shape.margin - start)
            before = start
            start += 1 << (shape.unit_bits + scale + lowest_level(shape, scale))


def naive_cover(shape: Shape, at: int, end: int) -> Iterator[Fraction]:
    """The error of each block, from the first on the largest that there is."""
    while at < end:
        scale = scale_of(shape, end + shape.margin - at)
        bits = max(
            shape.unit_bits + scale + level
            for level in range(lowest_level(shape, scale), shape.levels, shape.radix_bits)
            if at % (1 << (shape.unit_bits + scale + level)) == 0
            and at + (1 << (shape.unit_bits + scale + level)) <= end
        )
        yield Fraction(1 << (shape.unit_bits + scale), shape.entries)
        at += 1 << bits


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
        unbounded(eps)
