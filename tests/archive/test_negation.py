"""Negation: W1 - W2, with premature deletions deferred; recomputed naively at every update."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin.archive import VARIANTS, Archive, Definition
from tests.archive.test_variants import SHAPES

WINDOW = 10
COLUMNS = pa.schema([("v", pa.string()), ("ts", pa.int64())])
Event = tuple[int, str, str]  # time, window, value


def by_definition(events: list[Event], now: int) -> list[tuple[str, int]]:
    """Events of W1 in its window whose value has no event of W2 in its own."""
    seen = [event for event in events if event[0] <= now < event[0] + WINDOW]
    blocked = {value for _, side, value in seen if side == "W2"}
    return sorted((value, ts) for ts, side, value in seen if side == "W1" and value not in blocked)


class Negation:
    """The operator: results with the instant they are generated, and the instants at which values end."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0

    def advance(self, until: int, events: list[Event]) -> tuple[list[dict], list[tuple[str, int]]]:
        """Results and invalidations of the instants after the last one, up to `until`."""
        results, invalidated = [], []
        for now in range(self.now + 1, until + 1):
            held = set(by_definition(self.events, now - 1))
            self.events += [event for event in events if event[0] == now]
            known = {value for _, side, value in self.events if side == "W1"}
            ended = [value for ts, side, value in self.events if ts == now and side == "W2"]
            invalidated += [(value, now) for value in ended if value in known]
            results += [
                {"v": value, "ts": ts, "generated_at": now, "expires_at": ts + WINDOW}
                for value, ts in by_definition(self.events, now)
                if ts == now or (value, ts) not in held
            ]
        self.now = until
        return results, invalidated


def deliver(archive, now, results, invalidated):
    names = ("v", "ts", "generated_at", "expires_at")
    return archive.update(
        now,
        {name: [each[name] for each in results] for name in names},
        invalidated=pa.table(
            {"v": pa.array([value for value, _ in invalidated], pa.string()),
             "invalidated_at": pa.array([at for _, at in invalidated], pa.int64())}
        ),
    )  # fmt: skip


def held(view):
    return sorted((row["v"], row["ts"]) for row in view.read_all().to_pylist())


def made(every=2) -> Definition:
    return Definition(COLUMNS, ("v",), WINDOW, every)


def test_vector(tmp_path):
    events = [(1, "W1", "a"), (2, "W1", "b"), (4, "W2", "a"), (6, "W1", "a"), (15, "W1", "c")]
    expected = {
        3: [("a", 1), ("b", 2)], 4: [("b", 2)], 6: [("b", 2)], 11: [("b", 2)], 12: [],
        14: [("a", 6)], 16: [("c", 15)],
    }  # fmt: skip
    with Archive.create(tmp_path, made(every=1), "rebuild 2x2") as archive:
        operator = Negation()
        for now in range(1, 17):
            deliver(archive, now, *operator.advance(now, events))
            assert held(archive.view) == by_definition(events, now)
            if now in expected:
                assert held(archive.view) == expected[now]


@st.composite
def lives(draw):
    count = draw(st.integers(1, 25))
    times = sorted(draw(st.lists(st.integers(1, 40), min_size=count, max_size=count, unique=True)))
    return [(ts, draw(st.sampled_from(["W1", "W1", "W2"])), draw(st.sampled_from("abc"))) for ts in times]


@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.startswith("count")])
@settings(max_examples=some_of(4, 50))
@given(
    events=lives(),
    steps=st.lists(st.sampled_from([2, 2, 2, 1, 3]), min_size=5, max_size=15),
    reopen_at=st.integers(0, 10),
)
def test_agrees_with_the_definition(name, events, steps, reopen_at):
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive.create(folder, made(), f"{name} {SHAPES.get(name, '2x3')}")
        operator, now = Negation(), 0
        for number, step in enumerate(steps):
            now += step
            deliver(archive, now, *operator.advance(now, events))
            assert held(archive.view) == by_definition(events, now)
            for value in "abc":
                probed = sorted((row["v"], row["ts"]) for row in archive.view.probe(value).to_pylist())
                assert probed == [each for each in by_definition(events, now) if each[0] == value]
            archive.check()
            if number == reopen_at:
                archive.close()
                archive = Archive.open(folder)
                assert held(archive.view) == by_definition(events, now)
        archive.close()


@pytest.mark.parametrize("name", [name for name in VARIANTS if not name.startswith("count")])
def test_parts_that_are_only_appended_to_remember_what_has_ended(tmp_path, name):
    """Many values, few of which end at a time: parts get runs, and hear of ends, between the updates that read them."""
    random = np.random.default_rng(7)
    events = [
        (ts, str(random.choice(["W1", "W1", "W1", "W2"])), str(random.choice(list("abcdefgh"))))
        for ts in range(1, 45)
        for _ in range(3)
    ]
    with Archive.create(tmp_path, made(every=1), f"{name} {SHAPES.get(name, '2x3')}") as archive:
        operator = Negation()
        for now in range(1, 45):
            deliver(archive, now, *operator.advance(now, events))
            assert held(archive.view) == by_definition(events, now)
        archive.check()


def test_lists_stay_short_in_a_round_robin_index(tmp_path):
    """Every part is touched within max(G, E) updates, and has then applied what it was told."""
    with Archive.create(tmp_path, made(every=1), "rebuild 3x3") as archive:
        for now in range(1, 60):
            row = {"v": [f"v{now % 4}"], "ts": [now], "generated_at": [now], "expires_at": [now + WINDOW]}
            archive.update(now, row, invalidated={"v": [f"v{(now + 1) % 4}"], "invalidated_at": [now]})
            assert len(archive.view.epoch.invalidations) <= 3


def test_another_column_than_the_key_may_be_negated(tmp_path):
    columns = pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.int64())])
    both = Definition(columns, ("k",), 10, 2, negated_on=("v", "w"))
    with Archive.create(tmp_path, both, "no_rebuild 2x2") as archive:
        rows = {"k": [1, 2, 3, 4], "v": ["x", "x", "y", None], "w": [1, 2, 1, 1]}
        archive.update(2, rows | {"generated_at": [1] * 4, "expires_at": [10] * 4})
        archive.update(3, invalidated={"v": ["x", "y", "z"], "w": [1, 2, 1], "invalidated_at": [3, 3, 3]})
        assert archive.view.read_all()["k"].to_pylist() == [2, 3, 4]
        with pytest.raises(Exception, match="invalidations lack the column 'w'"):
            archive.update(4, invalidated={"v": ["x"], "invalidated_at": [4]})
        assert archive.view.now == 3
