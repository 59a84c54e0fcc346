"""The plan in words: who shares what, why, at what predicted and measured cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from muntin.plan.changes import Changes
from muntin.plan.choices import because_of
from muntin.plan.cost import Observed, combines, combines_formula, elements_in, elements_merged
from muntin.plan.explain_nesting import explain_nesting
from muntin.plan.group import WindowGroup
from muntin.plan.manager import WindowManager
from muntin.plan.nesting import Nesting, Signature
from muntin.plan.request import request_of
from muntin.plan.stair_text import explain_stairs
from muntin.plan.wording import count, number, size, some
from muntin.query import Query
from muntin.structure.synopsis import Synopsis


class Running(NamedTuple):
    """A group at work: its state, and what it and its store have cost."""

    synopsis: Synopsis[Any]
    own: Observed
    store: Observed


def explain_group(
    group: WindowGroup, running: Running | None, groups: Collection[WindowGroup], anew: str = ""
) -> str:
    """A paragraph on one of the groups of a stream; `anew` is how a new plan would serve its queries, if otherwise."""
    keys = f" by {', '.join(map(str, group.keys))}" if group.keys else ""
    where = f" where {group.where}" if group.where else ""
    history = ", filled from a history of its own" if group.store.generation else ""
    lines = [
        f"group {group.number}: {group.synopsis}{keys}{where}{history}",
        f"  because  {because_of(group, anew)}",
        f"  queries  {count(len(group.queries), 'query', 'queries')}: {some(list(group.queries))}",
        f"  windows  {some([str(window) for window in sorted(group.needs.windows)])}",
        f"  keeps    {some(sorted(map(str, group.needs.components)))}",
    ]
    if group.store.kind == "stairs":
        lines += explain_stairs([each for each in groups if each.store == group.store])
    if running is None:
        return "\n".join([*lines, f"  predicts {combines_formula(group.synopsis)} per look-up"])
    synopsis = running.synopsis
    own = f", and {size(synopsis.nbytes())} of its own" if synopsis.nbytes() else ""
    return "\n".join(
        [
            *lines,
            f"  predicts {_predicted(group, synopsis)} per look-up",
            f"  measured {_measured(running)}",
            f"  state    {synopsis.store}, {size(synopsis.store.nbytes())}{own}",
            *([f"  beside   {synopsis}"] if str(synopsis) else []),
        ]
    )


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
    return f"{number(predicted)} {'combine' if predicted == 1 else 'combines'}"


def _measured(running: Running) -> str:
    own, store = running.own.updates.mean, running.store.updates.mean
    updates, lookups = "updates not measured yet", "look-ups not measured yet"
    if own is not None and store is not None:
        updates = f"{number(own)} ns per event, and {number(store)} ns in its store"
    asked = running.own.lookups
    if asked.mean is not None:
        lookups = f"{number(asked.mean / 1000)} us per look-up ({asked.total:,} so far)"
    return f"{updates}; {lookups}"


def explain_stream(
    title: str,
    queries: int,
    groups: Mapping[int, WindowGroup],
    running: Mapping[int, Running],
    rings: str,
    nestings: Mapping[Signature, Nesting],
    anew: Mapping[int, str],
) -> str:
    """All groups of a stream, after a line that sums them up; then how their windows nest."""
    head = f"stream {title}: {count(queries, 'query', 'queries')} in {count(len(groups), 'group', 'groups')}"
    parts = [head + (f"; {rings}" if rings else "")]
    parts += [
        explain_group(group, running.get(each), groups.values(), anew.get(each, ""))
        for each, group in groups.items()
    ]
    parts += [explain_nesting(*each) for each in nestings.items()]
    return "\n\n".join(parts)


def explain_query(query: Query) -> str:
    """How a query would be served on its own; nothing is registered."""
    manager = WindowManager()
    changes = Changes()
    manager.register({"this query": request_of(query)}, changes)
    manager.raise_stairs(changes, ())
    groups = manager.groups.values()
    return "\n\n".join(explain_group(group, None, groups) for group in groups)
