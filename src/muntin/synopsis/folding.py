"""Folding: events of a batch into cells, the components of one input together; or cells into cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.aggregate.component import COMPONENTS, read_only
from muntin.aggregate.contract import Array, Partial
from muntin.arrays import Bools, Ints
from muntin.kernels.fold_cells import count_cells, fold_floats, fold_ints
from muntin.query import Input
from muntin.synopsis.batch import Batch
from muntin.synopsis.cells import Cells
from muntin.synopsis.need import Need

_TOGETHER = ("count", "sum", "min", "max")  # in the order in which the kernels take them
_EVERY_EVENT = Input(None)
_NOTHING = {"i": np.zeros(0, np.int64), "f": np.zeros(0, np.float64)}


def fold_cells(batch: Batch, cell: Ints, origin: int, into: Mapping[Need, Partial]) -> None:
    """Fold each event into cell `cell - origin` of every need's partials; O(events) per input."""
    if isinstance(batch, Cells):
        lo, hi = np.zeros(1, np.int64), np.full(1, len(batch))
        for need, partial in into.items():
            COMPONENTS[need.component].merge(lo, hi, 0, cell - origin, batch.partials[need], partial)
        return
    by_input: dict[Input, dict[str, Partial]] = {}
    for need, partial in into.items():
        by_input.setdefault(need.input, {})[need.component] = partial
    for input, partials in by_input.items():
        if partials.keys() == {"count"} and input == _EVERY_EVENT:
            count_cells(cell, origin, *partials["count"])
            continue
        value, valid = column_of(batch, input)
        _fold_together(cell, origin, value, valid, partials)
        lo, hi = np.zeros(1, np.int64), np.full(1, len(batch))
        for name in partials.keys() - set(_TOGETHER):
            COMPONENTS[name].fold(lo, hi, 0, cell - origin, batch.at, value, valid, partials[name])


def fold_runs(batch: Batch, lo: Ints, hi: Ints, need: Need, into: Partial) -> None:
    """Fold the events of each run into a slot of its own; O(events)."""
    component = COMPONENTS[need.component]
    if isinstance(batch, Cells):
        component.merge(lo, hi, 1, batch.key(()), batch.partials[need], into)
    else:
        value, valid = column_of(batch, need.input)
        component.fold_runs(lo, hi, batch.at, value, valid, into)


def _fold_together(
    cell: Ints, origin: int, value: Array, valid: Bools, partials: Mapping[str, Partial]
) -> None:
    wanted = [name in partials for name in _TOGETHER]
    if not any(wanted):
        return
    is_float = value.dtype == np.float64
    nothing, number = _NOTHING["f" if is_float else "i"], _NOTHING["f"]
    arrays = (
        *partials.get("count", (_NOTHING["i"],)),
        *partials.get("sum", (nothing, number)),
        *partials.get("min", (nothing,)),
        *partials.get("max", (nothing,)),
    )
    kernel = fold_floats if is_float else fold_ints
    kernel(cell, origin, read_only(value), valid, bool(valid.all()), *wanted, *arrays)


def column_of(batch: Batch, input: Input) -> tuple[Array, Bools]:
    """The values of an input, and which of them count."""
    if input.argument is None:
        value, valid = batch.at, np.ones(len(batch), np.bool_)
    else:
        value, valid = batch.column(input.argument)
    if input.filter is not None:
        valid = valid & batch.mask(input.filter)
    return value, valid
