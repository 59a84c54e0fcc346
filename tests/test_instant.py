"""An instant is the same in whichever form it is given."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from random import Random

import numpy as np
import pandas
import pytest

from muntin.instant import to_microseconds

EPOCH = datetime(1970, 1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_in_every_form(seed: int) -> None:
    """Before and after 1970, to the microsecond, in any time zone; what is finer is rounded down."""
    dice = Random(seed)
    given = dice.randrange(-(10**15), 10**16)
    plain = EPOCH + timedelta(microseconds=given)
    there = timezone(timedelta(minutes=dice.randrange(-700, 700)))
    elsewhere = plain.replace(tzinfo=UTC).astimezone(there)
    for each in (
        np.int64(given), np.datetime64(given, "us"), plain, plain.replace(tzinfo=UTC), elsewhere, plain.isoformat(),
        elsewhere.isoformat(), pandas.Timestamp(plain), np.datetime64(given * 1000 + dice.randrange(1000), "ns")
        if abs(given) < 9 * 10**15 else given,
    ):  # fmt: skip
        assert to_microseconds(each) == given, repr(each)


def test_days_begin_at_midnight() -> None:
    """Before and after 1970."""
    for days in (-20_000, -1, 0, 1, 11_016, 20_000):
        day = date(1970, 1, 1) + timedelta(days=days)
        for each in (day, day.isoformat(), np.datetime64(day)):
            assert to_microseconds(each) == days * 86_400 * 10**6
