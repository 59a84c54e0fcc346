"""Which windows sketches serve."""

from __future__ import annotations

from muntin.plan.demand import Demand
from muntin.synopsis.sketch.kinds import promise_of


def why_not_sketch(synopsis: str, demand: Demand) -> str | None:
    """What keeps a sketch from serving a demand; None if nothing does."""
    window, filter = demand.window, demand.need.input.filter
    if window.to:
        return "sketches know windows that end now; leave out TO"
    if not window.is_time and filter is not None:
        return "of the last events a sketch cannot tell which pass; use WHERE instead of FILTER"
    if not window.is_time and demand.keys:
        return "sketches per key follow time; use RANGE instead of ROWS"
    if synopsis.startswith("sampled") and promise_of(demand.need).delta is None:
        return "a sample may fail; say by what chance, as the last argument"
    return None
