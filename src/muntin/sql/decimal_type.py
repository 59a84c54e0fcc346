"""Which DECIMAL a computation has: digits before and after the point, by DuckDB's rules up to 38 digits.

| operation | digits before the point | digits after it |
|---|---|---|
| `a + b`, `a - b` | the larger number of both, and one | the larger number of both |
| `a * b` | those of both together | those of both together |
| what compares or mixes `a` and `b` | the larger number of both | the larger number of both |

An integer has as many digits as its type can have; a constant as many as it needs. What would have more than 38 digits
has 38 of them, and a value that does not fit has no value. Comparisons are never cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa

from muntin.fixed_point import WIDEST

_OF_INTEGERS = {8: 3, 16: 5, 32: 10, 64: 19}  # digits, by bits
_OF_ALL = 76  # digits of Arrow's widest


class Digits(NamedTuple):
    """How many digits there may be before and after the point."""

    whole: int
    scale: int


def digits_of(kind: pa.DataType) -> Digits:
    """Of integers and decimals.

    >>> digits_of(pa.decimal128(12, 2)), digits_of(pa.int32())
    (Digits(whole=10, scale=2), Digits(whole=10, scale=0))
    """
    if pa.types.is_integer(kind):
        return Digits(20 if pa.types.is_uint64(kind) else _OF_INTEGERS[kind.bit_width], 0)
    return Digits(kind.precision - kind.scale, kind.scale)


def digits_needed(value: Decimal) -> Digits:
    """Of one value, without zeros at its end.

    >>> digits_needed(Decimal("9.990")), digits_needed(Decimal("0.05")), digits_needed(Decimal("1E+3"))
    (Digits(whole=1, scale=2), Digits(whole=0, scale=2), Digits(whole=4, scale=0))
    """
    _, digits, exponent = value.as_tuple()
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    assert isinstance(exponent, int)
    exponent += len(written) - len(kept)
    if not kept:
        return Digits(1, 0)
    return Digits(max(len(kept) + exponent, 0), max(-exponent, 0))


def type_of(digits: Digits) -> pa.DataType:
    """The DECIMAL with so many digits, of 38 at most; ValueError if even those after the point do not fit."""
    whole, scale = digits
    if scale > WIDEST:
        raise ValueError(f"has {scale} digits after the point, and a DECIMAL at most {WIDEST}")
    return pa.decimal128(min(max(whole + scale, 1), WIDEST), scale)


def type_mixed(some: Iterable[Digits]) -> pa.DataType:
    """The DECIMAL that has room for all of these."""
    return type_of(_widest(some))


def type_compared(some: Iterable[Digits]) -> pa.DataType:
    """The same, of as many digits as it takes to compare exactly; ValueError if that are too many."""
    whole, scale = _widest(some)
    if whole + scale <= WIDEST:
        return type_of(Digits(whole, scale))
    if whole + scale > _OF_ALL:
        raise ValueError(f"has {whole + scale} digits, and {_OF_ALL} can be compared at most")
    return pa.decimal256(whole + scale, scale)


def _widest(some: Iterable[Digits]) -> Digits:
    wholes, scales = zip(*some, strict=True)
    return Digits(max(wholes), max(scales))
