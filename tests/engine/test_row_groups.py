"""Row groups of a Parquet file: the same rows however they come, whole groups only where these are small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.engine import row_groups
from muntin.engine.event_file import EventFile
from muntin.engine.row_groups import read_groups
from muntin.stream import Stream

ROWS = 1_000
RANDOM = np.random.default_rng(5)
TABLE = pa.table(
    {
        "ts": pa.array(np.sort(RANDOM.integers(0, 10**9, ROWS)), pa.timestamp("us")),
        "n": pa.array(RANDOM.integers(0, 50, ROWS), mask=RANDOM.random(ROWS) < 0.1),
        "b": pa.array(RANDOM.random(ROWS) < 0.5),
        "text": [f"k{each}" for each in RANDOM.integers(0, 9, ROWS)],
    }
)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The groups that were read whole; from 100 rows, up to 4,000 bytes."""
    monkeypatch.setattr(row_groups, "_FEWEST_ROWS", 100)
    monkeypatch.setattr(row_groups, "_MOST_BYTES", 4_000)
    groups: list[int] = []
    read: Callable[..., Any] = pq.ParquetFile.read_row_group

    def noted(file: pq.ParquetFile, group: int, *arguments: Any, **named: Any) -> pa.Table:
        groups.append(group)
        return read(file, group, *arguments, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    return groups


def read(path: Path, columns: list[str], batch_rows: int) -> list[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        return list(read_groups(file, columns, batch_rows))


@pytest.mark.parametrize("size", [1, 90, 100, 130, 250, 251, 600, 1_000])
@pytest.mark.parametrize("columns", [["ts", "n"], ["n", "b"], ["ts", "text"]])
def test_rows_are_the_same(size: int, columns: list[str], whole: list[int], tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(TABLE, path, row_group_size=size)
    for batch_rows in (7, 64, 100, 2_000):
        batches = read(path, columns, batch_rows)
        assert all(0 < batch.num_rows <= batch_rows for batch in batches)
        assert pa.Table.from_batches(batches).select(columns).equals(TABLE.select(columns))


@pytest.mark.parametrize(
    ("columns", "size", "expected"),
    [
        (["ts", "n"], 250, [0, 1, 2, 3]),
        (["ts", "n"], 251, [3]),  # the others take more bytes than are decoded at once
        (["n", "b"], 251, [0, 1, 2, 3]),
        (["n", "b"], 99, []),  # so small that a call for each would take longer
        (["n", "b"], 450, [0, 1, 2]),
        (["ts", "text"], 250, []),  # texts of any length
    ],
)
def test_small_groups_are_read_whole(
    columns: list[str], size: int, expected: list[int], whole: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(TABLE, path, row_group_size=size)
    read(path, columns, 64)
    assert whole == expected


def test_pieces_end_at_multiples(whole: list[int], tmp_path: Path) -> None:
    """So that even batches are cut out of a group, and copied only where two groups meet."""
    path = tmp_path / "events.parquet"
    pq.write_table(TABLE, path, row_group_size=250)
    ends = np.cumsum([batch.num_rows for batch in read(path, ["ts", "n"], 100)])
    assert whole == [0, 1, 2, 3]
    assert ends.tolist() == [100, 200, 250, 300, 400, 500, 600, 700, 750, 800, 900, 1_000]


def test_an_event_file_gives_even_batches(whole: list[int], tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(TABLE, path, row_group_size=230)
    stream = Stream("s", TABLE.select(["n", "ts"]).schema, "ts")
    batches = list(EventFile(path, stream).batches(64))
    assert whole
    assert [batch.num_rows for batch in batches] == [64] * 15 + [40]
    assert pa.Table.from_batches(batches).equals(TABLE.select(["n", "ts"]))
