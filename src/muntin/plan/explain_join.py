"""Joins in words: which queries share which matches, and how many are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muntin.join_query import JoinQuery, JoinSignature
from muntin.plan.wording import count, size, some
from muntin.window import Window


class KeptMatches(NamedTuple):
    """A join group at work: events by side, matches kept and ever found, bytes."""

    events: tuple[int, int]
    matches: int
    found: int
    nbytes: int


def explain_join(signature: JoinSignature, queries: Mapping[str, JoinQuery], kept: KeptMatches | None) -> str:
    """A paragraph on one join group."""
    sides = list(zip(*((query.left.window, query.right.window) for query in queries.values()), strict=True))
    lines = [
        f"join {signature}",
        "  because  pairs are found once, by the event that arrives last, for all windows",
        f"  queries  {count(len(queries), 'query', 'queries')}: {some(list(queries))}",
        f"  windows  {signature.left} {_windows(sides[0])}; {signature.right} {_windows(sides[1])}",
    ]
    filters = sorted({str(query.where) for query in queries.values() if query.where is not None})
    if filters:
        lines.append(f"  then     {some(filters)}")
    if kept is not None:
        left, right = kept.events
        lines.append(
            f"  keeps    {count(kept.matches, 'match', 'matches')} of {kept.found:,} found, among {left:,} and "
            f"{right:,} events, {size(kept.nbytes)}"
        )
    return "\n".join(lines)


def _windows(windows: Sequence[Window]) -> str:
    return some([str(window) for window in sorted(set(windows))])
