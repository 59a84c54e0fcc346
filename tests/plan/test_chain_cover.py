"""Grouping all at once: batch chains hold what they should, and a chain cover has the fewest chains possible."""

from __future__ import annotations

import random

import pytest

from muntin.plan.chain_cover import batch_chains, chain_cover
from tests.plan.chains import fewest, members, plain, random_specs

POOL = [(8, 2), (8, 4), (12, 4), (6, 3), (21, 3), (24, 8), (32, 4), (8, 2), (10, 5)]


def test_batch_vector() -> None:
    """<32, 4> cannot follow <24, 8>, and the second <8, 2> is the same window."""
    assert [plain(chain) for chain in batch_chains(POOL)] == [
        [((10, 5), set())],
        [((32, 4), set())],
        [((6, 3), set()), ((21, 3), set())],
        [((8, 2), {4}), ((12, 4), set()), ((24, 8), set())],
    ]


@pytest.mark.parametrize("group", [batch_chains, chain_cover])
@pytest.mark.parametrize("seed", range(5))
def test_every_window_has_one_place(group, seed: int) -> None:
    """In small pools and in large ones, with few slides and with many."""
    dice = random.Random(seed)
    for count, longest, most in ((8, 12, 6), (300, 60, 30), (300, 10_000, 2_000), (500, 40, 7)):
        specs = random_specs(dice, count, longest, most)
        chains = group(specs)
        for chain in chains:
            chain.check()
        placed = [spec for chain in chains for member in chain.members for spec in member.specs()]
        assert sorted(placed) == sorted(set(specs))
        slides = [chain.slide for chain in chains]
        assert slides == sorted(slides, reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_cover_is_the_optimum(seed: int) -> None:
    """As few chains as in the best of all partitions, over 400 small pools."""
    dice = random.Random(seed)
    for _ in range(100):
        specs = sorted(set(random_specs(dice, dice.randint(1, 7))))
        assert len(chain_cover(specs)) == fewest(specs) <= len(batch_chains(specs))


@pytest.mark.parametrize("seed", range(4))
def test_cover_mends_what_the_sweep_missed(seed: int) -> None:
    """Pools in which an early choice costs a chain later."""
    dice, mended = random.Random(seed), 0
    while mended < 10:
        specs = sorted({(dice.randint(12, 16), dice.choice((2, 3, 4, 6, 8, 12))) for _ in range(7)})
        if len(batch_chains(specs)) > len(chain_cover(specs)):
            assert len(chain_cover(specs)) == fewest(specs)
            mended += 1


def test_the_sweep_is_not_the_optimum() -> None:
    """<14, 12> goes behind <13, 3>, where <15, 3> should have gone."""
    specs = [(13, 3), (14, 2), (14, 12), (15, 3)]
    assert [members(chain) for chain in batch_chains(specs)] == [[(13, 3), (14, 12)], [(15, 3)], [(14, 2)]]
    assert [plain(chain) for chain in chain_cover(specs)] == [
        [((13, 3), set()), ((15, 3), set())],
        [((14, 2), {12})],
    ]


def test_cover_of_long_ways() -> None:
    """A pool in which the sweep goes wrong at once and all has to be matched anew, round after round."""
    dice = random.Random(7)
    for _ in range(20):
        specs = sorted({(size, dice.choice((2, 4, 8, 16, 3, 9, 6, 12))) for size in range(20, 400)})
        swept, cover = batch_chains(specs), chain_cover(specs)
        antichain = max(_antichain(specs, slides) for slides in ((4, 6, 9), (8, 12, 9), (16, 12, 9), (2, 3)))
        assert antichain <= len(cover) <= len(swept)
        assert sum(len(members(chain)) for chain in cover) == len(specs)


def _antichain(specs: list[tuple[int, int]], slides: tuple[int, ...]) -> int:
    """Windows whose slides divide none of the others are in different chains, whatever their sizes."""
    assert not any(a % b == 0 for a in slides for b in slides if a != b)
    return len({slide for _, slide in specs} & set(slides))


def test_nothing_is_covered_by_nothing() -> None:
    assert batch_chains([]) == chain_cover([]) == []
