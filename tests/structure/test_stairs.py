"""Stairs as a structure: levels that every window finds its edges in, and a store that is right at every age.

The twin keeps every event. Sizes and slides are a few ticks, so that granules are absorbed all the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from effort import some_of
from muntin import Engine
from muntin.expression import Expression
from muntin.query import Input
from muntin.store import granularity
from muntin.store.aging_slices import AgingSlices
from muntin.store.batch import Batch, Column
from muntin.store.granularity import Level, granules, levels_for
from muntin.store.needs import Need, Needs
from muntin.store.saved import Saved
from muntin.structure.stairs import Stairs
from muntin.window import Window

KEY, VALUE = (
    Expression(name, pa.int64(), (name,), lambda columns: columns[""], exp.column(name)) for name in "kn"
)
NEEDS = tuple(Need(Input(VALUE), component) for component in ("count", "sum", "max", "first", "last"))
TRAPS = [
    ((6, 2), (12, 4)),  # the granules (2,6], (6,10] of the longer window have no edge at 4
    ((5, 2), (8, 2)),
    ((6, 3), (12, 6), (15, 6)),
    ((4, 2), (8, 4), (16, 8)),  # the one that works by slides alone
]


@pytest.fixture
def all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels are not merged, however little they save: the more of them, the more can go wrong."""
    monkeypatch.setattr(granularity, "_WORTH", 0)
    monkeypatch.setattr(granularity, "_FEW_WAIT", 1)


def longest(*windows: Window) -> dict[tuple[int, int], int]:
    needs = Needs()
    for window in windows:
        needs.add(window, NEEDS[0])
    return needs.longest()


def window(size: int, slide: int, to: int = 0) -> Window:
    return Window("time", size, to, slide)


@pytest.mark.usefixtures("all_levels")
@pytest.mark.parametrize("trap", TRAPS)
def test_every_edge_has_a_level(trap: tuple[tuple[int, int], ...]) -> None:
    """P6: wherever a window can have an edge, the step at that age divides it."""
    windows = [window(*each) for each in trap]
    levels = levels_for(longest(*windows))
    for instant in range(120, 240):
        for each in windows:
            settled = each.settle(instant)
            for edge in (settled, settled - each.size):
                step = next(step for step, reach in levels if instant - edge < reach)
                assert edge % step == 0, f"{each} at {instant} has an edge at {edge}, {levels}"


def test_three_windows_need_few_granules() -> None:
    levels = levels_for(longest(window(60, 1), window(3600, 60), window(30 * 86_400, 3600)))
    assert [step for step, _ in levels] == [1, 60, 3600]
    assert granules(levels) <= 1000


def test_granules_do_not_wait_long() -> None:
    """Without a level of minutes an hour would be filled with seconds."""
    levels = levels_for(longest(window(60, 1), window(30 * 86_400, 3600)))
    assert levels == (Level(1, 61), Level(60, 61), Level(3600, 30 * 86_400 + 3600))
    assert granules(levels) <= 1000


def test_levels_that_save_nothing_are_merged() -> None:
    """Between 60 and 63 a level of its own would hold one granule."""
    assert levels_for(longest(window(60, 1), window(63, 3))) == (Level(1, 66),)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=6))
def test_levels_divide(pairs: list[tuple[int, int]]) -> None:
    """Each step divides the next, the first is that of all windows, and each level reaches further."""
    windows = [window(*pair) for pair in pairs]
    levels = levels_for(longest(*windows))
    assert levels[0].step == gcd(*(number for pair in pairs for number in pair))
    assert levels[-1].reach == max(size + slide for size, slide in pairs)
    for younger, older in pairwise(levels):
        assert older.step % younger.step == 0
        assert older.step > younger.step
        assert older.reach >= younger.reach


@dataclass
class Pair:
    """Aging slices with their readers, one per slide, and the naive twin: every event."""

    windows: list[Window]
    keys: tuple[Expression, ...] = (KEY,)
    now: int = 0
    kept_from: int = 0
    events: list[tuple[int, int, int]] = field(default_factory=list)  # instant, key, value

    def __post_init__(self) -> None:
        self.since = dict.fromkeys(self.windows, 0)
        self.store = AgingSlices(None, self.keys)
        self.fit()

    def fit(self) -> None:
        self.store.fit(dict.fromkeys(NEEDS, True), longest(*self.windows), self.now if self.events else None)
        self.readers: dict[int, Stairs] = {}
        for each in self.windows:
            reader = self.readers.setdefault(
                each.slide, Stairs(self.store, None, self.keys, lambda argument: (None, None))
            )
            for need in NEEDS:
                reader.needs.add(each, need)
            reader.kept_from = self.kept_from - self.kept_from % each.slide

    def register(self, new: Window) -> None:
        if new not in self.windows:
            self.windows.append(new)
            self.since[new] = self.now
            self.fit()

    def drop(self, number: int) -> None:
        if len(self.windows) > 1:
            self.windows.pop(number % len(self.windows))
            self.fit()

    def insert(self, events: list[tuple[int, int, int]]) -> None:
        events = sorted(events, key=lambda event: event[0])
        at, key, value = np.array(events, np.int64).reshape(-1, 3).T.copy()
        if not self.keys:
            key = np.zeros_like(key)
        column = Column(value, np.ones(len(at), np.bool_))
        self.store.insert(Batch(at, {self.keys: key}, {VALUE: column}, {}))
        self.events += zip(at.tolist(), key.tolist(), value.tolist(), strict=True)
        self.now = max(self.now, *(at + 1).tolist(), self.now)

    def forget(self, instant: int) -> None:
        self.kept_from = max(self.kept_from, min(instant, self.now))
        for slide, reader in self.readers.items():
            reader.advance(self.kept_from - self.kept_from % slide)
        self.store.release(list(self.readers.values()), self.kept_from)

    def restore(self) -> None:
        arrays = self.store.snapshot()
        self.store = AgingSlices(None, self.keys)
        self.fit()
        self.store.restore(Saved(arrays, {self.keys: 2**20}, settled=2**60))

    def compare(self, instant: int) -> None:
        """All windows at an instant that no reader has left behind, of all keys together and of each."""
        self.store.check()
        width = 4 if self.keys else 1
        for each in self.windows:
            reader = self.readers[each.slide]
            at = np.array([each.settle(max(instant, self.kept_from))])
            ids = np.arange(width) if self.keys else None
            for found in [reader.lookup(each, at, NEEDS, some, width) for some in (None, ids)]:
                start, end = int(found.start[0]), int(found.end[0])
                assert (start, end) == (at[0] - each.size, at[0] - each.to)
                if not found.complete(NEEDS)[0]:
                    assert start < self.since[each]  # whoever was there from the start is never incomplete
                    continue
                for id in range(width):
                    self._compare_key(found.partials, start, end, id)

    def _compare_key(self, partials: dict[Need, Any], start: int, end: int, id: int) -> None:
        held = sorted(
            (event for event in self.events if start <= event[0] < end and event[1] == id),
            key=lambda event: event[0],
        )
        values = [value for _, _, value in held]
        count, total, most, first, last = (partials[need][0][id] for need in NEEDS)
        assert (count, total) == (len(values), sum(values))
        if values:
            assert (most, first, last) == (max(values), values[0], values[-1])


WINDOWS = st.builds(
    lambda size, slide, to: window(size, slide, min(to, size)),
    st.sampled_from([4, 6, 12, 1, 5, 8, 15, 30, 60]),
    st.sampled_from([2, 4, 1, 3, 6, 10, 12]),
    st.sampled_from([0, 0, 0, 1, 4]),
)


@pytest.mark.usefixtures("all_levels")  # the same for all examples
@settings(
    max_examples=some_of(settings().max_examples // 2, 60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), keyed=st.booleans())
def test_store_against_its_twin(data: st.DataObject, keyed: bool) -> None:
    """Random batches with ties, silence and disorder behind the watermark; windows come and go; restarts."""
    draw = data.draw
    trap = draw(st.sampled_from(TRAPS))
    windows = [window(*each) for each in trap] if draw(st.booleans()) else draw(st.lists(WINDOWS, min_size=1))
    pair = Pair(list(dict.fromkeys(windows)), (KEY,) if keyed else ())
    for _ in range(draw(st.integers(1, 12))):
        step = draw(st.sampled_from(["insert", "insert", "insert", "register", "drop", "restore"]))
        if step == "insert":
            begin = max(pair.kept_from, pair.now - draw(st.sampled_from([0, 3, 20])))
            gaps = draw(st.lists(st.sampled_from([0, 1, 2, 1, 7, 50]), min_size=1, max_size=20))
            instants = begin + np.cumsum(gaps)
            pair.insert([(int(t), int(t) % 4, draw(st.integers(-9, 9))) for t in instants])
        elif step == "register":
            pair.register(draw(WINDOWS))
        elif step == "drop":
            pair.drop(draw(st.integers(0, 9)))
        else:
            pair.restore()
        if pair.events:
            pair.compare(pair.now)
            pair.forget(pair.now - draw(st.sampled_from([0, 1, 5, 20])))
            pair.compare(draw(st.integers(pair.kept_from, pair.now + 5)))


@pytest.mark.usefixtures("all_levels")
def test_the_stairs_of_the_paper() -> None:
    """The windows <4,2>, <8,2>, <12,4> at 16 and 18 (spec 5.9): the cores of the first two have one step, and what
    waits in the paper's buffer until its level moves waits here in the younger level.

        at 16   |4 .. 8|8 .. 12|12 .. 16|        level 1: [4, 8)   level 0: [8, 16)
        at 18   |4 .. 8|8 . 10|10 .. 14|14 .. 18|   level 1: [4, 8)   level 0: [8, 18), 8 to 10 waiting
    """
    pair = Pair([window(4, 2), window(8, 2), window(12, 4)])
    for end, spans in ((16, [(8, 16), (4, 8)]), (18, [(8, 18), (4, 8)])):
        pair.insert([(tick, 0, tick) for tick in range(max(0, pair.now), end)])
        pair.forget(end)
        bounds = [level.edges(0, len(level)) for level in pair.store.levels]
        assert [(int(start[0]), int(stop[-1])) for start, stop in bounds] == spans
        pair.compare(end)


def test_one_month_in_few_granules() -> None:
    """1 minute by seconds, 1 hour by minutes, 30 days by hours: after 31 days at most 1,000 granules a key, in one
    store, and answers as NumPy has them."""
    second = 1_000_000
    windows = {"minute": (60, 1), "hour": (3600, 60), "month": (30 * 86_400, 3600)}
    engine = Engine(backlog_bytes=0)
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 1 SECOND")
    for name, (size, slide) in windows.items():
        calls = "COUNT(*) AS events, SUM(n) AS total, MAX(n) AS most, LAST(n) AS last"
        engine.register(
            f"SELECT k, {calls} FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] GROUP BY k", name
        )
    assert {group.synopsis for group in engine._shards["s"].state.manager.groups.values()} == {"stairs"}
    rng = np.random.default_rng(5)
    dense = (
        31 * 86_400 * second - np.arange(2 * 7200, 0, -1) * second // 2
    )  # the last two hours, twice a second
    at = np.sort(np.concatenate([rng.integers(0, dense[0], 60_000), dense]))
    key, number = rng.integers(0, 2, len(at)), rng.integers(-100, 100, len(at))
    for part in [*np.array_split(np.arange(60_000), 60), *np.array_split(np.arange(60_000, len(at)), 50)]:
        engine.push("s", {"ts": at[part], "k": key[part], "n": number[part]})
    with pytest.warns(RuntimeWarning, match="lost"):  # nobody asked for the windows of a month
        engine.advance()  # whatever is settled is absorbed now
    engine.check()
    (store,) = engine._shards["s"].state.stores.values()
    cells = np.concatenate([level.cell_key for level in store.levels])
    assert max(np.bincount(cells)) <= 1000
    for name, (size, slide) in windows.items():
        end = (int(at[-1]) + 1) // (slide * second) * (slide * second)
        rows = engine.lookup(name).to_pylist()
        assert len(rows) == 2
        for row in rows:
            held = number[(at >= end - size * second) & (at < end) & (key == row["k"])]
            expected = (len(held), held.sum(), held.max(), held[-1], True)
            assert tuple(row[part] for part in ("events", "total", "most", "last", "complete")) == expected
            assert engine.lookup(name, key=row["k"]).to_pylist() == [row]
            assert engine.value(name, key=row["k"]) == len(held)
