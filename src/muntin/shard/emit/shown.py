"""Answers as a notebook shows them: a table for each query, of many the first."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import islice

import pyarrow as pa

_QUERIES, _ROWS = 12, 8


def answers_html(answers: Mapping[str, pa.Table], has_more: bool) -> str:
    """
    >>> answers_html({}, False)
    '<p>No window has closed.</p>'
    """
    if not answers:
        return "<p>No window has closed.</p>"
    parts = [_table(name, table) for name, table in islice(answers.items(), _QUERIES)]
    if len(answers) > _QUERIES:
        parts.append(f"<p>… and {len(answers) - _QUERIES:,} more queries</p>")
    if has_more:
        parts.append("<p>There are more answers: call advance again.</p>")
    return "".join(parts)


def _table(name: str, table: pa.Table) -> str:
    rows = table.slice(0, _ROWS).to_pylist()
    head = "".join(f"<th>{escape(each)}</th>" for each in table.column_names)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape('NULL' if each is None else str(each))}</td>" for each in row.values())
        + "</tr>"
        for row in rows
    )
    more = f"<p>… and {table.num_rows - _ROWS:,} more rows</p>" if table.num_rows > _ROWS else ""
    return f"<p><b>{escape(name)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
