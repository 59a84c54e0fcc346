"""Which synopsis serves a demand: the first rule that applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from muntin.aggregate.component import APPROXIMATE, HOLISTIC
from muntin.aggregate.contract import is_text
from muntin.errors import MuntinError, nearest
from muntin.plan.demand import Demand
from muntin.plan.sketch_window import why_not_sketch
from muntin.plan.synopses import SYNOPSES
from muntin.plan.threshold import INDEXES
from muntin.sketch.kinds import SKETCHES, sketch_for
from muntin.store.grid import window_step
from muntin.store.needs import Need, dtype_of
from muntin.structure.r_int import RInt
from muntin.structure.range_tree import RangeTree
from muntin.window import Window

MOST_SLICES = 100_000  # beyond this a window's slices save nothing over its events
# From so many different bands of one attribute on, a range tree takes in events faster than a structure for
# each (benchmarks/filters.py). Slices break even later, and keep no events, which a tree must: there it has to
# save more, over windows short enough for their events to be kept.
MANY_BANDS = 8
MANY_BANDS_ON_SLICES = 64
LONGEST_BAND_ON_SLICES = 600_000_000  # microseconds


@dataclass(frozen=True)
class Rule:
    """If `applies`, use `synopsis`; `because` is what `explain` prints."""

    applies: Callable[[Demand], bool]
    synopsis: str
    because: str


def _is_keyed(demand: Demand) -> bool:
    return bool(demand.keys)


def _is_holistic(need: Need) -> bool:
    return need.component in HOLISTIC or need.component in APPROXIMATE


def _is_sketched(name: str) -> Callable[[Demand], bool]:
    """Whether a sketch is the one that keeps a demand's promise in the least space."""
    return lambda demand: demand.need.component in APPROXIMATE and sketch_for(demand.need) == name


def _orders_text(need: Need) -> bool:
    argument = need.input.argument
    return need.component in ("min", "max") and argument is not None and is_text(argument.type)


def is_on_slices(demand: Demand) -> bool:
    """Whether folded slices can serve a demand: its edges fall on a grid, and partials can be merged."""
    return _is_sliced(demand.window) and not _is_holistic(demand.need) and not _orders_text(demand.need)


@lru_cache(maxsize=4096)
def _is_sliced(window: Window) -> bool:
    """Whether the edges of a window fall on a grid that is not too fine for it."""
    return window.is_time and window.slide > 0 and window.size <= MOST_SLICES * window_step(window)


def _serves_band(demand: Demand) -> bool:
    """Whether a range tree can serve a demand."""
    return (
        demand.band is not None
        and not demand.keys
        and demand.window.is_time
        and not _is_holistic(demand.need)
        and not _orders_text(demand.need)
    )


def _is_one_of_many_bands(demand: Demand) -> bool:
    many = MANY_BANDS
    if is_on_slices(demand):
        many = MANY_BANDS_ON_SLICES
        if demand.window.size > LONGEST_BAND_ON_SLICES:
            return False
    return demand.bands >= many and _serves_band(demand)


def _subtracts(demand: Demand) -> bool:
    """Whether two prefixes answer any run without a trace of what lies outside it."""
    return RInt.serves(demand.need.component, dtype_of(demand.need))


RULES: tuple[Rule, ...] = (
    Rule(
        _is_sketched("sliding_quantiles"), "sliding_quantiles", "an approximate quantile, within eps for sure"
    ),
    Rule(
        _is_sketched("sampled_quantiles"),
        "sampled_quantiles",
        "it may fail by a chance of delta, and eps is large",
    ),
    Rule(
        _is_sketched("sliding_counts"), "sliding_counts", "approximate counts of items, within eps for sure"
    ),
    Rule(
        _is_sketched("sampled_counts"),
        "sampled_counts",
        "they may fail by a chance of delta: a sample is smaller",
    ),
    Rule(
        lambda demand: _is_keyed(demand) and not demand.window.is_time,
        "rescan_rows",
        "a ROWS window per key counts the events of each key",
    ),
    Rule(
        lambda demand: _is_keyed(demand) and is_on_slices(demand),
        "slices",
        "its edges fall on a grid, so a cell per slice and key is enough",
    ),
    Rule(_is_keyed, "rescan", "windows per key without a grid, or of aggregates that do not merge"),
    Rule(
        lambda demand: _orders_text(demand.need) and not demand.window.is_time,
        "rescan_rows",
        "the order of text is known only at look-up",
    ),
    Rule(lambda demand: _orders_text(demand.need), "rescan", "the order of text is known only at look-up"),
    Rule(lambda demand: demand.need.component == "quantile", "quantile_tree", "quantiles need sorted values"),
    Rule(lambda demand: demand.need.component == "distinct", "distinct", "it needs to know equal values"),
    Rule(
        _is_one_of_many_bands,
        "range_tree",
        "many filters are bands of one attribute: one tree sorted by it serves them all",
    ),
    Rule(_subtracts, "r_int", "two prefixes answer any window, without a trace of what left"),
    Rule(lambda demand: True, "b_int", "it can be merged, but not subtracted without a trace"),
)


class _Traits(NamedTuple):
    """All of a demand that rules look at: among thousands of demands few differ in it."""

    need: Need
    is_keyed: bool
    is_filtered: bool
    is_time: bool
    is_sliced: bool
    is_short: bool
    bands: int


_BY_TRAITS: dict[_Traits, Rule] = {}  # what the rules say, remembered
_MOST_TRAITS = 4096


def _natural_rule(demand: Demand) -> Rule:
    """The first rule that applies."""
    window = demand.window
    traits = _Traits(
        demand.need,
        bool(demand.keys),
        demand.where is not None,
        window.is_time,
        _is_sliced(window),
        window.size <= LONGEST_BAND_ON_SLICES,
        demand.bands,
    )
    rule = _BY_TRAITS.get(traits)
    if rule is None:
        if len(_BY_TRAITS) >= _MOST_TRAITS:
            _BY_TRAITS.clear()
        rule = _BY_TRAITS[traits] = next(rule for rule in RULES if rule.applies(demand))
    return rule


def choose_synopsis(demand: Demand) -> Rule:
    """The rule for a demand; a hint comes first if the synopsis it names can serve it."""
    if demand.beside is not None:
        return Rule(lambda demand: True, demand.beside, "the query asks for nothing else")
    natural = _natural_rule(demand)
    if natural.synopsis in SKETCHES and (reason := why_not(natural.synopsis, demand)):
        raise MuntinError(f"{demand.need} over {demand.window} is not supported: {reason}")
    hint = demand.hint
    if hint is None or hint == natural.synopsis or hint in INDEXES:
        return natural
    if hint not in SYNOPSES:
        raise MuntinError(f"there is no synopsis '{hint}'{nearest(hint, [*SYNOPSES, *INDEXES])}")
    # a hint is about what the synopsis can do: the rest goes its usual way
    if demand.need.component not in SYNOPSES[hint]:
        return natural
    if hint == RangeTree.name and demand.need.input.filter is None and demand.where is None:
        return natural
    if reason := why_not(hint, demand):
        raise MuntinError(f"synopsis '{hint}' cannot serve {demand.need} over {demand.window}: {reason}")
    return Rule(lambda demand: True, hint, "the query asks for it")


def why_not(synopsis: str, demand: Demand) -> str | None:
    """What keeps a synopsis from serving a demand; None if nothing does."""
    if synopsis in SKETCHES:
        return why_not_sketch(synopsis, demand)
    if synopsis in ("slices", "stairs"):
        return (
            None if is_on_slices(demand) else "it needs a time window with SLIDE and an aggregate that merges"
        )
    if synopsis == "rescan":
        return None if demand.window.is_time else "it is for time windows; use 'rescan_rows'"
    if synopsis == "rescan_rows":
        return "it is for ROWS windows; use 'rescan'" if demand.window.is_time else None
    if demand.keys:
        return "it has no keys"
    if _orders_text(demand.need):
        return "the order of text is known only at look-up"
    if synopsis == RangeTree.name and not _serves_band(demand):
        return "it needs a time window, and a filter that compares one number or time with constants"
    if synopsis in ("panes", "paired_windows") and not (demand.window.is_time and demand.window.slide):
        return "its edges are those of time windows with SLIDE"
    if synopsis in ("r_int", "materialize_all") and demand.need.component == "sum" and not _subtracts(demand):
        return "only counts and integer sums can be subtracted without a trace"
    if synopsis in ("l_int", "materialize_all") and demand.window.is_time and not is_on_slices(demand):
        return "a time window without SLIDE has no fixed width; use 'b_int'"
    return None
