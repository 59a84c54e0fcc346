"""How paired windows cut the stream; that their answers are right is in test_slicing.py."""

from __future__ import annotations

from math import lcm

import numpy as np
import pytest

from muntin.synopsis.paired_windows import PairedWindows
from muntin.synopsis.panes import Panes
from tests.synopsis.told import INT


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (9, 4), (60, 60), (61, 60), (7, 21), (5, 3)])
def test_fragments_alternate(size: int, slide: int) -> None:
    """With an event at every instant: s1 = slide - size mod slide, s2 = size mod slide (spec 1.5)."""
    paired = PairedWindows([(size, slide)], INT)
    paired.insert(np.arange(10 * slide), np.ones(10 * slide, np.int64))
    (slicing,) = paired.slicings
    starts = slicing._slices["start"].tolist()
    lengths = np.diff([*starts, 10 * slide]).tolist()
    pair = [slide - size % slide, size % slide] if size % slide else [slide]
    assert lengths == pair * 10


def test_shared_slices_are_the_union_of_edges() -> None:
    """
    (9, 4)    0     3 4     7 8        11 12
    (6, 6)    0           6               12
    """
    paired = PairedWindows([(9, 4), (6, 6)], INT)
    paired.insert(np.arange(12), np.ones(12, np.int64))
    (slicing,) = paired.slicings
    assert slicing._slices["start"].tolist() == [0, 3, 4, 6, 7, 8, 11]


def test_common_period_is_never_laid_out() -> None:
    """Slides of 1 to 30 repeat together only after 2 329 089 562 800 (spec 1.5)."""
    slides = range(1, 31)
    assert lcm(*slides) == 2_329_089_562_800
    paired = PairedWindows([(2 * slide + 1, slide) for slide in slides], INT)
    assert paired.nbytes() < 100_000
    paired.insert(np.arange(100), np.ones(100, np.int64))
    paired.check()
    assert len(paired.emit(100).end) == sum(100 // slide for slide in slides)


def test_fewer_slices_than_panes() -> None:
    """A size that is no multiple of the slide makes short panes, but still pairs."""
    paired, panes = PairedWindows([(61, 60)], INT), Panes([(61, 60)], INT)
    for each in (paired, panes):
        each.insert(np.arange(600), np.ones(600, np.int64))
    assert (len(paired.slicings[0]), len(panes.slicings[0])) == (20, 600)
