"""Portions of answers: as JSON, as events, and on disk."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from typing import Any

import pyarrow as pa
import pytest

from muntin.described import Misshapen
from muntin.serve.json_text import json_rows, members
from muntin.serve.portion import Part, Portion, place_and_time, unpack

VALUES: dict[str, list[Any]] = {
    "int": [1, None, -(2**63)],
    "plain int": [1, 2, 3],
    "float %s": [0.0, -0.0, 0.1],
    "odd": [nan, inf, -inf],
    "no": [None, 1e300, 5.0],
    "text": ['a"\\\n', "é\0", None],
    "flag": [True, False, None],
    "time": [datetime(2026, 1, 31, 12), datetime(2026, 1, 31, 12, 0, 0, 5), None],
    "day": [date(2026, 1, 31)] * 3,
    "span": [timedelta(minutes=5), None, timedelta(0)],
    "money": [Decimal("9.90"), None, Decimal("0.00")],
    "list": [[1, 2], [], None],
}


def test_members_are_those_of_json_rows() -> None:
    """A column at a time or a row at a time: the same text."""
    table = pa.table(VALUES)
    assert [f"{{{each}}}" for each in members(table)] == [json.dumps(row) for row in json_rows(table)]


def parts() -> tuple[Part, ...]:
    """Of queries with the same columns, with others, and with columns that are called as the server's own."""
    table = pa.table(VALUES)
    named = pa.table({"n": [1, 2], "id": ["mine", "too"]})
    return (
        Part("one", 7, 120, table.slice(0, 1)),
        Part('"other"', 8, 1, table.slice(1, 2)),
        Part("named", 9, 3, named),
        Part("one again", 10, 1, table.slice(2, 1)),
        Part("named again", 11, 5, named.slice(1)),
    )


def rows_of(part: Part) -> list[str]:
    return [
        json.dumps({"query": part.query, "id": f"{part.incarnation}-{number}", **row})
        for number, row in enumerate(json_rows(part.table), part.first)
    ]


def test_there_and_back() -> None:
    """What is read is what was packed, in its order; of one query, its part."""
    portion = Portion((17, 2), -5, parts())
    data = portion.pack()
    found = unpack(data)
    assert (found.place, found.at) == place_and_time(data) == ((17, 2), -5)
    assert [each[:3] for each in found.parts] == [each[:3] for each in portion.parts]
    told = [told for part in portion.parts for told in rows_of(part)]
    for some in (portion, found):
        assert [row[2] for row in some.rows] == told
        assert [str(row[0]) for row in some.rows] == [f"17.2.{number}" for number in range(len(told))]
        assert (
            some.events
            == "".join(
                f"id: 17.2.{number}\nevent: answer\ndata: {each}\n\n" for number, each in enumerate(told)
            ).encode()
        )
    assert [part.rows for part in found.parts] == [rows_of(part) for part in portion.parts]
    (one,) = unpack(data, "one again").parts
    assert one.rows == rows_of(portion.parts[3])
    assert unpack(data, "nobody").parts == ()


def test_what_lies_is_refused() -> None:
    """A description that does not fit its tables."""
    data = Portion((17, 2), 5, parts()).pack()
    with pytest.raises(Misshapen, match="fewer rows"):
        unpack(data.replace(b'"rows": [1, 2,', b'"rows": [9, 2,'))
