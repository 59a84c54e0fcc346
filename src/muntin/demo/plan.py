"""The plan in a few lines: how many queries share how many groups, and the largest of them."""

from __future__ import annotations

import re

from muntin.engine import Engine
from muntin.query import Query

_GROUP = re.compile(
    r"^group \d+: (?P<what>[^\n]*)$.*?^  queries  (?P<queries>[\d,]+)", re.MULTILINE | re.DOTALL
)
SHOWN = 4


def plan_lines(engine: Engine) -> list[str]:
    """The head line, then the groups that serve most queries."""
    queries = engine.queries.values()
    windows = {call.window for query in queries if isinstance(query, Query) for call in query.calls}
    groups = [
        (int(found["queries"].replace(",", "")), found["what"]) for found in _GROUP.finditer(engine.explain())
    ]
    groups.sort(reverse=True)
    lines = [
        f"plan: {len(queries):,} queries over {len(windows):,} different windows -> {len(groups):,} groups"
    ]
    lines += [f"  {many:>6,} on  {what}" for many, what in groups[:SHOWN]]
    if rest := groups[SHOWN:]:
        lines.append(f"  {sum(many for many, _ in rest):>6,} on  {len(rest):,} smaller groups")
    return lines
