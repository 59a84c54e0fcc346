"""A band: what a predicate lets pass, if that is all values of one attribute between two ends.

`price > 3`, `price BETWEEN 1 AND 9` and `price >= 1 AND price < 5` are bands of `price`; any number of
them over one attribute can be served together, where other predicates must be evaluated one by one.

Ends are *sort keys*: integers in the order of the values, so that all types are compared alike and
every band is closed.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from muntin.expression import Expression

LEAST, GREATEST = -(2**63), 2**63 - 1  # sort keys
_NUMBER, _BITS = struct.Struct("<d"), struct.Struct("<q")


@dataclass(frozen=True)
class Band:
    """Events whose `attribute` has a sort key from `low` to `high`; those where it is NULL do not pass."""

    attribute: Expression
    low: int
    high: int

    def __and__(self, other: Band) -> Band | None:
        """What passes both; None if they are of different attributes."""
        if self.attribute != other.attribute:
            return None
        return Band(self.attribute, *narrowed(max(self.low, other.low), min(self.high, other.high)))

    def widened(self, part: float, is_float: bool) -> Band:
        """The band that a value may miss by a part of its ends; `is_float` says what its sort keys are of. An end that
        is open or infinite stays, and so does a band that nothing passes.

        >>> band = Band(None, 100, GREATEST).widened(0.25, is_float=False)
        >>> band.low, band.high == GREATEST
        (75, True)
        """
        if self.low > self.high:
            return self
        low, high = (
            end if end in (LEAST, GREATEST) else _moved(end, way * part, is_float)
            for end, way in ((self.low, -1), (self.high, 1))
        )
        return Band(self.attribute, *narrowed(low, high))


def _moved(end: int, part: float, is_float: bool) -> int:
    """A sort key, moved by a part of its value, and never beyond that."""
    if not is_float:
        way = Fraction(str(part)) * abs(end)
        return end + (math.ceil(way) if part < 0 else math.floor(way))
    value = sort_value(end)
    return sort_key(value + part * abs(value)) if math.isfinite(value) else end


def narrowed(low: int, high: int) -> tuple[int, int]:
    """The ends of a band as 64-bit numbers; 0 and -1 if nothing lies between them.

    >>> narrowed(-(2**70), 5), narrowed(2**63, 2**63)
    ((-9223372036854775808, 5), (0, -1))
    """
    low, high = max(low, LEAST), min(high, GREATEST)
    return (low, high) if low <= high else (0, -1)


def sort_keys(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Integers in the order of the values: NaN above all numbers, and -0.0 equal to 0.0.

    >>> sort_keys(np.array([-1.5, -0.0, 0.0, np.inf, np.nan])).argsort(kind="stable")
    array([0, 1, 2, 3, 4])
    >>> sort_keys(np.array([3, -7]))
    array([ 3, -7])
    """
    if values.dtype != np.float64:
        return values
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & GREATEST)


def sort_key(number: float) -> int:
    """`sort_keys` of one number: an int is its own key.

    >>> sort_key(-0.0), sort_key(float("nan")) == int(sort_keys(np.array([np.nan]))[0])
    (0, True)
    """
    if isinstance(number, int):
        return number
    bits: int = _BITS.unpack(_NUMBER.pack(math.nan if math.isnan(number) else number + 0.0))[0]
    return bits ^ ((bits >> 63) & GREATEST)


def sort_value(key: int) -> float:
    """The float with a given sort key.

    >>> sort_value(sort_key(-1.5)), sort_value(sort_key(0.25))
    (-1.5, 0.25)
    """
    number: float = _NUMBER.unpack(_BITS.pack(key ^ ((key >> 63) & GREATEST)))[0]
    return number
