"""Panes and paired windows answer every window that closes, as a recompute from the events does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.errors import MuntinError
from muntin.synopsis.paired_windows import PairedWindows
from muntin.synopsis.panes import Panes
from muntin.synopsis.slicing import Closed, SlicedWindows
from tests.synopsis.told import FLOAT, INT, columns, numbers

KINDS = [Panes, PairedWindows]
every_kind = pytest.mark.parametrize("kind", KINDS)
windows = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=5)


class Event(NamedTuple):
    at: int
    value: Any  # None is NULL


def events(dtype: np.dtype) -> st.SearchStrategy[list[Event]]:
    step = st.one_of(st.integers(0, 3), st.integers(0, 3), st.integers(0, 60))
    pairs = st.lists(st.tuples(step, st.one_of(numbers[dtype], st.none())), max_size=40)

    def in_order(pairs: list[tuple[int, Any]], start: int) -> list[Event]:
        at = (np.cumsum([step for step, _ in pairs]) + start).tolist()
        return [Event(*pair) for pair in zip(at, [value for _, value in pairs], strict=True)]

    return st.builds(in_order, pairs, st.integers(-50, 50))


def reference(specs: Sequence[tuple[int, int]], stream: Sequence[Event], until: int) -> list[Any]:
    """(end, window, values that are not NULL) of all windows that end after the first event."""
    closed = []
    for end in range(stream[0].at + 1, until + 1) if stream else ():
        for window, (size, slide) in enumerate(specs):
            if end % slide == 0:
                held = [each.value for each in stream if end - size <= each.at < end]
                closed.append((end, window, [value for value in held if value is not None]))
    return closed


def assert_closed(found: list[Any], wanted: list[Any], dtype: np.dtype) -> None:
    assert [row[:2] for row in found] == [row[:2] for row in wanted]
    for (_, _, count, total, least, greatest), (_, _, values) in zip(found, wanted, strict=True):
        assert count == len(values)
        if values:
            there = [value for value in values if value == value]
            np.testing.assert_equal(least, min(there, default=math.nan))
            np.testing.assert_equal(greatest, max(there) if len(there) == len(values) else math.nan)
            assert_total(total, values, dtype)


def assert_total(total: Any, values: Sequence[Any], dtype: np.dtype) -> None:
    if dtype == INT:
        assert total == sum(values)
    elif all(math.isfinite(value) for value in values):
        assert total == pytest.approx(math.fsum(values), rel=1e-15)
    else:
        np.testing.assert_equal(total, sum(value for value in values if not math.isfinite(value)))


def rows(closed: Closed) -> list[Any]:
    columns_of = (closed.end, closed.window, closed.count, closed.sum, closed.min, closed.max)
    return list(zip(*(column.tolist() for column in columns_of), strict=True))


def push(target: SlicedWindows, some: Sequence[Event]) -> None:
    value, valid = columns([each.value for each in some], target.dtype)
    target.insert(np.array([each.at for each in some], np.int64), value, valid)


@every_kind
@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
@given(specs=windows, data=st.data())
def test_agrees_with_recompute(
    kind: type[SlicedWindows], dtype: np.dtype, specs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """However events are cut into batches, and whenever windows are emitted in between."""
    stream = data.draw(events(dtype))
    if dtype == INT:  # sums must fit
        stream = [Event(at, value if value is None else value % 1000) for at, value in stream]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    target = kind(specs, dtype)
    found = rows(target.emit(-100))
    for start, stop in pairwise([0, *cuts, len(stream)]):
        push(target, stream[start:stop])
        target.check()
        if stop > start and data.draw(st.booleans()):
            found += rows(target.emit(stream[stop - 1].at))
            target.check()
    until = (stream[-1].at if stream else 0) + 25
    found += rows(target.emit(until))
    target.check()
    assert_closed(found, reference(specs, stream, until), dtype)


@every_kind
@given(specs=windows, data=st.data())
def test_batches_do_not_matter(
    kind: type[SlicedWindows], specs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """One batch or one by one: the same answers, to the bit."""
    stream = data.draw(events(FLOAT))
    whole, single = kind(specs, FLOAT), kind(specs, FLOAT)
    push(whole, stream)
    for each in stream:
        push(single, [each])
    until = stream[-1].at + 30 if stream else 0
    one, other = whole.emit(until), single.emit(until)
    for column in ("window", "end", "count", "sum", "min", "max"):
        assert getattr(one, column).tobytes() == getattr(other, column).tobytes()


@every_kind
def test_gaps_between_windows(kind: type[SlicedWindows]) -> None:
    """Where slides exceed sizes, the slice that is open in a gap is not dropped under the next event.

    time       8   9  10  11  12  13 ...  19  20
    windows        [--)                   [---)       size 1, slide 10
    events                 x       x      x
    """
    target = kind([(1, 10)], INT)
    push(target, [Event(9, 1), Event(11, 2)])
    assert rows(target.emit(12))[0][2:4] == (1, 1)
    push(target, [Event(13, 4), Event(19, 8)])
    target.check()
    assert rows(target.emit(20))[0][2:4] == (1, 8)


@every_kind
def test_long_silence_costs_nothing(kind: type[SlicedWindows]) -> None:
    """Edges without events are jumped over."""
    target = kind([(7, 3), (10, 4)], INT)
    push(target, [Event(0, 1), Event(10**15, 2)])
    assert max(len(slicing) for slicing in target.slicings) == 2
    target.check()


@every_kind
def test_memory_follows_the_widest_window(kind: type[SlicedWindows]) -> None:
    target = kind([(60, 7), (45, 10), (30, 30)], INT)
    sizes = []
    for turn in range(300):
        at = np.arange(turn * 50, turn * 50 + 50)
        target.insert(at, at)
        target.emit(turn * 50 + 50)
        sizes.append(target.nbytes())
    assert max(sizes[50:]) <= max(sizes[:50])
    assert max(len(slicing) for slicing in target.slicings) <= 61


@every_kind
class TestRefusals:
    def test_events_out_of_order(self, kind: type[SlicedWindows]) -> None:
        target = kind([(5, 5)], INT)
        push(target, [Event(7, 1)])
        for stream in ([Event(6, 1)], [Event(9, 1), Event(8, 1)]):
            with pytest.raises(ValueError, match="order of time"):
                push(target, stream)
        target.emit(20)
        with pytest.raises(ValueError, match="before the windows they belong to close"):
            push(target, [Event(19, 1)])
        push(target, [Event(20, 1)])

    @pytest.mark.parametrize("specs", [[], [(0, 1)], [(1, 0)]])
    def test_impossible_windows(self, kind: type[SlicedWindows], specs: list[tuple[int, int]]) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            kind(specs, INT)

    def test_sums_that_do_not_fit(self, kind: type[SlicedWindows]) -> None:
        """As in SQL, an overflow is an error; nothing counts as emitted then."""
        target = kind([(5, 5)], INT)
        push(target, [Event(0, 2**62), Event(1, 2**62), Event(2, 2**62)])
        for _ in range(2):
            with pytest.raises(MuntinError, match="does not fit"):
                target.emit(5)
