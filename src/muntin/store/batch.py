"""A batch: events as stores take them in, evaluated into columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from muntin.arrays import Bools, Ints, in_order, unchanged
from muntin.expression import Expression


class Column(NamedTuple):
    """Values of one argument; where not `valid` the value is NULL and its place holds 0."""

    value: npt.NDArray[Any]
    valid: Bools


class KeysOfSome:
    """Key ids of the events that pass one predicate or another, and of no other: nobody asks for those."""

    def __init__(self) -> None:
        self.of: dict[Expression, tuple[Ints, Ints]] = {}  # by predicate: which events pass, and their ids

    def spread(self, events: int) -> Ints:
        """The ids of all events, 0 where there is none."""
        ids = np.zeros(events, np.int64)
        for place, some in self.of.values():
            ids[place] = some
        return ids


class Batch:
    """Events as stores see them: without late ones, evaluated into columns. They stand as they came, which need not be
    in order of time: few of the stores mind, and those ask for them `in_order`."""

    def __init__(
        self,
        at: Ints,
        keys: Mapping[tuple[Expression, ...], Ints | KeysOfSome],
        columns: Mapping[Expression, Column],
        masks: Mapping[Expression, Bools],
        is_in_order: bool = True,
    ):
        self.at = at
        self.is_in_order = is_in_order
        self._keys = keys  # dense key ids by GROUP BY expressions
        self._columns = columns  # by argument
        self._masks = masks  # by predicate; NULL is False
        self._passing: dict[Expression, Batch] = {}
        self._sorted: Batch | None = None

    def __len__(self) -> int:
        return len(self.at)

    def key(self, keys: tuple[Expression, ...]) -> Ints:
        """Key ids, all 0 for un-keyed state."""
        if not keys:
            return np.zeros(len(self.at), np.int64)
        ids = self._keys[keys]
        return ids.spread(len(self.at)) if isinstance(ids, KeysOfSome) else ids

    def key_of_passing(self, keys: tuple[Expression, ...], where: Expression | None, kept: Ints) -> Ints:
        """Key ids of the events that pass a predicate."""
        ids = self._keys.get(keys)
        if where is not None and isinstance(ids, KeysOfSome) and where in ids.of:
            return ids.of[where][1]
        return self.key(keys)[kept]

    def column(self, argument: Expression) -> Column:
        return self._columns[argument]

    @property
    def predicates(self) -> Set[Expression]:
        """Those of which it is known which events pass."""
        return self._masks.keys()

    def mask(self, predicate: Expression) -> Bools:
        return self._masks[predicate]

    @property
    def earliest(self) -> int:
        """The least time."""
        return int(self.at[0] if self.is_in_order else self.at.min())

    def in_order(self) -> Batch:
        """The same events by time, those of one time as they came; sorted once, whoever asks."""
        if self.is_in_order:
            return self
        if self._sorted is None:
            at, places = in_order(self.at)
            self._sorted = _Passing(self, places, at=at)
        return self._sorted

    def since(self, instant: int) -> Batch:
        """The events that are not before an instant."""
        return _Passing(self, np.flatnonzero(self.at >= instant))

    def passing(self, where: Expression | None) -> Batch:
        """The events that pass a predicate; computed once per predicate."""
        if where is None:
            return self
        if where not in self._passing:
            kept = self.mask(where)
            self._passing[where] = self if kept.all() else _Passing(self, np.flatnonzero(kept), where)
        return self._passing[where]


class _Passing(Batch):
    """Some events of a batch, or all of them in another order; what is not asked for is not copied."""

    def __init__(self, whole: Batch, kept: Ints, where: Expression | None = None, at: Ints | None = None):
        super().__init__(
            whole.at[kept] if at is None else at, {}, {}, {}, whole.is_in_order or at is not None
        )
        self._whole = whole
        self._kept = kept  # places: a mask takes five times as long, for each column again
        self._where = where
        self._found: dict[Any, Any] = {}

    def key(self, keys: tuple[Expression, ...]) -> Ints:
        return self._once(  # type: ignore[no-any-return]
            ("key", keys), lambda: self._whole.key_of_passing(keys, self._where, self._kept)
        )

    def column(self, argument: Expression) -> Column:
        def select() -> Column:
            value, valid = self._whole.column(argument)
            is_all = bool(valid.all())  # nearly always
            return Column(value[self._kept], unchanged(len(self), True) if is_all else valid[self._kept])

        return self._once(("column", argument), select)  # type: ignore[no-any-return]

    def in_order(self) -> Batch:
        if self.is_in_order or self._where is None:
            return super().in_order()
        return self._whole.in_order().passing(self._where)  # which others may have sorted

    def mask(self, predicate: Expression) -> Bools:
        return self._once(("mask", predicate), lambda: self._whole.mask(predicate)[self._kept])  # type: ignore[no-any-return]

    def _once(self, what: Any, select: Callable[[], Any]) -> Any:
        if what not in self._found:
            self._found[what] = select()
        return self._found[what]
