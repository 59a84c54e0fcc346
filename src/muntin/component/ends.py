"""first and last: the value with the earliest or latest time.

Of equal times, first is the first to arrive and last the last. Partials hold the time, so they may be combined in any
order of time; those of equal times in order of arrival.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muntin.component.rules import INT, Numbers, Rules

NEVER = np.iinfo(np.int64).max  # the time of first over nothing
LONG_AGO = np.iinfo(np.int64).min  # the time of last over nothing


class _Dated(NamedTuple):
    value: Any
    at: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return value, at


class Firsts(_Dated):
    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        # number by number: `right if … else left` would be a branch
        return (right[0] if right[1] < left[1] else left[0]), min(right[1], left[1])


class Lasts(_Dated):
    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        return (right[0] if right[1] >= left[1] else left[0]), max(right[1], left[1])


FIRST = Rules(
    "first", Firsts, Firsts, lambda kind: ((kind, 0), (INT, NEVER)), keeps_a_value=True, lifts_columns=True,
    is_by_arrival=True,
)  # fmt: skip
LAST = Rules(
    "last", Lasts, Lasts, lambda kind: ((kind, 0), (INT, LONG_AGO)), keeps_a_value=True, lifts_columns=True,
    is_by_arrival=True,
)  # fmt: skip
