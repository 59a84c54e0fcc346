"""Random actions on one engine, compared with the reference after every step.

Push, advance, register, drop, look up, checkpoint and restore in any order Hypothesis likes; after
each, every structure checks itself (`engine.check()`) and every query answers like the reference.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from casefile import Advance, Case, Checkpoint, Drop, Lookup, Push, Register, Step
from effort import some_of
from queries import Question, random_question
from replay import Pair
from scenario import SECOND, STARTS, WILD, random_events, random_instant, random_lookup, random_stream
from strategies import DrawnDice

MOST_QUERIES = 5


class EngineMachine(RuleBasedStateMachine):
    """An engine, its reference, and the queries they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.pair: Pair | None = None
        self.questions: dict[str, Question] = {}
        self.times: list[int] = []
        self.made = 0

    @initialize(
        data=st.data(), delay=st.sampled_from((0, 2 * SECOND, 10 * SECOND)), start=st.sampled_from(STARTS)
    )
    def begin(self, data: st.DataObject, delay: int, start: int) -> None:
        self.delay, self.start = delay, start
        self.pair = Pair(Case("machine", (random_stream(DrawnDice(data.draw), delay),), ()))
        self.add(data)

    @rule(data=st.data())
    def push_again(self, data: st.DataObject) -> None:
        """Twice as likely as the other rules: without events there is little to see."""
        self.push(data)

    @rule(data=st.data())
    def push(self, data: st.DataObject) -> None:
        dice = DrawnDice(data.draw)
        batch = random_events(dice, self.delay, dice.whole(0, 8), max(self.times, default=self.start), WILD)
        self.times += batch["ts"]
        self.take(Push("s", batch))

    @precondition(lambda self: len(self.questions) < MOST_QUERIES)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        question = random_question(DrawnDice(data.draw))
        name = f"q{self.made}"
        self.made += 1
        self.questions[name] = question
        self.take(Register(name, question.sql))

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.questions)))
        del self.questions[name]
        self.take(Drop(name))

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.questions)))
        self.take(random_lookup(DrawnDice(data.draw), name, self.questions[name], self.times))

    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        self.take(Advance(random_instant(DrawnDice(data.draw), self.times)))

    @rule()
    def checkpoint_and_restore(self) -> None:
        self.take(Checkpoint())

    @invariant()
    def checks_itself(self) -> None:
        if self.pair:
            self.pair.engine.check()

    @invariant()
    def answers_like_the_reference(self) -> None:
        for name in self.questions:
            self.take(Lookup(name))

    def take(self, step: Step) -> None:
        assert self.pair is not None
        self.pair.take(step)


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(
    max_examples=some_of(settings().max_examples, 40), stateful_step_count=40
)
