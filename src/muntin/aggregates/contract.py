"""What an aggregate is: which components it needs, and how their partials become an answer.

Following lift / combine / lower: *components* (`muntin.component`) lift events into partials and
combine partials; an aggregate only names the components it reads and lowers their arrays to
answers. So SUM, COUNT and AVG of one column share two components, and a new aggregate never
touches a synopsis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
Partial = tuple[Array, ...]  # the state arrays of one component, one slot per answer
Partials = Mapping[str, Partial]  # by component name


class Lowered(NamedTuple):
    """Answers as arrays: `value` is meaningless where `valid` is False (the answer is NULL)."""

    value: Array
    valid: npt.NDArray[np.bool_]
    lost: npt.NDArray[np.bool_] | None = None  # where there is no answer, not even NULL; None: nowhere


class Aggregate(ABC):
    """One function of the query language."""

    name: ClassVar[str]
    components: ClassVar[tuple[str, ...]]
    parameters: ClassVar[tuple[str, ...]] = ()  # names of its constant arguments, e.g. ("phi",)
    optional: ClassVar[tuple[str, ...]] = ()  # names of constant arguments that may follow them
    arguments: ClassVar[tuple[str, ...]] = ("x",)  # how its other arguments are called
    order: ClassVar[Literal["max", "min"] | None] = (
        None  # of the second of two arguments: which one is picked
    )
    hashes: ClassVar[bool] = False  # whether it reads hashes of its argument
    compares: ClassVar[bool] = False  # whether it is called with `x = constant`, which becomes a parameter
    takes_star: ClassVar[bool] = False
    takes_weight: ClassVar[bool] = False  # whether events may count as often as `weight => n` says

    @abstractmethod
    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        """Type of the answer; TypeError says what the function accepts."""

    @abstractmethod
    def lower(self, partials: Partials) -> Lowered:
        """Answers from partials, one per slot; O(slots)."""

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        """One answer from plain Python numbers, one tuple per component; None for NULL. NoValue if there is none."""
        arrays = (tuple(np.array([part]) for part in partial) for partial in partials)
        value, valid, _ = self.lower(dict(zip(self.components, arrays, strict=True)))
        return value[0].item() if valid[0] else None

    def check_parameters(self, parameters: tuple[Any, ...]) -> None:
        """ValueError if a constant argument is out of range."""


class Picked(Aggregate):
    """One value of the window, as the component of the same name holds it first; NULL if there is none."""

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return any_type(argument)

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        value, *_ = partials[self.name]
        return Lowered(value, count > 0)

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        return partials[1][0] if partials[0][0] else None


def any_type(argument: pa.DataType | None) -> pa.DataType:
    """The type of an argument that may be of any type, but must be there."""
    if argument is None:
        raise TypeError("takes a column or expression")
    return argument


def real_type(argument: pa.DataType | None) -> pa.DataType:
    """The type of an answer that is a real number, computed from numbers."""
    if argument is None or not is_number(argument):
        raise TypeError("takes a number")
    return pa.float64()


def kept_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values that are kept: of pairs, a struct, the first of both."""
    return kind.field(0).type if pa.types.is_struct(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are kept as codes of a dictionary."""
    kind = kept_type(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_integer(kind) or is_.is_floating(kind) or is_.is_boolean(kind) or is_.is_decimal(kind))
