"""Counts are never too high, and too low by no more than was promised."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin.kernels.ladder import find_block
from muntin.kernels.sliding_counts import feed
from muntin.sketch.count_summary import CountSummary
from muntin.sketch.sliding_counts import SlidingCounts
from tests.sketch.streams import KINDS, Sketching, counts, make, sketchings, summaries_of_shards


def letters(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


def misra_gries(text: str, counters: int) -> dict[str, int]:
    """One element at a time."""
    item, count, used = np.empty(counters, np.int64), np.empty(counters, np.int64), 0
    one = np.ones(1, np.int64)
    for letter in letters(text):
        scratch = np.empty(counters + 1, np.int64), np.empty(counters + 1, np.int64)
        used, _ = feed(item, count, used, np.array([letter]), one, 1, counters, *scratch)
    return {chr(item[i]): int(count[i]) for i in range(used)}


@pytest.mark.parametrize(
    ("text", "counters", "left"),
    [
        ("aabacadaab", 3, {"a": 5, "b": 1}),
        ("aabacadaab", 2, {"a": 4}),
        ("abcabc", 2, {}),
        ("abcabc", 3, {"a": 2, "b": 2, "c": 2}),
    ],
)
def test_misra_gries(text: str, counters: int, left: dict[str, int]) -> None:
    assert misra_gries(text, counters) == left


def test_m8_the_printed_rule_reports_every_item() -> None:
    """f~ >= s - eps, as printed, holds for all that was counted at all; it is (s - eps) N."""
    stream = np.concatenate([np.repeat([1, 2], 300), np.arange(10, 110)])
    sketch, support, eps = SlidingCounts(0.1), 0.3, 0.1
    sketch.extend(stream)
    summary = sketch.summary()
    true, printed = counts(stream), summary.item[summary.count_of >= support - eps].tolist()
    assert any(true[item] < (support - eps) * len(stream) for item in printed)
    assert [each.item for each in summary.frequent(support)] == [1, 2]


def test_m2_one_counter_less_misses_an_item() -> None:
    """At eps = 1/2 an item that occurs in half of all must be there; one counter has neither."""
    assert misra_gries("abab", 1) == {}
    assert misra_gries("abab", 2) == {"a": 2, "b": 2}


def test_the_papers_blocks() -> None:
    """W = 16, eps = 1/2: four levels of blocks from 2 elements on, with 4, 8, 16 and 32 counters."""
    sketch = SlidingCounts(0.5, window=16, is_auto=False)
    shape = sketch.geometry.shape
    assert [shape.entries << level for level in range(shape.levels)] == [4, 8, 16, 32]
    sketch.extend(letters("abacabadabacabae"))
    block, entry = find_block(shape, sketch._blocks.arrays, 0, 3, 0)
    used = sketch._blocks.arrays.about[block, 1]
    found = zip(
        sketch._blocks.arrays.item[entry : entry + used],
        sketch._blocks.arrays.count[entry : entry + used],
        strict=True,
    )
    whole = {chr(item): int(count) for item, count in found}
    assert whole == {"a": 8, "b": 4, "c": 2, "d": 1, "e": 1}
    assert named(sketch.summary(rows=16)) == whole
    covered = sketch.cover(16 - 7)
    assert covered.start == 10
    assert covered.pieces[:, 2].tolist() == [0, 1]  # of 2 and 4 elements
    assert named(sketch.summary(rows=7)) == {"a": 3, "b": 1, "c": 1, "e": 1}


def named(summary: CountSummary) -> dict[str, int]:
    return {chr(item): int(count) for item, count in zip(summary.item, summary.count_of, strict=True)}


def assert_kept(sketch: SlidingCounts, summary: CountSummary, window: np.ndarray, allowed: float) -> None:
    """All that is promised of a window's counts."""
    true = counts(window)
    found = dict(zip(summary.item.tolist(), summary.count_of.tolist(), strict=True))
    spared = dict(zip(summary.item.tolist(), summary.spared.tolist(), strict=True))
    assert summary.error <= allowed
    assert summary.count <= len(window) <= summary.count + summary.left_out
    for item, often in true.items():
        assert found.get(item, 0) <= often <= found.get(item, 0) + summary.error - spared.get(item, 0)
    assert found.keys() <= true.keys()
    for support in (0.02, 0.2, 0.5):
        frequent = summary.frequent(support)
        if summary.error < support * len(window):
            assert {item for item, often in true.items() if often > support * len(window)} <= {
                each.item for each in frequent
            }
        for each in frequent:
            assert each.lower <= true[each.item] <= each.upper
            # M8: the threshold is (s - eps) * N, not (s - eps)
            assert true[each.item] > support * summary.count - summary.error


def assert_single_counts(sketch: SlidingCounts, stream: np.ndarray, rows: int) -> None:
    true = counts(stream[len(stream) - rows :])
    for item in {int(stream[-1]), int(stream[0]), 0, 123_456_789}:
        least, most = sketch.count(item, rows=rows)
        assert least <= true[item] <= most


@settings(max_examples=some_of(60, 50))
@given(sketchings(9000, [0.5, 0.3, 0.125, 0.05]))
def test_windows_of_any_length(given: Sketching) -> None:
    stream, eps, count = given.stream, given.eps, len(given.stream)
    sketch = SlidingCounts(eps)
    sketch.extend(stream)
    sketch.check()
    for rows in given.rows(count):
        assert_kept(sketch, sketch.summary(rows=rows), stream[count - rows :], eps * rows)
        assert_single_counts(sketch, stream, rows)


@settings(max_examples=some_of(60, 50))
@given(sketchings(6000, [0.5, 0.25, 0.1]), st.integers(1, 5000), st.booleans())
def test_windows_up_to_a_length(given: Sketching, window: int, auto: bool) -> None:
    stream, eps, count = given.stream, given.eps, len(given.stream)
    sketch = SlidingCounts(eps, window, is_auto=auto)
    sketch.extend(stream)
    sketch.check()
    longest = min(count, window)
    for rows in given.rows(longest):
        summary = sketch.summary(rows=rows)
        assert_kept(sketch, summary, stream[count - rows :], 0 if sketch.geometry.is_exact else eps * window)


@settings(max_examples=some_of(40, 50))
@given(
    kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 99), eps=st.sampled_from([0.5, 0.2, 0.1]),
    window=st.sampled_from([None, 1000]), nulls=st.booleans(),
)  # fmt: skip
def test_blocks_know_what_they_lack(
    kind: str, seed: int, eps: float, window: int | None, nulls: bool
) -> None:
    """Every block, of every size: its pairs by count, and no item beyond what it says that it may have missed."""
    stream = make(kind, seed, 4000)
    valid = np.random.default_rng(seed).random(4000) < (0.6 if nulls else 2)
    sketch = SlidingCounts(eps, window, is_auto=False)
    sketch.extend(stream, valid)
    shape, blocks = sketch.geometry.shape, sketch._blocks.arrays
    for scale, level in np.argwhere(blocks.size > 0).tolist():
        bits, first = shape.unit_bits + scale + level, int(blocks.first[scale, level])
        for number in range(first, first + int(blocks.size[scale, level])):
            place, entry = find_block(shape, blocks, scale, level, number)
            held, used, slack, lost = blocks.about[place, :4].tolist()
            part = slice(number << bits, (number + 1) << bits)
            true = counts(stream[part][valid[part]])
            assert held == sum(true.values())
            often = blocks.count[entry : entry + used].tolist()
            assert often == sorted(often, reverse=True)
            found = dict(zip(blocks.item[entry : entry + used].tolist(), often, strict=True))
            assert len(found) == used <= shape.entries << level
            for item, count in true.items():
                assert found.get(item, 0) <= count <= found.get(item, 0) + (slack if item in found else lost)
            if scale == 0 and 1 << bits <= sketch.geometry.base:  # counted at once: nothing is taken away
                assert slack == 0
                assert lost == max((often for item, often in true.items() if item not in found), default=0)


def test_entries_are_within_the_papers_bound() -> None:
    for kind in KINDS:
        for inverse in (4, 8, 16):
            window = 2**13
            sketch = SlidingCounts(1 / inverse, window, is_auto=False)
            sketch.extend(make(kind, 1, 3 * window))
            top = sketch.geometry.shape.levels - 1
            active, rising = (top + 1) ** 2 << top, (top + 1) * (2 ** (top + 1) - 1)
            assert sketch.entries() <= active + rising + sketch.geometry.base


def test_items_that_are_null_have_a_place() -> None:
    stream = np.arange(3000) % 7
    valid = np.arange(3000) % 3 > 0
    sketch = SlidingCounts(0.25)
    sketch.extend(stream, valid)
    summary = sketch.summary(rows=2000)
    true = Counter(stream[1000:][valid[1000:]].tolist())
    assert all(
        count <= true[item] <= count + summary.error
        for item, count in zip(summary.item.tolist(), summary.count_of.tolist(), strict=True)
    )
    assert summary.error <= 0.25 * 2000


@given(seed=st.integers(0, 50), count=st.integers(1, 5000), kind=st.sampled_from(sorted(KINDS)))
def test_shards_merge_with_their_errors(seed: int, count: int, kind: str) -> None:
    """A stream dealt out to three, asked since one instant."""
    stream, since = make(kind, seed, count), count // 3
    sketches = [SlidingCounts(0.125) for _ in range(3)]
    summaries = summaries_of_shards(sketches, stream, seed, since)
    merged = CountSummary.merge(summaries)
    assert merged.error == sum(each.error for each in summaries)
    assert_kept(sketches[-1], merged, stream[since:], 0.125 * (count - since))
