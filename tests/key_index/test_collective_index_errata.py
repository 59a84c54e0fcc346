"""What is printed in section 4 of Arasu & Widom fails where we depart from it: a counter-example for each.

`Printed` is Figure 7 to the letter. It lives only here.
"""

from __future__ import annotations

from math import floor, log2

import numpy as np
import pytest

from muntin.arrays import LONG_AGO
from muntin.key_index.collective_index import CollectiveIndex, Levels
from tests.key_index.told_totals import held


class Printed:
    """One key of CI-COUNT as in Figure 7."""

    def __init__(self, p: int = 1):
        self.p, self.m = p, 0
        self.tstamp: dict[int, int] = {}

    def update(self, at: int) -> None:
        self.m += 1
        z = (self.m + self.p & -(self.m + self.p)).bit_length() - 1
        for level in range(z, 0, -1):
            self.tstamp[level] = self.tstamp.get(level - 1, LONG_AGO)
        self.tstamp[0] = at

    def is_found(self, now: int, span: int, v: int) -> bool:
        return self.tstamp.get(floor(log2(v)) - 1, LONG_AGO) >= now - span


def told(stamps: list[int], parts: int = 1) -> CollectiveIndex:
    index = CollectiveIndex("count", parts)
    index.add(np.zeros(len(stamps), np.int64), np.array(stamps))
    return index


def since(now: int, span: int) -> int:
    """The paper's window (now - span, now], by integers."""
    return now - span + 1


def test_e5_the_event_that_just_left_does_not_count() -> None:
    """One event at 86, the last 20 at 106: nothing is in the window, yet 86 >= 106 - 20."""
    printed = Printed()
    printed.update(86)
    assert printed.is_found(106, 20, 2)
    assert told([86]).candidates(since(106, 20), low=3).tolist() == []
    assert told([86]).candidates(since(106, 20), low=1).tolist() == []
    assert told([86]).candidates(since(105, 20), low=1).tolist() == [0]


def test_e5_breaks_the_promise_on_random_streams() -> None:
    """With >= some reported keys have v/4 events or less; ours never do, and miss none."""
    random, broken = np.random.default_rng(5), 0
    for _ in range(300):
        stamps = np.cumsum(random.integers(0, 3, 30)).tolist()
        printed, index, now = Printed(), told(stamps), stamps[-1] + 3
        for at in stamps:
            printed.update(at)
        for span in range(1, 12):
            for v in (2, 4, 8, 12):
                count = sum(at >= since(now, span) for at in stamps)
                broken += printed.is_found(now, span, v) and count <= v / 4
                found = len(index.candidates(since(now, span), low=v + 1)) == 1
                assert found or count <= v
                assert not found or count > v / 4
    assert broken > 0


def test_e6_more_than_v_is_decided_by_the_event_before() -> None:
    """Eleven in the window: the 11th from the end is in it, but that is "at least 11"."""
    stamps = list(range(1, 21))
    index, now, span = told(stamps, parts=16), 20, 11
    assert sum(at >= since(now, span) for at in stamps) == 11
    assert stamps[-11] > now - span
    assert index.is_exact(low=12)
    assert index.candidates(since(now, span), low=11).tolist() == [0]
    assert index.candidates(since(now, span), low=12).tolist() == []  # more than 11


def test_e7_open_and_closed_ranges_differ() -> None:
    """(1000, inf) is not [1000, inf): a key with 1000 is in the latter alone."""
    index = told([1] * 1000, parts=1001)
    assert index.is_exact(low=1001)
    assert index.candidates(1, low=1000).tolist() == [0]
    assert index.candidates(1, low=1001).tolist() == []


def test_e8_the_level_asked_exists_and_is_the_last_that_is_sound() -> None:
    """floor(log2 v) - 1 is no level at v = 1, nothing at v = 0, and one too low at 2, 3, 6, 7, …"""
    assert floor(log2(1)) - 1 == -1
    with pytest.raises(ValueError):  # noqa: PT011
        log2(0)
    assert [Levels(1).level_above(v) for v in (0, 1)] == [0, 0]
    too_low = [v for v in range(2, 40) if floor(log2(v)) - 1 < Levels(1).level_above(v)]
    assert too_low == [2, 3, 6, 7, 14, 15, 30, 31]
    # at 6 it reports a key with 2 events, ours needs 4
    printed, index = Printed(), told([5, 5])
    for at in (5, 5):
        printed.update(at)
    printed.update(6)
    index.add(np.array([0]), np.array([6]))
    assert printed.is_found(6, 3, 6)
    assert index.candidates(since(6, 3), low=7).tolist() == []


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_e9_with_parts_all_levels_of_a_group_move(parts: int) -> None:
    """Moving levels 1 to z, as printed for one part, leaves other stamps than the definition; ours leave those."""
    printed, index, stamps, differs = Printed(parts), CollectiveIndex("count", parts), [], 0
    for at in range(1, 60):
        stamps.append(at)
        printed.update(at)
        index.add(np.array([0]), np.array([at]))
        wanted = [held(stamps, parts, level) for level in range(len(index.stamps()))]
        assert index.stamps()[:, 0].tolist() == wanted
        differs += any(printed.tstamp.get(level, LONG_AGO) != stamp for level, stamp in enumerate(wanted))
    assert differs > 50


def test_e10_a_level_with_events_may_hold_no_stamp() -> None:
    """After 12 events level 3 has numbers 1 to 5, none a multiple of 8: nothing is in the index there."""
    index = told(list(range(1, 13)))
    assert 12 - Levels(1).start(3) + 1 == 5
    assert index.stamps()[:3, 0].tolist() == [12, 10, 8]
    assert (index.stamps()[3:] == LONG_AGO).all()
    assert index.candidates(0, low=15).tolist() == []
    index.check()


def test_e11_less_than_v_is_wrong_by_more_than_promised() -> None:
    """For "less than v" a key with nearly 4 v is reported with one part, with two nearly 2 v: eps is 3, and 1."""
    for parts, worst in ((1, 3.5), (2, 1.8)):
        index, ratio = CollectiveIndex("count", parts), 0.0
        index.add(np.repeat(np.arange(400), np.arange(400)), np.ones(400 * 399 // 2, np.int64))  # key k has k
        for v in range(2, 100):
            found = index.candidates(1, high=v - 1)
            assert found.tolist()[: v - 1] == list(range(1, v))
            assert found[-1] < v * (1 + index.levels.eps_lt)
            ratio = max(ratio, found[-1] / v)
        assert ratio > worst


def test_e13_space_goes_with_the_number_of_keys() -> None:
    """Each key has stamps of its own: twice the keys, twice the stamps, where log K would be one more in ten."""
    kept = []
    for keys in (512, 1024):
        index = CollectiveIndex("count", 2)
        index.add(np.tile(np.arange(keys), 20), np.arange(20 * keys))
        kept.append(int((index.stamps() != LONG_AGO).sum()))
    assert kept[1] == 2 * kept[0]
