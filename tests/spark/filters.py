"""Subscriptions that differ in a constant of WHERE, over a stream with columns of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from shards import Shards

from answers import assert_same_answer
from muntin.plan import choices
from reference import ReferenceEngine, declared
from scenario import SECOND

STREAM = (
    "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, j BIGINT, n BIGINT, x DOUBLE, y DOUBLE, w VARCHAR, b BOOLEAN) "
    "TIMESTAMP BY ts DELAY 2 SECONDS"
)
SUBSCRIBED = (
    "SELECT {}SUM(n) AS total FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE {}{} HAVING COUNT(*) >= 0"
)


def subscriptions(keys: str, conditions: list[str]) -> dict[str, str]:
    items, by = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    return {f"q{i}": SUBSCRIBED.format(items, each, by) for i, each in enumerate(conditions)}


def events_of(begin: int, end: int) -> pa.Table:
    """Four a second."""
    at = np.arange(begin * SECOND, end * SECOND, SECOND // 4)
    number = np.arange(len(at)) + 4 * begin
    columns: dict[str, Any] = {
        "ts": pa.array(at, pa.timestamp("us")), "k": [f"k{i % 7}" for i in number], "j": number % 5, "n": number % 30,
        "x": np.sin(number), "y": number / 4, "w": ["ask"] * len(at), "b": number % 2 == 0,
    }  # fmt: skip
    return pa.table(columns, schema=declared(STREAM).schema)


def lanes_from(patch: pytest.MonkeyPatch, many: int) -> None:
    for name in ("MANY_LANES", "MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY"):
        patch.setattr(choices, name, many)


def reference_of(queries: dict[str, str]) -> ReferenceEngine:
    reference = ReferenceEngine()
    reference.execute(STREAM)
    for name, sql in queries.items():
        reference.register(sql, name=name)
    return reference


def send_both(shards: Shards, reference: ReferenceEngine, at: int) -> dict[str, pa.Table]:
    events = events_of(at, at + 10)
    reference.push("s", {name: events[name].to_pylist() for name in events.column_names})
    found, wanted = (
        shards.send([events.slice(0, 17).to_batches(), events.slice(17).to_batches()]),
        reference.advance(),
    )
    for name in reference.standing:
        assert_same_answer(wanted.get(name) or reference.nothing(name), found.get(name), name)
    return found
