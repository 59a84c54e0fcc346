"""Instants as users write them."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from muntin.errors import MuntinError
from muntin.stream import Stream
from muntin.table import Table

EPOCH = datetime(1970, 1, 1)

# What a datetime can say; also keeps nanoseconds from being taken for microseconds.
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


# Integers between these, 2001-09-09 and 2100, are instants of our time in seconds, and so on for finer units.
_EARLIEST, _LATEST = 10**9, 4_102_444_800
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_warned: WeakKeyDictionary[Stream | Table, set[str]] = WeakKeyDictionary()


def unit_meant(number: int) -> str | None:
    """The unit in which an integer is an instant between 2001 and 2100, if there is one.

    >>> unit_meant(1_700_000_000), unit_meant(1_700_000_000_000), unit_meant(0)
    ('s', 'ms', None)
    """
    units = (unit for unit, many in _PER_SECOND.items() if _EARLIEST * many <= number < _LATEST * many)
    return next(units, None)


def warn_of_unit(stream: Stream | Table, field: pa.Field, column: pa.Array) -> None:
    """Warn, once for each column of a stream, if the first integer seems to be in another unit than the column's.

    A stream may be about 1970, as tests are, so nothing is refused: only an integer that would be an instant of
    our time in another unit is suspicious, and only the first that comes, so that it costs nothing.
    """
    known = _warned.setdefault(stream, set())
    if field.name in known or not len(column):
        return
    known.add(field.name)
    first = next((value for value in column[:100].to_pylist() if value is not None), None)
    if first is None:
        return
    meant = unit_meant(first)
    if meant is None or meant == field.type.unit:
        return
    try:
        read = f"{EPOCH + timedelta(seconds=first // _PER_SECOND[field.type.unit]):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        read = "an instant beyond the year 9999"
    warnings.warn(
        f"column '{field.name}' of {stream.label}: the integer {first} is read as {_UNITS[field.type.unit]} "
        f"since 1970, which is {read}; if it counts {_UNITS[meant]}, give "
        f"pyarrow.array(values, pyarrow.timestamp('{meant}')), or declare the column TIMESTAMP_{meant.upper()}",
        RuntimeWarning,
        stacklevel=_CALLER,
    )


_CALLER = 9  # frames up: push, in the caller's file


def to_microseconds(instant: Any, now: int | None = None) -> int:
    """Microseconds since the epoch of a datetime, numpy or pandas time stamp, ISO text or integer.

    Times without a zone are taken as UTC. `now` is where event time stands: beside events of our time, an integer
    that is such an instant in another unit is refused.

    >>> to_microseconds("1970-01-01 00:00:01"), to_microseconds(np.datetime64(2, "s")), to_microseconds(3)
    (1000000, 2000000, 3)
    """
    found = _read(instant)
    if now is not None and now >= _EARLIEST * 10**6 and not isinstance(instant, str | date | np.datetime64):
        meant = unit_meant(found)
        if meant in ("s", "ms"):
            raise MuntinError(
                f"{instant!r} is {EPOCH + timedelta(microseconds=found)}, far from all events: integers are "
                f"microseconds since 1970, and this one seems to count {_UNITS[meant]}; give a datetime"
            )
    if not FIRST <= found <= LAST:
        raise MuntinError(f"{instant!r} lies outside the years 1 to 9999; integers are microseconds")
    return found


def _read(instant: Any) -> int:
    try:
        if isinstance(instant, bool):
            raise TypeError
        if isinstance(instant, (int, np.integer)):
            return int(instant)
        if isinstance(instant, np.datetime64):
            return int(instant.astype("datetime64[us]").astype(np.int64))
        if isinstance(instant, str):
            instant = datetime.fromisoformat(instant)
        if isinstance(instant, date) and not isinstance(instant, datetime):
            instant = datetime(instant.year, instant.month, instant.day)
        if isinstance(instant, datetime):  # pandas.Timestamp is one
            aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
            since = aware - datetime(1970, 1, 1, tzinfo=UTC)
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        raise TypeError
    except (TypeError, ValueError, AttributeError):
        raise MuntinError(
            f"{instant!r} is not an instant; give a datetime, numpy.datetime64, ISO text or microseconds"
        ) from None
