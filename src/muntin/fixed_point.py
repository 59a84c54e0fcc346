"""A DECIMAL as state keeps it: an integer of 64 bits that counts units of its last digit.

`9.99` of a DECIMAL(12, 2) is 999. Stores, kernels and dictionaries see integers; the scale is known to expressions and
to whoever hands values in or out. Up to 18 digits fit. Arrow has 128 bits for a DECIMAL: the lower half is the integer,
the upper half its sign.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.errors import SchemaError

MOST_DIGITS = 18
WIDEST = 38  # digits that 128 bits have room for: of sums, and of what is computed
_LONGEST = 76  # digits of the widest decimals of Arrow, on either side of the point
HALVES = np.dtype([("low", "<i8"), ("high", "<i8")])  # of a value, as Arrow keeps it

Ints = npt.NDArray[np.int64]


def is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind))


def is_kept(kind: pa.DataType) -> bool:
    """Whether values of a type are decimals that an integer of 64 bits can stand for."""
    return bool(pa.types.is_decimal128(kind)) and kind.precision <= MOST_DIGITS and kind.scale >= 0


def check_columns(schema: pa.Schema, owner: str) -> None:
    """A `SchemaError` if a column is of decimals that cannot be kept."""
    for field in schema:
        if is_decimal(field.type) and not is_kept(field.type):
            raise SchemaError(
                f"column '{field.name}' of {owner} is {field.type}; a DECIMAL has at most {MOST_DIGITS} digits, as "
                "decimal128 of Arrow; CAST what has more"
            )


def units_of(array: pa.Array) -> Ints:
    """The integers that stand for decimals, anything for NULL; O(values)."""
    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), np.int64)
    halves = np.frombuffer(data, HALVES, array.offset + len(array))
    return np.ascontiguousarray(halves["low"][array.offset :])


def halves_of(units: Ints) -> npt.NDArray[Any]:
    """Integers as Arrow keeps decimals."""
    halves = np.empty(len(units), HALVES)
    halves["low"], halves["high"] = units, units >> 63
    return halves


def decimals_of(units: Ints, mask: npt.NDArray[np.bool_] | None, kind: pa.DataType) -> pa.Array:
    """The decimals that integers stand for, NULL where the mask is true; O(values).

    >>> decimals_of(np.array([999, -5]), None, pa.decimal128(12, 2)).to_pylist()
    [Decimal('9.99'), Decimal('-0.05')]
    """
    return wide_decimals(halves_of(units), mask, kind)


def wide_decimals(
    halves: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None, kind: pa.DataType
) -> pa.Array:
    """The same of integers of 128 bits."""
    valid = None if mask is None else pa.array(~mask).buffers()[1]
    return pa.Array.from_buffers(kind, len(halves), [valid, pa.py_buffer(halves)])


def unit_of(value: Decimal, scale: int) -> int:
    """One decimal as an integer of as many digits as any decimal of Arrow has; a `ValueError` if it has more, or some
    beyond the scale.

    >>> unit_of(Decimal("9.9"), 2)
    990
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is no number")
    if not value:
        return 0
    if not -_LONGEST <= value.adjusted() < _LONGEST:  # before a power of ten is made that fills the memory
        raise ValueError(f"{value:.9E} has more than {_LONGEST} digits")
    whole: int = int("".join(map(str, digits)) or "0") * 10 ** max(exponent + scale, 0)
    whole, rest = divmod(whole, int(10 ** max(-exponent - scale, 0)))
    if rest:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return -whole if sign else whole


def decimal_of(unit: int, scale: int) -> Decimal:
    """The decimal that an integer stands for.

    >>> decimal_of(-5, 2)
    Decimal('-0.05')
    """
    return Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -scale))


def numbers_of(array: pa.Array) -> pa.Array:
    """Times, booleans and decimals as the integers that state keeps of them; others as they are."""
    kind = array.type
    if pa.types.is_date32(kind):
        return array.view(pa.int32())
    if pa.types.is_temporal(kind):
        return array.view(pa.int64())
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8())
    if is_decimal(kind):
        mask = np.asarray(array.is_null()) if array.null_count else None
        return pa.array(units_of(array), mask=mask)
    return array
