"""The order of bands, as pairs come: beside sorting all of them again."""

import numpy as np
import pytest

from muntin.shard.read import band_order
from muntin.shard.read.band_order import BandOrder


@pytest.mark.parametrize("word", [63, 12, 0], ids=["words", "long words", "no words"])
@pytest.mark.parametrize("seed", range(8))
def test_pairs_that_come_are_put_in_their_places(
    monkeypatch: pytest.MonkeyPatch, word: int, seed: int
) -> None:
    """Whether lane, key and rank fit into a word, do so no longer, or never do."""
    monkeypatch.setattr(band_order, "_WORD", word)
    random = np.random.default_rng(seed)
    many = int(random.integers(1, 300))
    lane, key = random.integers(0, 5, many), random.integers(0, 40, many)
    rank = random.choice(np.array([-(2**63), -7, 0, 3, 5, 2**40, 2**63 - 1]), many)
    _, first = np.unique(np.stack([lane, key, rank]), axis=1, return_index=True)
    some = np.sort(first)
    lane, key, rank = lane[some], key[some], rank[some]
    # keys of some pairs become known later than the pairs
    known = key.copy()
    known[random.random(len(key)) < 0.2] = -1
    order = BandOrder(None, "up")  # type: ignore[arg-type]
    for end in [*np.sort(random.integers(0, len(key), 4)).tolist(), len(key)]:
        order.follow(lane[:end], known[:end], rank[:end])
        check(order, lane[:end], known[:end], rank[:end])
    order.follow(lane, key, rank)
    check(order, lane, key, rank)


def check(order: BandOrder, lane: np.ndarray, key: np.ndarray, rank: np.ndarray) -> None:
    is_known = np.flatnonzero(key >= 0)
    expected = is_known[np.lexsort((rank[is_known], key[is_known], lane[is_known]))]
    np.testing.assert_array_equal(order.pair, expected)
    np.testing.assert_array_equal(order.key, key[expected])
    np.testing.assert_array_equal(order.rank, rank[expected])
    groups = list(zip(lane[expected].tolist(), key[expected].tolist(), strict=True))
    begins = [place for place in range(len(groups)) if not place or groups[place] != groups[place - 1]]
    assert order.first.tolist() == [*begins, len(groups)]
    for number in range(5):
        begin, end = (int(side[0]) for side in order.spans(np.array([number])))
        assert [groups[begins[place]] for place in range(begin, end)] == sorted(
            {g for g in groups if g[0] == number}
        )
