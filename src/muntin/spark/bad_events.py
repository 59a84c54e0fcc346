"""Bad events: those that no query can take in, and what becomes of them.

| why | who finds it | who goes without the event |
|---|---|---|
| its time is NULL, or outside the years 1 to 9999 | the task that reads it | all queries |
| a key, argument or filter of a query has no value for it | the task that folds, or the shard | its route |

The policy says whether the micro-batch fails, whether bad events are left out and counted, or whether answers tell of
each besides. A log has packed events as they came, bad ones among them, and the policy of the time: a replay leaves out
the same ones, since it evaluates what the same queries want to know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Bools
from muntin.errors import MuntinError
from muntin.instant import FIRST, LAST
from muntin.spark.answer_table import Refusal
from muntin.stream import Stream

FAIL, COUNT, EMIT = "fail", "count", "emit"
POLICIES = (FAIL, COUNT, EMIT)
BAD = "bad"  # the kind of packed rows that tell of bad events
INSTEAD = 'bad_events="count" leaves such events out, "emit" tells of each among the answers'


def check_policy(policy: Any) -> None:
    if policy not in POLICIES:
        raise MuntinError(f"bad_events is one of {', '.join(map(repr, POLICIES))}, not {policy!r}")


def has_time(stream: Stream, events: pa.RecordBatch) -> Bools:
    """Which events have a time."""
    column = events.column(events.schema.get_field_index(stream.time))
    at = np.asarray(column.view(pa.int64()).fill_null(LAST + 1))
    inside: Bools = (at >= FIRST) & (at <= LAST)
    return inside


def no_time(stream: Stream) -> str:
    """Why an event is bad that has none."""
    return f"time column '{stream.time}' is NULL or lies outside the years 1 to 9999"


def told_of(events: pa.RecordBatch, why: Sequence[str], keys: str | None = None) -> list[Refusal]:
    """What answers tell of bad events; `keys` are those of the queries that go without them, if not all do."""
    beside = {} if keys is None else {"keys": keys}
    columns = [_shown(column) for column in events.columns]
    shown = (dict(zip(events.schema.names, values, strict=True)) for values in zip(*columns, strict=True))
    return [{"refused": reason, **beside, "event": event} for reason, event in zip(why, shown, strict=True)]


def _shown(column: pa.Array) -> list[Any]:
    """As JSON has it; instants as texts, since Python has none beyond the year 9999."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    at = np.asarray(column.cast(pa.timestamp("us")).view(pa.int64()).fill_null(0)).view("datetime64[us]")
    valid = column.is_valid().to_pylist()
    return [text if there else None for text, there in zip(np.datetime_as_string(at), valid, strict=True)]


def to_bytes(told: Sequence[Refusal]) -> bytes:
    """As they travel from a task to the shard that tells of them."""
    return json.dumps(told, default=str, ensure_ascii=False).encode()


def from_bytes(packed: bytes) -> Iterator[Refusal]:
    yield from json.loads(packed)
