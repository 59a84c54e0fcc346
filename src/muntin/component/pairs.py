"""arg_max: of pairs of a value and a rank, the value of the greatest rank; of equal ranks that of the earliest event.

A column of pairs has two numbers of each event (`pair_dtype`), so that they go wherever a column of values goes. Ranks
are integers, whatever is compared: arg_min is arg_max with ranks turned round (`store/codes.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muntin.component.ends import NEVER
from muntin.component.rules import INT, Identity, Numbers, Rules

_LEAST = np.iinfo(np.int64).min


def pair_dtype(value: np.dtype) -> np.dtype:
    """How pairs are kept whose values are of a dtype."""
    return np.dtype([("value", value), ("rank", INT)])


class Highest(NamedTuple):
    value: Any
    rank: Any
    at: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return value["value"], value["rank"], at

    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        # number by number, without a branch: ranks are about as often higher as not
        takes = (right[1] > left[1]) | ((right[1] == left[1]) & (right[2] < left[2]))
        return (
            (right[0] if takes else left[0]),
            (right[1] if takes else left[1]),
            (right[2] if takes else left[2]),
        )


def _identity(kind: np.dtype) -> Identity:
    return (kind["value"] if kind.names else kind, 0), (INT, _LEAST), (INT, NEVER)


ARG_MAX = Rules("arg_max", Highest, Highest, _identity, keeps_a_value=True, is_by_arrival=True)
