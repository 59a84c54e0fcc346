"""The order of values and their repeats, beside plain lists: runs that grow, move, lose entries and get late ones."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import ceil

import numpy as np
import pyarrow as pa
import pytest

from effort import some_of
from muntin.expression import Expression
from muntin.query import Input
from muntin.store import repeats
from muntin.store.batch import Batch, Column
from muntin.store.key_runs import KeyRuns
from muntin.store.needs import Need
from muntin.store.ring import EventRing, key_column
from muntin.store.value_order import Order, Ranks

X, K = (
    Expression(name, kind, (name,), lambda columns: None, lambda: None)
    for name, kind in (("x", pa.float64()), ("k", pa.int64()))
)
PHIS = [Fraction(1, 100), Fraction(1, 2), Fraction(99, 100), Fraction(1)]
NEEDS = [Need(Input(X), "quantile", (0.5,)), Need(Input(X), "distinct"), Need(Input(X), "mode")]


def runs_of(ring: EventRing) -> KeyRuns:
    ring.keep([X], [], [(K,)], None)
    runs = KeyRuns(ring, None, (K,))
    runs.fit(NEEDS)
    return runs


def batch(rng: np.random.Generator, at: np.ndarray, keys: int, values: int) -> Batch:
    """Values that are equal in many ways: NaN of both signs, 0.0 and -0.0; and some that do not count."""
    x = rng.integers(-values, values, len(at)) / 4
    x[rng.random(len(at)) < 0.1] = rng.choice([np.nan, -np.nan, -0.0, np.inf])
    key = (rng.random(len(at)) ** 2 * keys).astype(int)
    return Batch(at, {(K,): key}, {X: Column(x, rng.random(len(at)) > 0.1)}, {})


def expect(ring: EventRing, k: int, begin: int, end: int) -> tuple[int, list[float]]:
    """How many different values a key has in [begin, end), and its numbers in order, equal ones as they came."""
    mine = (ring[key_column((K,))] == k) & (ring.at >= begin) & (ring.at < end) & ring[f"valid {X.sql}"]
    values = ring[f"value {X.sql}"][mine].tolist()
    different = {"NaN" if value != value else value for value in values}
    return len(different), sorted(value for value in values if value == value)


@pytest.mark.parametrize("seed", range(some_of(60, 10)))
def test_runs_of_a_ring(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "_SMALLEST", 1)
    monkeypatch.setattr(repeats, "_PART", 7)
    rng = np.random.default_rng(seed)
    ring = EventRing()
    runs = runs_of(ring)
    keys, values, now = int(rng.choice([1, 3, 40])), int(rng.choice([1, 5, 500])), 0
    reach = int(rng.choice([20, 100, 200]))
    for _ in range(100):
        at = np.sort(now + rng.integers(int(rng.choice([0, -3])), 12, int(rng.integers(1, 300))))
        now = max(now, int(at[-1]))
        ring.insert(batch(rng, at, keys, values))
        runs.follow()
        if rng.random() < 0.5:
            ring.drop_first(max(0, ring.find(now - 250)))
            runs.shed()
        if rng.random() < 0.6:
            runs.catch_up(int(ring.at[0]))
            rows = int(rng.integers(1, 8))
            ends = now + 1 - rng.choice([0, 0, 1, 5, 60, 220], rows)
            begins = np.maximum(ends - rng.integers(0, reach, rows), int(ring.at[0]))
            assert_as_listed(ring, runs, np.arange(keys), begins, ends, reach)
        if rng.random() < 0.1:
            new_id = rng.permutation(keys)
            ring.renumber_keys((K,), new_id)
            runs.renumber(new_id)
        if rng.random() < 0.05:
            runs.fit(NEEDS[: int(rng.integers(0, 3))])
            runs.fit(NEEDS)
        runs.check()


def assert_as_listed(
    ring: EventRing, runs: KeyRuns, ids: np.ndarray, begins: np.ndarray, ends: np.ndarray, reach: int
) -> None:
    spans = runs.locate(ids, begins, ends)
    order = Order.by_time(begins, ends, reach)
    ranks = Ranks([1] * len(ends), [PHIS] * len(ends), *order)
    picked = runs.by_value.pick(Input(X), ids, spans.lo, spans.hi, ranks)
    counts = runs.by_value.count_different(Input(X), ids, spans.lo, spans.hi, order.sequence)
    modes, among = runs.by_value.pick_modes(Input(X), ids, spans.lo, spans.hi, order, np.zeros(0, np.int64))
    for r, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        for j, k in enumerate(ids.tolist()):
            different, ordered = expect(ring, k, begin, end)
            assert counts[r * len(ids) + j] == different
            assert among[r * len(ids) + j] == len(ordered)
            assert not ordered or modes[r * len(ids) + j] == max(
                ordered, key=Counter(ordered).get
            )  # the least
            for phi, (value, count) in zip(PHIS, picked[r], strict=True):
                assert count[j] == len(ordered)
                if ordered:
                    wanted = ordered[max(1, ceil(phi * len(ordered))) - 1]
                    assert (
                        np.float64(wanted).tobytes() == value[j].tobytes()
                    )  # -0.0 or 0.0: whichever came first


def test_few_values_take_little_room() -> None:
    """The table of different values follows how many there are, not how many events."""
    ring = EventRing()
    runs, rng = runs_of(ring), np.random.default_rng(1)
    at = np.arange(100_000)
    ring.insert(Batch(at, {(K,): at % 10}, {X: Column(rng.integers(0, 2, len(at)) * 1.0, at >= 0)}, {}))
    runs.follow()
    runs.catch_up(0)
    before = runs.nbytes()
    everything = np.zeros(1, np.int64), np.full(1, 100_000)
    spans = runs.locate(np.arange(10), *everything)
    counts = runs.by_value.count_different(Input(X), np.arange(10), spans.lo, spans.hi, np.zeros(1, np.int64))
    assert counts.tolist() == [2] * 10
    assert runs.nbytes() - before < 4 * runs.capacity + 16 * 4 * (1 << 16)


def test_values_that_left_make_room_in_the_table() -> None:
    """New values for ever: the table does not grow with them."""
    ring = EventRing()
    runs = runs_of(ring)
    sizes = []
    for turn in range(60):
        at = turn * 1000 + np.arange(1000)
        ring.insert(Batch(at, {(K,): at % 7}, {X: Column(at * 1.0, at >= 0)}, {}))
        runs.follow()
        ring.drop_first(max(0, ring.find(at[-1] - 3000)))
        runs.catch_up(int(ring.at[0]))
        spans = runs.locate(np.arange(7), ring.at[:1], np.array([at[-1] + 1]))
        counts = runs.by_value.count_different(
            Input(X), np.arange(7), spans.lo, spans.hi, np.zeros(1, np.int64)
        )
        assert counts.sum() == len(ring)
        sizes.append(runs.by_value.nbytes())
    assert max(sizes) <= 2 * sizes[20]
