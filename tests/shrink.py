"""Make a failing case small: leave out steps, then events, then columns, while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from casefile import Advance, Case, Drop, Lookup, Push, Register, Step


def smallest(case: Case, fails: Callable[[Case], bool], budget: int = 400) -> Case:
    """A case no candidate of which fails any more, or the best found with `budget` trials."""
    trials = 0
    found = True
    while found and trials < budget:
        found = False
        for candidate in _smaller(case):
            trials += 1
            if fails(candidate):
                case, found = candidate, True
                break
            if trials >= budget:
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Candidates, the boldest first."""
    steps = case.steps
    for name in [step.name for step in steps if isinstance(step, Register)]:
        yield replace(case, steps=tuple(step for step in steps if not _concerns(step, name)))
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            cut = steps[start : start + size]
            if not any(isinstance(step, Register) for step in cut):
                yield replace(case, steps=steps[:start] + steps[start + size :])
        size //= 2
    for place, step in enumerate(steps):
        if isinstance(step, Push):
            for smaller in _smaller_batches(step):
                yield replace(case, steps=(*steps[:place], smaller, *steps[place + 1 :]))


def _concerns(step: Step, name: str) -> bool:
    match step:
        case Register(other, _) | Drop(other):
            return other == name
        case Lookup(query=other):
            return other == name
        case Advance():
            return False
    return False


def _smaller_batches(step: Push) -> Iterator[Push]:
    many = len(step)
    size = many // 2
    while size:
        for start in range(0, many, size):
            kept = {name: values[:start] + values[start + size :] for name, values in step.batch.items()}
            yield Push(step.stream, kept)
        size //= 2
