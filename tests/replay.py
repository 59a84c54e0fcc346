"""Play a case on the engine and on the reference side by side; stop where they differ.

`assert_agreement` is what the random tests call. When they differ, it shrinks the case as far as
it goes and fails with the report and the case as text, ready to be saved under cases/.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import muntin
from answers import assert_same_answer
from casefile import Advance, Case, Checkpoint, Drop, Late, Lookup, Push, Register, Step, write_case
from muntin.errors import NoValue, WindowTooLarge
from reference import ReferenceEngine
from runtimes import as_table, checkpointed
from shrink import smallest


class Pair:
    """An engine and its reference, given the same steps."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.engine = muntin.Engine()
        self.reference = ReferenceEngine()
        self.left_out: Counter[str] = Counter()  # by query, rows of which a value does not exist
        for sql in case.streams:
            self.engine.execute(sql)
            self.reference.execute(sql)

    def take(self, step: Step) -> None:
        """One step on both; AssertionError where the answers differ."""
        match step:
            case Register(name, sql):
                self.engine.register(sql, name=name)
                self.reference.register(self.engine.queries[name], name=name)
            case Push(stream, batch):
                self.engine.push(stream, as_table(batch, self.reference.logs[stream].stream))
                self.reference.push(stream, batch)
                late = self.engine._shards[stream].clock.late_events
                assert late == self.reference.late(stream), f"late events of {stream}"
            case Lookup():
                self._lookup(step)
            case Advance(until):
                self._advance(until)
            case Drop(name):
                self.engine.drop(name)
                self.reference.drop(name)
                del self.left_out[name]
            case Checkpoint():
                self.engine = checkpointed(self.engine)
            case Late():
                pass

    def _lookup(self, step: Lookup) -> None:
        keys = None if step.keys is None else list(step.keys)
        query = self.reference.standing[step.query].query
        try:
            actual = self._warned(lambda: self.engine.lookup(step.query, key=keys, at=step.at))
        except WindowTooLarge:
            if self._must_answer(step):
                raise
            return
        except NoValue as error:
            expected = self.reference.lookup(step.query, keys, step.at)
            assert not query.keys, error
            assert expected.left_out or not expected.saw_all, error
            assert step.query in str(error)
            return
        expected = self.reference.lookup(step.query, keys, step.at)
        if expected.saw_all:
            assert query.keys or not expected.left_out, f"{step.query} must be refused"
            self.left_out[step.query] += expected.left_out
        assert_same_answer(expected, actual, f"lookup {step.query} key {step.keys} at {step.at}")

    def _must_answer(self, step: Lookup) -> bool:
        """The past may be forgotten; what is not final yet may not."""
        log = self.reference.logs[self.reference.standing[step.query].query.stream.name]
        if log.watermark is None or log.greatest is None:
            return True
        return (log.greatest + 1 if step.at is None else step.at) >= log.watermark

    def _advance(self, until: int | None) -> None:
        actual = self._warned(lambda: self.engine.advance(until=until))
        expected = self.reference.advance(until)
        stats = self.engine.stats()
        for stream, told in stats["streams"].items():
            assert told["late"] == self.reference.late(stream), f"late events of {stream}, as stats tell"
        for name in self.reference.standing:
            wanted = expected.get(name) or self.reference.nothing(name)
            assert_same_answer(wanted, actual.get(name), f"advance until {until}: {name}")
            self.left_out[name] += wanted.left_out
            if wanted.saw_all:
                assert stats["queries"][name]["overflows"] == self.left_out[name], f"rows left out of {name}"

    def _warned(self, call: Callable[[], Any]) -> Any:
        """Each query warns once per call, and only if rows were left out."""
        before = self._overflows()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = call()
        after = self._overflows()
        # whatever is collected meanwhile may warn of files that earlier tests left open
        ours = [each for each in caught if issubclass(each.category, RuntimeWarning)]
        named = sorted(str(each.message).split("'")[1] for each in ours)
        assert named == sorted(name for name in after if after[name] > before[name]), caught
        return answer

    def _overflows(self) -> dict[str, int]:
        """As `stats` tells. Only `_advance` asks it: all it finds out takes longer than most answers do."""
        catalog = self.engine._catalog
        return {name: catalog.registration(name).overflows for name in catalog.stream_of}


def disagreement(case: Case) -> Exception | None:
    """Where engine and reference part ways. Errors of the engine count."""
    pair = Pair(case)
    try:
        for step in case.steps:
            pair.take(step)
    except Exception as error:
        return error
    return None


def assert_agreement(case: Case) -> None:
    """Fail with the smallest case found that still shows the difference."""
    if error := disagreement(case):
        small = smallest(case, lambda each: type(disagreement(each)) is type(error))
        raise AssertionError(f"{case.title}\n{disagreement(small)!r}\n\n{write_case(small)}") from error
