"""The slices of ascending instants, found by their edges, are those that a division finds for each."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.store.grid import Grid


@pytest.mark.parametrize("seed", range(60))
def test_starts_of_ascending_instants(seed: int) -> None:
    random = np.random.default_rng(seed)
    grid, now = Grid(int(random.integers(1, 50))), 0
    for _ in range(int(random.integers(0, 3))):  # the step may have changed
        now += int(random.integers(1, 200))
        grid.fit(int(random.integers(1, 50)), now)
    begin = int(random.integers(-300, 2 * now + 1))
    length = int(random.integers(1, 3_000))
    at = np.sort(begin + random.integers(0, int(random.integers(1, 500)), length))
    assert np.array_equal(grid.starts_of(at), grid.start_of(at))


def test_empty_slices_lie_between() -> None:
    at = np.repeat([3, 4, 39], 40)
    assert np.array_equal(Grid(10).starts_of(at), np.repeat([0, 0, 30], 40))
