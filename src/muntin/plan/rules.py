"""Which synopsis serves a demand: the first rule that applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from muntin.aggregate.component import HOLISTIC
from muntin.errors import MuntinError, nearest
from muntin.plan.demand import Demand
from muntin.synopsis import SYNOPSES, Intervals
from muntin.synopsis.grid import window_step

MOST_SLICES = 100_000  # beyond this a window's slices save nothing over its events


@dataclass(frozen=True)
class Rule:
    """If `applies`, use `synopsis`; `because` is what `explain` prints."""

    applies: Callable[[Demand], bool]
    synopsis: str
    because: str


def _is_keyed(demand: Demand) -> bool:
    return bool(demand.keys)


def _is_holistic(demand: Demand) -> bool:
    return demand.need.component in HOLISTIC


def _orders_text(demand: Demand) -> bool:
    argument = demand.need.input.argument
    is_text = argument is not None and (
        pa.types.is_string(argument.type) or pa.types.is_large_string(argument.type)
    )
    return is_text and demand.need.component in ("min", "max")


def is_on_slices(demand: Demand) -> bool:
    """Whether folded slices can serve a demand: its edges fall on a grid, and partials can be merged."""
    window = demand.window
    if not window.is_time or not window.slide or _is_holistic(demand) or _orders_text(demand):
        return False
    return window.size <= MOST_SLICES * window_step(window)


RULES: tuple[Rule, ...] = (
    Rule(lambda demand: not demand.window.is_time, "rescan_rows", "a ROWS window counts single events"),
    Rule(is_on_slices, "slices", "its edges fall on a grid"),
    Rule(lambda demand: not demand.window.slide, "rescan", "without SLIDE any instant may be asked for"),
    Rule(_is_holistic, "rescan", "the aggregate needs the values themselves"),
    Rule(_orders_text, "rescan", "the order of text is known only at look-up"),
    Rule(lambda demand: True, "rescan", f"its edges would cut it into more than {MOST_SLICES:,} slices"),
)


def choose_synopsis(demand: Demand) -> Rule:
    """The rule for a demand; a hint comes first if the synopsis it names can serve it."""
    natural = next(rule for rule in RULES if rule.applies(demand))
    hint = demand.hint
    if hint is None or hint == natural.synopsis:
        return natural
    if hint not in SYNOPSES:
        raise MuntinError(f"there is no synopsis '{hint}'{nearest(hint, SYNOPSES)}")
    if reason := why_not(hint, demand):
        raise MuntinError(f"synopsis '{hint}' cannot serve {demand.need} over {demand.window}: {reason}")
    return Rule(lambda demand: True, hint, "the query asks for it")


def why_not(synopsis: str, demand: Demand) -> str | None:
    """What keeps a synopsis from serving a demand; None if nothing does."""
    kind = SYNOPSES[synopsis]
    if synopsis == "slices":
        return (
            None if is_on_slices(demand) else "it needs a time window with SLIDE and an aggregate that merges"
        )
    if synopsis == "rescan":
        return None if demand.window.is_time else "it is for time windows; use 'rescan_rows'"
    if synopsis == "rescan_rows":
        return "it is for ROWS windows; use 'rescan'" if demand.window.is_time else None
    assert issubclass(kind, Intervals)
    if demand.keys:
        return "it has no keys"
    if _orders_text(demand):
        return "the order of text is known only at look-up"
    return None if demand.need.component in kind.components else "it keeps other components"
