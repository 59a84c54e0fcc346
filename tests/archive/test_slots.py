"""Slots and classes: the vectors of the paper's figures, and lazy classes against the procedure step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.archive import Indexing
from muntin.archive.indexing import RULES, slot_of, stretch_of, stretch_sizes
from tests.archive.naive import definition

SIXTEEN = definition(window=16, every=2)  # 8 updates in a window


def test_times_one_to_every_are_slot_zero():
    assert slot_of(np.array([1, 2, 3, 17, 18, 19]), 2).tolist() == [0, 0, 1, 8, 8, 9]


@pytest.mark.parametrize(("slots", "part"), [((0, 1), 2), ((3, 8), 3), ((8, 12), 1), ((8, 15), 2)])
def test_round_robin_vectors(slots, part):
    generated, expires = (np.array([2 * slot + 1]) for slot in slots)
    number = Indexing.parse("rebuild 2x2").number_of(generated, expires, SIXTEEN)
    assert number.tolist() == [part - 1]


@pytest.mark.parametrize(("now", "inserts", "expires"), [(18, {0, 1}, {0, 2}), (20, {2, 3}, {1, 3})])
def test_figure_4(now, inserts, expires):
    indexing = Indexing.parse("rebuild 2x2")
    assert indexing.due(now - 2, now, SIXTEEN) == expires
    generated = np.full(16, now)
    assert set(indexing.number_of(generated, now + 1 + np.arange(16), SIXTEEN).tolist()) == inserts


@pytest.mark.parametrize(("now", "inserts", "expires"), [(18, {0, 1}, {0, 2}), (26, {2, 3}, {1, 3})])
def test_figure_3(now, inserts, expires):
    indexing = Indexing.parse("chronological 2x2")
    assert indexing.due(now - 2, now, SIXTEEN) == expires
    generated = np.full(16, now)
    assert set(indexing.number_of(generated, now + 1 + np.arange(16), SIXTEEN).tolist()) == inserts


@pytest.mark.parametrize(
    ("per_window", "parts", "sizes"),
    [
        (8, 4, [3, 2, 2, 1]),
        (36, 2, [35, 1]),
        (36, 3, [18, 17, 1]),
        (36, 4, [12, 12, 11, 1]),
        (36, 5, [9, 9, 9, 8, 1]),
    ],
)
def test_stretch_sizes(per_window, parts, sizes):
    assert stretch_sizes(parts, per_window) == sizes
    assert sum(sizes) == per_window


class StepByStep:
    """The lazy procedure, as it goes from update to update, with the slots of each class in a list."""

    def __init__(self, parts: int, per_window: int):
        self.per_window = per_window
        self.slots: list[list[int]] = []
        start = 0
        for size in stretch_sizes(parts, per_window):
            self.slots.append(list(range(start, start + size)))
            start += size
        self.newest = parts - 1

    def step(self, slot: int) -> tuple[int, bool]:
        """The class that takes the slot, and whether it was thrown away for it."""
        oldest = next(i for i, slots in enumerate(self.slots) if slot - self.per_window in slots)
        is_recycled = max(self.slots[oldest]) == slot - self.per_window
        if is_recycled:
            self.slots[oldest], self.newest = [], oldest
        self.slots[self.newest].append(slot)
        return self.newest, is_recycled


@given(st.integers(2, 40), st.integers(2, 8))
def test_lazy_classes_are_those_of_the_procedure(per_window, parts):
    parts = min(parts, per_window)
    steps = StepByStep(parts, per_window)
    slots = np.arange(5 * per_window)
    classes = RULES["lazy"](slots, parts, per_window).tolist()
    stretches = stretch_of(slots, parts, per_window)
    for number, slot_list in enumerate(steps.slots):
        assert {classes[slot] for slot in slot_list} == {number}
    for slot in range(per_window, 5 * per_window):
        taken, is_recycled = steps.step(slot)
        assert classes[slot] == taken
        assert (stretches[slot] - stretches[slot - per_window] == parts) == is_recycled


@given(st.sampled_from(sorted(RULES)), st.integers(2, 40), st.integers(1, 8))
def test_classes_are_within_bounds(rule, per_window, parts):
    parts = max(2, min(parts, per_window))
    classes = RULES[rule](np.arange(-100, 400), parts, per_window)
    assert classes.min() >= 0
    assert classes.max() < parts


def test_random_classes_are_even_and_do_not_alternate():
    classes = RULES["random"](np.arange(40_000), 4, 36)
    assert np.abs(np.bincount(classes) - 10_000).max() < 400
    assert np.abs(np.bincount(classes[::2]) - 5_000).max() < 300  # no alternation of rates meets one class
