"""Compare an engine's answer with the expected one, and say where they differ.

The report shows the rows that differ and, in them, only the cells that differ:

    q: SELECT k, SUM(v) AS total FROM s [ROWS 2] GROUP BY k
      k='a' window_end=1970-01-01 00:00:05
        total: expected 50, got 40
      k='b' window_end=1970-01-01 00:00:05
        not expected: k 'b', total 3, window_start …
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from reference import Answer

RELATIVE = 1e-9
Row = dict[str, Any]


def assert_same_answer(expected: Answer, actual: pa.Table | None, context: str = "") -> None:
    """Fail with a readable report unless `actual` is the expected answer. None stands for no rows."""
    if report := differences(expected, actual):
        raise AssertionError("\n".join(filter(None, [context, expected.query.text, report])))


def differences(expected: Answer, actual: pa.Table | None) -> str:
    """What differs, one line a cell; empty if nothing does.

    Rows are matched by window_end and key, whatever their order (the order has tests of its own).
    Where the reference cannot know what an engine kept before the query came (`complete` is None),
    only rows that claim to be complete must be right.
    """
    if actual is None:
        actual = expected.query.answer_schema().empty_table()
    is_change = "change" in actual.schema.names  # of EMIT CHANGES: a column that look-ups do not have
    schema = expected.query.emission_schema() if is_change else expected.query.answer_schema()
    if report := _schema_difference(schema, actual.schema):
        return report
    rows = actual.to_pylist()
    lines: list[str] = []
    ours = _matched(list(zip(expected.rows, expected.slack, strict=True)), expected.keys)
    theirs = _matched([(row, {}) for row in rows], expected.keys)
    for place in sorted(ours.keys() | theirs.keys(), key=_sortable):
        wanted, slack = ours.get(place, (None, {}))
        got, _ = theirs.get(place, (None, {}))
        if got is None and wanted is not None:
            cells = ["expected, missing: " + _shown(wanted)] if wanted["complete"] else []
        elif wanted is None:
            cells = ["not expected: " + _shown(got)] if got["complete"] or expected.saw_all else []
        elif wanted["complete"] or got["complete"]:
            cells = _cell_differences(wanted, got, slack)
        else:
            cells = []
        if cells:
            lines.append(_label(place, expected.keys))
            lines.extend(f"  {cell}" for cell in cells)
    return "\n".join(lines)


def is_close(expected: Any, actual: Any, slack: float = 0.0) -> bool:
    """Equal; for floats within 1e-9 of the exact value, plus the slack of the aggregate.

    The slack is 1e-20 * sum|x| for SUM (and that over n for AVG): where large values cancel, what
    is left of the sum may not be known to nine digits, but it must be known to twenty digits of
    what went in. NaN equals NaN, an infinity only itself.
    """
    if expected is None or actual is None:
        return expected is actual
    if isinstance(expected, float) and isinstance(actual, float):
        if math.isnan(expected) or math.isnan(actual):
            return math.isnan(expected) and math.isnan(actual)
        if expected == actual:
            return True
        if math.isinf(slack):
            return True
        if math.isinf(expected) or math.isinf(actual):
            return False
        return abs(expected - actual) <= RELATIVE * abs(expected) + slack
    return bool(expected == actual)


def _schema_difference(expected: pa.Schema, actual: pa.Schema) -> str:
    if expected.names != actual.names:
        return f"columns: expected {expected.names}, got {actual.names}"
    wrong = [
        f"column {one.name}: expected {one.type}, got {other.type}"
        for one, other in zip(expected, actual, strict=True)
        if one.type != other.type
    ]
    return "\n".join(wrong)


def _matched(rows: list[tuple[Row, dict[str, float]]], keys: list[str]) -> dict[tuple[Any, ...], Any]:
    """Rows by (window_end, key, how many of the same come after): what an engine does not know is oldest."""
    seen: dict[tuple[Any, ...], int] = defaultdict(int)
    found = {}
    for row, slack in reversed(rows):
        place = (row["window_end"], *(_plain(row[key]) for key in keys))
        found[(*place, seen[place])] = (row, slack)
        seen[place] += 1
    return found


def _cell_differences(expected: Row, actual: Row, slack: dict[str, float]) -> list[str]:
    found = []
    for name, value in expected.items():
        if name == "complete" and value is None:
            continue
        if not is_close(value, actual[name], slack.get(name, 0.0)):
            found.append(f"{name}: expected {_text(value)}, got {_text(actual[name])}")
    return found


def _label(place: tuple[Any, ...], keys: list[str]) -> str:
    shown = [f"{name}={_text(value)}" for name, value in zip(keys, place[1:-1], strict=True)]
    return " ".join([*shown, f"window_end={_text(place[0])}"])


def _shown(row: Row) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in row.items())


def _text(value: Any) -> str:
    return str(value) if isinstance(value, datetime) else "NULL" if value is None else repr(value)


def _plain(value: Any) -> Any:
    """NaN as a key equals itself."""
    return "NaN" if value != value else value


def _sortable(place: Iterable[Any]) -> tuple[Any, ...]:
    return tuple((value is not None, str(type(value)), value if value is not None else 0) for value in place)
