"""The rules of a component: how events become a partial of fixed size, and two partials become one.

Partials of a component lie in *cells*: a NamedTuple of parallel arrays, one element per partial. Its class, the *kind*
of cells, has the rules as static methods on the numbers of one partial:

    lift(value, at)            the partial of one event; `at` is its time
    combine(left, right)       the partial of two neighbouring runs, from theirs
    fold(state, value, at)     optional: what `combine(state, lift(value, at))` would give, in fewer steps
    subtract(whole, part)      optional: what is left of a run without its beginning, with no trace of it

`combine` is associative, up to rounding for sums of floats and m2. Most structures combine in order of time, but not
all: a component that depends on the order of events holds their times, as first and last do.

A rule is written once. Numba compiles it into every loop of `muntin.kernels` that meets cells of the kind, and plain
Python numbers go through it as it stands. So a rule is made of what both understand; a function that it calls is marked
with `rule`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numba.extending import overload

from muntin.arrays import recycled

Numbers = tuple[Any, ...]  # of one partial
Identity = tuple[tuple[np.dtype, object], ...]  # (dtype, value) of each state array
Function = TypeVar("Function", bound=Callable[..., Any])

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
_MOST_ARRAYS = 3  # that kernels can take from cells
MARKED = set[Callable[..., Any]]()  # functions that rules call


def rule(function: Function) -> Function:
    """Mark a function that rules call: it remains what it is, and kernels can call it too."""

    # `inline="always"` would compile it all the same, and paste it in besides; nobody calls it from C
    @overload(function, strict=False, jit_options={"no_cfunc_wrapper": True})  # type: ignore[untyped-decorator]
    def compile_rule(*arguments: Any) -> Function:
        return function

    MARKED.add(function)
    return function


@dataclass(frozen=True)
class Rules:
    """A component by name: kinds of cells for integers and for floats, and the partial over nothing.

    `identity` takes the dtype of the values. Combined with any partial, from either side, it changes nothing. Where
    both kinds differ, the first array has the dtype of the values: by that the kind of given partials is known.
    """

    name: str
    ints: type
    floats: type
    identity: Callable[[np.dtype], Identity]
    ignores_values: bool = False  # kernels are compiled once, not for each type of values
    compares_values: bool = False  # texts are then compared by their order, not by their codes
    keeps_a_value: bool = False  # the first array holds values as they came: codes if they are texts
    lifts_columns: bool = False  # `lift` does with whole columns what it does with numbers
    is_by_arrival: bool = False  # chooses among events of the same time
    is_exact: bool = True  # answers agree however a window is split, but for the last digit of a float

    def __post_init__(self) -> None:
        for kind, dtype in ((self.ints, INT), (self.floats, FLOAT)):
            arrays = len(self.identity(dtype))
            if not 1 <= arrays <= _MOST_ARRAYS or arrays != len(fields_of(kind)):
                raise ValueError(f"{self.name} of {dtype}: {kind.__name__} must have the arrays of its identity, "
                                 f"one to {_MOST_ARRAYS}")  # fmt: skip

    def kind(self, dtype: np.dtype) -> Any:
        """The class of cells for values of a dtype."""
        return self.floats if dtype.kind == "f" else self.ints

    def start(self, dtype: np.dtype, slots: int) -> tuple[npt.NDArray[Any], ...]:
        """State for `slots` answers, each over nothing."""
        state = self.room(dtype, slots)
        for array, (_, value) in zip(state, self.identity(dtype), strict=True):
            array.fill(value)
        return state

    def room(self, dtype: np.dtype, slots: int) -> tuple[npt.NDArray[Any], ...]:
        """State for `slots` answers with anything in it."""
        return tuple(recycled(slots, kind) for kind, _ in self.identity(dtype))

    def subtracts(self, dtype: np.dtype) -> bool:
        """Whether a part of a run can be taken away from it without a trace."""
        return hasattr(self.kind(dtype), "subtract")


def fields_of(kind: type) -> tuple[str, ...]:
    """The names of the arrays of a kind of cells."""
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return fields
