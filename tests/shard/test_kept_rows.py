"""Rows that are left out of a batch, few or many: what is left is what Arrow's filter leaves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.shard.record_batch import kept_rows

ROWS = 1_000
RANDOM = np.random.default_rng(3)
BATCH = pa.record_batch(
    {
        "n": np.arange(ROWS),
        "text": [None if number % 7 == 0 else f"text {number}" for number in range(ROWS)],
        "day": pa.array(RANDOM.integers(0, 9, ROWS), pa.timestamp("us")),
        "flag": RANDOM.random(ROWS) < 0.5,
    }
)


@pytest.mark.parametrize("gone", [0, 1, 2, 63, 64, 65, 500, ROWS])
@pytest.mark.parametrize("seed", range(3))
def test_kept_rows(gone: int, seed: int) -> None:
    kept = np.ones(ROWS, np.bool_)
    kept[np.random.default_rng(seed).permutation(ROWS)[:gone]] = False
    assert kept_rows(BATCH, kept).equals(BATCH.filter(pa.array(kept)))


@pytest.mark.parametrize("places", [[0], [ROWS - 1], [0, ROWS - 1], [4, 5, 6], list(range(ROWS - 3, ROWS))])
def test_edges(places: list[int]) -> None:
    kept = np.ones(ROWS, np.bool_)
    kept[places] = False
    assert kept_rows(BATCH, kept).equals(BATCH.filter(pa.array(kept)))


def test_none_is_left() -> None:
    few = BATCH.slice(0, 3)
    assert kept_rows(few, np.zeros(3, np.bool_)).equals(BATCH.slice(0, 0))
