"""Values and rows of answers as JSON.

JSON has no NaN and no infinities: they are the texts "NaN", "Infinity" and "-Infinity". A TIMESTAMP is ISO 8601 in
UTC, a length of time a text such as "5 MINUTES". A DECIMAL is a text such as "9.99": most readers of JSON take a number
for a DOUBLE.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.window import span

_AS_THEY_ARE = (int, str, bool, type(None))
_TOGETHER = 1_000  # rows
_MICROSECOND = timedelta(microseconds=1)


def json_value(value: Any) -> Any:
    """A value of an answer as JSON has it.

    >>> json_value(float("nan")), json_value(timedelta(minutes=5)), json_value(datetime(2026, 1, 31, 12))
    ('NaN', '5 MINUTES', '2026-01-31T12:00:00Z')
    """
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat()}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return span(value // _MICROSECOND)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """A dict for each row."""
    if table.num_rows == 1:  # a column at a time would cost twice as much
        names = table.column_names
        return [
            {name: json_value(column[0].as_py()) for name, column in zip(names, table.columns, strict=True)}
        ]
    columns = []
    for column in table.columns:
        values = column.to_pylist()
        if not (
            pa.types.is_integer(column.type)
            or pa.types.is_string(column.type)
            or pa.types.is_boolean(column.type)
        ):
            values = [json_value(each) for each in values]
        columns.append(values)
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def json_text(table: pa.Table) -> str:
    """The rows as a JSON list. Some at a time: other threads wait while Python writes JSON."""
    slices = (table.slice(start, _TOGETHER) for start in range(0, table.num_rows, _TOGETHER))
    return f"[{', '.join(json.dumps(json_rows(each))[1:-1] for each in slices)}]"


def members(table: pa.Table) -> list[str]:
    """What stands between the braces of each row's JSON object: a column at a time, in a third of the time.

    >>> members(pa.table({"symbol": ["A", None], "n": [1.5, 2]}))
    ['"symbol": "A", "n": 1.5', '"symbol": null, "n": 2.0']
    """
    pattern = ", ".join(json.dumps(name).replace("%", "%%") + ": %s" for name in table.column_names)
    return [pattern % row for row in zip(*map(_texts, table.columns), strict=True)]


def _texts(column: pa.ChunkedArray) -> list[str]:
    values, kind = column.to_pylist(), column.type
    if pa.types.is_integer(kind) and not column.null_count:
        return list(map(str, values))
    if pa.types.is_floating(
        kind
    ):  # minus itself it is 0 if it is finite; 0.0 and -0.0 are equal, but no one text
        return [repr(each) if each is not None and each - each == 0 else _text(each) for each in values]
    if pa.types.is_nested(kind):
        return list(map(_text, values))
    known = _Known(_text)
    return [known[each] for each in values]  # windows end together, and keys come again


class _Known(dict[Any, str]):
    """Texts of values that came before."""

    def __init__(self, text: Callable[[Any], str]):
        super().__init__()
        self._text = text

    def __missing__(self, value: Any) -> str:
        found = self[value] = self._text(value)
        return found


def _text(value: Any) -> str:
    return json.dumps(json_value(value))
