"""What updates, look-ups and state of each structure cost at one size, counted: the costs that Figure 1 states.

Counts are the same on any machine. Where a structure counts its own work, that is taken; of R-INT and of sorted
intervals, which do not, the cells of memory are compared before and after.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log2
from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.one_by_one import count_pieces
from benchmarks.figures.arasu_widom.workload import lifted, values
from muntin.aggregates.component import COMPONENTS
from muntin.key_index.collective_index import CollectiveIndex
from muntin.key_index.staircase_index import StaircaseIndex
from muntin.structure.b_int import BInt
from muntin.structure.l_int import LInt
from muntin.structure.quantile_tree import QuantileTree
from muntin.structure.r_int import RInt

INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
LOOK_UPS = 1_000
BATCH = 1_000


def full(structure: Any, component: str, kept: int, more: int) -> Any:
    """A structure that remembers `kept` elements, of which `more` came while it was full."""
    value = values(kept + more, seed=1)
    for begin in range(0, len(value), BATCH):
        insert(structure, component, value[begin : begin + BATCH], kept)
    return structure


def insert(structure: Any, component: str, value: Any, kept: int) -> None:
    """Some elements, which push out the oldest."""
    if component == "quantile":
        structure.extend(value, np.ones(len(value), np.bool_))
    else:
        structure.extend(lifted(component, value))
    structure.forget(structure.end - kept)


def runs_of(structure: Any, width: int, kept: int) -> tuple[Any, Any]:
    """Windows of one width anywhere among the elements kept."""
    lo = structure.end - kept + np.random.default_rng(width).integers(0, kept - width + 1, LOOK_UPS)
    return lo, lo + width


def cells_changed(structure: Any, cells: str, component: str, kept: int, updates: int) -> float:
    """Cells of a structure's array that an update changes; all of them if the array is another."""
    changed = 0
    for value in values(updates, seed=2):
        before = _array(structure, cells).copy()
        insert(structure, component, np.array([value]), kept)
        after = _array(structure, cells)
        changed += int((before != after).sum()) if before.shape == after.shape else after.size
    return changed / updates


def _array(structure: Any, cells: str) -> Any:
    found = structure
    for name in cells.split("."):
        found = getattr(found, name)
    return found


# R-INT


def r_int(kept: int) -> RInt:
    """Full, with integers to sum."""
    made: RInt = full(RInt(COMPONENTS["sum"], INT64), "sum", kept, kept)
    return made


def r_int_update(kept: int) -> float:
    """Prefixes that an update changes; each is a total and how often it has wrapped."""
    structure, changed = r_int(kept), 0
    for value in values(128, seed=2):
        before = structure._prefix.copy()
        insert(structure, "sum", np.array([value]), kept)
        changed += int((before != structure._prefix).any(axis=1).sum())
    return changed / 128


def r_int_look_up(width: int) -> float:
    """Prefixes of which the answer depends: each is changed, and the answer looked at."""
    structure = r_int(2 * width)
    lo, hi = (array[:4] for array in runs_of(structure, width, 2 * width))
    right, read = structure.query(lo, hi)[0], 0
    for cell in range(len(structure._prefix)):
        structure._prefix[cell, 0] += 1
        read += int((structure.query(lo, hi)[0] != right).sum())
        structure._prefix[cell, 0] -= 1
    return read / len(lo)


def r_int_space(kept: int) -> float:
    """Bytes."""
    return r_int(kept).nbytes()


# B-INT


def b_int(kept: int) -> BInt:
    """Full, with integers of which the greatest is asked for."""
    made: BInt = full(BInt(COMPONENTS["max"], INT64), "max", kept, kept)
    return made


def b_int_update(kept: int) -> float:
    """Partials combined by an update."""
    structure = b_int(kept)
    return structure.combines / structure.end


def b_int_look_up(width: int) -> float:
    """Partials that a look-up reads."""
    structure = b_int(2 * width)
    structure.query(*runs_of(structure, width, 2 * width))
    return structure.reads / LOOK_UPS


def b_int_space(kept: int) -> float:
    """Bytes."""
    return b_int(kept).nbytes()


# L-INT


def l_int(kept: int, gamma: int, suffix: bool = False) -> LInt:
    """With `gamma` windows, each a quarter as wide as the next; all begin `kept` elements ago unless they end now."""
    widths = [kept >> (2 * number) for number in range(gamma)]
    windows = [(width, 0) if suffix else (kept, kept - width) for width in widths]
    made: LInt = full(LInt(COMPONENTS["max"], INT64, 0, windows), "max", kept, kept)
    assert len(made.partitions) == gamma
    return made


def l_int_update(gamma: int, kept: int = 1 << 15) -> float:
    """Partials combined by an update."""
    structure = l_int(kept, gamma)
    return structure.combines / structure.end


def l_int_look_up(width: int) -> float:
    """Partials that a look-up reads, of windows a quarter of what is kept and of all of it."""
    structure = l_int(4 * width, 2)
    structure.query(*runs_of(structure, width, 4 * width))
    return structure.reads / LOOK_UPS


# QUANTILE


def tree(kept: int) -> QuantileTree:
    """Full."""
    made: QuantileTree = full(QuantileTree(INT64), "quantile", kept, kept)
    return made


def tree_update(kept: int) -> float:
    """Cells of sorted intervals that an update changes."""
    return cells_changed(tree(kept), "_runs.rows", "quantile", kept, 2 * kept)


def tree_look_up(width: int) -> float:
    """Sorted intervals that a look-up goes through."""
    structure = tree(2 * width)
    pieces, _ = count_pieces(structure._runs.rows, *runs_of(structure, width, 2 * width))
    return float(pieces) / LOOK_UPS


def tree_space(kept: int) -> float:
    """Bytes of sorted intervals; the elements as they came are a row more."""
    return float(tree(kept)._runs.rows[1:].nbytes)


# CI-COUNT and CI-SUM

KEYS, EVENTS, PARTS = 1_000, 100_000, 8


def collective(
    keys: int = KEYS, events: int = EVENTS, parts: int = PARTS, amounts: int = 0, evenly: bool = False
) -> CollectiveIndex:
    """An index in its tree form over events one after the other, of keys at random or in turns; `amounts` is the
    greatest if there are any."""
    random = np.random.default_rng(3)
    index = CollectiveIndex("sum" if amounts else "count", parts)
    key = np.arange(events) % keys if evenly else random.integers(0, keys, events)
    amount = random.integers(1, amounts + 1, events) if amounts else None
    for begin in range(0, events, BATCH):
        part = slice(begin, min(begin + BATCH, events))
        index.add(key[part], np.arange(events)[part], None if amount is None else amount[part])
        len(index)  # the tree follows now, not all at once at the end
    return index


def collective_update(**sizes: int) -> float:
    """Levels of keys that an update changes."""
    index = collective(**sizes)
    return index.changes / sizes.get("events", EVENTS)


def collective_steps(keys: int) -> float:
    """Steps in the tree for a change of a level."""
    index = collective(keys, 20 * keys)
    return index.steps / index.changes


def collective_look_up(reported: int) -> float:
    """Buckets and keys that a look-up reads to name so many of 16,000 keys: those whose newest event is as young."""
    index = collective(16_000, 64_000, evenly=True)
    before = index.visits
    found = index.candidates(64_000 - reported, low=1)
    assert len(found) == reported
    return index.visits - before


def collective_far_look_up(keys: int) -> float:
    """The same to name a hundred keys of so many."""
    index = collective(keys, 4 * keys, evenly=True)
    before = index.visits
    assert len(index.candidates(4 * keys - 100, low=1)) == 100
    return index.visits - before


def collective_space(keys: int = KEYS, per_key: int = 100, parts: int = PARTS) -> float:
    """Bytes, with so many events of each key."""
    return collective(keys, keys * per_key, parts, evenly=True).nbytes()


# MAX and MIN of keys


def staircase(events: int, descending: bool = False) -> StaircaseIndex:
    """An index over events of a hundred keys, each indexed as it comes; if values descend, none is ever beaten."""
    random = np.random.default_rng(4)
    key, at = random.integers(0, 100, events), np.arange(events)
    value = -np.arange(events, dtype=np.float64) if descending else random.random(events)
    index = StaircaseIndex("max", FLOAT64, "tree")
    for i in range(events):
        index.add(key[i : i + 1], at[i : i + 1], value[i : i + 1])
        index.keys_in(i, np.inf, None)  # finds nothing, but what waited is indexed
    return index


def _work(index: StaircaseIndex) -> Any:
    return np.array(index.maxima.index.operations())  # type: ignore[attr-defined]


def staircase_update(events: int) -> float:
    """Pairs looked at by an update, if values descend."""
    return float(_work(staircase(events, descending=True))[1]) / events


def staircase_look_up(events: int) -> float:
    """Pairs looked at by a look-up that finds nothing, on average over starts."""
    index = staircase(events, descending=True)
    starts, before = range(0, events, max(1, events // 64)), _work(index)
    for since in starts:
        assert not len(index.keys_in(since, 0.5, 0.75))
    return float((_work(index) - before)[1]) / len(starts)


def staircase_space(events: int) -> float:
    """Pairs at the nodes, if values descend."""
    return float(staircase(events, descending=True).maxima.index.pairs())  # type: ignore[attr-defined]


def exponent(size: Iterable[float], found: Iterable[float]) -> float:
    """The power of the sizes that fits best: the slope of a line through their logarithms.

    >>> round(exponent([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    x, y = (np.log(np.array(list(each), float)) for each in (size, found))
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())


def by_itself(size: float) -> float:
    """For costs that are stated as powers of a size."""
    return size


def by_logarithm(size: float) -> float:
    """For costs that are stated as powers of a logarithm."""
    return log2(size)


def by_both(size: float) -> float:
    """For costs that are stated as powers of n log n."""
    return size * log2(size)
