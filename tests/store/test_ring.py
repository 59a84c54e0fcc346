"""The ring keeps events in order of time, those of one time in the order they came, however batches overlap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.expression import Expression
from muntin.store.batch import Batch
from muntin.store.ring import EventRing, key_column

WHO = Expression("who", pa.int64(), ("who",), lambda columns: columns["who"], lambda: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("seed", range(40))
def test_overlapping_batches(seed: int) -> None:
    random = np.random.default_rng(seed)
    ring = EventRing()
    came: list[int] = []
    reach = int(random.choice([0, 3, 30, 300]))  # how far events may be behind those of earlier batches
    for number in range(8):
        many = int(random.integers(0, 40))
        at = np.sort(np.maximum(20 * number - random.integers(0, reach + 1, many), 0))
        at += random.integers(0, 2) * 10
        at = np.sort(np.append(at, 20 * number + random.integers(0, 20, many // 2)))
        before = ring.at.copy()
        ring.insert(Batch(at, {}, {}, {}))
        ring.check()
        came += at.tolist()
        assert ring.at.tolist() == sorted(came)
        # nothing before what is said to have changed is different, and what follows is
        first = ring.changed_from - ring.dropped
        assert np.array_equal(ring.at[:first], before[:first])
        assert not len(at) or first == int(np.searchsorted(before, at[0], side="right"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1, 5, 5, 9], [5, 9, 9, 12], "a b c x d y z w"),  # what is as late as the latest comes after it
        ([1, 5], [0, 1, 2], "x a y z b"),
        ([1, 5], [0, 5], "x a b y"),
        ([4], [4], "a x"),
        ([4], [3], "x a"),
    ],
)
def test_those_of_one_time_stay_as_they_came(old: list[int], new: list[int], expected: str) -> None:
    ring = EventRing()
    ring.keep((), (), [(WHO,)], None)
    for many, names in zip((old, new), ("abcd", "xyzw"), strict=True):
        ids = np.array([ord(name) for name in names[: len(many)]])
        ring.insert(Batch(np.array(many), {(WHO,): ids}, {}, {}))
    assert " ".join(map(chr, ring[key_column((WHO,))])) == expected
