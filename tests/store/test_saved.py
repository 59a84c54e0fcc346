"""What checks arrays from outside lets all that muntin itself writes pass, and nothing that it could not go on from."""

from __future__ import annotations

import weakref
from itertools import product

import numpy as np
import pytest

from muntin.arrays import LONG_AGO
from muntin.described import WHOLE, check_shape
from muntin.errors import CheckpointError
from muntin.store.cells import saved_slices
from muntin.store.saved import INSTANTS, Saved, pack
from muntin.window import LONGEST_TIME


def test_long_ago_less_the_longest_windows() -> None:
    """Before the first event instants are taken back from long ago, by a slide and by a size."""
    earliest = LONG_AGO - LONG_AGO % LONGEST_TIME - 2 * LONGEST_TIME
    assert Saved({"x": np.array([earliest])}).times("x").tolist() == [earliest]
    assert Saved({"x": np.array([earliest])}).numbers("x", INSTANTS) == [earliest]
    check_shape(earliest, WHOLE, "it")


@pytest.mark.parametrize("seed", range(20))
def test_slices_of_a_snapshot_have_cells_of_their_own(seed: int) -> None:
    """What is taken are slices that begin one after the other, each with a first cell of its own, the first of them
    with the first of all cells; anything else is damage."""
    rng = np.random.default_rng(seed)
    first, cells, many = int(rng.integers(0, 4)), int(rng.integers(0, 6)), int(rng.integers(0, 4))
    for cell in product(range(first - 1, first + cells + 3), repeat=many):
        is_sound = list(cell) == sorted(set(cell)) and all(first <= each < first + cells for each in cell)
        is_sound &= (cell[0] == first) if cell else not cells
        saved = Saved({"slice start": np.arange(many) * 10, "slice cell": np.array(cell, np.int64)})
        if is_sound:
            assert saved_slices(saved, first, cells)["cell"].tolist() == list(cell)
        else:
            with pytest.raises(CheckpointError, match="slice cell"):
                saved_slices(saved, first, cells)


def test_arrays_are_let_go() -> None:
    """A server writes checkpoints for years: none may keep the arrays that it was made of."""
    array = np.arange(3)
    left = weakref.ref(array)
    pack({}, {"number": array})
    del array
    assert left() is None
