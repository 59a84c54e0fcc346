"""What changed since a release: the main figure of each result then and now (`python -m benchmarks --since COMMIT`).

Results of then are read from git. Rows are compared if their names are the same: texts and counts in the columns before
the main one. A ratio is how many times better a row is now; of a result it is the median of its rows.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.machine import ROOT, git
from benchmarks.measure import RESULTS
from benchmarks.report import cell_text, table_text

Better = Literal["more", "less"]
# Of each result the column that says most, and whether more of it is better.
MAIN: dict[str, tuple[str, Better]] = {
    "adaptive": ("total", "less"), "approx_distinct": ("push", "less"), "archive_probes": ("cpu_ms", "less"),
    "backfill": ("cpu", "less"), "cold_start": ("cpu", "less"), "collective_index": ("look_up", "less"),
    "decimals": ("ours_ms", "less"), "demo_rate": ("rate", "more"), "emission": ("together_us", "less"),
    "feature_sets": ("rate", "more"), "filters": ("events_per_cpu_second", "more"), "fraud_rules": ("rate", "more"),
    "having": ("index_us", "less"), "join": ("push", "more"), "key_filters": ("now_us", "less"),
    "keyed_answers": ("muntin", "more"), "keyed_push": ("engine", "more"), "keys": ("later", "more"),
    "lookup_at": ("rate", "more"), "lookups": ("cpu_microseconds", "less"), "loose_windows": ("all_us", "less"),
    "peers": ("muntin", "more"), "per_key": ("now_us", "less"), "push_throughput": ("events_per_cpu_second", "more"),
    "ranges_per_key": ("rate", "more"), "registration": ("cpu", "less"), "rules_as_rows": ("advance_ms", "less"),
    "serve": ("cpu_rate", "more"), "sessions": ("ours_ns", "less"), "sketches": ("rate", "more"),
    "soak": ("rate", "more"), "soak_billion": ("rate", "more"), "spark": ("cpu", "less"),
    "spark_cluster": ("seconds", "less"), "spark_costs": ("cost", "less"), "spark_filters": ("cpu", "less"),
    "spark_joins": ("cpu", "less"), "spark_kafka": ("cpu", "less"), "spark_latency": ("median", "less"),
    "spark_lookup_at": ("cpu", "less"), "spark_table": ("frame", "less"), "stairs": ("push", "more"),
    "subscriptions": ("rate", "more"), "threads": ("two", "more"), "top_k": ("engine_ms", "less"),
    "unit_costs": ("update", "less"), "unkeyed_push": ("cpu_rate", "more"), "values_per_key": ("ours_ms", "less"),
}  # fmt: skip
COLUMNS = [
    {"key": key, "label": label, "format": format}
    for key, label, format in (
        ("title", "result", ""), ("figure", "figure", ""), ("then", "then", "s"), ("now", "now", "s"),
        ("ratio", "times as good", ".2f"), ("rows", "rows compared", "d"), ("peace", "measured, then / now", ""),
    )
]  # fmt: skip
_ABOUT = "Figures are medians of the rows that both have; *times as good* is above 1 where it is better now."

Record = dict[str, Any]


class NoCommit(Exception):
    """Git knows no such commit."""


class Compared(NamedTuple):
    """The medians of the rows that were compared, and of their ratios."""

    then: float
    now: float
    ratio: float
    rows: int


def since_text(commit: str, results: Path = RESULTS) -> str:
    """A table with a row for each result there is now."""
    if not git("rev-parse", "--verify", f"{commit}^{{commit}}"):
        raise NoCommit(f"git knows no commit '{commit}'")
    now = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    rows = [_row(earlier(record["name"], commit, results), record) for record in now]
    return f"# Since {commit}\n\n{_ABOUT}\n\n{table_text(COLUMNS, rows)}"


def earlier(name: str, commit: str, results: Path = RESULTS) -> Record | None:
    """A result as it stood at a commit."""
    text = git("show", f"{commit}:{results.relative_to(ROOT).as_posix()}/{name}.json")
    return json.loads(text) if text else None


def _row(then: Record | None, now: Record) -> Record:
    key, better = MAIN[now["name"]]
    column = next(each for each in now["columns"] if each["key"] == key)
    row = {"title": now["title"], "figure": f"{column['label']} ({better} is better)"}
    row["peace"] = f"{'–' if then is None else calm(then)} / {calm(now)}"
    if then == now:
        return row | {"then": "not measured since", "ratio": None, "rows": 0, "now": "–"}
    if then is not None and then["machine"]["cpu"] != now["machine"]["cpu"]:
        row["peace"] += ", on another processor"
    found = None if then is None else compare(then, now, key, better)
    if found is None:
        return row | {"then": "new" if then is None else "other rows", "ratio": None, "rows": 0, "now": "–"}
    figures = {side: cell_text(getattr(found, side), column["format"]) for side in ("then", "now")}
    return row | figures | {"ratio": found.ratio, "rows": found.rows}


def compare(then: Record, now: Record, key: str, better: Better) -> Compared | None:
    """None if no row of one has the names of a row of the other.

    >>> columns = [{"key": "n"}, {"key": "ms"}]
    >>> then = {"columns": columns, "rows": [{"n": 1, "ms": 4.0}, {"n": 2, "ms": 8.0}]}
    >>> compare(then, {"columns": columns, "rows": [{"n": 2, "ms": 2.0}, {"n": 3, "ms": 9.0}]}, "ms", "less")
    Compared(then=8.0, now=2.0, ratio=4.0, rows=1)
    """
    before, after = _by_name(then, key), _by_name(now, key)
    pairs = [(before[name], after[name]) for name in after if name in before]
    if not pairs:
        return None
    ratios = [new / old if better == "more" else old / new for old, new in pairs]
    old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Compared(old, new, statistics.median(ratios), len(pairs))


def _by_name(record: Record, key: str) -> dict[tuple[Any, ...], float]:
    """The figure of each row that has one; rows of one name twice are nobody's."""
    names = [column["key"] for column in record["columns"]]
    if key not in names:
        return {}
    before = names[: names.index(key)]
    found: dict[tuple[Any, ...], float] = {}
    seen: set[tuple[Any, ...]] = set()
    for row in record["rows"]:
        name = tuple((each, row[each]) for each in before if isinstance(row.get(each), str | int))
        if name in seen:
            found.pop(name, None)
        elif row.get(key):
            found[name] = row[key]
        seen.add(name)
    return found


def calm(record: Record) -> str:
    """Whether a result was measured in peace.

    >>> calm({"machine": {}}), calm({"machine": {"peace": {"disturbed": ["…"]}}})
    ('not noted', 'busy')
    """
    peace = record["machine"].get("peace")
    if peace is None:
        return "not noted"
    return "busy" if peace["disturbed"] else "in peace"
