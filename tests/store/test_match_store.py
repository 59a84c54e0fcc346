"""The match store: kept in order whatever comes, and seen by a window exactly while both events are in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from muntin.join.emission import Slides
from muntin.store.event_log import EventLog
from muntin.store.match_store import Matches, MatchStore
from muntin.store.saved import Saved

TIMES = st.integers(-20, 40)
PAIRS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), unique=True, max_size=40)


def to_matches(pairs: list[tuple[int, int]], left_at: dict[int, int], right_at: dict[int, int]) -> Matches:
    left, right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    at = [
        np.array([times[n] for n in side.tolist()], np.int64)
        for side, times in ((left, left_at), (right, right_at))
    ]
    return Matches(left, right, at[0], at[1])


@given(PAIRS, st.lists(TIMES, min_size=31, max_size=31), st.lists(TIMES, min_size=31, max_size=31),
       st.integers(1, 5), st.data())  # fmt: skip
def test_in_order_and_chosen_by_time(
    pairs: list[tuple[int, int]], left: list[int], right: list[int], batches: int, data: st.DataObject
) -> None:
    left_at, right_at = dict(enumerate(left)), dict(enumerate(right))
    store = MatchStore()
    for number in range(batches):
        store.insert(to_matches(pairs[number::batches], left_at, right_at))
        store.check()
    assert store.found == len(store) == len(pairs)
    ordered = sorted(
        pairs, key=lambda p: (max(left_at[p[0]], right_at[p[1]]), left_at[p[0]], p[0], right_at[p[1]], p[1])
    )
    lows, widths = st.integers(-25, 45), st.integers(0, 30)
    ranges = [(low, low + data.draw(widths)) for low in (data.draw(lows), data.draw(lows))]
    since = (data.draw(st.integers(0, 10)), data.draw(st.integers(0, 10)))
    chosen = store.choose(ranges[0], ranges[1], since)
    expected = [
        (one, other)
        for one, other in ordered
        if ranges[0][0] <= left_at[one] < ranges[0][1]
        and ranges[1][0] <= right_at[other] < ranges[1][1]
        and one >= since[0]
        and other >= since[1]
    ]
    found = store.all
    assert list(zip(found.left[chosen].tolist(), found.right[chosen].tolist(), strict=True)) == expected


def test_forgets_what_no_window_can_see() -> None:
    store, end = MatchStore(), 0
    for _ in range(200):
        number = np.arange(end, end + 100)
        store.insert(Matches(number, number, number, number - 50))
        end += 100
        store.forget(end - 300, end - 300)
        alive = store.choose((end - 300, end), (end - 300, end), (0, 0))
        assert len(alive) == min(end, 250)
    assert len(store) <= 2048
    assert store.nbytes() < 2**18


@given(TIMES, TIMES, st.integers(1, 12), st.integers(1, 12), st.integers(1, 7))
def test_visibility_and_expiry(left: int, right: int, left_size: int, right_size: int, slide: int) -> None:
    """Spec 5.8, with half-open windows: visible from the first slide after the later time, gone at the first one
    after the earlier time + size. Recomputed at every instant."""
    ticks = Slides(slide)
    comes, goes = ticks.next_after(np.array([max(left, right), min(left + left_size, right + right_size)]))
    for number in range(-30, 70):
        instant = number * slide
        is_seen = instant - left_size <= left < instant and instant - right_size <= right < instant
        assert is_seen == (comes <= number < goes), instant


ARRAYS: dict[str, Any] = {"x": pa.int64(), "s": pa.string()}


@given(st.lists(st.one_of(st.integers(0, 9), st.just(-1), st.just(-2)), max_size=60))
def test_log_keeps_numbers(steps: list[int]) -> None:
    """Appending, dropping from the front and restoring change neither the number nor the values of an event."""
    log, end = EventLog(), 0
    log.keep(ARRAYS)
    for step in steps:
        if step == -1:
            log.drop_first(len(log) // 2)
        elif step == -2:
            arrays, first = log.snapshot(), log.first
            log = EventLog()
            log.keep(ARRAYS)
            log.restore(Saved(arrays), first)
        else:
            number = np.arange(end, end + step)
            log.extend(
                number * 10, {"x": pa.array(number), "s": pa.array([f"s{n}" for n in number], pa.string())}
            )
            end += step
        log.check()
        assert log.end == end
        numbers = np.arange(log.first, end)[::-1]
        assert log.take("x", numbers).to_pylist() == numbers.tolist()
        assert log.take("s", numbers).to_pylist() == [f"s{n}" for n in numbers]
        assert log.at.tolist() == (numbers[::-1] * 10).tolist()
    log.keep({"s": pa.string(), "new": pa.float64()})
    assert log.take("new", np.arange(log.first, end)).null_count == end - log.first


def test_the_dead_are_dropped_before_the_others_are_moved() -> None:
    """Of a steady stream of matches half are dead, behind others that are not. When the store is full they go first;
    what windows see is what a list of all matches has."""
    random = np.random.default_rng(1)
    store, before = MatchStore(), np.zeros((4, 0), np.int64)
    most_kept = 0
    for second in range(80):
        at = second * 100 + np.arange(100)
        others = np.maximum(at - random.integers(0, 2_000, 100), 0)
        more = np.array([before.shape[1] + np.arange(100)] * 2 + [at, others])
        before = np.concatenate([before, more], axis=1)
        store.insert(Matches(*more.copy()))
        begin, end = second * 100 - 1_900, second * 100 + 100
        seen = store.choose((begin, end), (begin, end), (0, 0))
        expected = (before[2:] >= begin).all(axis=0)
        assert sorted(store.all.left[seen]) == before[0][expected].tolist()
        store.forget(begin, begin)
        assert len(store.choose((begin, end), (begin, end), (0, 0))) == len(seen)
        store.check()
        most_kept = max(most_kept, len(store)) if second > 40 else 0
    assert most_kept <= 2_000
    assert len(store) < 1_900  # with the dead there would be all of the last 2,000 instants
