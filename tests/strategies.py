"""Hypothesis strategies: the random cases of scenario.py, with Hypothesis rolling the dice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from casefile import Case
from scenario import random_case

T = TypeVar("T")


class DrawnDice:
    """Dice that shrink: to the first option, the lowest number, and to what is unlikely not happening."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def pick(self, options: Sequence[T]) -> T:
        picked: T = self._draw(st.sampled_from(options))
        return picked

    def whole(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def chance(self, percent: int) -> bool:
        return int(self._draw(st.integers(0, 99))) >= 100 - percent


@st.composite
def cases(draw: st.DrawFn, most_events: int = 12, most_queries: int = 2) -> Case:
    """A stream, its queries, and what is asked when."""
    return random_case(DrawnDice(draw), "drawn by Hypothesis", most_events, most_queries)
