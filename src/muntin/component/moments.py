"""m2: count, mean and the sum of squared distances from the mean. Stable where a sum of squares is not.

Chan, Golub & LeVeque 1983 for two partials; Welford 1962 for one more event.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from muntin.component.rules import FLOAT, INT, Numbers, Rules, rule


class Moments(NamedTuple):
    """Merged in plain floats: the last digits depend on how a window is split."""

    count: Any
    mean: Any
    m2: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return _add((0, 0.0, 0.0), value)

    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        n, m = left[0], right[0]
        if m == 0:
            return left
        if n == 0:
            return right
        both = n + m
        step = right[1] - left[1]
        return both, left[1] + step * m / both, left[2] + (right[2] + step * step * n * m / both)

    @staticmethod
    def fold(state: Numbers, value: Any, at: Any) -> Numbers:
        return _add(state, value)


@rule
def _add(state: Numbers, value: Any) -> Numbers:
    count = state[0] + 1
    step = value - state[1]
    mean = state[1] + step / count
    return count, mean, state[2] + step * (value - mean)


M2 = Rules("m2", Moments, Moments, lambda _: ((INT, 0), (FLOAT, 0.0), (FLOAT, 0.0)), is_exact=False)
