"""QUANTILE and COUNT(DISTINCT) per key answer as the reference does: windows that nest, move together, lie in the past.

Random cases are small, so a scan would nearly always be cheaper: here runs are fed at the first look-up, or at every
other one. Their arrays are as small as can be, so that they grow, move and are made anew all the time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from effort import some_of
from muntin.store import key_runs as store
from muntin.store import repeats
from muntin.structure import key_runs
from muntin.window import Window
from queries import KEY_EXPRESSIONS, KEYS, Question
from replay import assert_agreement
from scenario import SeededDice, random_case

SIZES = (500_000, 1_000_000, 2_000_000, 3_000_000, 10_000_000)
SLIDES = (0, 500_000, 1_000_000)
CALLS = (
    "QUANTILE(y, 0.5)", "QUANTILE(y, 0.01)", "QUANTILE(y, 0.99)", "QUANTILE(n, 0.29)", "QUANTILE(n, 1)", "MEDIAN(y)",
    "QUANTILE(y, 0.12345678901234567)", "QUANTILE(y, 0.5) FILTER (WHERE n > 1)", "QUANTILE(y * -1.0, 0.5)",
    "COUNT(DISTINCT y)", "COUNT(DISTINCT n)", "COUNT(DISTINCT w)", "COUNT(DISTINCT b)", "COUNT(DISTINCT k)",
    "COUNT(DISTINCT n) FILTER (WHERE b)", "COUNT(*)",
    "MODE(n)", "MODE(y)", "MODE(w)", "MODE(b) FILTER (WHERE n > 1)", "MODE(ts)",
)  # fmt: skip
WHERE = ("", "", " WHERE n > 1", " WHERE w = 'ask'")
HAVING = ("", "", "", " HAVING COUNT(DISTINCT n) > 1", " HAVING MEDIAN(y) < 2", " HAVING MODE(w) = 'ask'")


@pytest.fixture(params=["at once", "sometimes"], autouse=True)
def _fed(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_runs, "_READ", {"at once": 0.0, "sometimes": 5}[request.param])
        patch.setattr(key_runs, "_FEED", {"at once": 0, "sometimes": 20}[request.param])
        patch.setattr(store, "_SMALLEST", 4)
        patch.setattr(repeats, "_SMALLEST", 1)
        patch.setattr(repeats, "_PART", 2)
        yield


def question(dice) -> Question:
    keys = dice.pick([each for each in KEYS if each])
    if dice.chance(85):
        size, slide = dice.pick(SIZES), dice.pick(SLIDES)
        window = Window("time", size, size // 2 if dice.chance(25) else 0, slide)
    else:
        window = Window("rows", dice.pick((1, 2, 5, 20)), 0, 3 if dice.chance(20) else 0)
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    items += [f"{dice.pick(CALLS)} AS a{number}" for number in range(dice.whole(1, 4))]
    by = ", ".join(KEY_EXPRESSIONS.get(key, key) for key in keys)
    text = f"SELECT {', '.join(items)} FROM s {window}{dice.pick(WHERE)} GROUP BY {by}{dice.pick(HAVING)}"
    return Question(text, keys)


@pytest.mark.parametrize("first", range(0, some_of(600, 6), 40))
def test_random_cases(first: int) -> None:
    for seed in range(first, first + 40):
        assert_agreement(
            random_case(SeededDice(seed), f"values per key {seed}", most_queries=6, question=question)
        )
