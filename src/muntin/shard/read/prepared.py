"""What look-ups have prepared: made when it is first asked for, and forgotten when the plan has changed beneath.

Readers hold structures, so they go with these. All else depends on where a query was placed, which does not
change while the query is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from muntin.shard.crowd import Crowds

_SPARE = 1024  # numbers that may be in use by no query


class Prepared:
    """Of one shard, by query."""

    def __init__(self, crowds: Crowds) -> None:
        self._crowds = crowds  # whose members are alike by the numbers given here
        self.readers: dict[str, Any] = {}  # of single answers; see point.py
        self.key_readers: dict[str, Any] = {}  # of single keys; see key_point.py
        self.key_rows: dict[str, Any] = {}  # of single keys, with all columns; see key_row.py
        self.key_filters: dict[str, Any] = {}  # of keys that pass HAVING; see key_filter.py
        self.lane_readers: dict[str, Any] = {}  # of single lanes; see lane_point.py
        self.readings: dict[str, Any] = {}  # of all answers; see reading.py
        self.families: dict[Any, Any] = {}  # of queries that are due together; see in_blocks.py
        self.bundles: dict[tuple[str, ...], Any] = {}  # of many queries at once; see bundle.py
        self.profiles: dict[tuple[str, ...], Any] = {}  # what look-ups ask of groups; see meter.py
        self.lane_orders: dict[Any, Any] = {}  # of stores with lanes; see picked.py
        self.known_since: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # of windows; see crowd_whole.py
        self.joined: dict[str, Any] = {}  # rows of tables that keys meet; see table_join.py
        self.rules: dict[str, Any] = {}  # rows of tables that are rules; see rule_rows.py
        self._numbers: dict[Hashable, int] = {}  # of things that readings have in common

    def number(self, what: Hashable) -> int:
        """A number for equal things: to compare them, or look for them, costs nothing."""
        return self._numbers.setdefault(what, len(self._numbers))

    def forget_query(self, name: str) -> None:
        """A query is gone; O(bundles)."""
        for kind in (
            self.readers, self.key_readers, self.key_rows, self.key_filters, self.lane_readers, self.readings,
        ):  # fmt: skip
            kind.pop(name, None)
        self.forget_joined(name)
        self.families.clear()
        self.profiles.pop((name,), None)
        for names in [names for names, bundle in self.bundles.items() if name in bundle.members]:
            del self.bundles[names]
            self.profiles.pop(names, None)
        # numbers do not say whose they are: all are given out anew when most are nobody's
        if len(self._numbers) > _SPARE + 4 * (len(self.readings) + self._crowds.members):
            self._crowds.dissolve_all()
            self.readings.clear()
            self.families.clear()
            self._numbers.clear()

    def forget_ids(self) -> None:
        """Keys have other ids; crowds have been told."""
        for kind in (
            self.readers, self.key_readers, self.key_rows, self.key_filters, self.lane_readers, self.bundles,
            self.lane_orders, self.joined, self.rules,
        ):  # fmt: skip
            kind.clear()

    def forget_joined(self, name: str) -> None:
        """What a query joins has other ids, or is nobody's business any more."""
        self.joined.pop(name, None)
        self.rules.pop(name, None)

    def forget_readers(self, names: Iterable[str]) -> None:
        """The structures that some queries are read from have been replaced; O(queries)."""
        for name in names:
            self.readers.pop(name, None)
            self.key_readers.pop(name, None)
            self.key_rows.pop(name, None)
            self.key_filters.pop(name, None)
            self.lane_readers.pop(name, None)
        self.bundles.clear()
        self.known_since.clear()

    def forget_all(self) -> None:
        """Nothing that was prepared can be relied on."""
        self._crowds.dissolve_all()
        self.__init__(self._crowds)  # type: ignore[misc]
