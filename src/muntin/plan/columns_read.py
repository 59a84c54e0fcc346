"""Columns read: what some groups read of each event, counted, so that it is known when nobody does any more."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from muntin.counting import count
from muntin.expression import Expression
from muntin.plan.group import WindowGroup
from muntin.store.needs import Need


class ColumnsRead:
    """Arguments and predicates by how many components of groups read them, keys by groups."""

    def __init__(self) -> None:
        self.arguments: dict[Expression, int] = {}
        self.predicates: dict[Expression, int] = {}
        self.keys: dict[tuple[Expression, ...], int] = {}
        self.version = 0  # changes whenever a column is new or gone

    def count_group(self, where: Expression | None, keys: tuple[Expression, ...], step: int) -> None:
        """A group more or less, its filter and keys."""
        if where is not None:
            self._count(self.predicates, where, step)
        if keys:
            self._count(self.keys, keys, step)

    def count_component(self, group: WindowGroup, need: Need, step: int) -> None:
        """A component of a group more or less."""
        arguments, predicates = group.columns_of(need)
        for argument in arguments:
            self._count(self.arguments, argument, step)
        for predicate in predicates:
            self._count(self.predicates, predicate, step)

    def _count(self, counts: dict[Any, int], what: Hashable, step: int) -> None:
        is_new = what not in counts
        self.version += not count(counts, what, step) or is_new

    def __eq__(self, other: object) -> bool:
        """Whether the same is read; versions do not matter."""
        return isinstance(other, ColumnsRead) and (self.arguments, self.predicates, self.keys) == (
            other.arguments, other.predicates, other.keys
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]
