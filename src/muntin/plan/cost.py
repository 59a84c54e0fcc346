"""What look-ups and insertions cost in each structure: predicted in combines and nanoseconds, and observed.

`COMBINES` has how many partials a look-up combines, as the theorem of each structure has it; `explain` and `stats` show
it. `UNIT_COSTS` has nanoseconds of the structures among which the adaptation chooses. `Observed` is what was measured.

`elements` is the width of a window in what the store keeps: events of a ring, or slices. Two partials take one
combine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, log2
from typing import NamedTuple

from muntin.store.sequence import Sequence
from muntin.window import Window


@lru_cache(maxsize=4096)
def mean_pieces(elements: int) -> float:
    """Base intervals that a run splits into (B-INT), on average over where it begins; O(log elements).

    Take the elements off that have no partner at either end, halve the rest, go on.

    >>> [round(mean_pieces(width), 1) for width in (1, 2, 100, 1_000, 10_000, 100_000)]
    [1.0, 1.5, 6.6, 10.0, 13.2, 16.5]
    """
    if elements <= 0:
        return 0.0
    half = elements // 2
    if elements % 2:
        return 1.0 + mean_pieces(half)
    return 0.5 * mean_pieces(half) + 0.5 * (2.0 + mean_pieces(half - 1))


def _by_base_intervals(elements: float) -> float:
    return max(mean_pieces(round(elements)) - 1.0, 0.0)


def _by_scan(elements: float) -> float:
    return max(elements - 1.0, 0.0)


def _by_rounds(elements: float) -> float:
    """A quantile: rounds of elimination, each a search in every sorted piece."""
    return mean_pieces(round(elements)) * log2(max(elements, 2.0))


def _by_sorted_intervals(elements: float) -> float:
    """A band: in each base interval, the partials of a run of its order."""
    return mean_pieces(round(elements)) * max(log2(max(elements, 2.0)) - 1.0, 1.0)


# by synopsis: the number for a width, and how it is said when no width is known
COMBINES: dict[str, tuple[Callable[[float], float], str]] = {
    "r_int": (lambda elements: 1.0, "1 combine"),
    "b_int": (_by_base_intervals, "about log2 W combines"),
    "l_int": (lambda elements: 1.0, "1 combine"),
    "monotone_deque": (lambda elements: 0.0, "no combine"),
    "materialize_all": (lambda elements: 0.0, "no combine"),
    "materialize_none": (_by_scan, "W combines"),
    "psoup": (lambda elements: 2.0 * log2(max(elements, 2.0)), "about 2 log2 n combines"),
    "slices": (_by_scan, "W combines per key"),
    "stairs": (_by_scan, "a combine per granule and key"),
    "sessions": (_by_scan, "a combine per cell of a session"),
    "rescan": (_by_scan, "W combines"),
    "rescan_rows": (_by_scan, "W combines"),
    "key_runs": (_by_base_intervals, "about log2 W combines per key, or W by a scan"),
    "key_runs_rows": (_by_base_intervals, "about log2 W combines per key"),
    "quantile_tree": (_by_rounds, "about log2 W searches in log2 W sorted pieces"),
    "range_tree": (_by_sorted_intervals, "about log2 W combines in log2 W sorted intervals"),
    "value_order": (_by_scan, "a pass over the elements in order"),
    "distinct": (_by_base_intervals, "about log2 W searches"),
    "panes": (_by_scan, "a combine per pane"),
    "paired_windows": (_by_scan, "a combine per fragment, two per slide"),
    "sliding_quantiles": (_by_base_intervals, "a search in each of about log2(1 / eps) blocks"),
    "sliding_counts": (_by_base_intervals, "about log2(1 / eps) blocks merged"),
    "weighted_counts": (_by_base_intervals, "about log2(1 / eps) blocks merged for each bit"),
    "sampled_quantiles": (_by_scan, "the sample, sorted"),
    "sampled_counts": (_by_scan, "the sample, summed"),
    "sliding_registers": (_by_scan, "the entries of the window, folded"),
}
# of these the elements of a look-up are fragments of the window, however many events they hold
_FRAGMENTS: dict[str, Callable[[Window], float]] = {
    "panes": lambda window: (window.size - window.to) / gcd(window.size, window.to, window.slide),
    "paired_windows": lambda window: 2 * (window.size - window.to) / window.slide,
}


def elements_merged(synopsis: str, window: Window, elements: float) -> float:
    """How many elements a look-up of a window is about that holds so many elements of its store.

    >>> elements_merged("panes", Window("time", 60, slide=10), 5_000), elements_merged("b_int", Window("time", 60), 50)
    (6.0, 50)
    """
    return _FRAGMENTS[synopsis](window) if synopsis in _FRAGMENTS else elements


def roughly_combines(synopsis: str, elements: float) -> float:
    """`combines`, quickly: for decisions before every look-up.

    >>> roughly_combines("b_int", 1024), round(combines("b_int", 1024), 1)
    (9.0, 9.0)
    """
    return (
        max(log2(elements) - 1.0, 0.0) if synopsis == "b_int" and elements else combines(synopsis, elements)
    )


def combines(synopsis: str, elements: float) -> float:
    """Combines of one look-up of a window that holds so many elements.

    >>> combines("r_int", 1000), combines("materialize_none", 1000), combines("l_int", 1000)
    (1.0, 999.0, 1.0)
    """
    return COMBINES[synopsis][0](elements)


def combines_formula(synopsis: str) -> str:
    """The same for a window of unknown width W."""
    return COMBINES[synopsis][1]


# Unit costs: what an insertion and a look-up cost in each structure, to compare them before they are paid.
#
# In nanoseconds, rounded from what `benchmarks/unit_costs.py` measures. Only their ratios matter, since
# everything that is compared is made of them: a machine that is twice as slow decides alike. That is why
# they are a table and not measured at start: the same calls lead to the same decisions everywhere, nothing
# is compiled that is not used, and no busy moment at start is remembered for ever.


class UnitCost(NamedTuple):
    """Of one component in one structure."""

    batch: float  # of an insertion, whatever its size
    update: float  # of an element
    call: float  # of asking for one window on its own
    lookup: float  # of a window, on its own or among many
    combine: float  # of each combine a look-up makes
    rebuild: float  # of an element, to take the place of another structure
    is_per_window: bool = False  # whether an element costs once for every window
    knows_past: bool = True  # whether it answers windows that do not end now; else they are scanned


UNIT_COSTS: dict[str, UnitCost] = {
    "r_int": UnitCost(batch=10_000, update=4, call=2_000, lookup=120, combine=0, rebuild=4),
    "b_int": UnitCost(batch=10_000, update=4, call=3_000, lookup=130, combine=4, rebuild=5),
    "l_int": UnitCost(batch=30_000, update=16, call=8_000, lookup=150, combine=0, rebuild=30),
    "monotone_deque": UnitCost(12_000, 4, 14_000, lookup=200, combine=0, rebuild=5, knows_past=False),
    "materialize_all": UnitCost(
        12_000, 6, 60_000, lookup=350, combine=0, rebuild=12, is_per_window=True, knows_past=False
    ),
    "materialize_none": UnitCost(batch=800, update=0, call=15_000, lookup=190, combine=2, rebuild=0),
}
SWITCH = 200_000.0  # to replace a structure, even an empty one
COMPILE = 3e9  # to compile its kernels
PREPARE = 20_000.0  # to prepare the look-ups of one query anew, which a change undoes


def update_cost(synopsis: str, elements: int, structures: int, windows: int) -> float:
    """Of inserting `elements` at once into the structures of a group.

    >>> update_cost("materialize_none", 1000, 2, 5), update_cost("b_int", 1000, 2, 5)
    (1600.0, 28000.0)
    """
    unit = UNIT_COSTS[synopsis]
    each = unit.update * windows if unit.is_per_window else unit.update
    return float(structures * (unit.batch + elements * each))


def lookup_cost(synopsis: str, elements: float, lookups: float, calls: float, is_now: bool) -> float:
    """Of so many look-ups of windows with `elements`, of which `calls` are asked for one by one.

    >>> lookup_cost("materialize_none", 1001, 10, 10, True), lookup_cost("r_int", 1001, 10, 10, True)
    (171900.0, 21200.0)
    """
    unit = UNIT_COSTS[synopsis]
    scan = 0.0 if is_now or unit.knows_past else UNIT_COSTS["materialize_none"].combine * elements
    return calls * unit.call + lookups * (
        unit.lookup + unit.combine * roughly_combines(synopsis, elements) + scan
    )


def rebuild_cost(synopsis: str, elements: int, structures: int, is_compiled: bool = True) -> float:
    """Of putting other structures in place, over so many elements each.

    A kernel that has not run yet may have to be compiled, which takes seconds: that must be saved as well.
    """
    compiling = 0.0 if is_compiled else COMPILE
    return SWITCH + compiling + structures * elements * UNIT_COSTS[synopsis].rebuild


# What the state of a window group costs, as observed: counters that EXPLAIN shows as rates.

_RECENT = 32  # observations; beyond this, old ones count half


@dataclass(slots=True)
class Rate:
    """A mean cost over recent observations: a slow start (a kernel being compiled) is forgotten soon.

    >>> rate = Rate()
    >>> rate.mean is None
    True
    >>> rate.observe(1000, 5000)
    >>> rate.mean
    5.0
    """

    total: int = 0  # how many there have been
    _count: float = 0.0
    _nanoseconds: float = 0.0
    _observations: int = 0

    def observe(self, count: int, nanoseconds: int) -> None:
        self.total += count
        self._count += count
        self._nanoseconds += nanoseconds
        self._observations += 1
        if self._observations == _RECENT:
            self._observations //= 2
            self._count /= 2
            self._nanoseconds /= 2

    def begin_again(self) -> None:
        """What is observed from now on is something else."""
        self._count = self._nanoseconds = 0.0
        self._observations = 0

    @property
    def mean(self) -> float | None:
        """Nanoseconds for each; None if there was none."""
        return self._nanoseconds / self._count if self._count else None


@dataclass(slots=True)
class Observed:
    """Of a group or a store. A look-up is one window at one instant, for all keys, and one component."""

    updates: Rate = field(default_factory=Rate)  # by event
    lookups: Rate = field(default_factory=Rate)

    def begin_again(self) -> None:
        self.updates.begin_again()
        self.lookups.begin_again()


# How wide a window is in elements of its store: what its look-ups cost depends on it.


def elements_in(width: int, is_time: bool, store: Sequence) -> float:
    """About how many elements a window holds: for time windows over events, at their mean rate; O(1)."""
    return store.elements_in(width) if is_time else float(min(width, len(store)))
