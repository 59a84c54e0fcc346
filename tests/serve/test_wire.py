"""Rows as they travel: each format brings exactly what was sent, or an error that names the problem."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from muntin import Engine, SchemaError
from muntin.serve.json_text import json_text
from muntin.serve.wire import ARROW, CSV, JSON, LINES, read_rows
from muntin.shard.record_batch import to_record_batch

ENGINE = Engine()
ENGINE.execute(
    "CREATE STREAM s (ts TIMESTAMP, till TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"
)
STREAM = ENGINE.streams["s"]
LARGEST = 2**63 - 1


def read(body: bytes, kind: str = LINES) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = to_record_batch(STREAM, read_rows(STREAM, body, kind)).to_pylist()
    return rows


@pytest.mark.parametrize("till", [None, 7, "1970-01-01T00:00:00.000007"])
@pytest.mark.parametrize("ts", [5, "1970-01-01T00:00:00.000005Z", "1970-01-01T02:00:00.000005+02:00"])
def test_times_are_texts_or_integers(ts: Any, till: Any) -> None:
    """Each column for itself, and the first line need not say which."""
    rows = [{"ts": ts, "till": None}, {"ts": ts, "till": till}]
    found = read("\n".join(map(json.dumps, rows)).encode())
    assert [row["ts"].microsecond for row in found] == [5, 5]
    assert [row["till"] and row["till"].microsecond for row in found] == [None, till and 7]


@pytest.mark.parametrize(
    ("told", "column", "found"),
    [
        (str(LARGEST), "n", LARGEST), (str(-LARGEST - 1), "n", -LARGEST - 1), ("9007199254740993", "n", 2**53 + 1),
        ("null", "n", None), ("0.1", "x", 0.1), ("3", "x", 3.0), ('"\\u0000é"', "k", "\0é"), ('"5"', "k", "5"),
        (json.dumps("long" * 500_000), "k", "long" * 500_000),
    ],
)  # fmt: skip
def test_values_are_exact(told: str, column: str, found: Any) -> None:
    """Also beyond what a float holds, and in lines of megabytes."""
    line = f'{{"ts": 5, "{column}": {told}}}'
    assert read(line.encode())[0][column] == found
    assert read(f"[{line}]".encode(), JSON)[0][column] == found


@pytest.mark.parametrize(
    "line",
    [
        b'{"ts": 5, "n": 9223372036854775808}', b'{"ts": 5, "n": 1.5}', b'{"ts": 5, "n": "1"}', b'{"ts": 5, "k": 1}',
        b'{"ts": 5, "k": {"a": 1}}', b'{"ts": 5, "x": [1]}', b'{"ts": 5, "ts": 6}', b'{"ts": 5}\nx', b'[1]',
        b'{"ts": 5, "k": "\xff"}', b'{"ts": 5, "k": "\\ud800"}', b'{"ts": 5}\n{"ts": "1970-01-01"}', b'{"ts": 5',
        b'{"ts": 5, "x": 1e400}',
    ],
)  # fmt: skip
def test_what_is_no_row_is_refused(line: bytes) -> None:
    """As a whole: no line of it is taken."""
    with pytest.raises(SchemaError, match="cannot be read"):
        read(b'{"ts": 1}\n' + line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"ts": "noon"}', "column 'ts' cannot be read as TIMESTAMP: Failed to convert JSON to timestamp"),
        (b'{"ts": 5, "x": "much"}', "column 'x' cannot be read as DOUBLE: Column(/x) changed from number to string"),
        (b'{"ts": 5, "k": 1}', "column 'k' cannot be read as VARCHAR: "),
        (b'{"ts": 5}\nx', "the rows cannot be read: "),
    ],
)  # fmt: skip
def test_the_column_is_named(line: bytes, said: str) -> None:
    """Arrow names no column of a time that it cannot parse, and no type that SQL has."""
    with pytest.raises(SchemaError) as caught:
        read(line)
    assert str(caught.value).startswith(said)


def test_csv_has_all_columns() -> None:
    """Others are passed over; a misspelt one is named, with the nearest."""
    assert read(b"x,other,n,k,till,ts\n0.5,?,1,a,,1970-01-01\n", CSV)[0]["x"] == 0.5
    with pytest.raises(SchemaError, match="CSV has no column 'till' of stream 's'; did you mean 'tll'"):
        read(b"ts,tll,k,n,x\n5,,a,1,0.5\n", CSV)


def test_other_columns_may_hold_anything() -> None:
    """They are passed over, however deep they are nested."""
    deep = 100_000
    assert read(b'{"ts": 5, "other": ' + b"[" * deep + b"]" * deep + b"}")[0]["n"] is None


def test_a_bomb() -> None:
    """Batches that are small on the way, and together larger than a request may become."""
    batch = pa.record_batch([pa.array([0] * (1 << 23))], ["n"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for _ in range(5):
            writer.write_batch(batch)
    assert len(sink.getvalue()) < 1 << 20
    with pytest.raises(SchemaError, match="would become 335,544,320 bytes"):
        read_rows(STREAM, bytes(sink.getvalue()), ARROW)


def test_json_of_many_rows() -> None:
    """Written some at a time, it is one list."""
    for many in (0, 1, 999, 1_000, 1_001, 2_500):
        table = pa.table({"n": list(range(many)), "x": [float("nan")] * many})
        assert json.loads(json_text(table)) == [{"n": n, "x": "NaN"} for n in range(many)]
