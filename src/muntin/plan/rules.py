"""Which synopsis serves a demand: the first rule that applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from muntin.aggregate.component import HOLISTIC
from muntin.errors import MuntinError
from muntin.plan.demand import Demand
from muntin.synopsis.slices import window_granule

MOST_SLICES = 100_000  # beyond this a window's slices save nothing over its events


@dataclass(frozen=True)
class Rule:
    """If `applies`, use `synopsis`; `because` is what `explain` prints."""

    applies: Callable[[Demand], bool]
    synopsis: str
    because: str


def _needs_values(demand: Demand) -> bool:
    return any(need.component == HOLISTIC for need in demand.needs)


def _orders_text(demand: Demand) -> bool:
    return any(
        need.component in ("min", "max")
        and need.input.argument is not None
        and _is_text(need.input.argument.type)
        for need in demand.needs
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _has_fine_edges(demand: Demand) -> bool:
    return demand.window.size > MOST_SLICES * window_granule(demand.window)


RULES: tuple[Rule, ...] = (
    Rule(lambda demand: not demand.window.is_time, "rescan_rows", "a ROWS window counts single events"),
    Rule(lambda demand: not demand.window.slide, "rescan", "without SLIDE any instant may be asked for"),
    Rule(_needs_values, "rescan", "the aggregate needs the values themselves"),
    Rule(_orders_text, "rescan", "the order of text is known only at look-up"),
    Rule(_has_fine_edges, "rescan", f"its edges would cut it into more than {MOST_SLICES:,} slices"),
    Rule(lambda demand: True, "slices", "its edges fall on a grid"),
)


def choose_synopsis(demand: Demand) -> Rule:
    """The rule for a demand; a hint comes first if the synopsis it names can serve it."""
    natural = next(rule for rule in RULES if rule.applies(demand))
    if demand.hint is None or demand.hint == natural.synopsis:
        return natural
    if demand.hint == "rescan":
        synopsis = "rescan" if demand.window.is_time else "rescan_rows"
        return Rule(lambda demand: True, synopsis, "the query asks for it")
    raise MuntinError(
        f"synopsis '{demand.hint}' cannot serve {demand.window}: {natural.because}; use '{natural.synopsis}'"
    )
