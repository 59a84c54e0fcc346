"""Geometry: which blocks a ladder keeps, so that what it answers is within the error that was promised.

*Bounded*, for windows of up to W elements and an error of `eps * W` (Arasu & Manku, section 5). W and eps
are rounded to powers of two, so that W' eps' <= W eps. With L = log2(4 / eps'): blocks of eps' W' / 4 times
1, 2, 4, … 2**L elements, the smallest with L + 1 entries. A window is covered by at most 2L + 2 of them, each
wrong by eps' W' / (4 (L + 1)), and at most half of eps' W' is left out at its ends.

*Unbounded*, for windows of any number n of elements and an error of `eps * n`. The paper keeps a bounded
sketch, of half the error, for each power of two; a block is then in many of them. Here it is kept once, as
the largest window that can reach it needs it (`ladder.py`): the blocks that start between 2**(k-1) and 2**k
elements ago are as fine as those of a bounded sketch for 2**k, with units of u = 2**k / 2**L elements, where an
error of 4 u is allowed. And blocks are of every other size only, four of one make the next.

The newest elements are kept as they came, so nothing is left out at the end of a window. At its start less than
a smallest block is: one unit, or half of one in scales where one unit is no size. From there the window is
covered by at most three blocks of each size, ascending: 3 L / 2, or 3 (L + 1) / 2; and then by smaller and newer
ones, at most three of each size s, which are less than 4 s, 4 s and 2 s old: their errors add up to less than one
block's from the start. So each may be wrong by 3 u / (3 L / 2 + 1), or 3.5 u / (3 (L + 1) / 2 + 1). That takes less
than a third of the entries that the paper's sketches for one length have, and there are fewer blocks to make.
"""

from __future__ import annotations

from math import ceil, floor, log2
from typing import NamedTuple

from muntin.kernels.ladder import Shape

_LARGEST_BASE = 2**13
SMALLEST_BASE = 2**11
FINEST = 2.0**-20


class Geometry(NamedTuple):
    """`window` 0: of any length."""

    shape: Shape
    base: int  # elements that are turned into blocks at a time
    window: int

    @property
    def base_bits(self) -> int:
        return self.base.bit_length() - 1

    @property
    def finest(self) -> int:
        """Entries of the largest block."""
        return self.shape.entries << (self.shape.levels - 1)

    @property
    def is_exact(self) -> bool:
        """Whether a ring of the elements is smaller than any blocks."""
        return self.base == 0


def bounded(window: int, eps: float, is_auto: bool = True) -> Geometry:
    """Of a sketch for windows of up to `window` elements.

    A ring of the elements if that is no larger (`is_auto`), or if the smallest block would be less than one
    element: the paper asks for W >= 1 / eps, but its blocks are there only from 4 / eps on.

    >>> bounded(10**6, 0.03).shape, bounded(1500, 0.03).is_exact
    (Shape(reach=1048576, margin=0, unit_bits=12, levels=9, entries=9, radix_bits=1, anchor=0), True)
    """
    check_eps(eps)
    if window < 1:
        raise ValueError(f"a window needs a size of at least 1, not {window}")
    reach = 1 << (window - 1).bit_length()
    inverse = ceil(-log2(eps * window / reach))  # eps' is 2 ** -inverse
    top = inverse + 2  # the paper's L
    unit_bits = reach.bit_length() - 1 - top
    entries = top + 1
    if unit_bits < 0 or (is_auto and window <= entries * entries << top):
        return Geometry(Shape(reach, 0, 0, 1, 1), 0, window)
    base = 1 << unit_bits
    # longer runs are faster to take in, but kept as they come: not more than a part of the window
    if is_auto:
        base = min(_LARGEST_BASE, max(base, min(_LARGEST_BASE // 2, reach >> 3)))
    return Geometry(Shape(reach, 0, unit_bits, top + 1, entries), base, window)


def unbounded(eps: float, is_auto: bool = True) -> Geometry:
    """Of a sketch for windows of any length. Where blocks could be small (`is_auto`), more elements are kept as they
    come: to turn some hundred into blocks takes as long as some thousand.

    >>> unbounded(0.01).base, unbounded(0.01).shape
    (8192, Shape(reach=16384, margin=8192, unit_bits=3, levels=11, entries=3, radix_bits=2, anchor=13))
    """
    check_eps(eps)
    top = 2 - floor(log2(eps / 2))  # the paper's L
    entries = ceil(max((3 * top / 2 + 1) / 3, (3 * (top + 1) / 2 + 1) / 3.5) / 2)  # of half a unit
    unit_bits = (4 * entries - 1).bit_length() - 1  # of half a unit, at least two elements to an entry
    if is_auto:
        unit_bits = max(unit_bits, SMALLEST_BASE.bit_length() - 1 - top)
    base_bits = unit_bits + top
    base = 1 << base_bits
    return Geometry(Shape(2 * base, base, unit_bits, top + 1, entries, 2, base_bits), base, 0)


def coarser(geometry: Geometry) -> Geometry | None:
    """Of twice the error, for windows of any length; None if that is no error to promise.

    >>> coarser(unbounded(0.01)).base, coarser(unbounded(0.01)).shape.levels
    (4096, 10)
    """
    shape = geometry.shape
    if geometry.window or shape.levels <= 5:
        return None
    half = shape._replace(reach=shape.reach // 2, margin=shape.margin // 2, levels=shape.levels - 1)
    return Geometry(half, geometry.base // 2, 0)


def check_eps(eps: float) -> None:
    """ValueError unless an error can be promised."""
    if not FINEST <= eps <= 0.5:
        raise ValueError(f"eps must lie between {FINEST:.2g} and 0.5, not {eps}")
