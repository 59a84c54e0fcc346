"""A collective index, and beside it the plain events of each key; levels by their definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from muntin.arrays import LONG_AGO
from muntin.key_index.collective_index import CollectiveIndex

Event = tuple[int, int, int]  # key, stamp, amount


def held(stamps: list[int], parts: int, level: int) -> int:
    """By definition: the stamp of the position that is a multiple of the level's size and lies in the level."""
    size = 1 << level // parts
    start = sum(1 << j // parts for j in range(level)) + 1
    for distance in range(start, start + size):
        position = len(stamps) - distance + 1
        if position >= 1 and position % size == 0:
            return stamps[position - 1]
    return LONG_AGO


class ToldTotals:
    """The index in both forms, told the same, with a list of unit stamps for each key as the reference."""

    def __init__(self, kind: Any, parts: int):
        self.kind, self.parts = kind, parts
        self.forms = [CollectiveIndex(kind, parts, form) for form in ("tree", "dense")]
        self.events: dict[int, list[int]] = {}  # a stamp for each unit
        self.before = LONG_AGO + 1

    def add(self, events: list[Event]) -> None:
        key, at, amount = np.array(events, np.int64).reshape(-1, 3).T
        for index in self.forms:
            index.add(key, at, None if self.kind == "count" else amount)
        for k, t, a in sorted(events, key=lambda event: event[1]):
            if t >= self.before:
                self.events.setdefault(k, []).extend([t] * (1 if self.kind == "count" else a))

    def forget(self, before: int) -> None:
        """A key without an event since then is unknown, and its numbers begin at 1 again."""
        self.before = max(before, self.before)
        for index in self.forms:
            index.forget(before)
        self.events = {k: stamps for k, stamps in self.events.items() if stamps and stamps[-1] >= self.before}

    def renumber(self, new_id: list[int]) -> None:
        for index in self.forms:
            index.renumber(np.array(new_id, np.int64))
        self.events = {new_id[k]: stamps for k, stamps in self.events.items() if new_id[k] >= 0}

    def total(self, key: int, since: int) -> int:
        return sum(stamp >= since for stamp in self.events.get(key, []))

    def totals(self, since: int) -> dict[int, int]:
        """The keys that have any, with how much."""
        found = {key: self.total(key, since) for key in sorted(self.events)}
        return {key: total for key, total in found.items() if total}

    def check(self) -> None:
        """Every stamp is that of the definition, in both forms; nobody else is known."""
        for index in self.forms:
            index.check()
            stamps = index.stamps()
            wanted = np.full(stamps.shape, LONG_AGO)
            for key, units in self.events.items():
                column = [held(units, self.parts, level) for level in range(len(stamps))]
                wanted[:, key] = [stamp if stamp >= self.before else LONG_AGO for stamp in column]
                # what would be on a level that there is no room for is in no window
                assert held(units, self.parts, len(stamps)) < self.before
            np.testing.assert_array_equal(stamps, wanted)
            assert len(index) == sum(bool(units) for units in self.events.values())

    def candidates(self, since: int, low: int | None, high: int | None) -> list[int]:
        """Both forms report the same keys, ascending."""
        tree, dense = (index.candidates(since, low, high).tolist() for index in self.forms)
        assert tree == dense == sorted(tree)
        return tree

    def assert_right(self, since: int, low: int | None, high: int | None) -> None:
        """All that qualify are reported, and no key that misses by more than the error."""
        found, totals = self.candidates(since, low, high), self.totals(since)
        levels = self.forms[0].levels
        least, most = max(low or 1, 1), high if high is not None else 2**62
        assert {key for key, total in totals.items() if least <= total <= most} <= set(found)
        for key in found:
            assert totals[key] > (least - 1) * (1 - levels.eps_gt)
            assert totals[key] < (most + 1) * (1 + levels.eps_lt)
            if self.forms[0].is_exact(low, high):
                assert least <= totals[key] <= most

    def assert_bounds(self, since: int) -> None:
        """The bounds hold the totals of all keys, known or not, and are no further apart than promised."""
        keys = np.arange(max(self.events, default=0) + 3)
        total = [self.total(key, since) for key in keys.tolist()]
        for index in self.forms:
            low, high = index.bounds(keys, since)
            assert ((low <= total) & (total <= high)).all()
            for least, most in zip(low.tolist(), high.tolist(), strict=True):
                assert most == 0 if least == 0 else most < least * (1 + index.levels.eps_lt)


@st.composite
def lives(draw: st.DrawFn, most_keys: int = 5, most_amount: int = 12) -> list[tuple[str, Any]]:
    """What happens to an index: batches of events, in order of time or nearly, and what is forgotten in between."""
    now, actions = draw(st.integers(-50, 50)), []
    for _ in range(draw(st.integers(1, 6))):
        steps = draw(st.lists(st.tuples(st.integers(0, most_keys - 1), st.integers(0, 4), st.integers(0, most_amount)),
                              max_size=60))  # fmt: skip
        stamps = np.cumsum([0] + [step for _, step, _ in steps])[1:] + now
        events = [(key, int(at), amount) for (key, _, amount), at in zip(steps, stamps, strict=True)]
        now = events[-1][1] if events else now
        actions.append(("add", draw(st.permutations(events)) if draw(st.booleans()) else events))
        if draw(st.integers(0, 2)) == 0:
            actions.append(("forget", now - draw(st.integers(-5, 60))))
        now += draw(st.sampled_from([0, 1, 30, 100]))
    return actions
