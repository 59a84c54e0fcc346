"""Cells as a batch: what was folded elsewhere, slice by slice and key by key, taken in like events.

A runtime with many readers folds events where they are read. A slice store puts a cell where it would put
an event at the start of the cell's slice, and merges what it would have folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from muntin.aggregates.component import COMPONENTS, read_only
from muntin.aggregates.contract import Array, Partial
from muntin.arrays import Arrays, Bools, Ints, scratch
from muntin.crew import ALONE, Crew
from muntin.expression import Expression
from muntin.kernels.fold import count_cells, fold_floats, fold_ints
from muntin.kernels.slices import append_cells, assign_cells
from muntin.query import Input
from muntin.store.batch import Batch
from muntin.store.chains import Chains
from muntin.store.columns import Columns
from muntin.store.grid import Grid
from muntin.store.needs import EVERY_EVENT, Need, dtype_of
from muntin.store.saved import Saved


class Cells(Batch):
    """Cells of one slice store, in order of slice: `at` is where each one's slice starts.

    They hold what passed the store's filter, so all of them pass it.
    """

    def __init__(self, at: Ints, key: Ints, partials: Mapping[Need, Partial]):
        super().__init__(at, {}, {}, {})
        self.partials = partials
        self._key = key

    def key(self, keys: tuple[Expression, ...]) -> Ints:
        return self._key

    def passing(self, where: Expression | None) -> Batch:
        return self

    def since(self, instant: int) -> Batch:
        """The same cells, none of which begins before an instant. A cell that does was folded with coarser slices than
        its store has. It is not late, so what it holds lies behind all that has been forgotten or absorbed."""
        return Cells(np.maximum(self.at, instant), self._key, self.partials)


class Arrangement(NamedTuple):
    """Where cells go that are there, and those that a batch adds, when it does not simply follow.

    Slices and cells are counted from the first slice that the batch touches.
    """

    start: Ints
    first_cell: Ints
    key: Ints  # of each cell
    cell_of_event: Ints
    cell_of_old: Ints


def arrange(
    old_start: Ints, old_offset: Ints, old_key: Ints, event_slice: Ints, event_key: Ints
) -> Arrangement:
    """Where the cells of `old_start` go, and those of events in order of time, which need not be later. O(both)."""
    most_slices, most_cells = len(old_start) + len(event_slice), len(old_key) + len(event_slice)
    start, offset = np.empty(most_slices, np.int64), np.empty(most_slices + 1, np.int64)
    key, cell_of_event = np.empty(most_cells, np.int64), np.empty(len(event_slice), np.int64)
    cell_of_old = np.empty(len(old_key), np.int64)
    known = int(max(event_key.max(), old_key.max(initial=0))) + 1
    cell_of_key, slice_of_key = np.empty(known, np.int64), np.full(known, -1)
    slices, cells = assign_cells(
        event_slice, event_key, old_start, old_offset, old_key, cell_of_key, slice_of_key,
        start, offset, key, cell_of_event, cell_of_old,
    )  # fmt: skip
    return Arrangement(start[:slices], offset[:slices], key[:cells], cell_of_event, cell_of_old)


# Folding: events of a batch into cells, the components of one input together; or cells into cells.

TOGETHER = ("count", "sum", "min", "max")  # in the order in which the kernels take them
_NOTHING = {"i": np.zeros(0, np.int64), "f": np.zeros(0, np.float64)}


def fold_cells(
    batch: Batch, cell: Ints, origin: int, into: Mapping[Need, Partial], crew: Crew = ALONE
) -> None:
    """Fold each event into cell `cell - origin` of every need's partials; O(events) per input."""
    if isinstance(batch, Cells):
        lo, hi = np.zeros(1, np.int64), np.full(1, len(batch))
        for need, state in into.items():
            COMPONENTS[need.component].merge(lo, hi, 0, cell - origin, batch.partials[need], state)
        return
    by_input: dict[Input, dict[str, Partial]] = {}
    for need, state in into.items():
        by_input.setdefault(need.input, {})[need.component] = state
    crew.share([partial(_fold_input, batch, cell, origin, *each) for each in by_input.items()])


def _fold_input(batch: Batch, cell: Ints, origin: int, input: Input, partials: Mapping[str, Partial]) -> None:
    """All components of one input."""
    if partials.keys() == {"count"} and input == EVERY_EVENT.input:
        count_cells(cell, origin, *partials["count"])
        return
    value, valid = column_of(batch, input)
    _fold_together(cell, origin, value, valid, partials)
    lo, hi = np.zeros(1, np.int64), np.full(1, len(batch))
    for name in partials.keys() - set(TOGETHER):
        COMPONENTS[name].fold(lo, hi, 0, cell - origin, batch.at, value, valid, partials[name])


def append_each(
    crew: Crew, cells: Columns, chains: Chains, names: Mapping[Need, tuple[str, ...]], batch: Batch, lo: Ints, hi: Ints,
    key: Ints, begin: int,
) -> Ints:  # fmt: skip
    """Make the cells of runs, the first of which goes on with those from number `begin` on, then fold each input into
    them; the first cell of each run. O(events) per input."""
    chains.reserve(int(key.max()) + 1)
    following, first_cell = cells.dropped + len(cells), np.empty(len(lo), np.int64)
    cell, new_key, prior = (scratch(name, len(batch)) for name in ("cell", "new key", "prior"))
    made = append_cells(lo, hi, key, chains.last, begin, following, cell, new_key, prior, first_cell)
    cells.extend_with({"key": new_key[:made], "prior": prior[:made]}, identities_of(names))
    first = begin - cells.dropped
    into = {need: tuple(cells[name][first:] for name in some) for need, some in names.items()}
    fold_cells(batch, cell, begin, into, crew.fit_for(len(batch)))
    return first_cell


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
    wanted = [name in partials for name in TOGETHER]
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


# The slices and cells of a snapshot, as a slice store needs them.


def saved_slices(saved: Saved, first: int, cells: int, grid: Grid | None = None) -> Arrays:
    """Where slices begin, on the grid if there is one, and the first cell of each: together they have `cells` cells,
    from number `first` on."""
    start = saved.times("slice start", order="strictly")
    cell = saved.ints("slice cell", (first, first + cells - 1), len(start), "strictly")
    if (cells and not len(cell)) or (len(cell) and cell[0] != first):
        raise saved.damaged("slice cell", f"does not begin with {first:,}")
    if grid is not None and bool((grid.start_of(start) != start).any()):
        raise saved.damaged("slice start", "does not lie on the grid")
    return {"start": start, "cell": cell}


def saved_ends(saved: Saved, start: Ints) -> Ints:
    """Where slices end: none lies within the next."""
    end = saved.times("slice end", len(start))
    if bool((end <= start).any() or (end[:-1] > start[1:]).any()):
        raise saved.damaged("slice end", "has slices that overlap")
    return end


def saved_cells(
    saved: Saved, keys: tuple[Expression, ...], names: Mapping[Need, tuple[str, ...]], like: Columns
) -> Arrays:
    """The keys of cells and all arrays of their components, of the types of those in `like`."""
    key = saved.ids("cell key", keys)
    cells: Arrays = {"key": key}
    for need, arrays in names.items():
        for name in arrays:
            cells[name] = saved.array(f"cell {name}", like[name].dtype, len(key))
        # only these hold values as they came, which are codes if they are texts
        if COMPONENTS[need.component].keeps_a_value and saved.is_text(need.input.argument):
            saved.codes(f"cell {arrays[0]}", need.input.argument, len(key))
    return cells


def identities_of(names: Mapping[Need, tuple[str, ...]]) -> dict[str, object]:
    """The value of an empty cell in each column of the components."""
    identities: dict[str, object] = {}
    for need, columns in names.items():
        values = (value for _, value in COMPONENTS[need.component].identity(dtype_of(need)))
        identities |= dict(zip(columns, values, strict=True))
    return identities


def mark_codes(
    cells: Columns, names: Mapping[Need, Sequence[str]], argument: Expression, used: Bools
) -> None:
    """Set `used` for every code of an argument's texts that cells hold."""
    for codes in _text_codes(cells, names, argument):
        used[codes] = True


def renumber_codes(
    cells: Columns, names: Mapping[Need, Sequence[str]], argument: Expression, new_code: Ints
) -> None:
    """Codes of an argument's texts are different from now on."""
    for codes in _text_codes(cells, names, argument):
        codes[:] = new_code[codes]


def _text_codes(cells: Columns, names: Mapping[Need, Sequence[str]], argument: Expression) -> list[Ints]:
    """Columns of cells that hold codes of an argument's texts; 0 where they hold none."""
    return [
        cells[columns[0]]
        for need, columns in names.items()
        if need.input.argument == argument and COMPONENTS[need.component].keeps_a_value
    ]
