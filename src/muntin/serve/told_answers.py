"""Answers as sinks give them out: with the query and the id of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from muntin.serve.json_text import json_rows
from muntin.serve.portion import Part, PortionPlace


def with_ids(part: Part) -> pa.Table:
    """Answers with their query and ids, as columns before their own."""
    table = part.table
    ids = [f"{part.incarnation}-{number}" for number in range(part.first, part.first + table.num_rows)]
    for name, values in (("id", ids), ("query", [part.query] * table.num_rows)):
        shown = name if name not in table.column_names else f"muntin_{name}"
        table = table.add_column(0, shown, pa.array(values, pa.string()))
    return table


def chunks(parts: Sequence[tuple[PortionPlace, Part]], rows: int) -> Iterator[list[dict[str, Any]]]:
    """Answers as JSON has them, so many at a time."""
    held: list[dict[str, Any]] = []
    for _, part in parts:
        for row in json_rows(with_ids(part)):
            held.append(row)
            if len(held) == rows:
                yield held
                held = []
    if held:
        yield held
