"""The plan in words: who shares what, by which rule, in how many bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muntin.plan.group import WindowGroup
from muntin.plan.manager import WindowManager
from muntin.query import Query
from muntin.synopsis import Synopsis

_SHOWN = 6  # names of a kind before "… and n more"


def explain_group(group: WindowGroup, synopsis: Synopsis[Any] | None) -> str:
    """A paragraph on one group."""
    keys = f" by {', '.join(map(str, group.keys))}" if group.keys else ""
    where = f" where {group.where}" if group.where else ""
    lines = [
        f"group {group.number}: {group.synopsis}{keys}{where}",
        f"  because  {group.rule}",
        f"  queries  {_count(len(group.queries), 'query', 'queries')}: {_some(list(group.queries))}",
        f"  windows  {_some([str(window) for window in sorted(group.needs.windows)])}",
        f"  keeps    {_some(sorted(map(str, group.needs.components)))}",
    ]
    if synopsis is not None:
        own = f", and {_size(synopsis.nbytes())} of its own" if synopsis.nbytes() else ""
        lines.append(f"  state    {synopsis.store}, {_size(synopsis.store.nbytes())}{own}")
    return "\n".join(lines)


def explain_stream(
    title: str,
    queries: int,
    groups: Mapping[int, WindowGroup],
    synopses: Mapping[int, Synopsis[Any]],
    rings: str,
) -> str:
    """All groups of a stream, after a line that sums them up."""
    head = (
        f"stream {title}: {_count(queries, 'query', 'queries')} in {_count(len(groups), 'group', 'groups')}"
    )
    parts = [head + (f"; {rings}" if rings else "")]
    parts += [explain_group(group, synopses.get(number)) for number, group in groups.items()]
    return "\n\n".join(parts)


def explain_query(query: Query) -> str:
    """How a query would be served on its own; nothing is registered."""
    manager = WindowManager()
    manager.register("this query", query)
    return "\n\n".join(explain_group(group, None) for group in manager.groups.values())


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _some(names: list[str]) -> str:
    more = f", … and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _size(count: int) -> str:
    """
    >>> _size(1536), _size(10)
    ('1.5 KiB', '10 bytes')
    """
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.4g} {unit}"
