"""Weights of items are never too high, and too low by no more than the promised part of all that the window weighs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin.aggregates.approximate import WEIGHT_BITS
from muntin.sketch.count_summary import CountSummary
from muntin.sketch.weighted_counts import WeightedCounts, weighed
from muntin.store.saved import Saved

EPS = 0.1
# how much events weigh: alike, far apart, one that outweighs all others, nothing
WEIGHTS = {
    "alike": lambda rng, many: rng.integers(40, 1500, many),
    "far apart": lambda rng, many: (2.0 ** rng.uniform(0, 30, many)).astype(np.int64),
    "one": lambda rng, many: np.where(
        rng.random(many) < 1 / many, 2**WEIGHT_BITS - 1, rng.integers(0, 9, many)
    ),
    "nothing": lambda rng, many: rng.integers(0, 2, many),
    "early": lambda rng, many: np.sort(rng.integers(0, 2**20, many))[::-1].copy(),
}


def elements(kind: str, seed: int, many: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    item = (rng.zipf(1.4, many) % 300).astype(np.int64)
    return item, WEIGHTS[kind](rng, many), np.sort(rng.integers(0, many, many))


def assert_kept(summary: CountSummary, item: np.ndarray, weight: np.ndarray, eps: float) -> None:
    """The promise, for a window that has these elements."""
    total = int(weight.sum())
    assert summary.error <= eps * total
    assert total - summary.left_out <= summary.count <= total
    for each in np.unique(item).tolist():
        least, most = summary.bounds(each)
        assert least <= int(weight[item == each].sum()) <= most <= least + eps * total
    for support in (0.05, 0.15, 0.5):
        found = {each.item for each in summary.frequent(support)}
        true = {each: int(weight[item == each].sum()) for each in np.unique(item).tolist()}
        assert found >= {each for each, often in true.items() if often > Fraction(str(support)) * total}
        assert all(true[each] > (support - eps) * total - 1 for each in found)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("seed", range(some_of(8, 1)))
def test_promise(kind: str, seed: int) -> None:
    """In windows of all lengths, with elements that come in batches, and some that are forgotten."""
    item, weight, at = elements(kind, seed, 30_000)
    rng = np.random.default_rng(seed)
    sketch = WeightedCounts(EPS)
    cuts = np.sort(rng.integers(0, len(item), 12))
    for lo, hi in zip([0, *cuts], [*cuts, len(item)], strict=True):
        sketch.extend(weighed(item[lo:hi], weight[lo:hi]), at=at[lo:hi])
    sketch.check()
    sketch.forget_before(int(at[3_000]))
    for since in [int(at[3_000]), *rng.integers(int(at[3_000]), at[-1], 6).tolist(), int(at[-1])]:
        inside = at >= since
        assert_kept(sketch.summary(since=since), item[inside], weight[inside], EPS)


def test_coarser_promises_are_kept() -> None:
    """For lack of room the error is doubled, and fewer elements are kept as they came."""
    item, weight, at = elements("far apart", 3, 20_000)
    sketch = WeightedCounts(EPS / 2)
    sketch.extend(weighed(item[:15_000], weight[:15_000]), at=at[:15_000])
    assert sketch.coarsen()
    assert sketch.eps == EPS
    sketch.extend(weighed(item[15_000:], weight[15_000:]), at=at[15_000:])
    sketch.check()
    for since in (0, 12_000, 19_000):
        inside = at >= since
        assert_kept(sketch.summary(since=since), item[inside], weight[inside], EPS)


@settings(deadline=None, max_examples=some_of(60, 20))
@given(data=st.data())
def test_few_are_exact(data: st.DataObject) -> None:
    """A few elements are counted to the last bit, whatever they weigh, and copies and snapshots go on alike."""
    weights = st.one_of(st.integers(0, 9), st.sampled_from([2**WEIGHT_BITS - 1, 2**31, 2**39]))
    pairs = data.draw(st.lists(st.tuples(st.integers(-3, 3), weights), max_size=40))
    item, weight = np.array(pairs, np.int64).reshape(-1, 2).T
    at, cut = np.arange(len(pairs)), data.draw(st.integers(0, len(pairs)))
    sketch = WeightedCounts(EPS)
    sketch.extend(weighed(item[:cut], weight[:cut]), at=at[:cut])
    restored = WeightedCounts(EPS)
    restored.restore(Saved(sketch.snapshot()))
    both = [sketch.copy(), restored]
    since = data.draw(st.integers(0, len(pairs)))
    for each in both:
        each.extend(weighed(item[cut:], weight[cut:]), at=at[cut:])
        each.check()
        known = each.summary(since=since)
        assert (known.count, known.error) == (int(weight[since:].sum()), 0)
        true = {code: int(weight[since:][item[since:] == code].sum()) for code in set(item[since:].tolist())}
        assert dict(zip(known.item.tolist(), known.count_of.tolist(), strict=True)) == {
            code: often for code, often in true.items() if often
        }


def test_items_have_other_codes() -> None:
    item, weight, at = elements("alike", 5, 5_000)
    sketch, used, new_code = (
        WeightedCounts(EPS),
        np.zeros(400, np.bool_),
        np.random.default_rng(1).permutation(400),
    )
    sketch.extend(weighed(item, weight), at=at)
    before = sketch.summary()
    sketch.mark_items(used)
    assert used[before.item].all()
    sketch.renumber_items(new_code)
    after = sketch.summary()
    assert sketch.item_bounds()[1] <= 399
    assert set(zip(after.item.tolist(), after.count_of.tolist(), strict=True)) == set(
        zip(new_code[before.item].tolist(), before.count_of.tolist(), strict=True)
    )


@pytest.mark.parametrize("kind", ["alike", "far apart"])
def test_shards_merge(kind: str) -> None:
    """Summaries of shards of a stream are together within eps of all of it."""
    item, weight, at = elements(kind, 7, 20_000)
    parts = []
    for shard in range(3):
        mine = np.arange(len(item)) % 3 == shard
        sketch = WeightedCounts(EPS)
        sketch.extend(weighed(item[mine], weight[mine]), at=at[mine])
        parts.append(sketch.summary(since=4_000))
    inside = at >= 4_000
    assert_kept(CountSummary.merge(parts), item[inside], weight[inside], EPS)


@pytest.mark.parametrize("kind", ["alike", "far apart"])
def test_beside_datasketches(kind: str) -> None:
    """DataSketches' sketch of frequent items takes weights, too: over all elements, bounds of both hold, and both have
    every item that must be there."""
    datasketches = pytest.importorskip("datasketches")
    item, weight, at = elements(kind, 11, 20_000)
    theirs = datasketches.frequent_strings_sketch(9)
    sums = np.bincount(item, weight).astype(np.int64)
    for code, each in zip(item.tolist(), weight.tolist(), strict=True):
        theirs.update(str(code), each)
    sketch = WeightedCounts(0.01)
    sketch.extend(weighed(item, weight), at=at)
    ours, total = sketch.summary(), int(weight.sum())
    assert ours.error <= 0.01 * total
    assert theirs.total_weight == ours.count + ours.left_out == total
    for code in range(300):
        least, most = ours.bounds(code)
        low, high = theirs.get_lower_bound(str(code)), theirs.get_upper_bound(str(code))
        assert max(least, low) <= sums[code] <= min(most, high)
    frequent = {str(code) for code in np.flatnonzero(sums > 0.02 * total)}
    assert frequent <= {str(each.item) for each in ours.frequent(0.02)}
    no_false_negatives = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES
    assert frequent <= {row[0] for row in theirs.get_frequent_items(no_false_negatives, int(0.02 * total))}
