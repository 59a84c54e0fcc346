"""Messages in Arrow's format, decoded as tasks do; no session is needed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from muntin.arrow_bytes import stream_bytes
from muntin.spark.messages import _decoding

SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64())])
NOON = datetime(2026, 1, 5, 12)


def decoded(*values: bytes | None) -> list[dict[str, Any]]:
    messages = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])
    rows = pa.Table.from_batches(_decoding(SCHEMA)([messages]), SCHEMA).to_pylist()
    return [row | {"ts": row["ts"] and row["ts"].replace(tzinfo=None)} for row in rows]


def test_columns_are_found_by_name_and_brought_to_their_types() -> None:
    finer = pa.array([1_767_614_400_000_000_999], pa.timestamp("ns"))
    one = pa.record_batch({"v": pa.array([1], pa.int16()), "more": ["x"], "ts": finer, "k": ["a"]})
    two = pa.record_batch({"ts": pa.array([NOON, NOON], pa.timestamp("ms")), "v": [2, 3]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, two.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write(two)
        writer.write(two.slice(1))
    assert decoded(stream_bytes(one), sink.getvalue().to_pybytes()) == [
        {"ts": NOON, "k": "a", "v": 1},
        {"ts": NOON, "k": None, "v": 2},
        {"ts": NOON, "k": None, "v": 3},
        {"ts": NOON, "k": None, "v": 3},
    ]


def test_what_cannot_be_read_is_an_event_of_nulls() -> None:
    whole = stream_bytes(pa.record_batch({"ts": pa.array([NOON]), "k": ["a"], "v": [1]}))
    wrong = stream_bytes(pa.record_batch({"ts": pa.array([NOON]), "k": ["a"], "v": ["no number"]}))
    nothing = {"ts": None, "k": None, "v": None}
    for bad in (None, b"", b"{}", whole[:-20], whole[:40], wrong):
        assert decoded(bad, whole) == [nothing, {"ts": NOON, "k": "a", "v": 1}], bad
