"""Ladders of counts and quantiles: batches, times, windows that shrink and grow, snapshots."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin.arrays import Arrays
from muntin.sketch.sliding_counts import SlidingCounts
from muntin.sketch.sliding_quantiles import SlidingQuantiles
from muntin.store.saved import Saved
from tests.sketch.streams import KINDS, counts, make, rank_error

Sketch = SlidingCounts | SlidingQuantiles
MAKERS = {
    "counts": lambda eps, **more: SlidingCounts(eps, **more),
    "quantiles": lambda eps, **more: SlidingQuantiles(np.dtype(np.int64), eps, **more),
}
each_sketch = pytest.mark.parametrize("name", sorted(MAKERS))


def same(left: Arrays, right: Arrays) -> None:
    assert left.keys() == right.keys()
    for part in left:
        np.testing.assert_array_equal(left[part], right[part], err_msg=part)


def live(sketch: Sketch) -> Arrays:
    """A snapshot without what is left in places that no block uses."""
    arrays = sketch.snapshot()
    about = sketch._blocks.arrays.about[sketch._blocks.live()]
    return {part: array for part, array in arrays.items() if not part.startswith("blocks")} | {"about": about}


def assert_right(sketch: Sketch, window: np.ndarray, allowed: float, **asked: int) -> None:
    summary: Any = sketch.summary(**asked)
    assert summary.error <= allowed
    assert summary.count <= len(window) <= summary.count + summary.left_out
    if isinstance(sketch, SlidingQuantiles):
        for phi in (0.01, 0.5, 0.9) if summary.count else ():
            assert rank_error(window, phi, summary.quantile(phi)) <= summary.error
    else:
        found = dict(zip(summary.item.tolist(), summary.count_of.tolist(), strict=True))
        for item, often in counts(window).items():
            assert found.get(item, 0) <= often <= found.get(item, 0) + summary.error


@each_sketch
@given(seed=st.integers(0, 20), count=st.integers(0, 4000), cuts=st.lists(st.integers(0, 4000), max_size=8))
def test_batches_leave_the_same_state(name: str, seed: int, count: int, cuts: list[int]) -> None:
    stream = make("zipf", seed, count)
    whole, parts = MAKERS[name](0.2), MAKERS[name](0.2)
    whole.extend(stream)
    edges = [0, *sorted(min(cut, count) for cut in cuts), count]
    for lo, hi in itertools.pairwise(edges):
        parts.extend(stream[lo:hi])
    same(whole.snapshot(), parts.snapshot())


@each_sketch
@pytest.mark.parametrize("window", [None, 3000])
def test_restored_goes_on_alike(name: str, window: int | None) -> None:
    stream, at = make("drifting", 3, 20_000), np.arange(20_000) // 3
    straight = MAKERS[name](0.1, window=window, is_auto=False)
    straight.extend(stream[:11_111], at=at[:11_111])
    straight.forget_before(300)
    restored = MAKERS[name](0.1, window=window, is_auto=False)
    restored.restore(Saved(straight.snapshot()))
    copied = straight.copy()
    for sketch in (straight, restored, copied):
        sketch.extend(stream[11_111:], at=at[11_111:])
        sketch.check()
    same(live(straight), live(restored))
    same(live(straight), live(copied))
    np.testing.assert_array_equal(straight.summary(since=5000).item, restored.summary(since=5000).item)


@each_sketch
def test_a_copy_does_not_follow(name: str) -> None:
    sketch = MAKERS[name](0.3)
    sketch.extend(np.arange(2000))
    copy, before = sketch.copy(), live(sketch)
    copy.extend(np.arange(5000))
    same(live(sketch), before)


@each_sketch
@settings(max_examples=some_of(40, 50))
@given(
    kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 50), eps=st.sampled_from([0.5, 0.25, 0.1]),
    story=st.lists(st.tuples(st.integers(0, 2500), st.floats(0, 1)), min_size=1, max_size=9),
)  # fmt: skip
def test_windows_shrink_and_grow(name: str, kind: str, seed: int, eps: float, story: list[Any]) -> None:
    """Elements come, the oldest go, in any order; any window of what is left is right."""
    stream = make(kind, seed, sum(come for come, _ in story))
    sketch = MAKERS[name](eps)
    end = first = 0
    for come, go in story:
        sketch.extend(stream[end : end + come])
        end += come
        first += int(go * (end - first))
        sketch.forget(first)
        sketch.check()
        assert sketch.entries() <= sketch.most_entries()
        for start in {first, (first + end) // 2, (first + 7 * end) // 8}:
            assert_right(sketch, stream[start:end], eps * (end - start), rows=end - start)


@each_sketch
@pytest.mark.parametrize("window", [10, 100, 3_000, 20_000])
def test_there_is_room_for_no_more_than_told(name: str, window: int) -> None:
    """Whether a window is kept as it is or in blocks: there are never more entries than were said to be at most."""
    sketch, stream = MAKERS[name](0.1, window=window, is_auto=False), make("drifting", 4, 30_000)
    told = []
    for part in np.array_split(stream, 23):
        sketch.extend(part)
        told.append(sketch.most_entries())
        assert 0 < sketch.entries() <= min(told)


@each_sketch
@settings(max_examples=some_of(40, 50))
@given(
    seed=st.integers(0, 50), eps=st.sampled_from([0.5, 0.25, 0.1]), tie=st.integers(1, 400),
    rates=st.lists(st.integers(0, 1500), min_size=2, max_size=12), span=st.integers(1, 6), nulls=st.booleans(),
)  # fmt: skip
# after silence the first elements that are needed begin in the middle of a block
@example(seed=0, eps=0.5, tie=1, rates=[45, 0, 83], span=1, nulls=False)
# the first element of a block, which is all that is known to be old, does not count
@example(seed=0, eps=0.5, tie=400, rates=[100, 100, 100], span=1, nulls=True)
def test_windows_in_time(
    name: str, seed: int, eps: float, tie: int, rates: list[int], span: int, nulls: bool
) -> None:
    """The rate changes from second to second, with silence, and many elements have the same time."""
    random = np.random.default_rng(seed)
    sketch, values, times = MAKERS[name](eps), np.zeros(0, np.int64), np.zeros(0, np.int64)
    valid = np.zeros(0, np.bool_)
    for second, rate in enumerate(rates):
        at = np.sort(random.integers(second * 1000, (second + 1) * 1000, rate)) // tie * tie
        at = np.maximum(at, times[-1] if len(times) else at[:1])
        value = random.zipf(1.5, rate) % 1000
        some = random.random(rate) < (0.7 if nulls else 1)
        sketch.extend(value, some, at)
        values, times, valid = np.append(values, value), np.append(times, at), np.append(valid, some)
        now = (second + 1) * 1000
        longest = now - span * 1000
        sketch.forget_before(longest)
        sketch.check()
        for since in (longest, now - 1000, now - 137):
            inside = times >= max(since, longest)
            allowed = eps * int(inside.sum())
            assert_right(sketch, values[inside & valid], allowed, since=max(since, longest))


@each_sketch
def test_silence_empties_all(name: str) -> None:
    sketch = MAKERS[name](0.1)
    sketch.extend(np.arange(50_000) % 20, at=np.arange(50_000))
    large = sketch.entries()
    sketch.forget_before(10**9)
    assert sketch.summary(since=10**9).count == 0
    sketch.extend(np.arange(5000), at=10**9 + np.arange(5000))
    sketch.check()
    assert sketch.entries() < large
    assert_right(sketch, np.arange(5000), 500, since=10**9)


@each_sketch
@pytest.mark.parametrize("shift", [0, 1, 1000, 12_345, 40_000])
def test_property_p_wherever_the_window_starts_to_grow(name: str, shift: int) -> None:
    """A window that was short grows to many times its length, from a position aligned to nothing: at every
    length the error is that of a sketch which always was so large."""
    eps, count = 0.25, 60_000
    stream = make("adversarial", shift, shift + count)
    sketch = MAKERS[name](eps)
    for lo in range(0, shift, 500):
        sketch.extend(stream[lo : min(lo + 500, shift)])
        sketch.forget(max(0, sketch.end - 300))
    start = sketch.needed_from
    for end in range(shift + 1000, shift + count, 1777):
        sketch.extend(stream[sketch.end : end])
        for rows in (end - start, (end - start) // 2, (end - start) // 3):
            assert_right(sketch, stream[end - rows : end], eps * rows, rows=rows)
    sketch.check()


def test_m5_the_printed_deletion_leaves_a_window_that_is_too_long() -> None:
    """A member for each power of two, the top one for the window itself: when the window shrinks to half, the
    member below becomes the top, but it was kept for one element more."""
    random = np.random.default_rng(1)
    printed_wrong = corrected_wrong = 0
    for fix in (False, True):
        length = 1
        members = {1: 1}  # by k: of how many elements, up to 2 ** k
        for _ in range(4000):
            top = max(members)
            if random.random() < 0.52:
                length += 1
                for k in members:
                    members[k] = members[k] + 1 if k == top else min(members[k] + 1, 2**k)
                if length == 2**top:
                    members[top + 1] = length
            elif length > 1:
                length -= 1
                members[top] -= 1
                if length < 2 ** (top - 1) and top > 1:
                    del members[top]
                    if fix:
                        members[top - 1] -= 1
            wrong = members[max(members)] != length
            printed_wrong += wrong and not fix
            corrected_wrong += wrong and fix
    assert printed_wrong > 0
    assert corrected_wrong == 0


@each_sketch
def test_memory_does_not_grow_with_the_stream(name: str) -> None:
    sketch, sizes = MAKERS[name](0.1), []
    for _ in range(40):
        sketch.extend(np.random.default_rng(1).integers(0, 1000, 5000))
        sketch.forget(sketch.end - 20_000)
        sizes.append(sketch.nbytes())
    assert max(sizes[20:]) <= 1.05 * max(sizes[:20])  # arrays have some room to spare


@each_sketch
@pytest.mark.parametrize("window", [None, 2**22])
def test_memory_is_a_small_part_of_the_window(name: str, window: int | None) -> None:
    """Of 8 bytes for each element, at eps = 0.01, less than a twentieth."""
    sketch = MAKERS[name](0.01, window=window)
    stream = make("zipf", 1, 2**18)
    for _ in range(
        16 if window is None else 1
    ):  # one for windows of one length has all its room from the start
        sketch.extend(stream)
    assert 20 * sketch.nbytes() <= 8 * 2**22


@each_sketch
@settings(max_examples=some_of(40, 50))
@given(
    kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 50),
    story=st.lists(st.tuples(st.integers(0, 4000), st.booleans()), min_size=1, max_size=8),
)  # fmt: skip
def test_a_coarser_promise_is_kept(name: str, kind: str, seed: int, story: list[Any]) -> None:
    """The error is doubled now and then, while elements come."""
    stream, end = make(kind, seed, sum(come for come, _ in story)), 0
    sketch = MAKERS[name](0.02)
    for come, is_coarser in story:
        sketch.extend(stream[end : end + come])
        end += come
        if is_coarser:
            before, is_coarser = sketch.eps, sketch.coarsen()
            assert sketch.eps == (2 * before if is_coarser else before)
        sketch.check()
        for start in {0, end // 2, 7 * end // 8}:
            assert_right(sketch, stream[start:end], sketch.eps * (end - start), rows=end - start)


@each_sketch
def test_a_coarser_sketch_is_smaller(name: str) -> None:
    sketch = MAKERS[name](0.01)
    sketch.extend(make("uniform", 1, 200_000))
    sizes = [sketch.entries()]
    while sketch.coarsen():
        sketch.check()
        sizes.append(sketch.entries())
    assert len(sizes) > 4
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 8
