"""min and max. NaN is the greatest number: as least it yields to anything, as greatest to nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muntin.component.rules import INT, Numbers, Rules, rule

_INT = np.iinfo(np.int64)


@rule
def undercuts(new: Any, old: Any) -> Any:
    """Whether `new` takes the place of `old` as the least."""
    return (new < old) | (old != old)  # `or` would be a branch, mispredicted about as often as not


@rule
def exceeds(new: Any, old: Any) -> Any:
    """Whether `new` takes the place of `old` as the greatest."""
    return (new > old) | (new != new)


class _Values(NamedTuple):
    value: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return (value,)


class Leasts(_Values):
    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        return right if undercuts(right[0], left[0]) else left


class Greatests(_Values):
    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        return right if exceeds(right[0], left[0]) else left


MIN = Rules(
    "min",
    Leasts,
    Leasts,
    lambda kind: ((kind, _INT.max if kind == INT else np.nan),),
    compares_values=True,
    lifts_columns=True,
)
MAX = Rules(
    "max",
    Greatests,
    Greatests,
    lambda kind: ((kind, _INT.min if kind == INT else -np.inf),),
    compares_values=True,
    lifts_columns=True,
)
