"""What checks arrays from outside lets all that muntin itself writes pass."""

from __future__ import annotations

import numpy as np

from muntin.arrays import LONG_AGO
from muntin.described import WHOLE, check_shape
from muntin.store.saved import INSTANTS, Saved
from muntin.window import LONGEST_TIME


def test_long_ago_less_the_longest_windows() -> None:
    """Before the first event instants are taken back from long ago, by a slide and by a size."""
    earliest = LONG_AGO - LONG_AGO % LONGEST_TIME - 2 * LONGEST_TIME
    assert Saved({"x": np.array([earliest])}).times("x").tolist() == [earliest]
    assert Saved({"x": np.array([earliest])}).numbers("x", INSTANTS) == [earliest]
    check_shape(earliest, WHOLE, "it")
