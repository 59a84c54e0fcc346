"""How many partials a look-up combines, as the theorem of each structure has it.

`elements` is the width of the window in what the store keeps: events of a ring, or slices. Two partials
take one combine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import gcd, log2

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
_COMBINES: dict[str, tuple[Callable[[float], float], str]] = {
    "r_int": (lambda elements: 1.0, "1 combine"),
    "b_int": (_by_base_intervals, "about log2 W combines"),
    "l_int": (lambda elements: 1.0, "1 combine"),
    "monotone_deque": (lambda elements: 0.0, "no combine"),
    "materialize_all": (lambda elements: 0.0, "no combine"),
    "materialize_none": (_by_scan, "W combines"),
    "psoup": (lambda elements: 2.0 * log2(max(elements, 2.0)), "about 2 log2 n combines"),
    "slices": (_by_scan, "W combines per key"),
    "stairs": (_by_scan, "a combine per granule and key"),
    "rescan": (_by_scan, "W combines"),
    "rescan_rows": (_by_scan, "W combines per key"),
    "quantile_tree": (_by_rounds, "about log2 W searches in log2 W sorted pieces"),
    "range_tree": (_by_sorted_intervals, "about log2 W combines in log2 W sorted intervals"),
    "distinct": (_by_base_intervals, "about log2 W searches"),
    "panes": (_by_scan, "a combine per pane"),
    "paired_windows": (_by_scan, "a combine per fragment, two per slide"),
    "sliding_quantiles": (_by_base_intervals, "a search in each of about log2(1 / eps) blocks"),
    "sliding_counts": (_by_base_intervals, "about log2(1 / eps) blocks merged"),
    "sampled_quantiles": (_by_scan, "the sample, sorted"),
    "sampled_counts": (_by_scan, "the sample, summed"),
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
    return _COMBINES[synopsis][0](elements)


def combines_formula(synopsis: str) -> str:
    """The same for a window of unknown width W."""
    return _COMBINES[synopsis][1] if synopsis in _COMBINES else "unknown"
