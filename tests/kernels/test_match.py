"""The kernels of matches, each compared with its definition on random events."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from muntin.join.group import links_of
from muntin.kernels.match import (
    FRESH,
    TOGETHER,
    choose_changing,
    choose_matches,
    choose_new,
    find_fronts,
    first_kept,
    first_later,
    list_pieces,
    merge_runs,
    probe,
    sort_matches,
    sort_ties,
)

DELAY = 6


def arrivals(random, count):
    """Times that go back by at most DELAY, and keys."""
    at = np.cumsum(random.integers(0, 4, count))
    return at - random.integers(0, DELAY + 1, count), random.integers(0, 3, count)


def chained(key):
    """The newest event of each key, and before each event the one before it of its key; -1 if there is none."""
    last, prior = np.full(3, -1), np.full(len(key), -1)
    for number, each in enumerate(key):
        prior[number], last[each] = last[each], number
    return last, prior


def probed(at, key, first, other_at, other_key, forgotten, reaches, room):
    """All matches, found with room for few at a time."""
    last, prior = chained(other_key)
    begin, cursor, found = 0, FRESH, []
    while begin < len(at):
        rooms = [np.full(room, -9) for _ in range(4)]
        count, begin, cursor = probe(
            at,
            key,
            first,
            begin,
            cursor,
            last,
            links_of(prior, other_at)[forgotten:],
            forgotten,
            *reaches,
            DELAY,
            np.empty(TOGETHER, np.int64),
            *rooms,
        )
        found += list(zip(*(each[:count].tolist() for each in rooms), strict=True))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_probe_finds_each_pair_that_some_window_holds(seed):
    """Events of the other side came out of order: what stands earlier in a chain may be later in time."""
    random = np.random.default_rng(seed)
    other_at, other_key = arrivals(random, 60)
    at = np.sort(random.integers(other_at.min() - 5, other_at.max() + 5, 15))
    key, first, forgotten = random.integers(-1, 4, 15), 100, int(random.integers(0, 8))
    reach, other_reach = random.integers(1, 12, 2).tolist()
    expected = [
        (first + i, j, t, other)
        for i, t in enumerate(at.tolist())
        for j, other in enumerate(other_at.tolist())
        if j >= forgotten and key[i] == other_key[j] and other - reach < t < other + other_reach
    ]
    for room in (3, 7, 1000):
        found = probed(at, key, first, other_at, other_key, forgotten, (reach, other_reach), room)
        assert sorted(found) == expected
    # with room for all, the matches of an event come in the order in which the other side's arrived
    assert found == expected


def drawn_matches(random, count):
    """Four columns with many ties: left and right number, left and right time."""
    return [random.integers(0, most, count) for most in (9, 9, 6, 6)]


def in_order(matches):
    """By the later time, then by the left event, then by the right one."""
    left, right, left_at, right_at = matches
    return np.lexsort((right, right_at, left, left_at, np.maximum(left_at, right_at)))


def key_of(matches, order):
    return [tuple(int(column[i]) for column in matches) for i in order]


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 33, 64, 200])
def test_sorting(count):
    matches = drawn_matches(np.random.default_rng(count), count)
    order = np.arange(count)
    sort_matches(*matches, order, np.empty_like(order))
    assert sorted(order) == list(range(count))
    assert key_of(matches, order) == key_of(matches, in_order(matches))


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 33, 64, 200])
def test_sorting_of_ties(count):
    """Of matches in order of the later time, where they lie."""
    drawn = drawn_matches(np.random.default_rng(count), count)
    by_time = np.argsort(np.maximum(*drawn[2:]), kind="stable")
    matches = [column[by_time] for column in drawn]
    room = np.empty((2, count), np.int64)
    sort_ties(np.maximum(*matches[2:]), *matches, *room)
    assert key_of(matches, range(count)) == key_of(drawn, in_order(drawn))


@pytest.mark.parametrize("seed", range(10))
def test_merging_of_runs(seed):
    random = np.random.default_rng(seed)
    matches = drawn_matches(random, 40)
    lo, mid, hi = sorted(random.integers(0, 41, 3).tolist())
    order = random.permutation(40)
    before = order.copy()
    rank = np.empty(40, int)
    rank[in_order(matches)] = range(40)
    for start, stop in ((lo, mid), (mid, hi)):
        order[start:stop] = sorted(order[start:stop], key=lambda i: rank[i])
    merge_runs(*matches, order, np.empty_like(order), lo, mid, hi)
    assert key_of(matches, order[lo:hi]) == key_of(matches, sorted(before[lo:hi], key=lambda i: rank[i]))
    assert np.array_equal(order[:lo], before[:lo])
    assert np.array_equal(order[hi:], before[hi:])


@pytest.mark.parametrize("seed", range(6))
def test_searches_and_choices(seed):
    """Every boundary is met: times are few, and all of them are asked for."""
    random = np.random.default_rng(seed)
    matches = drawn_matches(random, 50)
    left, right, left_at, right_at = (column[in_order(matches)] for column in matches)
    later = np.maximum(left_at, right_at)
    for instant in range(-1, 8):
        assert first_later(left_at, right_at, instant) == int((later < instant).sum())
        kept = np.flatnonzero(right_at >= instant)
        assert first_kept(right_at, instant) == (kept[0] if len(kept) else len(right_at))
    out = np.empty(50, np.int64)
    for _ in range(40):
        lo, hi = sorted(random.integers(0, 51, 2).tolist())
        since = random.integers(0, 9, 2).tolist()
        known = [i for i in range(lo, hi) if left[i] >= since[0] and right[i] >= since[1]]
        starts, ends = random.integers(0, 4, 2).tolist(), random.integers(2, 7, 2).tolist()
        count = choose_matches(
            left, right, left_at, right_at, lo, hi, starts[0], ends[0], starts[1], ends[1], *since, out
        )
        assert out[:count].tolist() == [
            i for i in known if starts[0] <= left_at[i] < ends[0] and starts[1] <= right_at[i] < ends[1]
        ]
        shown, gone = random.integers(0, 3, 2).tolist(), random.integers(2, 6, 2).tolist()
        begin, new_from, end = sorted(random.integers(0, 10, 3).tolist())
        count = choose_changing(
            left, right, left_at, right_at, lo, hi, *since, shown[0], gone[0], shown[1], gone[1], new_from, begin,
            end, out,
        )  # fmt: skip
        expected = []
        for i in known:
            seen = max(left_at[i] + shown[0], right_at[i] + shown[1])
            unseen = min(left_at[i] + gone[0], right_at[i] + gone[1])
            if seen < end and unseen >= begin and (seen >= new_from or unseen < end):
                expected.append(i)
        assert out[:count].tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_matches_that_are_new(seed):
    random = np.random.default_rng(seed)
    count, slide = int(random.integers(0, 40)), int(random.integers(1, 9))
    left, right = random.integers(0, 5, (2, count))
    left_at, right_at = random.integers(-30, 30, (2, count))
    order = np.argsort(np.maximum(left_at, right_at), kind="stable")
    left, right, left_at, right_at = (each[order] for each in (left, right, left_at, right_at))
    longer, longest, first = (int(random.integers(*each)) for each in ((-5, 6), (1, 30), (-5, 5)))
    expected = []
    for i in range(count):
        tick = max(left_at[i], right_at[i]) // slide + 1
        until = min(left_at[i] + longer, right_at[i])
        if until + longest >= max(tick, first) * slide and left[i] >= 1 and right[i] >= 2:
            expected.append((tick, i, until))
    out = np.empty((3, count), np.int64)
    found = choose_new(left, right, left_at, right_at, longer, longest, slide, first, 1, 2, *out)
    assert out[:, :found].T.tolist() == [list(map(int, each)) for each in expected]


@pytest.mark.parametrize("seed", range(20))
def test_fronts(seed):
    """Of each run and query: where its lane begins, and how many of it are at least as great as two bounds."""
    random = np.random.default_rng(seed)
    ends = np.cumsum([0, *random.integers(0, (5, 60)[seed % 2], 4)])
    lane_of, until = np.empty((2, ends[-1]), np.int64)
    for lo, hi in pairwise(ends.tolist()):
        some = np.array([random.integers(0, 3, hi - lo), random.integers(0, 20, hi - lo)])
        lane_of[lo:hi], until[lo:hi] = some[:, np.lexsort((-some[1], some[0]))]
    lane = np.array([0, 1, 2, 3, 1])
    least = random.integers(0, 22, 5)
    before = least - random.integers(0, 9)
    begin, now, then = np.empty((3, 5, 4), np.int64)
    find_fronts(lane_of, until, ends, lane, least, before, begin, now, then)
    for q in range(5):
        for r in range(4):
            part = slice(ends[r], ends[r + 1])
            mine = lane_of[part] == lane[q]
            assert begin[q, r] == np.count_nonzero(lane_of[part] < lane[q])
            assert now[q, r] == np.count_nonzero(mine & (until[part] >= least[q]))
            assert then[q, r] == np.count_nonzero(mine & (until[part] >= before[q]))


def test_pieces_are_listed():
    out = np.empty(5, np.int64)
    list_pieces(np.array([7, 0, 3]), np.array([2, 0, 3]), out)
    assert out.tolist() == [7, 8, 3, 4, 5]
