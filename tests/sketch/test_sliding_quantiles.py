"""Ranks are wrong by no more than was promised."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin.kernels.ladder import Blocks, Shape, no_blocks
from muntin.kernels.sliding_quantiles import cut_block
from muntin.sketch.quantile_summary import QuantileSummary
from muntin.sketch.sliding_quantiles import SlidingQuantiles
from muntin.store.codes import OrderCode
from tests.sketch.streams import KINDS, Sketching, make, rank_error, sketchings, summaries_of_shards

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
PHIS = [1e-9, 0.01, 0.1, 0.25, 0.5, 0.77, 0.99, 1.0]


def assert_kept(summary: QuantileSummary, window: np.ndarray, allowed: float) -> None:
    assert summary.error <= allowed
    assert summary.count <= len(window) <= summary.count + summary.left_out
    if summary.count:
        for phi, found in zip(PHIS, summary.quantiles(PHIS), strict=True):
            assert rank_error(window, phi, found) <= summary.error
    else:
        assert summary.quantiles(PHIS) == [None] * len(PHIS)


def test_midpoints_of_a_block() -> None:
    """1..8 with four entries: ranks 1, 3, 5, 7, of weight 2 each; the median, of rank 4, is 3."""
    shape = Shape(reach=8, margin=0, unit_bits=3, levels=1, entries=4)
    blocks: Blocks = no_blocks(shape, 1, False)
    cut_block(shape, blocks, 0, 0, 0, np.arange(1, 9), 0, 8, 0)
    assert blocks.item.tolist() == [1, 3, 5, 7]
    held, _used, slack, *_ = blocks.about[0].tolist()
    share = 2 * 4
    summary = QuantileSummary.of(
        OrderCode("max", INT), [blocks.item], np.array([held << 1]), share, held, slack, 0
    )
    assert summary.quantile(0.5) == 3
    assert summary.error == 1


def worst_of_grid(offset: float, entries: int, width: int) -> float:
    """The worst error, in widths, of picking by weight among entries whose ranks may be half a width off
    `(t - offset) * width`; block of values 1 .. entries * width."""
    count, worst = entries * width, 0.0
    for sign in (-1, 1):
        ranks = [
            min(max(1, ceil((t - offset) * width) + sign * width // 2), count) for t in range(1, entries + 1)
        ]
        for wanted in range(1, count + 1):
            found = next(rank for t, rank in enumerate(ranks, 1) if t * width >= wanted)
            worst = max(worst, abs(found - wanted) / width)
    return worst


def test_m3_the_printed_grid_is_wrong_by_half_as_much_again() -> None:
    """Quantiles at the ends of shares, as printed: the first may have the rank 1.5 w."""
    assert worst_of_grid(0, 8, 40) > 1.45
    assert worst_of_grid(0.5, 8, 40) <= 1


@settings(max_examples=some_of(60, 50))
@given(sketchings(9000, [0.5, 0.3, 0.125, 0.05]))
def test_windows_of_any_length(given: Sketching) -> None:
    stream, eps, count = given.stream, given.eps, len(given.stream)
    sketch = SlidingQuantiles(INT, eps)
    sketch.extend(stream)
    sketch.check()
    for rows in given.rows(count):
        assert_kept(sketch.summary(rows=rows), stream[count - rows :], eps * rows)


@settings(max_examples=some_of(60, 50))
@given(sketchings(6000, [0.5, 0.25, 0.1]), st.integers(1, 5000), st.booleans())
def test_windows_up_to_a_length(given: Sketching, window: int, auto: bool) -> None:
    stream, eps, count = given.stream, given.eps, len(given.stream)
    sketch = SlidingQuantiles(INT, eps, window, is_auto=auto)
    sketch.extend(stream)
    sketch.check()
    longest = min(count, window)
    for rows in given.rows(longest):
        allowed = 0 if sketch.geometry.is_exact else eps * window
        assert_kept(sketch.summary(rows=rows), stream[count - rows :], allowed)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_entries_are_within_the_papers_bound(kind: str) -> None:
    """Of finished blocks; a summary of Greenwald and Khanna has some times 1 / eps tuples."""
    window, inverse = 2**13, 8
    sketch = SlidingQuantiles(INT, 1 / inverse, window, is_auto=False)
    sketch.extend(make(kind, 1, 3 * window))
    top = sketch.geometry.shape.levels - 1
    rising = 4 * (top + 1) * (2 ** (top + 1) - 1)
    assert sketch.entries() <= ((top + 1) ** 2 << top) + rising + sketch.geometry.base


def test_nan_and_null_have_a_place_but_do_not_count() -> None:
    random = np.random.default_rng(5)
    value = random.normal(size=4000)
    value[random.random(4000) < 0.3] = np.nan
    valid = random.random(4000) < 0.5
    sketch = SlidingQuantiles(FLOAT, 0.125)
    sketch.extend(value, valid)
    sketch.check()
    for rows in (10, 1000, 3999):
        window = value[4000 - rows :][valid[4000 - rows :]]
        window = window[~np.isnan(window)]
        summary = sketch.summary(rows=rows)
        assert summary.error <= 0.125 * rows
        for phi, found in zip(PHIS, summary.quantiles(PHIS), strict=True):
            assert rank_error(window, phi, found) <= summary.error


def test_extreme_values_keep_their_order() -> None:
    value = np.array([np.inf, -np.inf, 0.0, -0.0, 5e-324, -1.5, 1e308, -1e308])
    sketch = SlidingQuantiles(FLOAT, 0.25)
    sketch.extend(np.tile(value, 500))
    summary = sketch.summary(rows=4000)
    assert [summary.quantile(phi) for phi in (0.06, 0.19, 0.82, 1.0)] == [-np.inf, -1e308, 1e308, np.inf]
    whole = SlidingQuantiles(INT, 0.25)
    whole.extend(np.tile([2**63 - 1, -(2**63), 0], 1000))
    assert whole.summary().quantiles([0.1, 0.5, 0.9]) == [-(2**63), 0, 2**63 - 1]


@given(seed=st.integers(0, 50), count=st.integers(1, 5000), kind=st.sampled_from(sorted(KINDS)))
def test_shards_merge_with_their_errors(seed: int, count: int, kind: str) -> None:
    """A stream dealt out to two sketches of different eps, asked since one instant."""
    stream, since = make(kind, seed, count), count // 3
    sketches = [SlidingQuantiles(INT, eps) for eps in (0.125, 0.03)]
    summaries = summaries_of_shards(sketches, stream, seed, since)
    merged = QuantileSummary.merge(summaries)
    assert merged.error <= sum(each.error for each in summaries)
    assert_kept(merged, stream[since:], 0.125 * (count - since))
