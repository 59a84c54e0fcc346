"""The slices and cells of a snapshot, as a slice store needs them."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.arrays import Arrays, Ints
from muntin.expression import Expression
from muntin.synopsis.columns import Columns
from muntin.synopsis.grid import Grid
from muntin.synopsis.need import Need
from muntin.synopsis.saved import Saved


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
        if need.component in ("first", "last") and saved.is_text(need.input.argument):
            saved.codes(f"cell {arrays[0]}", need.input.argument, len(key))
    return cells
