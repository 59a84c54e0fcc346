"""Levels: the tables of the vectors, the errors that are promised, and no smaller ones."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.key_index.collective_index import Levels, parts_for

some_parts = st.integers(1, 40)


@given(some_parts, st.integers(0, 2**70))
def test_levels_tile_the_distances(parts: int, above: int) -> None:
    """Every distance is in exactly one level, and sizes double every `parts` levels."""
    levels = Levels(parts)
    level = levels.level_of(above + 1)
    assert levels.start(level) <= above + 1 <= levels.end(level)
    assert levels.end(level) + 1 == levels.start(level + 1)
    assert levels.end(level) - levels.start(level) + 1 == 2 ** (level // parts)
    assert levels.start(0) == 1


@given(some_parts, st.integers(-3, 2**70))
def test_the_levels_asked_are_the_tightest_that_are_sound(parts: int, v: int) -> None:
    """max{j: end <= v + 1} and min{j: start >= v}, and the same one off for closed ranges."""
    levels = Levels(parts)
    above, below = levels.level_above(v), levels.level_below(v)
    assert levels.end(above) <= max(v + 1, 1) < levels.end(above + 1)
    assert levels.start(below) >= v
    assert below == 0 or levels.start(below - 1) < v
    assert levels.level_above(v + 1, strict=False) == above
    assert levels.level_below(v - 1, strict=False) == below


class TestVectors:
    def test_ends_with_two_parts(self) -> None:
        assert [Levels(2).end(j) for j in range(8)] == [1, 2, 4, 6, 10, 14, 22, 30]

    def test_levels_of_the_paper(self) -> None:
        """With one part, level j is 2**j to 2**(j + 1) - 1."""
        assert [(Levels(1).start(j), Levels(1).end(j)) for j in range(20)] == [
            (2**j, 2 ** (j + 1) - 1) for j in range(20)
        ]

    @pytest.mark.parametrize(("v", "level"), list(zip(
        [0, 1, 2, 3, 4, 5, 8, 9, 12, 13, 20], [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5], strict=True)))  # fmt: skip
    def test_more_than(self, v: int, level: int) -> None:
        assert Levels(2).level_above(v) == level

    @pytest.mark.parametrize(("parts", "v", "level"), [
        *((2, v, j) for v, j in zip([1, 2, 3, 4, 5, 6, 7, 8, 11, 12], [0, 1, 2, 3, 3, 4, 4, 5, 5, 6], strict=True)),
        *((1, v, j) for v, j in zip([1, 2, 3, 4, 5, 8, 9], [0, 1, 2, 2, 3, 3, 4], strict=True)),
    ])  # fmt: skip
    def test_less_than(self, parts: int, v: int, level: int) -> None:
        assert Levels(parts).level_below(v) == level


def worst(levels: Levels, most: int) -> tuple[Fraction, Fraction]:
    """The greatest error of either kind at any v up to `most`, from what a reported key may have."""
    above = max(1 - Fraction(levels.start(levels.level_above(v)), v) for v in range(1, most))
    below = max(Fraction(levels.end(levels.level_below(v)) - 1, v) - 1 for v in range(1, most))
    return above, below


@pytest.mark.parametrize("parts", [*range(1, 17), 24, 32])
def test_errors_are_as_promised_and_nearly_reached(parts: int) -> None:
    """E12: 2/(p + 2) for "more than" and 2/p for "less than", from two parts on; no v exceeds it, some come near."""
    levels = Levels(parts)
    above, below = worst(levels, 4000)
    assert above < levels.eps_gt < above + Fraction(1, 20)
    assert below < levels.eps_lt < below + Fraction(1, 20)
    if parts > 1:
        assert (levels.eps_gt, levels.eps_lt) == (Fraction(2, parts + 2), Fraction(2, parts))


@given(st.fractions(Fraction(1, 50), 4))
def test_parts_for_is_the_least(eps: Fraction) -> None:
    """The error asked for is kept, and with one part less it would not be."""
    alone, both = parts_for(eps, both=False), parts_for(eps)
    assert Levels(alone).eps_gt <= eps
    assert max(Levels(both).eps_gt, Levels(both).eps_lt) <= eps
    assert alone == 1 or Levels(alone - 1).eps_gt > eps
    assert both == 1 or Levels(both - 1).eps_lt > eps


def test_nonsense_is_refused() -> None:
    """No parts, and no error at all."""
    with pytest.raises(ValueError, match="not 0"):
        Levels(0)
    with pytest.raises(ValueError, match="above 0"):
        parts_for(0.0)
