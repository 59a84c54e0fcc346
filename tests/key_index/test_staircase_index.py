"""Keys by MAX and MIN over suffix windows: the same as from the raw events, in both forms, at the stated cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.key_index.staircase_index import FORMS, StaircaseIndex

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
LEAST, GREATEST = -(2**63), 2**63 - 1
BOTH = pytest.mark.parametrize("form", FORMS)
EVENTS = [("a", 5, 1), ("b", 9, 2), ("a", 3, 4), ("c", 7, 5), ("b", 2, 6), ("a", 4, 8)]


def is_less(one: Any, other: Any) -> bool:
    """Python's exact order of numbers, with NaN above all."""
    if other != other:
        return bool(one == one)
    return bool(one < other)


class Oracle:
    """All events in a list; every answer from the whole list."""

    def __init__(self, kind: str):
        self.kind = kind
        self.events: list[tuple[int, int, Any]] = []

    def add(self, key: Any, at: Any, value: Any) -> None:
        self.events += zip(key.tolist(), at.tolist(), value.tolist(), strict=True)

    def value(self, key: int, since: int) -> Any:
        best = None
        for who, at, value in self.events:
            if who == key and at >= since:
                is_better = best is None or (
                    is_less(best, value) if self.kind == "max" else is_less(value, best)
                )
                best = value if is_better else best
        return best

    def keys_in(self, since: int, low: Any, high: Any, low_open: bool, high_open: bool) -> list[int]:
        found = []
        for key in sorted({who for who, _, _ in self.events}):
            value = self.value(key, since)
            if value is None:
                continue
            above = low is None or (is_less(low, value) if low_open else not is_less(value, low))
            below = high is None or (is_less(value, high) if high_open else not is_less(high, value))
            if above and below:
                found.append(key)
        return found

    def renumber(self, new_id: Any) -> None:
        self.events = [(int(new_id[k]), at, value) for k, at, value in self.events if new_id[k] >= 0]


def vector_index(kind: str, form: Any, sign: int = 1) -> StaircaseIndex:
    index = StaircaseIndex(kind, INT, form)
    key, value, at = (np.array(column) for column in zip(*EVENTS, strict=True))
    index.add(np.array([ord(k) - ord("a") for k in key]), at, sign * value)
    return index


def test_segments_of_the_small_example() -> None:
    """Each step answers for the starts after the step before it, up to itself."""
    names = [
        (start, stop, value, "abc"[key])
        for start, stop, value, key in vector_index("max", "tree").maxima.segments()
    ]
    assert names == [(0, 1, 5, "a"), (1, 6, 4, "a"), (0, 2, 9, "b"), (2, 5, 2, "b"), (0, 4, 7, "c")]


@BOTH
@pytest.mark.parametrize(
    ("now", "size", "low", "high", "keys"),
    [
        (8, 8, 3, None, "abc"),
        (8, 6, 3, None, "ac"),
        (8, 3, None, 5, "ab"),
        (8, 4, None, 5, "ab"),
        (9, 1, None, None, ""),
        (8, 8, 4, 8, "ac"),
    ],
)
def test_answers_of_the_small_example(form: Any, now: int, size: int, low: Any, high: Any, keys: str) -> None:
    """The windows (now - size, now] are those since now - size + 1; bounds are open. MIN mirrors MAX."""
    since = now - size + 1
    found = vector_index("max", form).keys_in(since, low, high, True, True)
    assert "".join("abc"[key] for key in found) == keys
    low, high = (None if high is None else -high), (None if low is None else -low)
    found = vector_index("min", form, sign=-1).keys_in(since, low, high, True, True)
    assert "".join("abc"[key] for key in found) == keys


@st.composite
def stories(draw: st.DrawFn) -> tuple[str, np.dtype[Any], list[tuple[str, Any]]]:
    """A kind, a type and what happens: batches, forgetting, new ids, look-ups. Few values, for many ties."""
    dtype = draw(st.sampled_from([INT, FLOAT]))
    ints = st.one_of(st.integers(-3, 3), st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST]))
    floats = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, 2.0, 2.0**53, math.inf, math.nan])
    values = ints if dtype == INT else floats
    bounds = st.one_of(
        st.none(), ints, floats, st.sampled_from([2**53 + 1, -(2**53) - 1, 10**400, -(10**400), 0.5])
    )
    events = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), values), max_size=10)
    look_up = st.tuples(st.integers(0, 12), bounds, bounds, st.booleans(), st.booleans())
    step = st.one_of(
        st.tuples(st.just("add"), events),
        st.tuples(st.just("look up"), st.lists(look_up, min_size=1, max_size=3)),
        st.tuples(st.just("forget"), st.integers(0, 8)),
        st.tuples(st.just("renumber"), st.lists(st.booleans(), min_size=5, max_size=5)),
    )
    return draw(st.sampled_from(["max", "min"])), dtype, draw(st.lists(step, max_size=12))


@given(story=stories())
def test_whatever_happens_answers_are_those_of_the_raw_events(
    story: tuple[str, np.dtype[Any], list[tuple[str, Any]]],
) -> None:
    """Both forms answer every range over every window as a scan of all events does, and keep their invariants."""
    kind, dtype, steps = story
    both = [StaircaseIndex(kind, dtype, form) for form in FORMS]
    oracle, now, first = Oracle(kind), 0, 0
    for what, details in steps:
        if what == "add" and details:
            gap = np.array([gap for _, gap, _ in details])
            key, at = np.array([key for key, _, _ in details]), now + np.cumsum(gap)
            value = np.array([value for _, _, value in details], dtype)
            now = int(at[-1])
            oracle.add(key, at, value)
            for index in both:
                index.add(key, at, value)
        elif what == "forget":
            first = max(first, now - details)
            for index in both:
                index.forget(first)
        elif what == "renumber":
            new_id = np.where(details, np.cumsum(details) - 1, -1)
            oracle.renumber(new_id)
            for index in both:
                index.renumber(new_id)
        elif what == "look up":
            for back, *bounds in details:
                since = max(first, now + 1 - back)
                expected = oracle.keys_in(since, *bounds)
                for index in both:
                    assert index.keys_in(since, *bounds).tolist() == expected
        for index in both:
            index.check()
            assert_values(index, oracle, max(first, now - 3))


def assert_values(index: StaircaseIndex, oracle: Oracle, since: int) -> None:
    """The values of all keys, and of one that is unknown."""
    value, valid = index.value_of(np.arange(7), since)
    for key in range(7):
        expected = oracle.value(key, since)
        assert valid[key] == (expected is not None)
        if expected is not None:
            assert value[key] == expected or (math.isnan(value[key]) and math.isnan(expected))


def raw_answer(key: Any, at: Any, value: Any, since: int, low: float, high: float, kind: str) -> list[int]:
    """Keys with low <= extreme <= high, by NumPy."""
    inside = at >= since
    best = np.full(key.max() + 1, np.nan)
    getattr(np, "fmax" if kind == "max" else "fmin").at(best, key[inside], value[inside])
    return np.flatnonzero((best >= low) & (best <= high)).tolist()


@pytest.mark.parametrize("seed", range(4))
@BOTH
def test_long_streams_against_numpy(form: Any, seed: int) -> None:
    """Thousands of events in batches of all sizes, with bursts, silence, idle and returning keys, forgetting
    and new ids: the index grows, shrinks, and goes on answering."""
    random = np.random.default_rng(seed)
    kind = ("max", "min")[seed % 2]
    index = StaircaseIndex(kind, FLOAT, form)
    key, at, value = (np.zeros(0, kind_) for kind_ in (np.int64, np.int64, np.float64))
    now, keys, bytes_seen = 0, 300, []
    for round_ in range(60):
        size = int(random.integers(1, 600)) if round_ % 20 else 4000
        gap = random.integers(0, 3, size)
        gap[0] += int(random.integers(0, 2) * 1000)
        more = random.integers(0, keys, size) if round_ % 7 else np.full(size, 7)
        slope = -np.arange(size) if round_ % 3 == 0 else 0  # descending values: long staircases
        new = np.round(random.normal(0, 50, size) + slope, 0)
        index.add(more, now + np.cumsum(gap), new)
        key, at, value = np.append(key, more), np.append(at, now + np.cumsum(gap)), np.append(value, new)
        now = int(at[-1])
        keep = at >= now - 3000
        key, at, value = key[keep], at[keep], value[keep]
        if round_ % 2:
            index.forget(now - 3000)
        if round_ % 11 == 10:
            stays = random.random(keys) < 0.8
            new_id = np.where(stays, np.cumsum(stays) - 1, -1)
            index.renumber(new_id)
            key, at, value = new_id[key], at[new_id[key] >= 0], value[new_id[key] >= 0]
            key = key[key >= 0]
        if round_ % 5 == 0:
            index.check()
            bytes_seen.append(index.nbytes())
        for _ in range(5):
            since = now - int(random.integers(-2, 3000))
            low, high = np.sort(random.normal(0, 120, 2)).tolist()
            expected = raw_answer(key, at, value, since, low, high, kind) if len(key) else []
            assert index.keys_in(since, low, high).tolist() == expected
    index.forget(now + 1)
    assert len(index.keys_in(now + 1, None, None)) == 0


@BOTH
def test_batches_do_not_matter(form: Any) -> None:
    """One event at a time, with a look-up after each, leaves the same staircases as one batch."""
    random = np.random.default_rng(5)
    key, at = random.integers(0, 20, 500), np.cumsum(random.integers(0, 2, 500))
    value = random.integers(-50, 50, 500)
    whole, single = StaircaseIndex("min", INT, form), StaircaseIndex("min", INT, form)
    whole.add(key, at, value)
    for i in range(500):
        single.add(key[i : i + 1], at[i : i + 1], value[i : i + 1])
        single.keys_in(0, -10, 10)
    for index in (whole, single):
        index.check()
    for since in range(0, int(at[-1]) + 2):
        np.testing.assert_array_equal(whole.keys_in(since, -20, 3), single.keys_in(since, -20, 3))
        np.testing.assert_array_equal(
            whole.value_of(np.arange(20), since), single.value_of(np.arange(20), since)
        )
    assert len(whole.maxima) == len(single.maxima)


@BOTH
def test_a_key_that_only_rises_for_long(form: Any) -> None:
    """Its one step answers from the first instant that can be asked for, not from its first event."""
    index = StaircaseIndex("max", INT, form)
    for start in range(0, 20_000, 100):
        at = np.arange(start, start + 100)
        index.add(at % 2, at, at)
        index.forget(start + 50)
        assert index.keys_in(start + 50, start + 99, None).tolist() == [1]
    index.check()
    assert len(index.maxima) == 2
    assert index.nbytes() < 500_000


def test_pools_shrink_after_a_burst() -> None:
    """100,000 descending values make long stairs; once they are forgotten their room is given back."""
    for form in FORMS:
        index = StaircaseIndex("max", INT, form)
        at = np.arange(100_000)
        index.add(at % 10, at, -at)
        assert len(index.keys_in(0, None, None)) == 10
        most = index.nbytes()
        for start in range(100_000, 110_000, 1000):
            index.forget(start)
            index.add(at[:1000] % 10, start + at[:1000], at[:1000])
        index.check()
        assert index.nbytes() < most / 10


def counted(index: StaircaseIndex) -> np.ndarray:
    return np.array(index.maxima.index.operations())


@pytest.mark.parametrize("order", ["random", "descending"])
def test_inserts_cost_log_squared(order: str) -> None:
    """Indexed one by one, an event puts and takes O(log n) pairs, and each looks at O(log n) others.

    n = 4,000 events: log2 n is 12. A segment is kept at 2 * 12 nodes at most.
    """
    random, n = np.random.default_rng(1), 4_000
    key, at = random.integers(0, 200, n), np.arange(n)
    value = random.random(n) if order == "random" else -np.arange(n, dtype=float)
    index = StaircaseIndex("max", FLOAT, "tree")
    for i in range(n):
        index.add(key[i : i + 1], at[i : i + 1], value[i : i + 1])
        index.keys_in(i, math.inf, None)  # finds nothing, but what waited is indexed
    pairs, looked = counted(index) / n
    assert pairs < 15
    assert looked / pairs < 12
    steps = len(index.maxima)
    assert steps < 200 * 6 if order == "random" else steps == n
    assert index.maxima.index.pairs() < 12 * steps


@pytest.mark.parametrize("keys", [1_000, 16_000])
def test_look_ups_cost_log_squared_and_what_they_find(keys: int) -> None:
    """A look-up visits one node of each level, the ends of its range in it, and what it reports.

    All keys share the topmost nodes, so that one without order would show: it has to look at all of them.
    """
    random = np.random.default_rng(2)
    index = StaircaseIndex("min", FLOAT, "tree")
    index.add(np.tile(np.arange(keys), 2), np.arange(2 * keys), random.random(2 * keys))
    levels = math.log2(2 * keys) + 1
    for since in (0, 1, keys // 2, keys, 2 * keys - 2):
        for low, high in ((0.3, 0.301), (0.9, 0.92), (2.0, None), (None, 0.001)):
            index.keys_in(since, 3.0, None)
            before = counted(index)
            found = index.keys_in(since, low, high)
            looked = (counted(index) - before)[1]
            assert looked <= 2 * levels**2 + 2 * len(found)


def test_large_sets_stay_in_order_as_pairs_come_and_go() -> None:
    """5,000 keys of one instant make large treaps; rising keys take pairs out again, from everywhere."""
    random = np.random.default_rng(3)
    index = StaircaseIndex("max", INT, "tree")
    value = random.permutation(5_000)
    index.add(np.arange(5_000), np.zeros(5_000, np.int64), value)
    index.check()
    for at, part in enumerate(np.array_split(random.permutation(5_000), 25), start=1):
        value[part] += random.integers(-3, 5_000, len(part))
        before, _ = index.value_of(part, 0)
        index.add(part, np.full(len(part), at), value[part])
        value[part] = np.maximum(value[part], before)
        found = index.keys_in(0, 2_000, 3_000)
        assert found.tolist() == np.flatnonzero((value >= 2_000) & (value <= 3_000)).tolist()
        if at % 8 == 0:
            index.check()
    stays = random.random(5_000) < 0.3
    index.renumber(np.where(stays, np.cumsum(stays) - 1, -1))
    index.check()
    assert len(index.keys_in(0, None, None)) == stays.sum()


@BOTH
def test_what_cannot_be_answered_is_refused(form: Any) -> None:
    """Forgotten windows, events out of order, ids that are none: errors, and nothing has changed."""
    index = StaircaseIndex("max", INT, form)
    index.add(np.array([0, 1]), np.array([5, 6]), np.array([1, 2]))
    index.forget(6)
    for ask in (lambda: index.keys_in(5, None, None), lambda: index.value_of(np.array([0]), 5)):
        with pytest.raises(ValueError, match="since 5; those before 6"):
            ask()
    for key, at in (([0], [5]), ([0, 0], [8, 7]), ([-1], [9])):
        with pytest.raises(ValueError, match=r"order of time|no id"):
            index.add(np.array(key), np.array(at), np.zeros(len(key), np.int64))
    for new_id, problem in (([0], "1 new ids, for 2"), ([1, 0], "in the order")):
        with pytest.raises(ValueError, match=problem):
            index.renumber(np.array(new_id))
    assert index.keys_in(6, None, None).tolist() == [1]
    index.check()


def test_only_max_and_min_of_numbers_in_two_forms() -> None:
    """Anything else is refused by name."""
    for kind, dtype, form in (
        ("sum", INT, "tree"),
        ("max", np.dtype(np.int32), "tree"),
        ("max", INT, "list"),
    ):
        with pytest.raises(ValueError, match=f"not '?({kind}|{form})"):
            StaircaseIndex(kind, dtype, form)


@BOTH
def test_events_before_what_is_remembered_leave_no_trace(form: Any) -> None:
    """`forget` may be ahead of the stream: what comes from before it is not kept."""
    index = StaircaseIndex("max", INT, form)
    index.forget(10)
    index.add(np.array([0, 1, 2]), np.array([8, 9, 10]), np.array([7, 7, 7]))
    assert index.keys_in(10, None, None).tolist() == [2]
    assert len(index.maxima) == 1
    index.check()
