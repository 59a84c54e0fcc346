"""`@muntin.function`: a user's function of one row, over Arrow arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

import pyarrow as pa

from muntin.argument import shown
from muntin.errors import MuntinError
from muntin.own.registered import Registered, enter, name_of
from muntin.sql.own_call import OWN, OwnFunction

Written = TypeVar("Written", bound=Callable[..., Any])
_ARROW: dict[type, pa.DataType] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), datetime: pa.timestamp("us"),
    date: pa.date32(),
}  # fmt: skip


def function(
    name: str, *, takes: Sequence[type], returns: type, version: int = 1
) -> Callable[[Written], Written]:
    """Make a function over Arrow arrays a function of the query language, under its name in any case.

    It is called once for all rows of a batch, with an array for each argument, and gives an array of the same length:
    NULLs are in the arrays, and so may be its answers. `takes` are the types of its arguments, `returns` that of its
    answer: float, int, bool, str, datetime or date. It depends on its arguments alone: equal calls are made once, and
    none of no rows. What it raises is an error of the call that brought the rows.

        @muntin.function("IN_CELSIUS", takes=[float], returns=float)
        def in_celsius(fahrenheit):
            return pc.multiply(pc.subtract(fahrenheit, 32.0), 5 / 9)
    """
    called = name_of(name)
    if not isinstance(takes, list | tuple) or not takes:
        raise MuntinError(f"{called}: takes is a list of types, one for each argument, not {shown(takes)}")
    for word, kind in (*(("each of takes", each) for each in takes), ("returns", returns)):
        if not isinstance(kind, type) or kind not in _ARROW:
            raise MuntinError(
                f"{called}: {word} is float, int, bool, str, datetime or date, not {shown(kind)}"
            )

    def register(written: Written) -> Written:
        if not inspect.isfunction(written):
            raise MuntinError(f"{called}: @muntin.function stands before a function, not {shown(written)}")
        about = Registered.of(called, version, written.__module__, [written], (tuple(takes), returns))

        def install() -> OwnFunction:
            made = OwnFunction(called, written, tuple(_ARROW[each] for each in takes), _ARROW[returns])
            OWN[called.lower()] = made
            return made

        enter(about, install)
        return written

    return register
