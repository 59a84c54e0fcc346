"""Samples: which elements, how often they fail, and that equal seeds choose alike."""

from __future__ import annotations

from collections import Counter
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.kernels.sticky_sample import coin, thin
from muntin.sketch.sampled_counts import SampledCounts
from muntin.sketch.sampled_quantiles import SampledQuantiles
from muntin.store.saved import Saved
from tests.sketch.streams import KINDS, counts, make, rank_error

INT = np.dtype(np.int64)


@pytest.mark.parametrize(
    ("window", "eps", "delta", "rate"),
    [(2**20, 0.01, 0.01, 10), (2**16, 1 / 64, 0.01, 6), (1000, 0.01, 0.01, 0)],
)
def test_m4_rate(window: int, eps: float, delta: float, rate: int) -> None:
    """2^-(r+1) <= X / W < 2^-r with the natural logarithm, for which the chance to miss an item is small."""
    sample = SampledCounts(eps, delta, window)
    needed = log(1 / (eps * delta)) / eps
    assert sample._highest == rate
    if rate:
        assert 2.0 ** -(rate + 1) <= needed / window < 2.0**-rate
        assert (1 - 2.0**-rate) ** (eps * window) < exp(-eps * window / 2**rate) < eps * delta
    sample.extend(np.arange(3 * window) % 100_003)
    assert sample.entries() <= window / 2**rate + 1 + sample.chunk


@pytest.mark.parametrize("window", [100, 1000, 5000, 20_000, 100_000])
@pytest.mark.parametrize(("eps", "delta"), [(0.02, 0.01), (0.1, 0.1), (0.3, 0.5)])
def test_counts_keep_what_is_stated(window: int, eps: float, delta: float) -> None:
    """2 X + 2 and a chunk, at any time, for windows of at most W elements."""
    sample = SampledCounts(eps, delta, window)
    most = 0
    for lo in range(0, 3 * window, max(7, window // 200)):
        sample.extend(np.arange(lo, lo + max(7, window // 200)) % 1003)
        most = max(most, sample.entries())
    stated = 2 * log(1 / (eps * delta)) / eps + 2
    assert most <= stated + min(max(64, window / 16), 8192)
    assert sample.chunk <= min(max(64, window / 16), 8192)


def sticky(text: str, sampled: set[int], window: range) -> dict[str, int]:
    """By the book: positions from 1; an element that is sampled counts those like it until the next."""
    current: dict[str, int] = {}
    found: Counter[str] = Counter()
    for position, letter in enumerate(text, 1):
        if position in sampled:
            current[letter] = position
        if letter in current and current[letter] in window:
            found[letter] += 1
    return dict(found)


def thinned(text: str, sampled: set[int]) -> list[tuple[str, int, int]]:
    """Triples after thinning to the elements that are sampled: these have survived, as far as levels go."""
    code = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    position = np.arange(len(code))
    seed = next(
        seed
        for seed in range(100_000)
        if {sample_of(seed, block, 2) + 1 for block in range(len(code) // 4)} == sampled
    )
    columns = [code, np.ones(len(code), np.int64), position, np.zeros(len(code), np.int64)]
    kept = thin(
        *columns, np.zeros(len(code), np.int8), len(code), len(code), 0, 2, seed, True, np.empty(64, np.int64)
    )
    return [(chr(code[i]), int(columns[1][i]), int(position[i]) + 1) for i in range(kept)]


def sample_of(seed: int, block: int, level: int) -> int:
    """The position, from 0, of the sample of a block."""
    for each in range(level, 0, -1):
        block = 2 * block + coin(seed, each, block)
    return block


def test_triples() -> None:
    """r = 2, positions 2, 5 and 12 are sampled: a is sampled late, and its four others are not counted."""
    text = "abbabcabbcaa"
    assert thinned(text, {2, 5, 12}) == [("b", 2, 2), ("b", 3, 5), ("a", 1, 12)]
    assert sticky(text, {2, 5, 12}, range(1, 13)) == {"b": 5, "a": 1}


@given(text=st.text("abc", min_size=8, max_size=40), seed=st.integers(0, 10**6))
def test_m7_what_a_sample_counted_stays_when_it_goes(text: str, seed: int) -> None:
    """Thinning by one level after another counts what sticky sampling at the last rate would have."""
    text = text[: len(text) // 8 * 8]
    code = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    columns = [code, np.ones(len(code), np.int64), np.arange(len(code)), np.zeros(len(code), np.int64)]
    level, kept = np.zeros(len(code), np.int8), len(code)
    for highest in (1, 2, 3):
        kept = thin(*columns, level, kept, len(text), 0, highest, seed, True, np.empty(128, np.int64))
    sampled = {sample_of(seed, block, 3) + 1 for block in range(len(text) // 8)}
    found: Counter[str] = Counter()
    for i in range(kept):
        found[chr(code[i])] += int(columns[1][i])
    assert {int(position) + 1 for position in columns[2][:kept]} == sampled
    assert dict(found) == sticky(text, sampled, range(1, len(text) + 1))


def test_m7_without_it_counts_are_lost() -> None:
    """The counter-example: only the count of the triple that is kept."""
    text, sampled = "aaaaaaaa", {1}
    alone = 1  # (a, 1, 1) and seven triples like it, of which all but the first are dropped
    assert sticky(text, sampled, range(1, 9)) == {"a": 8} != {"a": alone}


@settings(max_examples=30)
@given(
    kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 99), count=st.integers(1, 30_000),
    window=st.none() | st.integers(100, 20_000), share=st.floats(0.01, 1),
)  # fmt: skip
def test_counts_are_never_too_high(
    kind: str, seed: int, count: int, window: int | None, share: float
) -> None:
    stream = make(kind, seed, count)
    sample = SampledCounts(0.1, 0.1, window, seed)
    sample.extend(stream)
    sample.check()
    assert sample.entries() <= sample.most_entries()
    rows = max(1, int(share * min(count, window or count)))
    true, summary = counts(stream[count - rows :]), sample.summary(rows=rows)
    assert all(
        often <= true[item]
        for item, often in zip(summary.item.tolist(), summary.count_of.tolist(), strict=True)
    )


def test_counts_fail_no_more_often_than_promised() -> None:
    """At delta = 0.1, of 300 samples: a failure is any item that is too low by more than eps * n."""
    stream, eps, failures = make("zipf", 1, 40_000), 0.05, 0
    for rows in (40_000, 25_000, 3000):
        true = counts(stream[len(stream) - rows :])
        large = [item for item, often in true.items() if often > eps * rows]
        for seed in range(100):
            sample = SampledCounts(eps, 0.1, seed=seed)
            sample.extend(stream)
            summary = sample.summary(rows=rows)
            found = dict(zip(summary.item.tolist(), summary.count_of.tolist(), strict=True))
            failures += any(true[item] - found.get(item, 0) > eps * rows for item in large)
    assert failures <= 45


@pytest.mark.parametrize("window", [None, 30_000])
def test_quantiles_fail_no_more_often_than_promised(window: int | None) -> None:
    stream, eps, failures = make("drifting", 1, 40_000), 0.05, 0
    for seed in range(100):
        sample = SampledQuantiles(INT, eps, 0.1, window, seed)
        sample.extend(stream)
        rows = 30_000 if seed % 2 or window else 5000
        summary = sample.summary(rows=rows)
        failures += rank_error(stream[len(stream) - rows :], 0.3, summary.quantile(0.3)) > eps * rows
    assert failures <= 20


@pytest.mark.parametrize("make_sample", [
    lambda seed: SampledCounts(0.1, 0.1, seed=seed), lambda seed: SampledQuantiles(INT, 0.1, 0.1, seed=seed)
])  # fmt: skip
def test_batches_and_restoring_change_nothing(make_sample: object) -> None:
    stream, at = make("zipf", 2, 40_000), np.arange(40_000)
    whole, parts = (make_sample(7) for _ in range(2))  # type: ignore[operator]
    whole.extend(stream, at=at)
    for lo in range(0, 40_000, 777):
        parts.extend(stream[lo : lo + 777], at=at[lo : lo + 777])
        restored = make_sample(7)  # type: ignore[operator]
        restored.restore(Saved(parts.snapshot()))
        parts = restored.copy()
    for part, array in whole.snapshot().items():
        np.testing.assert_array_equal(array, parts.snapshot()[part])
    whole.forget_before(39_000)
    assert whole.summary(since=39_000).count == 1000
    other = make_sample(8)  # type: ignore[operator]
    other.extend(stream, at=at)
    assert other.snapshot()["position"].tolist() != parts.snapshot()["position"].tolist()


@pytest.mark.parametrize("delta", [0.0, -1.0, 0.7, float("nan")])
def test_no_such_chance(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must lie in"):
        SampledCounts(0.1, delta)
