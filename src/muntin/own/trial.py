"""A trial: is an algebra what it must be? Tried on numbers, the plainest first, so that what is shown is easy to read.

Structures combine partials in any grouping, start from the identity, and merge keys and lanes in any order; R-INT takes
a beginning away from a run. So combine is associative and commutative (one that depends on the order of events holds
their times, as `lift(x, at)` is told them), the identity changes nothing, and subtract leaves exactly what was
combined. Sums of floats are associative up to rounding, which is let pass; a subtraction that rounds is not, since what
it loses is never found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from muntin.component.rules import Numbers
from muntin.errors import MuntinError
from muntin.own.algebra import Algebra

_PLAIN: dict[type, tuple[Any, ...]] = {
    bool: (False, True),
    int: (1, 2, 3, 0, -1),
    float: (1.0, 2.0, 3.0, 0.0, -1.0, 0.5),
}
_TRIES = 300
_SOON = 1_000_000  # microseconds between the events of a trial
_ROUNDING = (
    1e-6  # of the largest number in play: far above what rounding loses, far below what a wrong rule does
)


class _Run(NamedTuple):
    """A partial, and the values of the events that it is of."""

    partial: Numbers
    values: list[Any]


def try_algebra(name: str, algebra: Algebra, takes: type) -> None:
    """An error with a counterexample, if one is found."""
    combine, subtract = algebra.combine, algebra.subtract
    nothing = tuple(value for _, value in algebra.identity)
    for a, b, c in _runs(algebra, takes):
        x, y, z = a.partial, b.partial, c.partial
        of_nothing = {
            "combine(identity, a)": combine(nothing, x),
            "combine(a, identity)": combine(x, nothing),
        }
        _same(name, "identity is none", {"a": a}, {"a": x, **of_nothing})
        of_two = {"combine(a, b)": combine(x, y), "combine(b, a)": combine(y, x)}
        _same(name, "combine is not commutative", {"a": a, "b": b}, of_two)
        of_three = {
            "combine(combine(a, b), c)": combine(combine(x, y), z),
            "combine(a, combine(b, c))": combine(x, combine(y, z)),
        }
        _same(name, "combine is not associative", {"a": a, "b": b, "c": c}, of_three)
        if subtract is not None:
            left = {"b": y, "subtract(combine(a, b), a)": subtract(combine(x, y), x)}
            _same(name, "subtract does not undo combine", {"a": a, "b": b}, left, is_exact=True)


def _runs(algebra: Algebra, takes: type) -> Iterator[tuple[_Run, _Run, _Run]]:
    """Three neighbouring runs of events: first of one plain event each, then longer ones of numbers of all sizes."""
    for values in product(_PLAIN[takes], repeat=3):
        yield tuple(_run(algebra, [value], number) for number, value in enumerate(values))  # type: ignore[misc]
    random = np.random.default_rng(20040831)
    for _ in range(_TRIES):
        lengths = random.integers(1, 5, 3)
        starts = (0, lengths[0], lengths[0] + lengths[1])
        yield tuple(  # type: ignore[misc]
            _run(algebra, [_drawn(random, takes) for _ in range(length)], int(start))
            for length, start in zip(lengths, starts, strict=True)
        )


def _run(algebra: Algebra, values: list[Any], start: int) -> _Run:
    lifted = (algebra.lift(value, (start + number + 1) * _SOON) for number, value in enumerate(values))
    return _Run(reduce(algebra.combine, lifted), values)


def _drawn(random: np.random.Generator, takes: type) -> Any:
    if takes is bool:
        return bool(random.integers(2))
    sign = 1 if random.random() < 0.7 else -1
    size = float(10 ** random.uniform(-3, 5))
    return sign * (size if takes is float else round(size * 100))


def _same(
    name: str, fault: str, runs: dict[str, _Run], found: dict[str, Numbers], is_exact: bool = False
) -> None:  # fmt: skip
    first, *others = found.values()
    for other in others:
        for number, (left, right) in enumerate(zip(first, other, strict=True)):
            sizes = [
                abs(partial[number]) for partial in (*(run.partial for run in runs.values()), *found.values())
            ]
            if not _equal(
                left, right, 0.0 if is_exact else _ROUNDING * max(filter(isfinite, sizes), default=0.0)
            ):
                raise MuntinError(f"{name}: {fault}{_shown(runs, found)}{_HINTS.get(fault, '')}")


def _equal(left: Any, right: Any, within: float) -> bool:
    if left == right or (left != left and right != right):
        return True
    return isinstance(left, float) and isfinite(left) and isfinite(right) and abs(left - right) <= within


def _shown(runs: dict[str, _Run], found: dict[str, Numbers]) -> str:
    lines = [
        f"{word} = {_plain(run.partial)}, of {', '.join(map(str, run.values))}" for word, run in runs.items()
    ]
    lines += [f"{text} = {_plain(partial)}" for text, partial in found.items() if text not in runs]
    return "".join(f"\n  {line}" for line in lines)


def _plain(partial: Numbers) -> str:
    return str(partial[0]) if len(partial) == 1 else str(partial)


_HINTS = {
    "combine is not commutative": "\nwhat depends on the order of events holds their times: write lift(x, at)",
    "subtract does not undo combine": "\nleave subtract out: nothing needs it, and floats that are rounded have none",
}
