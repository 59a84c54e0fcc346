"""How panes cut the stream; that their answers are right is in test_slicing.py."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest

from muntin.synopsis.panes import Panes
from tests.synopsis.told import INT


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (9, 4), (60, 60), (60, 1), (7, 21)])
def test_a_window_is_size_over_gcd_panes(size: int, slide: int) -> None:
    """With an event at every instant (spec 1.5)."""
    panes = Panes([(size, slide)], INT)
    panes.insert(np.arange(size), np.ones(size, np.int64))
    (slicing,) = panes.slicings
    assert len(slicing) == size // gcd(size, slide)


def test_each_pane_size_is_cut_by_itself() -> None:
    """Windows share panes only if theirs are equally long: 4 windows, pane sizes 2, 2, 3 and 5."""
    panes = Panes([(10, 4), (6, 4), (9, 6), (5, 10)], INT)
    assert [slicing.step.tolist() for slicing in panes.slicings] == [[2], [3], [5]]
