"""A key value: what a caller gives as a key, as a value of the key's column, or an error.

A key is looked up only if the column can hold exactly that value. So 1.5 is no key of a BIGINT column, a datetime
is no DATE, and TRUE is no number: an answer for another key would be wrong, and an empty one would hide a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import MuntinError
from muntin.fixed_point import decimal_of, unit_of

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Read = Callable[[Any, pa.DataType], Any]


def key_column(values: Sequence[Any], kind: pa.DataType, name: str) -> pa.Array:
    """The values of one key column, None for NULL; a `MuntinError` that names the first that cannot be one.

    >>> key_column([1, None], pa.int64(), "id").to_pylist()
    [1, None]
    >>> key_column([1.5], pa.int64(), "id")
    Traceback (most recent call last):
    muntin.errors.MuntinError: 1.5 is not a value of key 'id' (int64); give an integer that fits it
    """
    read, wanted = _reader(kind)
    made: Sequence[Any] = values
    if set(map(type, values)) != {_PLAIN.get(read)}:  # most are as the column has them
        made = [_made(value, read, kind, wanted, name) for value in values]
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            return pa.array(made, pa.int64()).view(kind)
        return pa.array(made, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        shown = values[0] if len(values) == 1 else list(values)
        raise MuntinError(f"{shown!r} is not a value of key '{name}' ({kind}); give {wanted}") from None


def _made(value: Any, read: _Read, kind: pa.DataType, wanted: str, name: str) -> Any:
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        return None if plain is None else read(plain, kind)
    except (TypeError, ValueError, OverflowError):
        raise MuntinError(f"{value!r} is not a value of key '{name}' ({kind}); give {wanted}") from None


def _reader(kind: pa.DataType) -> tuple[_Read, str]:
    is_ = pa.types
    if is_.is_boolean(kind):
        return _boolean, "True or False"
    if is_.is_integer(kind):
        return _integer, "an integer that fits it"
    if is_.is_decimal(kind):
        return _decimal, f"a decimal.Decimal or an integer, of at most {kind.scale} digits after the point"
    if is_.is_floating(kind):
        return _real, "a number that fits it"
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return _text, "a text"
    if is_.is_date32(kind):
        return _date, "a date, without a time of day"
    if is_.is_timestamp(kind):
        return _instant, f"a datetime in whole {_UNITS[kind.unit]}"
    if is_.is_duration(kind):
        return _span, "a timedelta"
    return _any, f"a {kind}"


_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _boolean(value: Any, kind: pa.DataType) -> bool:
    return bool(_of(value, bool, np.bool_))


def _integer(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, bool):
        raise TypeError
    return int(_of(value, int, np.integer))


def _real(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = _of(value, int, float, np.integer, np.floating)
    real = float(number)
    is_whole = isinstance(number, int | np.integer)
    if is_whole and int(real) != int(number):
        raise ValueError  # no float is that integer
    if (
        np.isfinite(real)
        and kind.bit_width < 64
        and abs(real) > float(np.finfo(f"f{kind.bit_width // 8}").max)
    ):
        raise OverflowError
    return real


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    """Not of floats: 0.1 is none of the values that a DECIMAL has."""
    number = value if isinstance(value, Decimal) else Decimal(_integer(value, kind))
    units = unit_of(number, kind.scale)
    if abs(units) >= 10**kind.precision:
        raise OverflowError
    return decimal_of(units, kind.scale)  # a zero may have an exponent that Arrow does not read


def _text(value: Any, kind: pa.DataType) -> str:
    return str(_of(value, str))


def _date(value: Any, kind: pa.DataType) -> date:
    if isinstance(value, np.datetime64):
        days = value.astype("datetime64[D]")
        if np.isnat(value) or days != value:
            raise ValueError
        found = days.astype(object)
        return found if isinstance(found, date) else _refuse()
    if isinstance(value, datetime):
        raise TypeError
    return _of(value, date)  # type: ignore[no-any-return]


def _instant(value: Any, kind: pa.DataType) -> int:
    """In units of the type since the epoch."""
    per_second = _PER_SECOND[kind.unit]
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise ValueError
        unit, many = np.datetime_data(value.dtype)
        if unit not in ("D", "h", "m", "s", "ms", "us", "ns"):
            raise TypeError
        nanoseconds = int(value.astype(np.int64)) * many * _NANOSECONDS[unit]
    else:
        instant = _of(value, datetime)
        since = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - _EPOCH
        nanoseconds = _in_nanoseconds(since) + int(getattr(value, "nanosecond", 0))  # of a pandas.Timestamp
    return _whole(nanoseconds, per_second)


def _span(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, np.timedelta64):
        unit, many = np.datetime_data(value.dtype)
        return _whole(int(value.astype(np.int64)) * many * _NANOSECONDS[unit], _PER_SECOND[kind.unit])
    return _whole(_in_nanoseconds(_of(value, timedelta)), _PER_SECOND[kind.unit])


_NANOSECONDS = {
    "W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6,
    "us": 10**3, "ns": 1,
}  # fmt: skip


def _in_nanoseconds(span: timedelta) -> int:
    return ((span.days * 86_400 + span.seconds) * 10**6 + span.microseconds) * 1000


def _whole(nanoseconds: int, per_second: int) -> int:
    count, rest = divmod(nanoseconds, 10**9 // per_second)
    return _refuse() if rest else count


def _any(value: Any, kind: pa.DataType) -> Any:
    return value


def _of(value: Any, *kinds: type) -> Any:
    return value if isinstance(value, kinds) else _refuse()


def _refuse() -> Any:
    raise TypeError


_PLAIN: dict[_Read, type] = {_integer: int, _text: str}  # what is taken as it is, by its reader
