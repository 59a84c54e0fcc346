"""What updates, look-ups and state of each structure cost at one size, counted: the costs that Figure 1 states.

Counts are the same on any machine. Where a structure counts its own work, that is taken; of R-INT and of sorted
intervals, which do not, the cells of memory are compared before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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


def l_int_space(gamma: int, kept: int = 1 << 15) -> float:
    """Bytes, of windows that all begin as far back."""
    return l_int(kept, gamma).nbytes()


def l_int_suffix_space(kept: int) -> float:
    """Bytes, of windows that end now, of all widths down to four: as many as the logarithm of what is kept."""
    return l_int(kept, (kept.bit_length() - 1) // 2, suffix=True).nbytes()


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

PARTS = 8


def collective(
    keys: int, events: int, parts: int = PARTS, amounts: int = 0, evenly: bool = False
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


def collective_update(parts: int, keys: int = 20, events: int = 200_000) -> float:
    """Levels of keys that an update changes."""
    return collective(keys, events, parts).changes / events


def sum_update(amounts: int) -> float:
    """The same of CI-SUM, with one level of each size."""
    return collective(1_000, 20_000, 1, amounts).changes / 20_000


def collective_steps(keys: int) -> float:
    """Steps in the tree for an update."""
    return collective(keys, 20 * keys).steps / (20 * keys)


def collective_look_up(reported: int) -> float:
    """Buckets and keys that a look-up reads to name so many of 16,000 keys: those whose newest event is as young."""
    return _visits(collective(16_000, 64_000, evenly=True), 64_000, reported)


def collective_far_look_up(keys: int) -> float:
    """The same to name a hundred keys of so many."""
    return _visits(collective(keys, 4 * keys, evenly=True), 4 * keys, 100)


def _visits(index: CollectiveIndex, events: int, reported: int) -> float:
    before = index.visits
    found = index.candidates(events - reported, low=1)
    assert len(found) == reported
    return index.visits - before


def collective_space(keys: int) -> float:
    """Bytes, with a hundred events of each key."""
    return collective(keys, 100 * keys, evenly=True).nbytes()


def collective_parts_space(parts: int) -> float:
    """Bytes, with as many events of each of 64 keys as eight sizes of levels hold."""
    return collective(64, 64 * 255 * parts, parts, evenly=True).nbytes()


def collective_long_space(per_key: int) -> float:
    """Bytes with so many events of each of 64 keys and one level of each size."""
    return collective(64, 64 * per_key, 1, evenly=True).nbytes()


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
    """Pairs looked at by an update, values in random order."""
    return float(_work(staircase(events))[1]) / events


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


@dataclass(frozen=True)
class Cost:
    """One cost of Figure 1: at which sizes it is counted, and the power of them (or of a function of them) stated."""

    structure: str
    what: str
    of: str  # what is counted
    against: str  # the size
    stated: str
    power: float
    count: Callable[[int], float]
    sizes: tuple[int, ...]
    scale: Callable[[float], float] = float
    timed: tuple[str, str] | None = None  # figure and name of its rates by the same size, if there are


def powers(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    """Of two.

    >>> powers(4, 8, 2)
    (16, 64, 256)
    """
    return tuple(1 << each for each in range(first, last + 1, step))


def by_both(size: float) -> float:
    """n log n."""
    return size * log2(size)


def by_levels(size: float) -> float:
    """The logarithm, without the levels that a quantile tree leaves out: those below 16 elements."""
    return log2(size / 4)


def by_pieces(size: float) -> float:
    """The logarithm, without the levels of which a look-up takes loose elements."""
    return log2(size / 16)


PARTS_COUNTED, GAMMAS = powers(0, 4), (1, 2, 3, 4, 5, 6)
COSTS = (
    Cost("R-INT", "update", "prefixes changed", "Nmax", "O(1)", 0, r_int_update, powers(6, 16, 2),
         timed=("fig10", "r_int")),
    Cost("R-INT", "look-up", "prefixes read", "W", "O(1)", 0, r_int_look_up, powers(4, 10, 2),
         timed=("fig11", "r_int")),
    Cost("R-INT", "space", "bytes", "Nmax", "O(Nmax)", 1, r_int_space, powers(10, 20, 2)),
    Cost("B-INT", "update", "combinations", "Nmax", "O(1)", 0, b_int_update, powers(6, 16, 2),
         timed=("fig10", "b_int")),
    Cost("B-INT", "look-up", "partials read", "W", "O(log W)", 1, b_int_look_up, powers(4, 16, 2), log2,
         ("fig11", "b_int")),
    Cost("B-INT", "space", "bytes", "Nmax", "O(Nmax)", 1, b_int_space, powers(10, 20, 2)),
    Cost("L-INT", "update", "combinations", "gamma", "O(gamma)", 1, l_int_update, GAMMAS),
    Cost("L-INT", "update", "combinations", "Nmax, gamma = 3", "O(gamma)", 0, partial(l_int_update, 3),
         powers(8, 16, 2)),
    Cost("L-INT", "look-up", "partials read", "W", "O(1)", 0, l_int_look_up, powers(4, 14, 2)),
    Cost("L-INT", "space", "bytes", "Nmax, gamma = 3", "O(gamma Nmax)", 1, partial(l_int_space, 3), powers(8, 16, 2)),
    Cost("L-INT", "space", "bytes", "gamma", "O(gamma Nmax)", 1, l_int_space, GAMMAS),
    Cost("L-INT", "space, suffix windows", "bytes", "Nmax, gamma = log Nmax / 2", "O(Nmax)", 1, l_int_suffix_space,
         powers(8, 16, 2)),
    Cost("quantile tree", "update", "cells changed", "Nmax", "O(log Nmax)", 1, tree_update, powers(5, 12), by_levels,
         ("fig10", "quantile_tree")),
    Cost("quantile tree", "look-up", "sorted intervals", "W", "O(log W) intervals, O(log^2 W log log W) in all", 1,
         tree_look_up, powers(8, 16, 2), by_pieces, ("fig11", "quantile_tree")),
    Cost("quantile tree", "space", "bytes", "Nmax", "O(Nmax log Nmax)", 1, tree_space, powers(6, 16, 2), by_both),
    Cost("CI-COUNT", "update", "stamps changed", "p", "O(1/eps log K)", 1, collective_update, PARTS_COUNTED),
    Cost("CI-COUNT", "update", "steps in the tree", "K", "O(1/eps log K)", 1, collective_steps, powers(10, 16, 2),
         log2),
    Cost("CI-COUNT", "look-up", "buckets and keys read", "keys reported", "O(keys reported)", 1, collective_look_up,
         powers(8, 13)),
    Cost("CI-COUNT", "look-up", "buckets and keys read", "K, 100 reported", "O(log K)", 1, collective_far_look_up,
         powers(9, 16), log2),
    Cost("CI-COUNT", "space", "bytes", "K", "O(1/eps K log Nmax)", 1, collective_space, powers(8, 14, 2)),
    Cost("CI-COUNT", "space", "bytes", "p", "O(1/eps K log Nmax)", 1, collective_parts_space, PARTS_COUNTED),
    Cost("CI-COUNT", "space", "bytes", "Nmax, p = 1", "O(1/eps K log Nmax)", 1, collective_long_space, powers(4, 12, 2),
         log2),
    Cost("CI-SUM", "update", "stamps changed", "greatest amount, p = 1", "O(1/eps log K log Amax)", 1, sum_update,
         powers(5, 17, 3), log2),
    Cost("MAX of keys", "update", "pairs looked at", "Nmax", "O(log^2 Nmax)", 2, staircase_update, powers(8, 13), log2),
    Cost("MAX of keys", "look-up", "pairs looked at", "Nmax", "O(log^2 Nmax)", 2, staircase_look_up, powers(8, 13),
         log2),
    Cost("MAX of keys", "space", "pairs kept", "Nmax", "O(Nmax log Nmax)", 1, staircase_space, powers(8, 13), by_both),
)  # fmt: skip
