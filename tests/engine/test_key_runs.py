"""Windows per key without SLIDE and ROWS windows answer as the reference does, by runs and by scans.

Random cases are small, so a scan would nearly always be cheaper: here runs are fed at the first look-up, or at every
other one, or never.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from effort import some_of
from muntin.store import key_runs as store
from muntin.structure import key_runs
from muntin.window import Window
from queries import KEY_EXPRESSIONS, KEYS, OwnWindows, Question, random_output, random_question
from replay import assert_agreement
from scenario import SeededDice, random_case

SIZES = (500_000, 1_000_000, 3_000_000, 10_000_000)
ROWS = (1, 2, 5, 20)
CALLS = (
    "COUNT(*)", "SUM(n)", "MAX(n)", "MIN(y)", "AVG(n)", "LAST(k)", "FIRST(n)", "COUNT(w)", "SUM(y)", "MAX(w)",
    "VAR_POP(y)", "QUANTILE(y, 0.5)", "COUNT(DISTINCT w)", "SUM(x) FILTER (WHERE n > 1)", "COUNT(*) FILTER (WHERE b)",
)  # fmt: skip
WHERE = ("", "", " WHERE n > 1", " WHERE k <> 'a'", " WHERE w = 'ask'")
HAVING = ("", "", " HAVING SUM(n) >= 3", " HAVING COUNT(*) > 1", " HAVING MAX(n) < 5")


@pytest.fixture(params=["at once", "sometimes", "never"], autouse=True)
def _fed(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_runs, "_READ", {"at once": 0.0, "sometimes": 0.5, "never": 10**9}[request.param])
        patch.setattr(key_runs, "_FEED", {"at once": 0, "sometimes": 2, "never": 10**9}[request.param])
        patch.setattr(store, "_SMALLEST", 4)
        yield


def loose_question(dice) -> Question:
    """Mostly windows per key that are served by runs; now and then anything."""
    if dice.chance(10):
        return random_question(dice)
    keys = dice.pick([each for each in KEYS if each])
    if dice.chance(60):
        size = dice.pick(SIZES)
        window = Window("time", size, size // 2 if dice.chance(30) else 0)
    else:
        window = Window("rows", dice.pick(ROWS), 0, 3 if dice.chance(20) else 0)
    over = OwnWindows(dice, window)
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    items += [
        f"{dice.pick(CALLS) if dice.chance(85) else random_output(dice, over)} AS a{number}"
        for number in range(dice.whole(1, 3))
    ]
    by = ", ".join(KEY_EXPRESSIONS.get(key, key) for key in keys)
    return Question(
        f"SELECT {', '.join(items)} FROM s {window}{dice.pick(WHERE)} GROUP BY {by}{dice.pick(HAVING)}", keys
    )


@pytest.mark.parametrize("first", range(0, some_of(600, 8), 50))
def test_random_cases(first: int) -> None:
    for seed in range(first, first + 50):
        case = random_case(SeededDice(seed), f"key runs {seed}", most_queries=4, question=loose_question)
        assert_agreement(case)
