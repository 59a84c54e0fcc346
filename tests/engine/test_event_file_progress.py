"""How far a file has been read: nothing before, everything after, and never backwards, in every format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from muntin.engine.event_file import EventFile
from muntin.stream import Stream

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.float64())])
STREAM = Stream("s", SCHEMA, "ts")
TABLE = pa.table({"ts": np.arange(10_000), "v": np.linspace(0, 1, 10_000)})


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as out:
        for batch in table.to_batches(max_chunksize=1000):
            out.write_batch(batch)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as out:
        for batch in table.to_batches(max_chunksize=1000):
            out.write_batch(batch)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda table, path: pa.parquet.write_table(table, path, row_group_size=1000),
    "csv": lambda table, path: pa.csv.write_csv(table, path),
    "arrow": write_arrow,
    "ipc": write_stream,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_progress(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"events.{suffix}"
    WRITERS[suffix](TABLE, path)
    file = EventFile(path, STREAM)
    assert file.fraction == 0
    seen, fractions = 0, []
    for batch in file.batches(1000):
        seen += batch.num_rows
        fractions.append(file.fraction)
    assert seen == TABLE.num_rows
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0, abs=0.05)
    if suffix == "parquet":  # rows of one size, so that the share of the rows is that of the bytes
        assert fractions[4] == pytest.approx(0.5, abs=0.11)
