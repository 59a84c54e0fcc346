"""Join order: from the events of one input to all that they match, one input after the other."""

from __future__ import annotations

from typing import NamedTuple

from muntin.expression import Expression
from muntin.view_query import WideJoinQuery


class Step(NamedTuple):
    """One more input: its events whose `own` values equal those that are `sought`."""

    side: int
    sought: tuple[Expression, ...]  # values of events that have been matched before
    own: tuple[Expression, ...]


def join_order(query: WideJoinQuery, start: int) -> tuple[Step, ...] | None:
    """The steps from an input to all others, each by as many equalities as there can be.

    None if an equality fits in no step: it compares an input with values made of several others, and one of
    those comes after it.
    """
    equalities = [
        ({side_of(query, column) for column in before.columns}, side, before, own)
        for side, some in enumerate(query.on, 1)
        for before, own in some
    ]
    known, steps = {start}, []

    def usable(side: int) -> list[tuple[Expression, Expression]]:
        """What an input can be found by, and its own value."""
        ahead = [(before, own) for read, of, before, own in equalities if of == side and read <= known]
        back = [(own, before) for read, of, before, own in equalities if read == {side} and of in known]
        return ahead + back

    while len(known) < len(query.sides):
        side = max(
            (each for each in range(len(query.sides)) if each not in known), key=lambda n: len(usable(n))
        )
        if not usable(side):
            return None
        sought, own = zip(*usable(side), strict=True)
        steps.append(Step(side, sought, own))
        known.add(side)
    is_whole = sum(len(step.own) for step in steps) == len(equalities)
    return tuple(steps) if is_whole else None


def side_of(query: WideJoinQuery, column: str) -> int:
    """The input that a column `t.price` is of."""
    name = column.partition(".")[0]
    return next(number for number, side in enumerate(query.sides) if side.name == name)
