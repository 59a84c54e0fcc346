"""The engine agrees with the reference: seeded pairs of a stream and a set of queries.

Ordinary runs take the first 500 seeds, MUNTIN_THOROUGH=1 takes 10,000. Each pair pushes a random
stream in random batches and, in between, compares look-ups (of all keys or some, at the default
instant, earlier and later ones) and what `advance` emits. A failure prints its seed and the smallest
case found that shows it; replay it with

    MUNTIN_SEED=1234 pytest tests/test_agreement.py -k one_seed
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings

from casefile import Case
from effort import some_of
from replay import assert_agreement, disagreement
from scenario import SeededDice, random_case, random_crowd
from strategies import cases

PAIRS = some_of(10_000, 5)
CROWDS = some_of(24, 9)
CHUNK = 250
QUICK = 1_000  # pairs that also run where the slow tests are left out


def seeded_case(seed: int) -> Case:
    return random_case(SeededDice(seed), f"seed {seed}")


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first >= QUICK else ())
        for first in range(0, PAIRS, CHUNK)
    ],
)
def test_pairs(first: int) -> None:
    """Every look-up and every emitted window of these seeds is what semantics.md says."""
    for seed in range(first, first + CHUNK):
        assert_agreement(seeded_case(seed))


@pytest.mark.parametrize("seed", range(CROWDS))
def test_crowds(seed: int) -> None:
    """The same with hundreds of queries at a time, which come and go. To shrink these would take too long:
    a failure names the query, which is often enough by itself."""
    if error := disagreement(random_crowd(SeededDice(seed), f"crowd {seed}")):
        raise error


@pytest.mark.skipif("MUNTIN_SEED" not in os.environ, reason="set MUNTIN_SEED to replay one seed")
def test_one_seed() -> None:
    """The seed a failure named."""
    assert_agreement(seeded_case(int(os.environ["MUNTIN_SEED"])))


@settings(max_examples=some_of(settings().max_examples * 3, 30))
@given(cases())
def test_drawn(case: Case) -> None:
    """The same with Hypothesis, whose failures shrink through the choices that made the case."""
    assert_agreement(case)


@settings(max_examples=some_of(settings().max_examples, 50))
@given(cases(most_events=60, most_queries=1))
def test_drawn_longer(case: Case) -> None:
    """One query, a longer stream."""
    assert_agreement(case)
