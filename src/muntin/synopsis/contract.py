"""What stores and synopses exchange: events going in, needs, and what look-ups find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.aggregate.contract import Partial
from muntin.expression import Expression
from muntin.query import Input
from muntin.synopsis.located import is_complete

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]

LONG_AGO = -(2**62)  # an instant before all others, with room to subtract from
FOREVER = 2**62  # an instant after all others, with room to add to


class Need(NamedTuple):
    """One component of one input that some call of the group reads."""

    input: Input
    component: str
    parameters: tuple[Any, ...] = ()  # of holistic components: the phi of a quantile

    def __str__(self) -> str:
        name = " ".join([self.component, *map(str, self.parameters)])
        return f"{name} of {self.input}"


def storage(kind: pa.DataType) -> np.dtype:
    """How values of a type are kept: floats as float64, all else as int64 (text as codes)."""
    return np.dtype(np.float64 if pa.types.is_floating(kind) else np.int64)


def dtype_of(need: Need) -> np.dtype:
    """How the values of a need's input are kept."""
    argument = need.input.argument
    return np.dtype(np.int64) if argument is None else storage(argument.type)


class Column(NamedTuple):
    """Values of one argument; where not `valid` the value is NULL and its place holds 0."""

    value: npt.NDArray[Any]
    valid: Bools


class Batch:
    """Events as synopses see them: in order of time, without late ones, evaluated into columns."""

    def __init__(
        self,
        at: Ints,
        keys: Mapping[tuple[Expression, ...], Ints],
        columns: Mapping[Expression, Column],
        masks: Mapping[Expression, Bools],
    ):
        self.at = at
        self._keys = keys  # dense key ids by GROUP BY expressions
        self._columns = columns  # by argument
        self._masks = masks  # by predicate; NULL is False
        self._passing: dict[Expression, Batch] = {}

    def __len__(self) -> int:
        return len(self.at)

    def key(self, keys: tuple[Expression, ...]) -> Ints:
        """Key ids, all 0 for un-keyed state."""
        return self._keys[keys] if keys else np.zeros(len(self.at), np.int64)

    def column(self, argument: Expression) -> Column:
        return self._columns[argument]

    def mask(self, predicate: Expression) -> Bools:
        return self._masks[predicate]

    def since(self, instant: int) -> Batch:
        """The events that are not before an instant."""
        return _Part(self, self.at >= instant)

    def passing(self, where: Expression | None) -> Batch:
        """The events that pass a predicate; computed once per predicate."""
        if where is None:
            return self
        if where not in self._passing:
            self._passing[where] = _Part(self, self.mask(where))
        return self._passing[where]


class _Part(Batch):
    """Some events of a batch; what is not asked for is not copied."""

    def __init__(self, whole: Batch, kept: Bools):
        super().__init__(whole.at[kept], {}, {}, {})
        self._whole = whole
        self._kept = kept
        self._found: dict[Any, Any] = {}

    def key(self, keys: tuple[Expression, ...]) -> Ints:
        return self._once(("key", keys), lambda: self._whole.key(keys)[self._kept])  # type: ignore[no-any-return]

    def column(self, argument: Expression) -> Column:
        def select() -> Column:
            value, valid = self._whole.column(argument)
            return Column(value[self._kept], valid[self._kept])

        return self._once(("column", argument), select)  # type: ignore[no-any-return]

    def mask(self, predicate: Expression) -> Bools:
        return self._once(("mask", predicate), lambda: self._whole.mask(predicate)[self._kept])  # type: ignore[no-any-return]

    def _once(self, what: Any, select: Callable[[], Any]) -> Any:
        if what not in self._found:
            self._found[what] = select()
        return self._found[what]


class Found(NamedTuple):
    """What a look-up at `r` instants for `k` keys found.

    `partials` have r * k slots, key by key within each instant. `start`, `end` and `is_whole` (nothing
    of the window has been forgotten) describe the windows: one element per `width` slots. An empty
    ROWS window has start == end.
    """

    partials: dict[Need, Partial]
    start: Ints
    end: Ints
    is_whole: Bools
    known_since: dict[Need, int]  # the instant from which on each need has been kept
    width: int

    def complete(self, needs: Sequence[Need]) -> Bools:
        """Which windows are covered from their start, as far as some needs are concerned."""
        known_since = max(self.known_since[need] for need in needs)
        complete: Bools = is_complete(self.start, self.end, self.is_whole, known_since)
        return complete
