"""Instants as users write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from muntin.errors import MuntinError

# What a datetime can say; also keeps nanoseconds from being taken for microseconds.
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


def to_microseconds(instant: Any) -> int:
    """Microseconds since the epoch of a datetime, numpy or pandas time stamp, ISO text or integer.

    Times without a zone are taken as UTC.

    >>> to_microseconds("1970-01-01 00:00:01"), to_microseconds(np.datetime64(2, "s")), to_microseconds(3)
    (1000000, 2000000, 3)
    """
    found = _read(instant)
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
