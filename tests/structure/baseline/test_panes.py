"""How panes cut the stream; that their answers are right is in test_fragments.py."""

from __future__ import annotations

from math import gcd

import pytest

from muntin.structure.baseline.panes import Panes
from tests.structure.baseline.test_fragments import cut


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (9, 4), (60, 60), (60, 1), (7, 21)])
def test_a_window_is_size_over_gcd_panes(size: int, slide: int) -> None:
    """With an event at every instant (spec 1.5)."""
    (slicing,) = cut(Panes, [(size, slide)], size)
    assert len(slicing) == size // gcd(size, slide)


def test_each_pane_size_is_cut_by_itself() -> None:
    """Windows share panes only if theirs are equally long: 4 windows, pane sizes 2, 2, 3 and 5."""
    slicings = cut(Panes, [(10, 4), (6, 4), (9, 6), (5, 10)], 1)
    assert [slicing.step.tolist() for slicing in slicings] == [[2], [3], [5]]
