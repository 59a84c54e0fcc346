"""The plan in words: who shares what, why, at what predicted and measured cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from muntin.aggregates.component import COMPONENTS
from muntin.join_query import JoinQuery, JoinSignature
from muntin.lane import Asked
from muntin.plan.choices import because_of
from muntin.plan.cost import Observed, combines, combines_formula, elements_in, elements_merged
from muntin.plan.demand import Signature
from muntin.plan.group import PlanChanges, WindowGroup, longest_of
from muntin.plan.manager import WindowManager
from muntin.plan.nesting import Nesting
from muntin.plan.request import request_of
from muntin.plan.window_chain import Member, WindowChain
from muntin.query import Query
from muntin.store.granularity import granules, granules_on_one_grid, levels_for
from muntin.store.needs import dtype_of
from muntin.structure.synopsis import Synopsis
from muntin.window import Window, span

_SHOWN = 6  # names or chains of a kind, before "… and n more"


class LanesSeen(NamedTuple):
    """How many lanes queries read of a store, and how many of the events since it has been there are in one; how many
    ranges of the banded attribute, and cuts of its axis, if there is such an attribute."""

    lanes: int
    passed: int
    events: int
    ranges: int = 0
    cuts: int = 0


class Running(NamedTuple):
    """A group at work: its state, and what it and its store have cost."""

    synopsis: Synopsis[Any]
    own: Observed
    store: Observed
    lanes: LanesSeen | None = None


def explain_group(
    group: WindowGroup, running: Running | None, groups: Collection[WindowGroup], fresh: str = ""
) -> str:
    """A paragraph on one of the groups of a stream; `fresh` as in `because_of`."""
    laned = group.where if isinstance(group.where, Asked) else None
    by = group.keys if laned is None else laned.keys
    keys = f" by {', '.join(map(str, by))}" if by else ""
    where = f" where {group.where}" if group.where and laned is None else ""
    history = ", filled from a history of its own" if group.store.generation else ""
    lines = [
        f"group {group.number}: {group.synopsis}{keys}{where}{history}",
        f"  because  {because_of(group, fresh)}",
        f"  queries  {_counted(len(group.queries), 'query', 'queries')}: {_listed(list(group.queries))}",
        f"  windows  {_listed([str(window) for window in sorted(group.needs.windows)])}",
        f"  keeps    {_listed(sorted(map(str, group.needs.components)))}",
    ]
    if laned is not None:
        lines += _explain_lanes(laned, None if running is None else running.lanes)
    if group.store.kind == "stairs":
        lines += explain_stairs([each for each in groups if each.store == group.store])
    if running is None:
        return "\n".join([*lines, f"  predicts {combines_formula(group.synopsis)} per look-up"])
    synopsis = running.synopsis
    own = f", and {_in_bytes(synopsis.nbytes())} of its own" if synopsis.nbytes() else ""
    return "\n".join(
        [
            *lines,
            f"  predicts {_predicted(group, synopsis)} per look-up",
            f"  measured {_measured(running)}",
            f"  state    {synopsis.store}, {_in_bytes(synopsis.store.nbytes())}{own}",
            *([f"  beside   {synopsis}"] if str(synopsis) else []),
        ]
    )


def _explain_lanes(asked: Asked, seen: LanesSeen | None) -> list[str]:
    """What is found by an index, and what is evaluated on top of that."""
    attributes = " and ".join(map(str, asked.attributes))
    by = [f"the value of {attributes}"] if attributes else []
    by += [] if asked.banded is None else [f"the band of {asked.banded}"]
    found = f"by {' and '.join(by)}"
    if seen is not None:
        many = [f"{seen.lanes:,} are asked for"] if attributes else []
        if asked.banded is not None:
            many += [_counted(seen.ranges, "range", "ranges"), _counted(seen.cuts, "cut", "cuts")]
        found += f": {', '.join(many)}, {seen.passed:,} of {seen.events:,} events passed"
    rest = [f"  evaluated {_listed([str(each) for each in asked.rest])}"] if asked.rest else []
    return [f"  lanes    {found}", *rest]


def predicted_combines(group: WindowGroup, synopsis: Synopsis[Any]) -> float:
    """Combines per look-up, in the mean over the windows of the group as they are filled now; O(windows)."""
    widths = [
        elements_in(window.size - window.to, window.is_time, synopsis.store) for window in group.needs.windows
    ]
    merged = [
        elements_merged(group.synopsis, window, width)
        for window, width in zip(group.needs.windows, widths, strict=True)
    ]
    return sum(combines(group.synopsis, width) for width in merged) / len(merged)


def _predicted(group: WindowGroup, synopsis: Synopsis[Any]) -> str:
    if not len(synopsis.store):
        return combines_formula(group.synopsis)
    predicted = predicted_combines(group, synopsis)
    return f"{_rounded(predicted)} {'combine' if predicted == 1 else 'combines'}"


def _measured(running: Running) -> str:
    own, store = running.own.updates.mean, running.store.updates.mean
    updates, lookups = "updates not measured yet", "look-ups not measured yet"
    if own is not None and store is not None:
        updates = f"{_rounded(own)} ns per event, and {_rounded(store)} ns in its store"
    asked = running.own.lookups
    if asked.mean is not None:
        lookups = f"{_rounded(asked.mean / 1000)} us per look-up ({asked.total:,} so far)"
    return f"{updates}; {lookups}"


def explain_stream(
    title: str,
    queries: int,
    groups: Mapping[int, WindowGroup],
    running: Mapping[int, Running],
    rings: str,
    nestings: Mapping[Signature, Nesting],
    fresh: Mapping[int, str],
) -> str:
    """All groups of a stream, after a line that sums them up; then how their windows nest."""
    head = f"stream {title}: {_counted(queries, 'query', 'queries')} in {_counted(len(groups), 'group', 'groups')}"
    parts = [head + (f"; {rings}" if rings else "")]
    parts += [
        explain_group(group, running.get(each), groups.values(), fresh.get(each, ""))
        for each, group in groups.items()
    ]
    parts += [explain_nesting(*each) for each in nestings.items()]
    return "\n\n".join(parts)


def explain_query(query: Query) -> str:
    """How a query would be served on its own; nothing is registered."""
    manager = WindowManager()
    changes = PlanChanges()
    manager.register({"this query": request_of(query)}, changes)
    manager.raise_stairs(changes, ())
    groups = manager.groups.values()
    return "\n\n".join([*(explain_group(group, None, groups) for group in groups), *explain_never(query)])


def explain_never(query: Query) -> list[str]:
    """A line if no event can pass the WHERE of a query."""
    is_never = query.where is not None and query.where.condition.is_never
    return ["no event can pass its WHERE, which is never true"] if is_never else []


# A nesting in words: which windows of a stream nest, in how many chains, and which answer for others.


def explain_nesting(signature: Signature, nesting: Nesting) -> str:
    """A paragraph on the windows of one signature, in the fewest chains.

    >>> seconds = [(8, 2), (8, 4), (16, 4)]
    >>> nesting = Nesting.of((size * 1_000_000, slide * 1_000_000) for size, slide in seconds)
    >>> print(explain_nesting(Signature(None, ()), nesting))
    nesting without keys: 3 windows in 1 chain (the fewest possible), 1 of them piggybacked
      chain    8 SECONDS by 2 SECONDS (and by 4 SECONDS) < 16 SECONDS by 4 SECONDS
    """
    windows = _counted(nesting.windows, "window", "windows")
    head = (
        f"nesting {signature}: {windows} in {_counted(len(nesting.chains), 'chain', 'chains')}"
        f" (the fewest possible), {nesting.piggybacked:,} of them piggybacked"
    )
    lines = [f"  chain    {_chain(chain)}" for chain in nesting.chains[:_SHOWN]]
    if len(nesting.chains) > _SHOWN:
        lines.append(f"  … and {len(nesting.chains) - _SHOWN:,} more")
    return "\n".join([head, *lines])


def _chain(chain: WindowChain) -> str:
    more = len(chain.members) - _SHOWN
    return " < ".join(
        [_member(member) for member in chain.members[:_SHOWN]] + [f"… {more:,} more"] * (more > 0)
    )


def _member(member: Member) -> str:
    moves = f"{span(member.size)} by {span(member.slide)}"
    others = ", ".join(span(slide) for slide in sorted(member.piggybacked))
    return moves + (f" (and by {others})" if others else "")


# Stairs in words: their levels, and what a key takes there and would take on one grid.

_LINKS = 16  # bytes of a cell for its key, and for the number of the key's cell before it


def explain_stairs(groups: Collection[WindowGroup]) -> list[str]:
    """Lines on the stairs that some groups share."""
    longest = longest_of(group.needs.longest() for group in groups)
    levels = levels_for(longest)
    needs = {need for group in groups for need in group.needs.components}
    kinds = [COMPONENTS[need.component].identity(dtype_of(need)) for need in needs]
    cell = _LINKS + sum(dtype.itemsize for kind in kinds for dtype, _ in kind)
    few, many = granules(levels), granules_on_one_grid(longest)
    younger = (0, *(reach for _, reach in levels))
    shown = ", ".join(
        f"{span(step)} up to {span(reach)} back" if reach > before else f"{span(step)} to fill the next"
        for (step, reach), before in zip(levels, younger, strict=False)
    )
    return [
        f"  levels   {shown}",
        f"  per key  at most {few:,} granules, {_in_bytes(few * cell)}; on one grid {many:,}, {_in_bytes(many * cell)}",
    ]


# Joins in words: which queries share which matches, and how many are kept.


class KeptMatches(NamedTuple):
    """A join group at work: events by side, matches kept and ever found, bytes."""

    events: tuple[int, int]
    matches: int
    found: int
    nbytes: int


JOIN_RULE = "pairs are found once, by the event that arrives last, for all windows"


def explain_join(signature: JoinSignature, queries: Mapping[str, JoinQuery], kept: KeptMatches | None) -> str:
    """A paragraph on one join group."""
    sides = list(zip(*((query.left.window, query.right.window) for query in queries.values()), strict=True))
    lines = [
        f"join {signature}",
        f"  because  {JOIN_RULE}",
        f"  queries  {_counted(len(queries), 'query', 'queries')}: {_listed(list(queries))}",
        f"  windows  {signature.left} {_windows(sides[0])}; {signature.right} {_windows(sides[1])}",
    ]
    filters = sorted({str(query.where) for query in queries.values() if query.where is not None})
    if filters:
        lines.append(f"  then     {_listed(filters)}")
    if kept is not None:
        left, right = kept.events
        lines.append(
            f"  keeps    {_counted(kept.matches, 'match', 'matches')} of {kept.found:,} found, among {left:,} and "
            f"{right:,} events, {_in_bytes(kept.nbytes)}"
        )
    return "\n".join(lines)


def _windows(windows: Sequence[Window]) -> str:
    return _listed([str(window) for window in sorted(set(windows))])


# How the plan says numbers and names.


def _counted(number: int, one: str, many: str) -> str:
    """
    >>> _counted(1, "query", "queries"), _counted(1200, "query", "queries")
    ('1 query', '1,200 queries')
    """
    return f"{number:,} {one if number == 1 else many}"


def _listed(names: list[str]) -> str:
    """
    >>> _listed(["a", "b"])
    'a, b'
    """
    more = f", … and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _rounded(value: float) -> str:
    """
    >>> _rounded(0.012345), _rounded(12.345), _rounded(12345.6)
    ('0.0123', '12.3', '12,346')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _in_bytes(nbytes: int) -> str:
    """
    >>> _in_bytes(1536), _in_bytes(10)
    ('1.5 KiB', '10 bytes')
    """
    left, unit = float(nbytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if left < 1024:
            break
        left, unit = left / 1024, larger
    return f"{left:.4g} {unit}"
