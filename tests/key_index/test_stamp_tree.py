"""The tree form costs what its fact sheet says: operations are counted, never timed."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.arrays import Ints
from muntin.kernels.stamp_tree import BUCKET_BITS, END, TOUCHED, VISITS, list_newer, relink
from muntin.key_index.collective_index import CollectiveIndex
from muntin.key_index.stamp_tree import StampTree, empty_tree

BUCKET = 1 << BUCKET_BITS


def filled(keys: int, events: int, parts: int = 2, seed: int = 1) -> tuple[CollectiveIndex, Ints]:
    """Random keys, an event a tick; and how many each has."""
    index = CollectiveIndex("count", parts)
    key = np.random.default_rng(seed).integers(0, keys, events)
    index.add(key, np.arange(events))
    return index, np.bincount(key, minlength=keys)


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
def test_an_event_changes_2p_levels(parts: int) -> None:
    """Amortised: half of the groups each time, that is p levels of each event, p/2 of every other, and so on."""
    index = CollectiveIndex("count", parts)
    index.add(np.zeros(1 << 14, np.int64), np.arange(1 << 14))
    changed = index.changes / (1 << 14)
    assert 1.9 * parts < changed <= 2 * parts


@pytest.mark.parametrize(("parts", "amount"), [(1, 1000), (4, 1000), (4, 10**9)])
def test_an_amount_changes_levels_by_its_logarithm(parts: int, amount: int) -> None:
    """p * (log2 a + 2) and O(p) amortised; unit by unit it would be 2 p a."""
    index = CollectiveIndex("sum", parts)
    index.add(np.zeros(1000, np.int64), np.arange(1000), np.full(1000, amount))
    assert index.changes / 1000 <= parts * (np.log2(amount) + 2) + 2 * parts


@pytest.mark.parametrize("keys", [10, 1_000, 30_000])
def test_following_takes_a_few_steps_a_change(keys: int) -> None:
    """A move, and at most a word for each 64-fold of buckets on either side, however many keys there are."""
    index, _ = filled(keys, 2 * keys)
    len(index)
    steps, changes = index.steps, index.changes
    at = 2 * keys
    for key in np.random.default_rng(2).integers(0, keys, 500):
        index.add(np.array([key]), np.array([at]))
        len(index)  # so that nothing is saved up
        at += 1
    assert index._tree is not None
    tiers = len(index._tree.arrays.tier) - 1
    assert tiers <= 1 + np.log2(len(index._tree.arrays.at)) / 6
    renewed = 0 if index.steps - steps < keys else keys * 20  # a renewal puts every stamp into its bucket
    assert index.steps - steps <= (1 + 2 * tiers) * (index.changes - changes) + renewed


def test_slots_are_renewed_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together, those for more levels included, read O(p) cells and slots for each event."""
    read: list[int] = []
    renew = StampTree.renew

    def watched(tree: StampTree, slots: Ints, total: Ints, keys: int, parts: int, before: int) -> None:
        read.append(slots.shape[0] * keys + int(tree.arrays.state[END]))
        renew(tree, slots, total, keys, parts, before)

    monkeypatch.setattr(StampTree, "renew", watched)
    parts, events = 4, 80_000
    index = CollectiveIndex("count", parts)
    key = (np.random.default_rng(3).pareto(1.0, events) * 20).astype(np.int64) % 900
    for now in range(0, events, 2_000):
        index.add(key[now : now + 2_000], now + np.arange(2_000))
        index.forget(now - 15_000)
    assert len(read) > 5
    assert sum(read) <= 8 * parts * events


@pytest.mark.parametrize("buckets", [1, 63, 64, 65, 128, 4096, 4097])
def test_every_bucket_is_found(buckets: int) -> None:
    """A key in each, with words and tiers of bits that are full: all are listed, and nothing else is read."""
    capacity = BUCKET << (buckets - 1).bit_length()
    tree = empty_tree(capacity, 1, buckets)
    slots = np.arange(buckets)[None, :] * BUCKET
    tree.touched[:], tree.reach[:] = np.arange(buckets), 1
    tree.state[TOUCHED], tree.state[END] = buckets, capacity
    relink(slots, tree)
    for edge in {0, 1, (buckets - 1) * BUCKET, buckets // 2 * BUCKET + 1}:
        before, out = int(tree.state[VISITS]), np.empty(buckets, np.int64)
        count = list_newer(slots, tree, 0, -1, edge, 0, buckets, out)
        assert out[:count].tolist() == [key for key in range(buckets) if key * BUCKET >= edge]
        read = buckets - (edge >> BUCKET_BITS)
        assert tree.state[VISITS] - before == 2 * read + 1


class TestLookUps:
    @pytest.mark.parametrize("keys", [300, 3_000, 30_000])
    def test_cost_goes_with_what_is_reported(self, keys: int) -> None:
        """E14: as many buckets and keys as there are in the approximate output, and one bucket; not K."""
        index, _ = filled(keys, 3 * keys)
        index.add(np.repeat(np.arange(20), 50), 3 * keys + np.arange(1_000))  # 20 busy ones at the end
        for since, low in ((3 * keys, 20), (3 * keys, 40), (2 * keys, 50), (0, 60)):
            before = index.visits
            found = index.candidates(since, low)
            assert len(found) >= 20
            assert index.visits - before <= 2 * (len(found) + BUCKET) + 1

    def test_output_is_the_approximate_one(self) -> None:
        """E14: with nothing to report exactly, the keys that are nearly right are read all the same."""
        index = CollectiveIndex("count", 1)
        index.add(np.repeat(np.arange(1000), 4), np.arange(4000))
        before = index.visits
        assert len(index.candidates(0, 6)) == 1000  # the paper's O(|Ko|) would be nothing
        assert index.visits - before >= 1000

    def test_the_smaller_side_is_read(self) -> None:
        """Two-sided: few keys above the lower bound, or few below the upper one; not those on the other side."""
        index = CollectiveIndex("count", 4)
        keys = 20_000
        index.add(np.repeat(np.arange(keys), 8), np.arange(8 * keys))
        index.add(np.repeat(np.arange(30), 100), 8 * keys + np.arange(3_000))
        for low, high, least in ((50, 200, 30), (2, 9, keys - 30)):
            before = index.visits
            assert least <= len(index.candidates(0, low, high)) <= least + 30
            assert index.visits - before <= 8 * (least + BUCKET)
        # all keys are active, but few have less than 8
        index.add(np.arange(keys, keys + 10), np.full(10, 9 * keys))
        before = index.visits
        assert index.candidates(0, None, 3).tolist() == list(range(keys, keys + 10))
        assert index.visits - before <= 4 * BUCKET

    def test_events_out_of_order_cost_what_is_behind(self) -> None:
        """A look-up reads in vain only stamps that came after later ones, and none once slots are renewed."""
        index, _ = filled(2_000, 6_000)
        index.add(np.arange(2_000, 2_050), np.arange(5_000, 5_050))  # new keys, behind the others
        before = index.visits
        found = index.candidates(5_900)
        assert len(found) < 101
        assert index.visits - before <= 2 * (len(found) + BUCKET + 50) + 1
        index.renumber(np.arange(2_050))
        index.check()
        before = index.visits
        assert index.candidates(5_900).tolist() == found.tolist()
        assert index.visits - before <= 2 * (len(found) + BUCKET) + 1


def test_forgetting_nobody_reads_a_bucket() -> None:
    """Keys leave from the old end of level 0; the others are not looked at."""
    index, counts = filled(30_000, 60_000)
    live = int((counts > 0).sum())
    before = index.visits
    for t in range(10):
        index.forget(t - 100)
    assert len(index) == live
    assert index.visits - before <= 10 * (BUCKET + 1)
    index.forget(30_000)
    gone = live - len(index)
    assert gone > 5_000
    assert index.visits - before <= gone + 11 * (BUCKET + 1)
    index.check()
