"""What is printed in Patroumpas & Sellis, section 3, fails where we depart from it: a counter-example for each.

`Printed` is `embedWindow` of Algorithm 1 and the removal of section 3.3, to the letter; they live only here.
"""

from __future__ import annotations

import random
from math import gcd

import pytest

from casefile import Advance, Case, Lookup, Push, Register
from muntin.plan.window_chain import Spec, WindowChain
from replay import Pair
from tests.plan.chains import is_chain, members, nesting_of, random_specs

SECOND = 1_000_000


class Printed:
    """One group. `is_repaired` inserts the new window where line 38 inserts the one that is there already."""

    def __init__(self, *windows: Spec, is_repaired: bool = False):
        self.windows = list(windows)  # the group, seed first
        self.is_repaired = is_repaired
        self.dead_branch_succeeded = False

    def embed(self, wk: Spec) -> bool:
        """Lines 33 to 41 for this group, if line 32 lets it be one of the candidates."""
        base = self.windows[0][1]
        if wk[1] % base and base % wk[1]:
            return False
        wm = next((window for window in self.windows if window[0] > wk[0]), None)
        if wm is None:
            return self._can_embed(wk, self.windows[-1])
        if wm[1] % wk[1] == 0:
            return self._can_embed(wm, wk, new=wk)
        if wk[1] % wm[1] == 0:
            self.dead_branch_succeeded |= (nested := self._can_embed(wk, wm))
            return nested
        return False

    def _can_embed(self, wi: Spec, wj: Spec, new: Spec | None = None) -> bool:
        """Lines 17 to 29; members stand in order of their ranges."""
        if wi[1] % wj[1] == 0:
            if wi[0] == wj[0]:
                return True  # piggybacked
            if wi[0] > wj[0]:
                self.windows.append(new if new and self.is_repaired else wi)
                self.windows.sort(key=lambda window: window[0])
                return True
        return False


def chains_of(*specs: Spec) -> list[list[Spec]]:
    return [members(chain) for chain in nesting_of(*specs).chains]


def test_p1_the_new_window_is_lost() -> None:
    """Line 38 hands `canEmbed` the window that is there as the one to insert."""
    printed = Printed((8, 2))
    assert printed.embed((4, 2))
    assert printed.windows == [(8, 2), (8, 2)]
    assert chains_of((8, 2), (4, 2)) == [[(4, 2), (8, 2)]]


@pytest.mark.parametrize(
    ("group", "new"), [([(4, 2), (8, 4), (20, 12)], (10, 6)), ([(6, 4), (35, 4)], (17, 1))]
)
def test_p2_the_window_before_is_not_looked_at(group: list[Spec], new: Spec) -> None:
    """Only the one behind the new window is, so a slide that divides neither way gets between two."""
    printed = Printed(*group, is_repaired=True)
    assert printed.embed(new)
    assert new in printed.windows
    assert not is_chain(printed.windows)
    assert chains_of(*group, new) == sorted([group, [new]], key=lambda chain: -chain[0][1])


def test_p2_on_random_sequences() -> None:
    """Of 2,000 sequences of 8 windows, hundreds leave a group that is no chain; ours leave none."""
    dice, broken = random.Random(2), 0
    for _ in range(2000):
        specs = random_specs(dice, 8, 40, 12)
        groups: list[Printed] = []
        for spec in specs:
            candidates = sorted(groups, key=lambda group: -group.windows[0][1])
            if not any(group.embed(spec) for group in candidates):
                groups.append(Printed(spec, is_repaired=True))
        broken += any(not is_chain(sorted(set(group.windows))) for group in groups)
        assert all(map(is_chain, chains_of(*specs)))
    assert broken > 100


def test_p3_windows_of_equal_range_are_passed_over() -> None:
    """The first window with a *greater* range is looked for, so a duplicate becomes a stair of its own."""
    printed = Printed((1, 1), is_repaired=True)
    assert printed.embed((2, 1))
    assert printed.embed((1, 1))
    assert printed.windows == [(1, 1), (1, 1), (2, 1)]
    nesting = nesting_of((1, 1), (2, 1), (1, 1))
    assert [members(chain) for chain in nesting.chains] == [[(1, 1), (2, 1)]]
    assert nesting.registered[1, 1] == 2


def test_p4_lines_39_and_40_never_nest_anything() -> None:
    """The window found has a greater range than the new one, so the new one cannot enclose it."""
    dice = random.Random(4)
    for _ in range(2000):
        printed = Printed(*random_specs(dice, 1, 40, 12), is_repaired=True)
        for spec in random_specs(dice, 10, 40, 12):
            printed.embed(spec)
        assert not printed.dead_branch_succeeded


def test_p5_promoting_the_smallest_slide_breaks_the_chain() -> None:
    """<8, 2> leaves <8, 4> and <8, 6> behind, before <12, 6>: <8, 4> cannot take its place."""
    piggybacked, after = [(8, 4), (8, 6)], (12, 6)
    promoted = min(piggybacked)
    assert not is_chain([promoted, after])  # G2
    assert any(slide % promoted[1] for _, slide in piggybacked)  # G3
    nesting = nesting_of((8, 2), *piggybacked, after)
    nesting.revoke(8, 2)
    nesting.check()
    (chain,) = nesting.chains
    assert members(chain) == [(8, gcd(4, 6, 6)), after]
    assert chain.members[0].is_virtual


# -- through answers: P6 and P7 ------------------------------------------------------------------------

CREATE = "CREATE STREAM s (ts BIGINT, v BIGINT) TIMESTAMP BY ts"
UNALIGNED = [
    [(6, 2), (12, 4)],
    [(5, 2), (8, 2)],
    [(6, 3), (12, 6), (15, 6)],
]  # fmt: skip


def register(pair: Pair, size: int, slide: int) -> str:
    name = f"w{size}_{slide}"
    pair.take(
        Register(name, f"SELECT SUM(v) AS v, MAX(v) AS m FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS]")
    )
    return name


def seconds(chain: WindowChain) -> list[Spec]:
    return [(size // SECOND, slide // SECOND) for size, slide in members(chain)]


def push(pair: Pair, *seconds: int) -> None:
    """Events whose sums tell which of them were added."""
    pair.take(Push("s", {"ts": [at * SECOND for at in seconds], "v": [2**at for at in seconds]}))


def granule_edges(chain: list[Spec], level: int, at: int) -> set[int]:
    """Where sub-aggregates of the paper's stairs begin and end that a level holds when it moves at `at`: those of
    level k have b_k time units and are made where level k-1 lets go of them."""
    size, slide = chain[level]
    newest = at - chain[level - 1][0] if level else at
    return {newest - step * slide for step in range(size // slide + 1)}


@pytest.mark.parametrize("chain", UNALIGNED)
def test_p6_granules_of_a_slide_do_not_add_up_to_the_window(chain: list[Spec]) -> None:
    """Every slide divides the next, yet the far edge of a window lies inside a granule."""
    assert is_chain(chain)
    at = 60
    assert any(at - size not in granule_edges(chain, level, at) for level, (size, _) in enumerate(chain))


def test_p6_multiples_are_not_enough() -> None:
    """Nor does it help that each range is a multiple of its slide."""
    assert all(size % slide == 0 for size, slide in UNALIGNED[0])


def test_p6_granules_that_do_add_up() -> None:
    chain = [(4, 2), (8, 4), (16, 8)]
    assert all(64 - size in granule_edges(chain, level, 64) for level, (size, _) in enumerate(chain))


@pytest.mark.parametrize("chain", [*UNALIGNED, [(4, 2), (8, 4), (16, 8)]])
def test_p6_answers_are_those_of_the_reference(chain: list[Spec]) -> None:
    """Slices have the edges of all windows, so every member is answered from one store."""
    pair = Pair(Case("granules", (CREATE,), ()))
    names = [register(pair, *spec) for spec in chain]
    state = pair.engine._shards["s"].state
    (nesting,) = state.manager.nestings().values()
    assert [seconds(each) for each in nesting.chains] == [chain]
    for second in range(40):
        push(pair, second)
        pair.take(Advance(None))
        for name in names:
            pair.take(Lookup(name))
    pair.engine.check()


def test_p7_clock_ticks_do_not_align_phases() -> None:
    """<4, 2> begun at 0 and <8, 4> begun at 1 never move together, though 2 divides 4 and both began on a tick."""
    assert not {0 + 2 * step for step in range(50)} & {1 + 4 * step for step in range(25)}


def test_p7_windows_move_at_multiples_whenever_they_came() -> None:
    """So those of a chain do move together, and answer like the reference."""
    pair = Pair(Case("phases", (CREATE,), ()))
    first = register(pair, 4, 2)
    push(pair, 0, 1, 2, 3)
    second = register(pair, 8, 4)
    push(pair, 4, 5, 6)
    third = register(pair, 12, 12)
    for at in range(7, 40):
        push(pair, at)
        pair.take(Advance(None))
        for name in (first, second, third):
            pair.take(Lookup(name))
    (nesting,) = pair.engine._shards["s"].state.manager.nestings().values()
    assert [seconds(chain) for chain in nesting.chains] == [[(4, 2), (8, 4), (12, 12)]]
    ends = pair.engine.lookup(second)["window_end"].cast("int64").to_pylist()
    assert [end % (4 * SECOND) for end in ends] == [0]


def test_p8_ten_thousand_windows_are_few() -> None:
    """With ranges to 60 and slides to 30 there are 1,335 different windows, 198 if ranges are multiples: most of
    10,000 registrations are the same again."""
    pool = [(size, slide) for size in range(1, 61) for slide in range(1, 31) if slide < size]
    assert len(pool) == 1335
    multiples = [(size, slide) for size, slide in pool if size % slide == 0]
    dice = random.Random(8)
    for windows in (pool, multiples):
        nesting = nesting_of(*(dice.choice(windows) for _ in range(10_000)))
        assert nesting.windows <= len(windows)
        assert sum(nesting.registered.values()) == 10_000
        assert nesting.optimum == 1  # <w, 1> hosts every other window of range w
        without = nesting_of(*(spec for spec in windows if spec[1] > 1))
        without.regroup()
        assert len(without.chains) > 1
