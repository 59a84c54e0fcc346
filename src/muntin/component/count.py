"""count: how many events there are, or hold a value."""

from __future__ import annotations

from typing import Any, NamedTuple

from muntin.component.rules import INT, Numbers, Rules


class Counts(NamedTuple):
    count: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return (1,)

    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        return (left[0] + right[0],)

    @staticmethod
    def subtract(whole: Numbers, part: Numbers) -> Numbers:
        return (whole[0] - part[0],)


COUNT = Rules("count", Counts, Counts, lambda _: ((INT, 0),), lifts_columns=True, ignores_values=True)
