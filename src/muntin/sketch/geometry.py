"""Geometry: which blocks a ladder keeps, so that what it answers is within the error that was promised.

*Bounded*, for windows of up to W elements and an error of `eps * W` (Arasu & Manku, section 5). W and eps
are rounded to powers of two, so that W' eps' <= W eps. With L = log2(4 / eps'): blocks of eps' W' / 4 times
1, 2, 4, … 2**L elements, the smallest with L + 1 entries. A window is covered by at most 2L + 2 of them, each
wrong by eps' W' / (4 (L + 1)), and at most half of eps' W' is left out at its ends.

*Unbounded*, for windows of any number n of elements and an error of `eps * n`. The paper keeps a bounded
sketch, of half the error, for each power of two; a block is then in many of them. Here it is kept once, as
the largest window that can reach it needs it (`ladder.py`): the blocks that start between 2**(k-1) and 2**k
elements ago are of units of u = 2**(k-1) / 2**L elements, with `entries` entries to a unit. And blocks are of every
other size only, four of one make the next.

The newest elements are kept as they came, so nothing is left out at the end of a window. At its start less than
a smallest block is: a unit, or two in scales where one unit is no size. From there the window is covered by at most
three blocks of each size, ascending, and then by smaller and newer ones. A block of counts is wrong by u / entries.
One of quantiles by half of that; each time that every second value goes, the others are no longer in the middle
of what they stand for, but by turns on this side and that: two thirds in the end (`kernels/ladder.py`). A window
that is long for its scale has the more blocks, one that is short goes on soon among finer ones, so that
the errors of both add up to less, as a part of their length, than those of the longest cover and the shortest
window would: to at most 2 u and `_cover_errors` times u / entries, for each 2**L u. A test tries all covers.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log2
from typing import NamedTuple

from muntin.kernels.ladder import Shape
from muntin.store.saved import Saved

_LARGEST_BASE = 2**13
SMALLEST_BASE = 2**11
SMALLEST_UNIT = 2**5
_FEWEST_LEVELS = 5
_FACT_BYTES = 40  # of a block
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
    def waiting(self) -> int:
        """Elements that wait to become blocks, at most; 0: any number."""
        return self.shape.margin + max(self.base, 64) if self.base else 0

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


def unbounded(eps: float, is_counted: bool, is_auto: bool = True) -> Geometry:
    """Of a sketch for windows of any length. Where blocks could be small (`is_auto`), more elements are kept as they
    come: to turn some hundred into blocks takes as long as some thousand.

    >>> unbounded(0.01, False).base, unbounded(0.01, False).shape
    (16384, Shape(reach=32768, margin=16384, unit_bits=5, levels=10, entries=2, radix_bits=2, anchor=14))
    """
    check_eps(eps)
    choices = [(top, _entries(top, eps, is_counted)) for top in range(_FEWEST_LEVELS - 1, 25)]
    top, entries = min(choices, key=lambda choice: _scale_bytes(choice[0], choice[1], is_counted))
    unit_bits = (4 * entries - 1).bit_length() - 1  # at least two elements to an entry
    if is_auto:
        unit_bits = max(unit_bits, SMALLEST_UNIT.bit_length() - 1, SMALLEST_BASE.bit_length() - 1 - top)
    base_bits = unit_bits + top
    base = 1 << base_bits
    return Geometry(Shape(2 * base, base, unit_bits, top + 1, entries, 2, base_bits), base, 0)


def _entries(top: int, eps: float, is_counted: bool) -> int:
    """Entries of a unit that keep the promise, if 2**top units are the shortest window; two at least."""
    allowed = Fraction(eps) * 2**top - 2  # units
    return max(2, ceil(_cover_errors(top, is_counted) / allowed)) if allowed > 0 else 2**40


def _cover_errors(top: int, is_counted: bool) -> Fraction:
    """What the errors of a cover add up to, at most, in what an entry stands for: see above."""
    return Fraction(4 * top - 10, 3) if is_counted else Fraction(8 * top - 18, 9)


def _scale_bytes(top: int, entries: int, is_counted: bool) -> float:
    """About what each doubling of the window takes."""
    return (entries * (12 if is_counted else 8) * (top + 1) / 2 + _FACT_BYTES) * (1 << top)


def coarser(geometry: Geometry) -> Geometry | None:
    """Of twice the error, for windows of any length; None if that is no error to promise.

    >>> coarser(unbounded(0.01, True)).base, coarser(unbounded(0.01, True)).shape.levels
    (8192, 9)
    """
    shape = geometry.shape
    if geometry.window or shape.levels <= _FEWEST_LEVELS:
        return None
    half = shape._replace(reach=shape.reach // 2, margin=shape.margin // 2, levels=shape.levels - 1)
    return Geometry(half, geometry.base // 2, 0)


def shorter(geometry: Geometry) -> Geometry | None:
    """Of the same error, with half as many elements that are kept as they come, in blocks that begin at half the size;
    None if those would have fewer than two elements to an entry. It takes longer to take elements in.

    >>> shorter(unbounded(0.01, True)).base, shorter(unbounded(0.01, True)).shape.levels
    (8192, 10)
    """
    shape = geometry.shape
    if geometry.window or 1 << (shape.unit_bits - 1) < 2 * shape.entries:
        return None
    half = shape._replace(reach=shape.reach // 2, margin=shape.margin // 2, unit_bits=shape.unit_bits - 1)
    return Geometry(half, geometry.base // 2, 0)


def saved_eps(saved: Saved) -> float:
    """The error of a sketch in a snapshot, which may have been doubled until it was one half or more."""
    (eps,) = saved.floats("eps", 1).tolist()
    if not FINEST <= eps <= 1:
        raise saved.damaged("eps", f"is {eps}")
    return float(eps)


def saved_geometry(saved: Saved, made: Geometry) -> Geometry:
    """That of a sketch in a snapshot. For windows up to some length it is the one that was `made` for the same
    promise; otherwise errors may have been doubled since, so that it is any of the family."""
    numbers = saved.numbers("geometry", *[(0, 2**62)] * 9)
    found = Geometry(Shape(*numbers[:7]), *numbers[7:])
    if found == made:
        return found
    shape = found.shape
    is_small = shape.unit_bits <= 30 and 1 <= shape.levels <= 30 and 1 <= shape.entries <= 2**30
    base_bits = shape.unit_bits + shape.levels - 1
    of_family = Shape(2 << base_bits, 1 << base_bits, *shape[2:5], 2, shape.anchor) if is_small else None
    if made.window or found != (of_family, 1 << base_bits, 0) or shape.anchor > 62:
        raise saved.damaged("geometry", "is that of no sketch")
    return found


def check_eps(eps: float) -> None:
    """ValueError unless an error can be promised."""
    if not FINEST <= eps <= 0.5:
        raise ValueError(f"eps must lie between {FINEST:.2g} and 0.5, not {eps}")
