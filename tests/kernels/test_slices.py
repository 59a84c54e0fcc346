"""Slices are numbered as a division does it, however the kernel goes about it."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.kernels.slices import number_slices


@pytest.mark.parametrize("seed", range(3))
def test_slices_are_numbered_as_by_a_division(seed: int) -> None:
    """At edges and just before them, of slices that floats do not tell apart, too."""
    rng = np.random.default_rng(seed)
    for _ in range(300):
        step, slices = int(10 ** rng.uniform(0, 15)), int(10 ** rng.uniform(0, 5))
        if slices * step > 2**59:  # twice what there is from the year 1 to 9999
            continue
        start = int(rng.integers(-(2**60), 2**60))
        wanted = rng.integers(0, slices, 100)
        wanted[0] = slices - 1
        at = start + wanted * step + rng.choice([0, step // 2, step - 1], 100)
        number, events = np.empty(100, np.int64), np.zeros(slices, np.int64)
        number_slices(at, start, step, number, events)
        np.testing.assert_array_equal(number, wanted)
        np.testing.assert_array_equal(events, np.bincount(wanted, minlength=slices))
