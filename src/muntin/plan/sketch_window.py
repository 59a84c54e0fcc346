"""Which windows sketches serve."""

from __future__ import annotations

from muntin.plan.demand import Demand
from muntin.sketch.kinds import promise_of


def why_not_sketch(synopsis: str, demand: Demand) -> str | None:
    """What keeps a sketch from serving a demand; None if nothing does."""
    if not demand.window.is_time and demand.keys:
        return (
            "the last events of a silent key never leave, so its sketch would stay for ever; "
            "use RANGE, or leave out GROUP BY, or ask for exact aggregates, such as QUANTILE(x, 0.9)"
        )
    if synopsis.startswith("sampled") and promise_of(demand.need).delta is None:
        return "a sample may fail; say by what chance, as the last argument"
    return None
