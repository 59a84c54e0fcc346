"""Parts: single numbers of a partial as answers, so that whoever has a share of the events can tell all it knows.

SUM of integers, say, is lowered from a total modulo 2**64 and its shadow. The sums of two shares could not be added up
if one of them did not fit 64 bits; their parts can. No query can be written with a part: they are for shards that have
a window together (`spark/shares.py`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from muntin.aggregates.component import COMPONENTS, Component
from muntin.aggregates.contract import Aggregate, Lowered, Partials, is_text, kept_type

_MARK = ":"  # between a component and the number of an array, in no name of a function


class Part(Aggregate):
    """One array of a component's partial, as it is kept; texts as texts. NULL where the partial is that of nothing."""

    def __init__(self, component: str, number: int):
        self.name = part_name(component, number)  # type: ignore[misc]
        self.components = tuple(dict.fromkeys(["count", component]))  # type: ignore[misc]
        self._component = component
        self._number = number

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        rules = merging_rules(self._component)
        holds_values = self._number == 0 and (rules.compares_values or rules.keeps_a_value)
        if argument is not None and is_text(argument) and holds_values:
            return kept_type(argument)
        is_float = argument is not None and pa.types.is_floating(kept_type(argument))
        identity = rules.identity(np.dtype(np.float64 if is_float else np.int64))
        return pa.from_numpy_dtype(identity[self._number][0])

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        return Lowered(partials[self._component][self._number], count > 0)


def merging_rules(component: str) -> Component:
    """How the partials of shares become one. Different values are counted by adding up: shares have none in common."""
    return COMPONENTS["count" if component == "distinct" else component]


def part_name(component: str, number: int) -> str:
    """The name of the function that gives an array of a component's partial."""
    return f"{component}{_MARK}{number}"


@lru_cache
def part_of(name: str) -> Part:
    """A part by its name; KeyError if there is none."""
    component, mark, number = name.partition(_MARK)
    if not mark:
        raise KeyError(name)
    return Part(component, int(number))
