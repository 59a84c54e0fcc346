"""Quantiles of every run are those of its sorted values, under both rank rules."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.aggregates.holistic import RankRule, as_written, ranks_of
from muntin.kernels.sorted_runs import LEAF
from muntin.structure.quantile_tree import QuantileTree
from tests.structure.told import FLOAT, INT, A, Told, columns, numbers, stories

PHIS = ["0.5", "0.1", "0.29", "0.57", "1", "0.999", "0.1234567890123456789", "1e-300"]
RULES: list[RankRule] = ["ceil", "floor"]


def feed(tree: QuantileTree, values: Sequence[Any]) -> None:
    tree.extend(*columns(values, tree.dtype))


def reference(values: Sequence[Any], phi: str, rule: str) -> Any:
    """The quantile by the book; None if there are no values."""
    there = sorted(value for value in values if value == value)
    rank = (ceil if rule == "ceil" else floor)(Fraction(phi) * len(there))
    return there[max(1, rank) - 1] if there else None


def assert_right(told: Told, lo: np.ndarray, hi: np.ndarray, rule: RankRule) -> None:
    found, count = told.structure.query(lo, hi, [Fraction(phi) for phi in PHIS], rule)
    assert found.shape == (len(lo), len(PHIS))
    for run, (start, stop) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        values = told.held(start, stop)
        assert count[run] == sum(value == value for value in values)
        if count[run]:
            assert found[run].tolist() == [reference(values, phi, rule) for phi in PHIS]


def state(tree: QuantileTree) -> list[bytes]:
    """Every interval that is kept, to the bit."""
    runs = tree._runs
    height, width = runs.rows.shape
    kept = [np.array([tree.first, tree.end, runs.first, runs.end, width]).tobytes()]
    for row in range(height):
        length = LEAF << (row - 1) if row else 1
        for lo in range(-(-runs.first // length) * length, runs.end - length + 1, length):
            kept.append(runs.rows[row, lo % width : lo % width + length].tobytes())
    return kept


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
@given(data=st.data())
def test_agrees_with_sorting(dtype: np.dtype, rule: RankRule, data: st.DataObject) -> None:
    """Whatever was appended, taken back or forgotten, every run that is remembered is right."""
    first, story = data.draw(stories(dtype))
    told = Told(QuantileTree(dtype, first), feed).live(story)
    assert_right(told, *told.runs(), rule)


@pytest.mark.parametrize("spread", [1, 5, 10**9])
@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
def test_long_sequences(dtype: np.dtype, spread: int) -> None:
    """The ring grows, wraps and shrinks; runs of all lengths stay right."""
    random = np.random.default_rng(spread)
    told = Told(QuantileTree(dtype, 77), feed)
    for _ in told.live_long(random, dtype, spread):
        assert_right(told, *told.some_runs(random, 25), "ceil")
        assert_right(told, *told.some_runs(random, 5), "floor")


SHAPES = {
    "ascending": np.arange(5000),
    "descending": np.arange(5000)[::-1],
    "equal": np.zeros(5000, np.int64),
    "halves": np.repeat([1, 0], 2500),
    "sawtooth": np.arange(5000) % 64,
    "outlier": np.r_[np.zeros(4999, np.int64), 1],
    "exponential": 2 ** (np.arange(5000) % 63),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_values_in_awkward_orders(shape: str) -> None:
    """The elimination ends and is right where pivots are bad guesses."""
    told = Told(QuantileTree(INT), feed)
    told.extend(SHAPES[shape].tolist())
    assert_right(told, *told.some_runs(np.random.default_rng(0), 30), "ceil")


@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
@given(data=st.data())
def test_batches_do_not_matter(dtype: np.dtype, data: st.DataObject) -> None:
    """One batch, one by one, or cut anywhere: the same state and answers, to the bit (spec 1.6 vi)."""
    values = data.draw(st.lists(st.one_of(numbers[dtype], st.none()), min_size=1, max_size=200))
    cut = data.draw(st.integers(0, len(values)))
    states, answers = [], []
    for cuts in ([0, len(values)], [0, cut, len(values)], list(range(len(values) + 1))):
        told = Told(QuantileTree(dtype, 9), feed)
        for start, stop in pairwise(cuts):
            told.extend(values[start:stop])
        states.append(state(told.structure))
        answers.append([part.tobytes() for part in told.structure.query(*told.runs(), [0.5, 0.1])])
    assert states[0] == states[1] == states[2]
    assert answers[0] == answers[1] == answers[2]


# m, (NL, NR), Q(.25) Q(.5) Q(1) under the floor rule and under the ceil rule (spec 1.6)
VECTORS: list[tuple[int, tuple[int, int], Any, Any]] = [
    (13, (8, 0), [3, 5, 9], [3, 5, 9]),
    (13, (8, 3), [2, 3, 9], [3, 5, 9]),
    (13, (5, 4), [5, 5, 5], [5, 5, 5]),
    (3, (8, 0), [1, 1, 4], [1, 3, 4]),
    (3, (8, 2), [3, 3, 3], [3, 3, 3]),
    (3, (8, 3), None, None),
    (2, (8, 5), None, None),
]


@pytest.mark.parametrize(("m", "window", "by_floor", "by_ceil"), VECTORS)
def test_vectors(m: int, window: tuple[int, int], by_floor: Any, by_ceil: Any) -> None:
    told = Told(QuantileTree(INT), feed)
    told.extend(A[:m])
    lo, hi = np.array([max(m - window[0], 0)]), np.array([m - window[1]])
    for rule, wanted in zip(RULES, (by_ceil, by_floor), strict=True):
        value, count = told.structure.query(lo, hi, [0.25, 0.5, 1], rule)
        assert value[0].tolist() == wanted if wanted else count[0] == 0


class TestRanks:
    def test_floor_rank_of_zero_is_raised(self) -> None:
        """E15: floor(0.1 * 5) = 0 is no position; the smallest element answers."""
        assert ranks_of(as_written(0.1), np.array([5]), "floor").tolist() == [1]
        told = Told(QuantileTree(INT), feed)
        told.extend([5, 3, 4, 2, 6])
        assert told.structure.query(np.array([0]), np.array([5]), [0.1], "floor")[0].tolist() == [[2]]

    @pytest.mark.parametrize(("phi", "rank"), [(0.29, 29), (0.57, 57)])
    def test_phi_is_the_decimal_that_was_written(self, phi: float, rank: int) -> None:
        """E15: 0.29 * 100 is 28.999… and 0.57 * 100 is 56.999… in binary."""
        assert floor(phi * 100) == rank - 1
        told = Told(QuantileTree(INT), feed)
        told.extend(list(range(100, 0, -1)))
        for rule in RULES:
            assert told.structure.query(np.array([0]), np.array([100]), [phi], rule)[0].tolist() == [[rank]]

    def test_rules_differ(self) -> None:
        """E16: a quarter of ten values is rank 2 for Arasu & Widom, 3 for Arasu & Manku and SQL."""
        told = Told(QuantileTree(INT), feed)
        told.extend(list(range(1, 11)))
        runs = np.array([0]), np.array([10])
        assert [told.structure.query(*runs, [0.25], rule)[0].item() for rule in RULES] == [3, 2]
        assert told.structure.query(*runs, [0.25])[0].item() == 3  # the default

    @given(st.decimals("0.000001", 1, places=17), st.integers(0, 2**40))
    def test_ranks_are_exact(self, phi: Any, count: int) -> None:
        """Also where the product needs more than 64 bits."""
        exact = Fraction(str(phi))
        counts = np.array([count, 1, count])
        for rule, rounded in (("ceil", ceil), ("floor", floor)):
            wanted = [max(1, rounded(exact * n)) for n in counts.tolist()]
            assert ranks_of(exact, counts, rule).tolist() == wanted  # type: ignore[arg-type]

    @pytest.mark.parametrize("phi", [0, -0.5, 1.01, float("nan"), float("inf")])
    def test_phi_out_of_range(self, phi: float) -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            as_written(phi)

    def test_unknown_rule(self) -> None:
        with pytest.raises(ValueError, match="'ceil' or 'floor', not 'round'"):
            QuantileTree(INT).query(np.array([0]), np.array([0]), [0.5], "round")  # type: ignore[arg-type]


def test_order_of_phis_does_not_matter() -> None:
    """Several phi share the search; each gets what it would get alone."""
    random = np.random.default_rng(3)
    told = Told(QuantileTree(FLOAT), feed)
    told.extend(random.normal(size=3000).tolist())
    lo, hi = told.some_runs(random, 50)
    phis = [0.9, 0.1, 0.5, 0.5, 1.0, 0.001]
    together, _ = told.structure.query(lo, hi, phis)
    alone = [told.structure.query(lo, hi, [phi])[0][:, 0] for phi in phis]
    np.testing.assert_array_equal(together, np.stack(alone, axis=1))


def test_null_and_nan_keep_their_number() -> None:
    """They take a place in the window, but no rank."""
    told = Told(QuantileTree(FLOAT), feed)
    told.extend([1.0, None, float("nan"), 2.0, 3.0])
    value, count = told.structure.query(np.array([0, 1, 1]), np.array([4, 3, 5]), [0.5])
    assert count.tolist() == [2, 0, 2]
    assert (value[0, 0], value[2, 0]) == (1.0, 2.0)


def test_rewound_elements_are_gone() -> None:
    """Intervals over the new end are merged anew with what comes in place of the old."""
    told = Told(QuantileTree(INT), feed)
    told.extend([1] * 256)
    told.rewind(100)
    told.extend([0] * 100)
    told.structure.check()
    assert_right(told, *told.some_runs(np.random.default_rng(0), 50), "ceil")


def test_memory_follows_what_is_remembered() -> None:
    """State after ten times the elements is the same size (spec 1.6 v), and small once forgotten."""
    random = np.random.default_rng(0)
    tree = QuantileTree(FLOAT)
    sizes = []
    for _ in range(400):
        feed(tree, random.normal(size=int(random.integers(1, 200))).tolist())
        tree.forget(tree.end - 700)
        sizes.append(tree.nbytes())
    tree.check()
    assert max(sizes[100:]) <= max(sizes[:100])
    tree.forget(tree.end)
    assert tree.nbytes() <= 16 * 1024


def test_unknown_runs_are_refused() -> None:
    told = Told(QuantileTree(INT, 10), feed)
    told.extend([1] * 20)
    told.forget(5)
    for lo, hi in ((14, 30), (29, 31)):
        with pytest.raises(ValueError, match=rf"\[{lo}, {hi}\).*\[15, 30\)"):
            told.structure.query(np.array([20, lo]), np.array([30, hi]), [0.5])
    for end in (14, 31):
        with pytest.raises(ValueError, match="15 to 30"):
            told.structure.rewind(end)
    told.structure.forget(3)
    assert (told.structure.first, told.structure.end) == (15, 30)


def test_read_only_and_strided_arrays() -> None:
    """Arrays from elsewhere are taken as they come."""
    value, valid = np.arange(40.0), np.ones(40, np.bool_)
    value.flags.writeable = valid.flags.writeable = False
    tree = QuantileTree(FLOAT)
    tree.extend(value[::2], valid[::2])
    runs = np.array([[0, 1], [20, 2]])
    runs.flags.writeable = False
    assert tree.query(*runs, [1.0])[0].tolist() == [[38.0], [2.0]]
