"""The collective index misses no key, keeps its errors, and holds the stamps of its definition, in both forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays import LONG_AGO
from muntin.kernels.collective_index import MOST, TURN
from muntin.key_index.collective_index import CollectiveIndex
from tests.key_index.told_totals import ToldTotals, lives

FORMS = ["tree", "dense"]
KINDS = ["count", "sum"]
bounds = st.one_of(st.none(), st.integers(-1, 12), st.integers(0, 400))


@pytest.mark.parametrize("kind", KINDS)
@given(parts=st.integers(1, 16), life=lives(), data=st.data())
def test_agrees_with_the_events(
    kind: str, parts: int, life: list[tuple[str, Any]], data: st.DataObject
) -> None:
    """After every batch: the stamps of the definition, a superset within the error for any range, true bounds."""
    told = ToldTotals(kind, parts)
    for name, argument in life:
        getattr(told, name)(argument)
        told.check()
    stamps = sorted({stamp for units in told.events.values() for stamp in units}) or [0]
    for _ in range(4):
        since = max(data.draw(st.sampled_from(stamps)) + data.draw(st.integers(-1, 1)), told.before)
        told.assert_right(since, data.draw(bounds), data.draw(bounds))
        told.assert_bounds(since)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [1, 2, 3, 8, 16])
def test_long_streams(kind: str, parts: int) -> None:
    """Buckets fill, slots are numbered anew, keys leave and return: thousands of events of keys of all sizes."""
    random = np.random.default_rng(parts)
    told, now = ToldTotals(kind, parts), 0
    for _ in range(12):
        size = int(random.integers(1, 1500))
        key = (random.pareto(0.7, size) * 3).astype(np.int64) % 150
        at = now + np.cumsum(random.integers(0, 3, size))
        now = int(at[-1]) + int(random.choice([0, 50, 2000]))
        told.add(list(zip(key.tolist(), at.tolist(), random.integers(0, 9, size).tolist(), strict=True)))
        told.forget(now - 2500)
        for index in told.forms:
            index.check()
        for _ in range(8):
            since = int(random.integers(told.before, now + 2))
            low, high = (None if n < 0 else n for n in random.integers(-20, 200, 2).tolist())
            told.assert_right(since, low, high)
        told.assert_bounds(since)
    told.check()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
@given(parts=st.integers(1, 9), life=lives(), data=st.data())
def test_batches_do_not_matter(
    kind: Any, form: Any, parts: int, life: list[Any], data: st.DataObject
) -> None:
    """One by one or cut anywhere, with look-ups in between or not: the same stamps and totals."""
    states = []
    for most in (None, 1, data.draw(st.integers(2, 30))):
        index = CollectiveIndex(kind, parts, form)
        for name, argument in life:
            if name == "forget":
                index.forget(argument)
                continue
            events = np.array(sorted(argument, key=lambda event: event[1]), np.int64).reshape(-1, 3)
            for start in range(0, len(events), most or len(events) or 1):
                key, at, amount = events[start : start + (most or len(events))].T
                index.add(key, at, None if kind == "count" else amount)
                if most == 1:
                    index.candidates(index.before, 2, 5)
        is_known = index.stamps()[0] != LONG_AGO
        states.append((index.stamps().tolist(), np.where(is_known, index._total[: index.keys], 0).tolist()))
    assert states[0] == states[1] == states[2]


@given(parts=st.integers(1, 9), amounts=st.lists(st.integers(0, 300), max_size=25))
def test_an_amount_is_so_many_events(parts: int, amounts: list[int]) -> None:
    """The block update leaves what unit updates leave, level by level."""
    amounts = [1, *amounts]
    at = np.arange(len(amounts))
    one, many = CollectiveIndex("count", parts), CollectiveIndex("sum", parts)
    many.add(np.zeros(len(at), np.int64), at, np.array(amounts, np.int64))
    one.add(np.zeros(sum(amounts), np.int64), np.repeat(at, amounts))
    both = min(len(one.stamps()), len(many.stamps()))
    np.testing.assert_array_equal(one.stamps()[:both], many.stamps()[:both])
    assert (one.stamps()[both:] == LONG_AGO).all()
    assert (many.stamps()[both:] == LONG_AGO).all()


@pytest.mark.parametrize("form", FORMS)
class TestVectors:
    STAMPS = (1, 2, 2, 5, 6, 6, 6, 9, 10, 12, 12, 13)

    @pytest.mark.parametrize(("parts", "m", "wanted"), [
        (1, 1, [1]), (1, 3, [2, 2]), (1, 4, [5, 2]), (1, 7, [6, 6, 5]), (1, 8, [9, 6, 5]),
        (1, 12, [13, 12, 9]),
        (2, 2, [2, 1]), (2, 4, [5, 2, 2]), (2, 7, [6, 6, 5, 2]), (2, 8, [9, 6, 6, 5]),
        (2, 12, [13, 12, 12, 9, 5]),
    ])  # fmt: skip
    def test_stamps_after_m_events(self, form: Any, parts: int, m: int, wanted: list[int]) -> None:
        index = CollectiveIndex("count", parts, form)
        index.add(np.zeros(m, np.int64), np.array(self.STAMPS[:m]))
        column = index.stamps()[:, 0]
        assert column[column != LONG_AGO].tolist() == wanted

    def test_look_ups(self, form: Any) -> None:
        """At 13 over the last 4: four events. > 3 rightly, > 5 wrongly but above 5/4, > 6 not."""
        index = CollectiveIndex("count", 1, form)
        index.add(np.zeros(12, np.int64), np.array(self.STAMPS))
        assert [len(index.candidates(13 - 4 + 1, low)) for low in (4, 6, 7)] == [1, 1, 0]

    def test_sums(self, form: Any) -> None:
        index = CollectiveIndex("sum", 1, form)
        for amount, at, total, wanted in [
            (5, 1, 5, [1, 1]), (3, 4, 8, [4, 4, 1]), (0, 5, 8, [4, 4, 1]),
            (9, 7, 17, [7, 7, 7, 4]), (1, 8, 18, [8, 7, 7, 4]),
        ]:  # fmt: skip
            index.add(np.array([0]), np.array([at]), np.array([amount]))
            column = index.stamps()[:, 0]
            assert column[column != LONG_AGO].tolist() == wanted
            assert index._total[0] == total

    def test_example_4_1(self, form: Any) -> None:
        """Three keys with events 44 to 58, 29 to 43 and 15 to 29 known by their stamps: two of them are reported."""
        events = [
            (43, [76, 80, 82, 86, 90, 93, 94, 96, 98, 100, 101, 103, 104, 105, 106]),
            (28, [66, 71, 73, 82, 85, 87, 92, 93, 96, 97, 98, 100, 102, 103, 105]),
            (14, [47, 50, 53, 60, 68, 73, 76, 80, 81, 85, 91, 94, 97, 100, 102]),
        ]
        index = CollectiveIndex("count", 1, form)
        for key, (earlier, stamps) in enumerate(events):
            index.add(np.full(earlier + 15, key), np.array([0] * earlier + stamps))
        wanted = [[106, 104, 98, 90], [105, 103, 100, 82], [102, 100, 85, 50]]
        assert index.stamps()[:4].T.tolist() == wanted
        assert index.levels.level_above(11, strict=False) == 2
        assert index.candidates(106 - 20 + 1, low=11).tolist() == [0, 1]
        assert index.candidates(106 - 20 + 1, low=12).tolist() == [0, 1]  # "more than 11": none is right


@pytest.mark.parametrize("form", FORMS)
class TestKeysComeAndGo:
    def test_a_key_that_returns_is_counted_from_one(self, form: Any) -> None:
        """What it had before is in no window; its answers are those of a key never seen."""
        old, new = CollectiveIndex("count", 2, form), CollectiveIndex("count", 2, form)
        old.add(np.zeros(37, np.int64), np.arange(37))
        old.forget(100)
        assert (len(old), old.candidates(100).tolist()) == (0, [])
        for index in (old, new):
            index.add(np.zeros(9, np.int64), np.arange(200, 209))
        np.testing.assert_array_equal(old.stamps()[: len(new.stamps())], new.stamps())
        assert old._total[0] == new._total[0] == 9

    def test_forgotten_instants_are_refused(self, form: Any) -> None:
        index = CollectiveIndex("count", 2, form)
        index.add(np.array([0, 1]), np.array([5, 9]))
        index.forget(7)
        index.forget(6)  # time does not go back
        with pytest.raises(ValueError, match=r"since 6 .* before 7"):
            index.candidates(6)
        assert index.candidates(7).tolist() == [1]

    def test_before_anything_is_forgotten_all_time_can_be_asked_for(self, form: Any) -> None:
        """LONG_AGO is before all events: no key without events comes of it."""
        index = CollectiveIndex("count", 2, form)
        index.add(np.array([1, 3]), np.array([-(10**18), 9]))
        assert index.candidates(LONG_AGO).tolist() == [1, 3]
        assert index.candidates(-(2**63)).tolist() == [1, 3]

    def test_ids_in_another_order_are_refused(self, form: Any) -> None:
        index = CollectiveIndex("count", 2, form)
        index.add(np.array([0, 1]), np.array([5, 9]))
        with pytest.raises(ValueError, match="order"):
            index.renumber(np.array([1, 0]))
        assert index.candidates(6).tolist() == [1]

    def test_memory_follows_the_keys_and_totals_in_use(self, form: Any) -> None:
        """E13: space goes with the number of keys, and not with that of events."""
        sizes = []
        for keys in (500, 1000):
            index, now = CollectiveIndex("count", 2, form), 0
            for _ in range(30):
                index.add(np.tile(np.arange(keys), 4), now + np.arange(4 * keys))
                now += 4 * keys
                index.forget(now - 12 * keys)
                sizes.append(index.nbytes())
        assert sizes[29] == max(sizes[5:30])
        assert sizes[59] == max(sizes[35:])
        assert 1.7 < sizes[59] / sizes[29] < 2.5


@pytest.mark.parametrize("form", FORMS)
class TestTotals:
    def test_great_totals_turn_over(self, form: Any) -> None:
        """A total is kept modulo what no level can tell apart; answers go on."""
        index = CollectiveIndex("sum", 1, form)
        index.add(np.array([0]), np.array([0]), np.array([MOST]))
        index.add(np.array([0]), np.array([1]), np.array([MOST]))
        index.check()
        assert TURN < index._total[0] <= MOST
        assert index.lower_bound(np.array([0]), 1) >= TURN // 4
        index.add(np.full(9, 0), np.full(9, 2), np.full(9, 1))
        assert index.lower_bound(np.array([0]), 2) <= 9 <= index.upper_bound(np.array([0]), 2)
        assert index.candidates(2, 9).tolist() == [0]
        assert index.candidates(2, 10**6).tolist() == []
        assert index.candidates(1, MOST).tolist() == [0]

    def test_wrong_events_change_nothing(self, form: Any) -> None:
        """The batch is refused whole, with what is wrong."""
        index = CollectiveIndex("sum", 2, form)
        index.add(np.array([0, 1]), np.array([5, 9]), np.array([1, 1]))
        before = index.stamps().tolist()
        for key, at, amount, message in [
            ([2, 1], [8, 8], [1, 1], "key 1 has an event at 8, after one at 9"),
            ([2, 1], [9, 9], [1, -1], "not -1"),
            ([2, -1], [9, 9], [1, 1], "not from -1"),
        ]:
            with pytest.raises(ValueError, match=message):
                index.add(np.array(key), np.array(at), np.array(amount))
        with pytest.raises(ValueError, match="amounts"):
            index.add(np.array([0]), np.array([9]))
        assert index.stamps().tolist() == before
        index.check()

    def test_a_count_takes_events_by_the_dozen(self, form: Any) -> None:
        """Amounts given to a count are events folded before."""
        one, many = CollectiveIndex("count", 3, form), CollectiveIndex("count", 3, form)
        one.add(np.zeros(12, np.int64), np.repeat([3, 4], 6))
        many.add(np.zeros(2, np.int64), np.array([3, 4]), np.array([6, 6]))
        assert one.candidates(4, 5).tolist() == many.candidates(4, 5).tolist() == [0]
        np.testing.assert_array_equal(one.stamps(), many.stamps())

    def test_small_ranges_are_exact(self, form: Any) -> None:
        """Up to `parts` each number of events has a level of its own."""
        index = CollectiveIndex("count", 4, form)
        index.add(np.repeat(np.arange(8), np.arange(8)), np.arange(28))
        assert index.is_exact(4, 3)
        assert not index.is_exact(5, None)
        assert not index.is_exact(None, 4)
        for low in (1, 2, 3, 4):
            assert index.candidates(0, low).tolist() == list(range(low, 8))
            assert index.candidates(0, None, low - 1).tolist() == list(range(1, low))


@given(data=st.data())
def test_renumbered_keys_keep_their_state(data: st.DataObject) -> None:
    """Some dropped, the others moved together: stamps, order and answers are theirs."""
    told = ToldTotals("count", data.draw(st.integers(1, 4)))
    for name, argument in data.draw(lives()):
        getattr(told, name)(argument)
    kept = data.draw(st.lists(st.booleans(), min_size=5, max_size=5))
    if data.draw(st.booleans()):  # as an owner does: only what is forgotten
        kept = [key in told.events for key in range(5)]
    told.renumber([sum(kept[:key]) if kept[key] else -1 for key in range(5)])
    told.check()
    told.assert_right(told.before, 2, None)
    told.add([(key, 10**6, 1) for key in range(8)])
    told.check()


def test_keys_may_overtake_each_other() -> None:
    """Only the events of one key must be in order, over batches too."""
    told = ToldTotals("count", 2)
    for key, at in [(0, 100), (1, 50), (1, 60), (2, 70), (0, 101), (2, 71), (1, 99)]:
        told.add([(key, at, 1)])
        told.check()
        for since in (50, 60, 61, 70, 71, 72, 99, 100, 101, 102):
            for low, high in ((None, None), (2, None), (None, 1), (2, 2)):
                told.assert_right(since, low, high)


def test_read_only_and_strided_arrays() -> None:
    """Arrays from elsewhere are taken as they come."""
    events = np.array([[0, 1, 0], [3, 4, 5]]).T
    events.flags.writeable = False
    index = CollectiveIndex("count", 2)
    index.add(events[:, 0], events[:, 1])
    index.add(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert index.candidates(3, 2).tolist() == [0]


def test_unknown_forms_are_refused() -> None:
    with pytest.raises(ValueError, match="'heap'"):
        CollectiveIndex("count", 2, "heap")  # type: ignore[arg-type]
