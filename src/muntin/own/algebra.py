"""An algebra: the lift, combine, subtract and lower of a user's aggregate, compiled to the rules of a component.

A user sees a partial as `identity` is written: a number, or a tuple of some. Cells keep it as columns of 64 bits,
truths as 0 and 1. So every rule is compiled together with what turns one into the other. The same compiled rule is
called by kernels and with plain numbers: both count in 64 bits, and give NaN or infinity where Python would raise.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from numba.core import types
from numba.core.errors import NumbaError

from muntin.component.rules import FLOAT, INT, Identity
from muntin.errors import MuntinError
from muntin.kernels.combine import take
from muntin.kernels.jit import Kernel, inner, kernel

MOST_NUMBERS = 3  # of a partial, as kernels take them from cells
_NUMBA: dict[type, Any] = {bool: types.boolean, int: types.int64, float: types.float64}
# What each may be made of without a loss.
_WIDENED: dict[type, tuple[type, ...]] = {bool: (bool,), int: (bool, int), float: (bool, int, float)}
_RAISES = "picklebuf"  # what Numba calls an exception in compiled code


class Algebra(NamedTuple):
    """Compiled rules over the numbers of cells; `kind` is their class of cells, with the rules that kernels call."""

    kind: type
    identity: Identity
    lift: Kernel
    combine: Kernel
    subtract: Kernel | None
    lower: Kernel  # None for NULL
    lower_cells: Kernel  # of many, into an array


def compile_algebra(
    name: str, rules: Mapping[str, Callable[..., Any]], identity: Any, takes: type, returns: type, module: str
) -> Algebra:
    """The algebra of a user's functions, by name; an error that says which of them cannot be compiled, or gives what it
    should not. Costs about a second."""
    numbers = identity if isinstance(identity, tuple) else (identity,)
    if not 1 <= len(numbers) <= MOST_NUMBERS or not all(type(each) in _NUMBA for each in numbers):
        raise MuntinError(
            f"{name}: identity is the partial over nothing, a number (int, float or bool) or a tuple of up to "
            f"{MOST_NUMBERS}, not {identity!r}"
        )
    seen_types = tuple(type(each) for each in numbers)
    is_tuple = isinstance(identity, tuple)
    partial = types.Tuple([_NUMBA[each] for each in seen_types]) if is_tuple else _NUMBA[seen_types[0]]
    seen, kept = _unpacked(seen_types, is_tuple), _packed(seen_types, is_tuple)
    taken = inner(_CASTS[takes])

    def rule(called: str, *arguments: Any) -> Kernel:
        compiled = _compiled(name, called, rules[called], arguments)
        _check_partial(name, called, compiled, seen_types, is_tuple)
        return compiled

    lifts_time = len(inspect.signature(rules["lift"]).parameters) == 2
    lift_ = rule("lift", _NUMBA[takes], *([types.int64] if lifts_time else []))
    combine_ = rule("combine", partial, partial)
    lower_ = _compiled(name, "lower", rules["lower"], (partial,))
    _check_answer(name, lower_, returns)
    if lifts_time:
        lift = kernel(lambda value, at: kept(lift_(taken(value), at)), False)
    else:
        lift = kernel(lambda value, at: kept(lift_(taken(value))), False)
    combine = kernel(lambda left, right: kept(combine_(seen(left), seen(right))), False)
    lower = kernel(lambda state: lower_(seen(state)), False)
    subtract = None
    if "subtract" in rules:
        subtract_ = rule("subtract", partial, partial)
        subtract = kernel(lambda whole, part: kept(subtract_(seen(whole), seen(part))), False)
    kind = _kind(name, module, len(numbers), lift, combine, subtract)
    columns = tuple((FLOAT, each) if type(each) is float else (INT, int(each)) for each in numbers)
    return Algebra(kind, columns, lift, combine, subtract, lower, _lower_cells(kind, lower))


def _kind(
    name: str, module: str, numbers: int, lift: Kernel, combine: Kernel, subtract: Kernel | None
) -> type:
    """A class of cells. It is of the user's module, so that what is compiled for it is not kept: nobody would notice
    that a rule has changed."""
    rules: dict[str, Any] = {
        # functions of Python, since these are compiled into kernels
        "lift": staticmethod(lambda value, at: lift(value, at)),
        "combine": staticmethod(lambda left, right: combine(left, right)),
    }
    if subtract is not None:
        rules["subtract"] = staticmethod(lambda whole, part: subtract(whole, part))
    fields = namedtuple(name, [f"number_{i}" for i in range(numbers)], module=module)  # type: ignore[misc]
    return type(name, (fields,), {"__module__": module, "__slots__": (), **rules})


def _lower_cells(kind: type, lower: Kernel) -> Kernel:
    def lower_cells(valid: Any, out: Any, *arrays: Any) -> None:
        cells = kind(*arrays)
        for i in range(len(out)):
            if valid[i]:
                answer = lower(take(cells, i))  # type: ignore[no-untyped-call]
                if answer is None:
                    valid[i] = False
                else:
                    out[i] = answer

    return kernel(lower_cells, False)


# Numbers as users see them, and as cells keep them.

_CASTS: dict[type, Callable[[Any], Any]] = {
    bool: lambda number: number != 0,
    int: lambda number: int(number),
    float: lambda number: float(number),
}


def _unpacked(seen: tuple[type, ...], is_tuple: bool) -> Kernel:
    each = _each([inner(_CASTS[kind]) for kind in seen])
    return each if is_tuple else inner(lambda numbers: each(numbers)[0])


def _packed(seen: tuple[type, ...], is_tuple: bool) -> Kernel:
    each = _each([inner(_CASTS[float if kind is float else int]) for kind in seen])
    return each if is_tuple else inner(lambda number: each((number,)))


def _each(casts: list[Kernel]) -> Kernel:
    """A tuple, number by number: Numba cannot loop over numbers of several types."""
    if len(casts) == 1:
        (a,) = casts
        return inner(lambda numbers: (a(numbers[0]),))
    if len(casts) == 2:
        a, b = casts
        return inner(lambda numbers: (a(numbers[0]), b(numbers[1])))
    a, b, c = casts
    return inner(lambda numbers: (a(numbers[0]), b(numbers[1]), c(numbers[2])))


# What users' functions give, and that they do not raise.


def _compiled(name: str, called: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Kernel:
    plain = getattr(function, "py_func", function)  # it may be compiled already, with other options
    compiled: Any = kernel(plain, False)
    count = len(inspect.signature(plain).parameters)
    if count != len(arguments):
        wanted = {"lift": "(x) or (x, at)", "lower": "(state)"}.get(called, "(left, right)")
        raise MuntinError(f"{name}: {called} takes {wanted}, not {inspect.signature(plain)}")
    try:
        compiled.compile(tuple(arguments))
    except NumbaError as error:
        raise MuntinError(f"{name}: {called} cannot be compiled: {_reason(error)}") from error
    (found,) = compiled.overloads.values()
    if _RAISES in found.library.get_llvm_str():
        raise MuntinError(
            f"{name}: {called} may raise, and a batch is taken in whole or not at all: give NaN, or NULL (None) in "
            "lower, in place of raise and assert"
        )
    made: Kernel = compiled
    return made


def _reason(error: NumbaError) -> str:
    """The line of Numba's that says most, with what helps against the most common fault."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next(
        (line for line in lines if line.startswith(("Untyped global", "No implementation", "Unknown"))), None
    )
    told = told or next((line for line in lines if not line.startswith("Failed in")), lines[0])
    is_function = "cannot determine Numba type of <class 'function'>" in told
    return f"{told}; mark that function with numba.njit" if is_function else told


def _given(compiled: Any) -> Any:
    (found,) = compiled.overloads.values()
    return types.unliteral(found.signature.return_type)


def _python(kind: Any) -> type | None:
    """What a compiled number is in Python."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.Boolean):
        return bool
    if isinstance(kind, types.Integer):
        return int
    return float if isinstance(kind, types.Float) else None


def _check_partial(name: str, called: str, compiled: Any, wanted: tuple[type, ...], is_tuple: bool) -> None:
    given = _given(compiled)
    if is_tuple:
        found = [_python(each) for each in given.types] if isinstance(given, types.BaseTuple) else None
    else:
        found = [_python(given)]
    if (
        found is None
        or len(found) != len(wanted)
        or not all(each in _WIDENED[kind] for each, kind in zip(found, wanted, strict=True))
    ):
        shape = ", ".join(each.__name__ for each in wanted)
        raise MuntinError(
            f"{name}: {called} gives {given}, and a partial is {f'({shape})' if is_tuple else shape} as identity is"
        )


def _check_answer(name: str, compiled: Any, returns: type) -> None:
    given = _given(compiled)
    found = given.type if isinstance(given, types.Optional) else given
    if _python(found) not in _WIDENED[returns]:
        raise MuntinError(f"{name}: lower gives {given}, and is declared to give {returns.__name__}")
