"""The choice of a structure is paid for in advance, and costs little more than knowing the load beforehand."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.plan.cost import UNIT_COSTS, lookup_cost, mean_pieces, rebuild_cost, update_cost
from muntin.shard.adapt.adaptation import AdaptiveChoice

Costs = dict[str, float]
PRICE = {"index": 40.0, "scan": 10.0}  # to put each in place
THERE_AND_BACK = sum(PRICE.values())
UPDATE, LOOKUP = {"index": 1.0, "scan": 0.0}, {"index": 0.1, "scan": 5.0}


class Account:
    """Plays steps and adds up what the choice costs, its changes included, and what each structure would."""

    def __init__(self, start: str, price: Costs) -> None:
        self.choice = AdaptiveChoice(start, price)
        self.price = price
        self.paid = self.changing = 0.0
        self.changes = 0
        self.alone = dict.fromkeys(price, 0.0)

    def there_and_back(self, name: str) -> float:
        return self.price[name] + self.price[self.choice.current]

    def play(self, steps: Iterable[Costs]) -> None:
        for costs in steps:
            chosen = self.choice.foresee(costs, self.there_and_back)
            if chosen is not None:
                self.choice.change(chosen)
                self.changes += 1
                self.changing += self.price[chosen]
            self.paid += costs[self.choice.current]
            for name, cost in costs.items():
                self.alone[name] += cost


steps = st.lists(st.tuples(st.sampled_from([UPDATE, LOOKUP]), st.integers(1, 200)), min_size=1, max_size=12)


@given(steps, st.sampled_from(["index", "scan"]))
def test_a_stretch_costs_little_more_than_its_best_structure(
    phases: list[tuple[Costs, int]], start: str
) -> None:
    """At most there and back lost by waiting, and one change, whatever the stretches before were like."""
    account = Account(start, PRICE)
    for costs, many in phases:
        before = account.paid + account.changing
        account.play([costs] * many)
        best = min(costs.values()) * many
        assert account.paid + account.changing - before <= best + THERE_AND_BACK + max(PRICE.values()) + 1e-9


@given(st.lists(st.fixed_dictionaries({name: st.floats(0, 8) for name in ("a", "b", "c")}), max_size=400))
def test_changes_are_paid_for_in_advance(load: list[Costs]) -> None:
    """Under any load, changing costs no more than what was paid in the structures that were left."""
    account = Account("a", {"a": 30.0, "b": 5.0, "c": 0.0})
    account.play(load)
    assert account.changing <= account.paid + 8 * account.changes  # and the step that was spared


@pytest.mark.parametrize("seed", range(20))
def test_noise_does_not_make_it_waver(seed: int) -> None:
    """Where structures cost the same in the mean, chance alone leads to few changes."""
    rng = random.Random(seed)
    account = Account("index", {"index": 100.0, "scan": 100.0})
    account.play({"index": rng.random(), "scan": rng.random()} for _ in range(10_000))
    assert account.changes <= 3
    assert account.paid + account.changing <= 1.1 * min(account.alone.values())


def test_a_load_that_turns_is_cheaper_than_any_structure_alone() -> None:
    """Long stretches of updates and of look-ups: neither structure is good at both."""
    account = Account("index", PRICE)
    for _ in range(5):
        account.play([UPDATE] * 1_000)
        account.play([LOOKUP] * 1_000)
    assert account.changes == 9 + 1
    assert account.paid + account.changing < 0.3 * min(account.alone.values())


def test_a_load_that_mixes_stays() -> None:
    """Look-ups often enough: regret never adds up."""
    account = Account("index", PRICE)
    account.play([UPDATE, UPDATE, UPDATE, LOOKUP] * 10_000)
    assert account.changes == 0


def test_the_best_of_many_is_taken() -> None:
    """Not just the first that is better."""
    choice = AdaptiveChoice("now", ["now", "good", "better"])
    assert choice.foresee({"now": 10.0, "good": 5.0, "better": 1.0}, lambda name: 2.0) == "better"


def test_candidates_that_went_are_not_chosen() -> None:
    """However much they are regretted."""
    choice = AdaptiveChoice("now", ["now", "index", "scan"])
    choice.keep(("now", "index"))
    assert choice.foresee({"now": 3.0, "index": 2.0, "scan": 0.0}, lambda name: 0.5) == "index"


@pytest.mark.parametrize("width", [*range(40), 63, 64, 65, 100, 127, 129])
def test_mean_pieces(width: int) -> None:
    """The mean over all alignments of the number of base intervals, split as B-INT splits (spec 1.1)."""

    def pieces(lo: int, hi: int) -> int:
        found = 0
        while lo < hi:
            level = (hi - lo).bit_length() - 1
            if lo:
                level = min(level, (lo & -lo).bit_length() - 1)
            lo += 1 << level
            found += 1
        return found

    period = 1 << max(width.bit_length(), 1)
    starts = range(period, 2 * period)
    assert mean_pieces(width) == pytest.approx(sum(pieces(lo, lo + width) for lo in starts) / period)


def test_unit_costs_say_what_theory_says() -> None:
    """Of look-ups: a scan grows with the window, B-INT by its logarithm, R-INT not. Of updates: a scan has none."""
    for name in UNIT_COSTS:
        narrow, wide = (lookup_cost(name, width, 1, 0, True) for width in (1_000, 1_000_000))
        growth = wide - narrow
        assert growth > 10 * narrow if name == "materialize_none" else growth < narrow
    free, kept = (update_cost(name, 1_000_000, 1, 1) for name in ("materialize_none", "r_int"))
    assert free < kept / 1_000
    assert rebuild_cost("materialize_none", 10**9, 1) == rebuild_cost("materialize_none", 0, 1)
    assert rebuild_cost("l_int", 0, 1, is_compiled=False) > 1_000 * rebuild_cost("l_int", 0, 1)
