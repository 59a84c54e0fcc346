"""How paired windows cut the stream; that their answers are right is in test_fragments.py."""

from __future__ import annotations

from math import lcm

import numpy as np
import pytest

from muntin.structure.baseline.paired_windows import PairedWindows
from muntin.structure.baseline.panes import Panes
from tests.structure.baseline.test_fragments import cut


@pytest.mark.parametrize(("size", "slide"), [(10, 4), (9, 4), (60, 60), (61, 60), (7, 21), (5, 3)])
def test_fragments_alternate(size: int, slide: int) -> None:
    """With an event at every instant: s1 = slide - size mod slide, s2 = size mod slide (spec 1.5)."""
    (slicing,) = cut(PairedWindows, [(size, slide)], 10 * slide)
    lengths = np.diff([*slicing.start.tolist(), 10 * slide]).tolist()
    pair = [slide - size % slide, size % slide] if size % slide else [slide]
    assert lengths == pair * 10


def test_shared_fragments_are_the_union_of_edges() -> None:
    """
    (9, 4)    0     3 4     7 8        11 12
    (6, 6)    0           6               12
    """
    (slicing,) = cut(PairedWindows, [(9, 4), (6, 6)], 12)
    assert slicing.start.tolist() == [0, 3, 4, 6, 7, 8, 11]


def test_common_period_is_never_laid_out() -> None:
    """Slides of 1 to 30 repeat together only after 2 329 089 562 800 (spec 1.5)."""
    slides = range(1, 31)
    assert lcm(*slides) == 2_329_089_562_800
    (slicing,) = cut(PairedWindows, [(2 * slide + 1, slide) for slide in slides], 100)
    assert slicing.nbytes() < 100_000
    assert len(slicing) == 100
    slicing.check()


def test_fewer_fragments_than_panes() -> None:
    """A size that is no multiple of the slide makes short panes, but still pairs."""
    (paired,), (panes,) = (cut(kind, [(61, 60)], 600) for kind in (PairedWindows, Panes))
    assert (len(paired), len(panes)) == (20, 600)
