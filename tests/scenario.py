"""Random cases: a stream with all it can bring, and questions about it.

Written against `Dice`, so that the same generator serves the thousands of seeded cases of
test_agreement.py and, with Hypothesis rolling the dice, cases that shrink (strategies.py).
Options are listed simplest first: that is where Hypothesis shrinks to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from casefile import Advance, Case, Checkpoint, Drop, Lookup, Push, Register, Step
from muntin.window import span
from queries import Question, any_question, random_question

T = TypeVar("T")
SECOND = 1_000_000
COLUMNS = "k VARCHAR, j BIGINT, n BIGINT, x DOUBLE, y DOUBLE, w VARCHAR, b BOOLEAN"
DELAYS = (0, 2 * SECOND, 10 * SECOND, 1)
# one of them just before a Monday begins
STARTS = (10 * SECOND, 0, 1_700_000_000 * SECOND + 1, -15 * SECOND, (4 * 86_400 - 20) * SECOND)

# x is wild, y tame (quarters, whose sums are exact in any order, so that HAVING can compare them)
VALUES: dict[str, tuple[Any, ...]] = {
    "k": ("a", "b", "c", None, ""),
    "j": (1, 2, 3, None),
    "n": (1, 2, 0, 5, -3, None, 10**12),
    "y": (0.25, 1.5, -2.0, 0.0, None, 3.75),
    "w": ("ask", "bid", None),
    "b": (True, False, None),
}
CALM = (1.0, 0.1, -2.5, 3.7, None, 1e-3)
WILD = (*CALM, 1e16, -1e16, float("nan"), float("inf"), float("-inf"), 1e300, -1e300)


class Dice(Protocol):
    """Where choices come from."""

    def pick(self, options: Sequence[T]) -> T: ...
    def whole(self, low: int, high: int) -> int: ...
    def chance(self, percent: int) -> bool: ...


class SeededDice:
    """Choices that depend on a seed alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def whole(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent


Ask = Callable[["Dice"], Question]  # makes a query


def random_case(
    dice: Dice, title: str, most_events: int = 36, most_queries: int = 3, question: Ask = any_question
) -> Case:
    """A stream, some queries, and batches between which the queries are looked at, and come and go."""
    delay = dice.pick(DELAYS)
    questions = {f"q{number}": question(dice) for number in range(dice.whole(1, most_queries))}
    steps: list[Step] = [Register(name, question.sql) for name, question in questions.items()]
    if dice.chance(10):
        steps += random_looks(dice, questions, [])
    times: list[int] = []
    for batch in random_batches(dice, delay, dice.whole(0, most_events)):
        times += batch["ts"]
        steps.append(Push("s", batch))
        if dice.chance(40):
            steps += random_looks(dice, questions, times)
        if dice.chance(12):
            steps += random_changes(dice, questions, _later(question))
    steps += [Lookup(name) for name in questions]
    steps.append(Advance())
    if times:
        steps.append(Advance(max(times) + dice.pick((1, SECOND, 20 * SECOND))))
    return Case(title, (random_stream(dice, delay),), tuple(steps))


def random_crowd(dice: Dice, title: str, question: Ask = any_question) -> Case:
    """Hundreds of queries that come and go, many at a time, around batches of a few events."""
    delay = dice.pick(DELAYS)
    questions: dict[str, Question] = {}
    steps: list[Step] = []
    times: list[int] = []
    made = 0
    for batch in random_batches(dice, delay, dice.whole(20, 40)):
        for _ in range(dice.pick((200, 80, 5, 1))):
            questions[f"q{made}"] = (_later(question) if times else question)(dice)
            steps.append(Register(f"q{made}", questions[f"q{made}"].sql))
            made += 1
        times += batch["ts"]
        steps.append(Push("s", batch))
        for _ in range(min(len(questions), dice.pick((0, 1, 10, 50, len(questions))))):
            name = dice.pick(list(questions))
            del questions[name]
            steps.append(Drop(name))
        seen = {dice.pick(list(questions)) for _ in range(8)} if questions else set()
        steps += random_looks(dice, {name: questions[name] for name in sorted(seen)}, times)
        if dice.chance(10):
            steps.append(Checkpoint())
    steps += [Lookup(name) for name in questions]
    return Case(title, (random_stream(dice, delay),), (*steps, Advance()))


def _later(question: Ask) -> Ask:
    """Of queries that come while the stream runs: nobody knows who is among the first of what they have missed."""
    return random_question if question is any_question else question


def random_changes(dice: Dice, questions: dict[str, Question], question: Ask = any_question) -> list[Step]:
    """While the stream runs: another query, one query less, or a restart from a checkpoint."""
    change = dice.pick(("register", "register", "drop", "checkpoint"))
    if change == "register":
        name = f"q{1 + max(int(each[1:]) for each in questions)}"
        questions[name] = question(dice)
        return [Register(name, questions[name].sql)]
    if change == "drop" and len(questions) > 1:
        name = dice.pick(list(questions))
        del questions[name]
        return [Drop(name)]
    return [Checkpoint()]


def random_stream(dice: Dice, delay: int) -> str:
    kind = dice.pick(("TIMESTAMP", "TIMESTAMP", "TIMESTAMP", "BIGINT"))
    return f"CREATE STREAM s (ts {kind}, {COLUMNS}) TIMESTAMP BY ts DELAY {span(delay)}"


def random_looks(dice: Dice, questions: dict[str, Question], times: list[int]) -> list[Step]:
    """Some look-ups, and perhaps an advance."""
    steps: list[Step] = [
        random_lookup(dice, name, question, times) for name, question in questions.items() if dice.chance(60)
    ]
    if dice.chance(50):
        steps.append(Advance(random_instant(dice, times) if dice.chance(30) else None))
    return steps


def random_lookup(dice: Dice, name: str, question: Question, times: list[int]) -> Lookup:
    """Of all keys, or of one or two, which the stream may have or not."""
    keys = None
    if question.keys and dice.chance(30):
        options = {**VALUES, "parity": (1, 0, -1, None)}
        picked = [tuple(dice.pick(options[key]) for key in question.keys) for _ in range(dice.whole(1, 2))]
        keys = tuple(key if len(key) > 1 else key[0] for key in dict.fromkeys(picked))
    return Lookup(name, keys, random_instant(dice, times))


def random_instant(dice: Dice, times: list[int]) -> int | None:
    """The default, or near an event, or before or after all of them."""
    if not times or dice.chance(50):
        return None
    near = dice.pick((max(times), dice.pick(times[-8:]), dice.pick(times)))
    return near + dice.pick((1, 0, SECOND, 3 * SECOND, 20 * SECOND, -1, -2 * SECOND))


def random_batches(dice: Dice, delay: int, many: int) -> list[dict[str, list[Any]]]:
    """`many` events, cut into batches of any size, empty ones among them."""
    columns = random_events(dice, delay, many, dice.pick(STARTS), WILD if dice.chance(40) else CALM)
    edges = sorted([0, many, *(dice.whole(0, many) for _ in range(dice.whole(0, 5)))])
    return [{name: values[start:end] for name, values in columns.items()} for start, end in pairwise(edges)]


def random_events(
    dice: Dice, delay: int, many: int, now: int, floats: tuple[float | None, ...]
) -> dict[str, list[Any]]:
    """The columns of `many` events from `now` on."""
    columns: dict[str, list[Any]] = {"ts": random_times(dice, delay, many, now)}
    for name, options in {**VALUES, "x": floats}.items():
        columns[name] = [dice.pick(options) for _ in range(many)]
    return columns


def random_times(dice: Dice, delay: int, many: int, now: int) -> list[int]:
    """Event times as they arrive: ties, bursts, silences; out of order within the delay and beyond it."""
    times = []
    for _ in range(many):
        now += dice.pick((0, 0, 0, SECOND, SECOND, SECOND, 2 * SECOND, SECOND // 2, 1, 5 * SECOND))
        if dice.chance(3):
            now += 40 * SECOND
        back = 0
        if delay and dice.chance(30):
            back = min(delay, dice.pick((delay, SECOND, 1, delay // 2)))
        elif dice.chance(4):
            back = delay + dice.pick((1, SECOND, 30 * SECOND))
        times.append(now - back)
    return times


def from_the_start(case: Case) -> Case:
    """The same case without queries that come or go once events have come, and without look-ups of those."""
    begins = next((i for i, step in enumerate(case.steps) if isinstance(step, Push)), len(case.steps))
    steps = [step for i, step in enumerate(case.steps) if i < begins or not isinstance(step, Register | Drop)]
    there = {step.name for step in steps if isinstance(step, Register)}
    return replace(
        case, steps=tuple(step for step in steps if not isinstance(step, Lookup) or step.query in there)
    )
