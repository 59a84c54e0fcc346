"""`@muntin.aggregate`: a user's aggregate as a component and an aggregate like those that are built in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import COMPONENTS, Component, read_only
from muntin.aggregates.contract import Aggregate, Lowered, Partials
from muntin.argument import shown
from muntin.component.rules import Rules
from muntin.errors import MuntinError
from muntin.fixed_point import is_decimal
from muntin.own.algebra import Algebra, compile_algebra
from muntin.own.registered import Registered, enter, name_of
from muntin.own.trial import try_algebra
from muntin.sql.type_name import type_name

Class = TypeVar("Class", bound=type)
_ARROW: dict[type, pa.DataType] = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_TAKES: dict[type, Callable[[pa.DataType], bool]] = {
    bool: pa.types.is_boolean,
    int: lambda kind: pa.types.is_integer(kind) or pa.types.is_boolean(kind),
    float: lambda kind: pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind),
}
_WANTS = {bool: "a BOOLEAN", int: "an integer", float: "a number"}


class OwnAggregate(Aggregate):
    """Lowered by what is compiled of the user's `lower`; NULL over nothing, and where that gives None."""

    def __init__(self, name: str, algebra: Algebra, takes: type, returns: type):
        self.name = name  # type: ignore[misc]
        self.components = ("count", name)  # type: ignore[misc]
        self._algebra = algebra
        self._takes, self._returns = takes, returns
        self.is_used = False

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not _TAKES[self._takes](argument):
            if argument is not None and is_decimal(argument) and self._takes is not bool:
                raise TypeError(f"takes no DECIMAL; write CAST(x AS {type_name(_ARROW[self._takes])})")
            raise TypeError(f"takes {_WANTS[self._takes]}")
        self.is_used = True  # every query that calls it asks
        return _ARROW[self._returns]

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        valid = count > 0
        out = np.zeros(len(count), np.float64 if self._returns is float else np.int64)
        self._algebra.lower_cells(valid, out, *(read_only(each) for each in partials[self.name]))
        return Lowered(out, valid)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        (count,), state = partials
        answer = self._algebra.lower(state) if count else None
        return None if answer is None else self._returns(answer)


def aggregate(name: str, *, takes: type, returns: type, version: int = 1) -> Callable[[Class], Class]:
    """Make a class with the functions lift, combine, lower and perhaps subtract an aggregate of the query language.

    `lift(x)` or `lift(x, at)` gives the partial of one event, of its value and its time in microseconds;
    `combine(a, b)` that of two runs of events from theirs; `lower(state)` the answer, None for NULL;
    `subtract(whole, part)` what is left of a run without its beginning, exactly. `identity` is the partial over
    nothing: a number, or a tuple of up to three. `takes` and `returns` are float, int or bool.

    The functions are compiled by Numba, and tried: if combine is not associative, say, an error shows numbers for which
    it is not. Queries call the aggregate by its name, in any case; state that is kept knows its `version`.

        @muntin.aggregate("SUM_OF_SQUARES", takes=float, returns=float)
        class SumOfSquares:
            identity = 0.0
            def lift(x): return x * x
            def combine(a, b): return a + b
            def lower(state): return state
    """
    called = name_of(name)
    kinds: tuple[tuple[str, Any], ...] = (("takes", takes), ("returns", returns))
    for word, kind in kinds:
        if not isinstance(kind, type) or kind not in _ARROW:
            raise MuntinError(f"{called}: {word} is float, int or bool, not {shown(kind)}")

    def register(written: Class) -> Class:
        if not isinstance(written, type):
            raise MuntinError(f"{called}: @muntin.aggregate stands before a class, not {shown(written)}")
        rules = _rules_of(called, written)
        identity = getattr(written, "identity", None)
        declared = (takes, returns, identity)
        about = Registered.of(called, version, written.__module__, list(rules.values()), declared)

        def install() -> OwnAggregate:
            algebra = compile_algebra(called, rules, identity, takes, returns, written.__module__)
            try_algebra(called, algebra, takes)
            made = OwnAggregate(called.lower(), algebra, takes, returns)
            of_floats = any(kind.kind == "f" for kind, _ in algebra.identity)
            COMPONENTS[made.name] = Component.of(
                Rules(
                    made.name, algebra.kind, algebra.kind, lambda _: algebra.identity, is_exact=not of_floats
                )
            )
            AGGREGATES[made.name] = made
            return made

        enter(about, install)
        return written

    return register


def _rules_of(name: str, written: type) -> dict[str, Callable[..., Any]]:
    rules = {}
    for word in ("lift", "combine", "lower", "subtract"):
        found = getattr(written, word, None)
        if callable(found):
            rules[word] = found
        elif word != "subtract" or found is not None:
            raise MuntinError(f"{name}: {written.__name__} needs a function {word}, without self")
    return rules
