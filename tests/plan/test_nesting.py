"""Windows that come and go one by one: chains stay chains, every window keeps one place, and drift is undone."""

from __future__ import annotations

import random
from collections import Counter
from statistics import median

import pytest

from muntin.plan.chain_cover import chain_cover
from muntin.plan.nesting import Nesting, nests
from muntin.plan.window_chain import Spec
from muntin.window import Window
from tests.plan.chains import is_chain, members, nesting_of, plain, random_specs


def shown(nesting: Nesting) -> list[list[tuple[Spec, set[int]]]]:
    return [plain(chain) for chain in nesting.chains]


def assert_invariants(nesting: Nesting, registered: Counter[Spec]) -> None:
    """G1 to G5, written again from the outside."""
    nesting.check()
    places: Counter[Spec] = Counter()
    for chain in nesting.chains:
        assert is_chain(members(chain))
        for member in chain.members:
            assert all(slide % member.slide == 0 for slide in member.piggybacked)
            places.update((member.size, slide) for slide in member.piggybacked)
            places.update([] if member.is_virtual else [(member.size, member.slide)])
    assert places == Counter(registered.keys())
    assert nesting.registered == +registered
    assert nesting.windows == len(places)
    assert nesting.members == sum(len(chain.members) for chain in nesting.chains)


def test_online_vector() -> None:
    """New; takes over; behind; as the first; nowhere, so in a chain of its own; takes over there."""
    nesting = Nesting()
    steps = [
        ((8, 4), [[((8, 4), set())]]),
        ((8, 2), [[((8, 2), {4})]]),
        ((16, 4), [[((8, 2), {4}), ((16, 4), set())]]),
        ((4, 1), [[((4, 1), set()), ((8, 2), {4}), ((16, 4), set())]]),
        ((12, 6), [[((12, 6), set())], [((4, 1), set()), ((8, 2), {4}), ((16, 4), set())]]),
        ((12, 2), [[((12, 2), {6})], [((4, 1), set()), ((8, 2), {4}), ((16, 4), set())]]),
    ]
    for spec, expected in steps:
        nesting.register(*spec)
        assert shown(nesting) == expected


def test_goes_between_two_members() -> None:
    """<21, 3> in a chain that moves by 3."""
    nesting = nesting_of((6, 3), (24, 3), (21, 3))
    assert shown(nesting) == [[((6, 3), set()), ((21, 3), set()), ((24, 3), set())]]


def test_virtual_host_stays_while_it_is_needed() -> None:
    """Neither <8, 4> nor <8, 6> could host the other; once one is left, it takes the place itself."""
    nesting = nesting_of((8, 2), (8, 4), (8, 6), (12, 6))
    nesting.revoke(8, 2)
    assert shown(nesting) == [[((8, 2), {4, 6}), ((12, 6), set())]]
    assert nesting.chains[0].members[0].is_virtual
    assert (nesting.windows, nesting.members, nesting.piggybacked) == (3, 2, 2)
    assert nesting.optimum == 2  # without virtual hosts
    nesting.revoke(8, 4)
    assert shown(nesting) == [[((8, 6), set()), ((12, 6), set())]]
    assert not nesting.chains[0].members[0].is_virtual


def test_virtual_host_is_revived_by_its_own_window() -> None:
    nesting = nesting_of((8, 2), (8, 4), (8, 6))
    nesting.revoke(8, 2)
    nesting.register(8, 2)
    assert shown(nesting) == [[((8, 2), {4, 6})]]
    assert not nesting.chains[0].members[0].is_virtual


def test_virtual_host_that_is_taken_over_is_gone() -> None:
    """It was nobody's window, so it is not piggybacked on the one that takes its place."""
    nesting = nesting_of((8, 2), (8, 4), (8, 6))
    nesting.revoke(8, 2)
    nesting.register(8, 1)
    assert shown(nesting) == [[((8, 1), {4, 6})]]


def test_virtual_host_moves_as_seldom_as_it_may() -> None:
    """By the greatest divisor of what is on it and behind it."""
    nesting = nesting_of((8, 1), (8, 4), (8, 6), (12, 6))
    nesting.revoke(8, 1)
    assert shown(nesting) == [[((8, 2), {4, 6}), ((12, 6), set())]]


def test_duplicates_are_counted() -> None:
    nesting = nesting_of((8, 2), (8, 2), (8, 2))
    assert (nesting.windows, nesting.registered) == (1, {(8, 2): 3})
    nesting.revoke(8, 2)
    nesting.revoke(8, 2)
    assert nesting.chains
    nesting.revoke(8, 2)
    assert (nesting.chains, nesting.windows, nesting.optimum) == ((), 0, 0)


def test_first_member_that_leaves_changes_the_order() -> None:
    """Chains are tried from the one that moves least often, whatever their first members are by now."""
    nesting = nesting_of((2, 1), (9, 6), (5, 4))
    assert [chain.slide for chain in nesting.chains] == [4, 1]
    nesting.revoke(2, 1)
    nesting.check()
    assert [chain.slide for chain in nesting.chains] == [6, 4]


def test_host_is_known() -> None:
    nesting = nesting_of((8, 2), (8, 4), (16, 4))
    assert [nesting.host(*spec) for spec in ((8, 2), (8, 4), (16, 4))] == [(8, 2), (8, 2), (16, 4)]


@pytest.mark.parametrize("thousand", range(5))
def test_random_sequences_keep_every_invariant(thousand: int) -> None:
    """5,000 sequences of 40 windows that come or go; many come twice."""
    dice = random.Random(thousand)
    for _ in range(1000):
        nesting, registered = Nesting(), Counter[Spec]()
        longest, most = dice.choice(((6, 6), (12, 6), (40, 12)))
        for _ in range(40):
            if registered and dice.random() < 0.4:
                spec = dice.choice(sorted(registered))
                nesting.revoke(*spec)
                registered[spec] -= 1
                registered += Counter()
            else:
                (spec,) = random_specs(dice, 1, longest, most)
                nesting.register(*spec)
                registered[spec] += 1
        assert_invariants(nesting, registered)


@pytest.mark.parametrize("seed", range(60))
def test_invariants_hold_after_every_step(seed: int) -> None:
    dice, nesting, registered = random.Random(seed), Nesting(), Counter[Spec]()
    for _ in range(80):
        if registered and dice.random() < 0.45:
            spec = dice.choice(sorted(registered))
            nesting.revoke(*spec)
            registered[spec] -= 1
            registered += Counter()
        else:
            (spec,) = random_specs(dice, 1, 16, 12)
            nesting.register(*spec)
            registered[spec] += 1
        assert_invariants(nesting, registered)


@pytest.mark.parametrize("seed", range(5))
def test_regrouping_reaches_the_optimum(seed: int) -> None:
    dice, nesting = random.Random(seed), Nesting()
    specs = sorted(set(random_specs(dice, 200, 60, 20)))
    dice.shuffle(specs)
    for spec in specs:
        nesting.register(*spec)
    for spec in specs[:80]:
        nesting.revoke(*spec)
    nesting.regroup()
    nesting.check()
    assert len(nesting.chains) == nesting.optimum == len(chain_cover(specs[80:]))


def test_drift_is_undone_by_itself() -> None:
    """Whatever order windows come and go in, most of the time there are few more chains than need be."""
    dice, nesting = random.Random(3), Nesting()
    pool = sorted({(size, slide) for size in range(2, 61) for slide in range(2, 31) if slide < size})
    dice.shuffle(pool)
    excess = []
    for spec in pool:
        nesting.register(*spec)
    for _ in range(3000):
        spec = dice.choice(pool)
        nesting.revoke(*spec)
        nesting.register(*spec)
        excess.append(len(nesting.chains))
    nesting.check()
    assert nesting.optimum == min(excess)
    assert median(excess) <= 1.2 * nesting.optimum
    assert max(excess) <= 2.5 * nesting.optimum


def test_calls_that_change_nothing_pay_too() -> None:
    """A window that is registered again counts, so that the chains of a pool that is complete become the fewest."""
    dice, nesting = random.Random(5), Nesting()
    pool = [(size, slide) for size in range(2, 61) for slide in range(1, 31) if slide < size]
    dice.shuffle(pool)
    for spec in pool:
        nesting.register(*spec)
    assert len(nesting.chains) > nesting.optimum == 1
    for spec in pool:
        nesting.register(*spec)
    assert len(nesting.chains) == 1


def test_chains_are_made_anew_only_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of each change stays the same however many windows there are."""
    work = []
    regroup = Nesting.regroup
    monkeypatch.setattr(Nesting, "regroup", lambda self: (work.append(self.windows), regroup(self))[1])
    dice, nesting = random.Random(1), Nesting()
    specs = sorted(set(random_specs(dice, 3000, 500, 60)))
    for spec in specs:
        nesting.register(*spec)
    assert work
    assert sum(work) <= 6 * len(specs)
    work.clear()
    for spec in specs:
        nesting.revoke(*spec)
    assert work
    assert sum(work) <= 6 * len(specs)


@pytest.mark.parametrize(
    ("window", "is_in"),
    [
        (Window("time", 10, slide=2), True),
        (Window("time", 10, slide=10), True),
        (Window("time", 10, slide=20), False),
        (Window("time", 10), False),
        (Window("time", 10, to=2, slide=2), False),
        (Window("rows", 10, slide=2), False),
    ],
)
def test_which_windows_nest(window: Window, is_in: bool) -> None:
    assert nests(window) is is_in


def test_what_cannot_nest_is_refused_and_changes_nothing() -> None:
    nesting = nesting_of((8, 2))
    with pytest.raises(ValueError, match="leaves gaps"):
        nesting.register(8, 9)
    with pytest.raises(ValueError, match="no window of size 8 and slide 4"):
        nesting.revoke(8, 4)
    assert shown(nesting) == [[((8, 2), set())]]
    assert nesting.registered == {(8, 2): 1}
