"""Stairs in the engine: whatever windows come and go, answers are those of the reference.

By hint, and by the planner's own choice: here it moves windows per key to stairs at once, however few granules
that saves, in the middle of the stream too.
"""

from __future__ import annotations

import pytest

from casefile import Advance, Case, Checkpoint, Drop, Lookup, Push, Register, Step
from muntin.plan import stair_choice
from muntin.synopsis import stair_levels
from queries import Question
from replay import assert_agreement
from scenario import DELAYS, SECOND, Dice, SeededDice, random_batches, random_lookup, random_stream

# sets in which slides divide each other and sizes are multiples of them, but granules by slide would not do
TRAPS = (((6, 2), (12, 4)), ((5, 2), (8, 2)), ((6, 3), (12, 6), (15, 6)), ((4, 2), (8, 2), (12, 4)))
SIZES = (4, 6, 1, 5, 8, 12, 15, 20, 60)
SLIDES = (2, 1, 3, 4, 6, 7, 10, 30)
CALLS = (
    "COUNT(*)", "SUM(n)", "SUM(y)", "MIN(n)", "MAX(y)", "FIRST(n)", "LAST(y)", "AVG(y)", "VAR_POP(y)",
    "COUNT(*) FILTER (WHERE b)", "LAST(w)", "COUNT(x)",
)  # fmt: skip


def random_window(dice: Dice) -> str:
    size = dice.pick(SIZES)
    to = f" TO {dice.whole(1, size)} SECONDS" if dice.chance(15) else ""
    return f"[RANGE {size} SECONDS{to} SLIDE {dice.pick(SLIDES)} SECONDS]"


def random_stair_question(dice: Dice, hint: str, window: str) -> Question:
    """A query by key over a window with SLIDE, sometimes over others too."""
    items = []
    for number in range(dice.whole(1, 3)):
        over = f" OVER {random_window(dice)}" if dice.chance(20) else ""
        items.append(f"{dice.pick(CALLS)}{over} AS a{number}")
    where = " WHERE n > 0" if dice.chance(20) else ""
    having = " HAVING COUNT(*) > 1" if dice.chance(20) else ""
    sql = f"SELECT {hint} k, {', '.join(items)} FROM s {window}{where} GROUP BY k{having}"
    return Question(sql, ("k",))


def random_stair_case(dice: Dice, title: str, hint: str = "") -> Case:
    """Some queries to begin with, others that come and go, and looks at all of them in between."""
    delay = dice.pick(DELAYS)
    if dice.chance(50):
        windows = [f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]" for size, slide in dice.pick(TRAPS)]
    else:
        windows = [random_window(dice) for _ in range(dice.whole(1, 4))]
    questions = {f"q{i}": random_stair_question(dice, hint, window) for i, window in enumerate(windows)}
    steps: list[Step] = [Register(name, question.sql) for name, question in questions.items()]
    made, times = len(questions), []
    for batch in random_batches(dice, delay, dice.whole(0, 60)):
        times += batch["ts"]
        steps.append(Push("s", batch))
        if dice.chance(60):
            steps.append(Advance())
        steps += [
            random_lookup(dice, name, each, times) for name, each in questions.items() if dice.chance(70)
        ]
        change = dice.pick(("none", "none", "register", "drop", "checkpoint"))
        if change == "register":
            questions[f"q{made}"] = random_stair_question(dice, hint, random_window(dice))
            steps.append(Register(f"q{made}", questions[f"q{made}"].sql))
            made += 1
        elif change == "drop" and len(questions) > 1:
            name = dice.pick(list(questions))
            del questions[name]
            steps.append(Drop(name))
        elif change == "checkpoint":
            steps.append(Checkpoint())
    steps += [Lookup(name) for name in questions]
    steps.append(Advance())
    if times:
        steps.append(Advance(max(times) + dice.pick((1, SECOND, 90 * SECOND))))
        steps += [Lookup(name) for name in questions]
    return Case(title, (random_stream(dice, delay),), tuple(steps))


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows per key move to stairs whenever they can, and these have all the levels they could have."""
    monkeypatch.setattr(stair_choice, "FEW_GRANULES", 0)
    monkeypatch.setattr(stair_choice, "CLEAR_MARGIN", 0)
    monkeypatch.setattr(stair_levels, "_WORTH", 0)


CHUNK, QUICK, PAIRS = 25, 100, 1_000
CHUNKS = [
    pytest.param(first, marks=pytest.mark.slow if first >= QUICK else ()) for first in range(0, PAIRS, CHUNK)
]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("first", CHUNKS)
def test_pairs_by_rule(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert_agreement(random_stair_case(SeededDice(seed), f"seed {seed}"))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("first", CHUNKS[::2])
def test_pairs_by_hint(first: int) -> None:
    for seed in range(-first - CHUNK, -first):
        assert_agreement(random_stair_case(SeededDice(seed), f"seed {seed}", "/*+ SYNOPSIS(stairs) */"))
