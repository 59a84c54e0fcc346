"""Determined: what is the same for all joined rows of one group, given what GROUP BY has.

GROUP BY p.account determines the key of the source `account`; ON p.account = l.account the column `l.account`; if that
is the primary key, the row of `l`, and so all its columns; and through other equalities of ON more keys of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Joined(NamedTuple):
    """How a table is joined: its number, its primary key, and keys of the source with the columns that equal them."""

    number: int
    key: tuple[str, ...]
    on: tuple[tuple[int, str], ...]
    is_optional: bool


class Determined:
    """Keys of the source, columns and whole rows of tables.

    >>> rules = (1, ("id",), ((0, "symbol"),), False)
    >>> found = Determined.by([], [(1, "id")], [rules])
    >>> found.has_row(1), found.has_keys([0])
    (True, True)
    >>> Determined.by([0], [], [rules]).has_row(1)
    False
    """

    def __init__(self, keys: Iterable[int], columns: Mapping[int, set[str] | None]):
        self._keys = frozenset(keys)
        self._columns = columns  # by the number of a table; None: all

    @classmethod
    def by(
        cls,
        keys: Sequence[int],
        columns: Sequence[tuple[int, str]],
        tables: Sequence[tuple[int, tuple[str, ...], tuple[tuple[int, str], ...], bool]],
    ) -> Determined:
        """All that follows from keys of the source and columns of tables that GROUP BY has."""
        known_keys = set(keys)
        known: dict[int, set[str] | None] = {number: set() for number, *_ in tables}
        for number, column in columns:
            some = known[number]
            assert some is not None
            some.add(column)
        size = -1
        while size != (
            size := len(known_keys) + sum(1_000 if each is None else len(each) for each in known.values())
        ):
            for table in (Joined(*each) for each in tables):
                own = known[table.number]
                for key, column in table.on:
                    if own is not None and key in known_keys:
                        own.add(column)
                    # without a row, the columns of a LEFT JOIN say nothing of the event
                    if not table.is_optional and (own is None or column in own):
                        known_keys.add(key)
                if own is not None and own.issuperset(table.key):
                    known[table.number] = None
        return cls(known_keys, known)

    def has_keys(self, keys: Iterable[int]) -> bool:
        return self._keys.issuperset(keys)

    def has_row(self, table: int) -> bool:
        return self._columns.get(table, set()) is None

    def has_column(self, table: int, column: str) -> bool:
        some = self._columns.get(table, set())
        return some is None or column in some
