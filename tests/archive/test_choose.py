"""The chooser follows the lessons of the paper."""

from __future__ import annotations

import pytest

from muntin.archive.indexing import LESSONS, Load, choose_indexing
from tests.archive.naive import definition

SMALL, LARGE = 500_000_000, 5_000_000_000


@pytest.mark.parametrize(
    ("size", "probes", "label"),
    [
        (SMALL, 1, "no_rebuild 4x4"),
        (SMALL, 1000, "rebuild 2x2"),
        (LARGE, 1, "no_rebuild 3x3"),
        (LARGE, 1000, "no_rebuild 2x2"),
    ],
)
def test_recommendations(size, probes, label):
    choice = choose_indexing(Load(size, probes))
    assert choice.indexing.label == label
    assert choice.because
    assert choose_indexing(Load(size, probes, by_count=True)).indexing.label == f"count_{label}"


@pytest.mark.parametrize("updates", [1, 2, 3, 5, 36])
@pytest.mark.parametrize("by_count", [False, True])
def test_what_is_chosen_can_be_made(updates, by_count):
    made = definition(window=updates, every=1) if not by_count else None
    for rule in LESSONS:
        load = Load(SMALL if rule.is_small else LARGE, 1000 if rule.has_many else 1, by_count, updates)
        indexing = choose_indexing(load).indexing
        if made:
            indexing.check(made)
        assert indexing.generations <= updates
