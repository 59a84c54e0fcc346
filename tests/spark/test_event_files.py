"""Files of a folder of events: whatever is wrong with one is a MuntinError that names it, in every way of reading."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from muntin.errors import MuntinError, SchemaError
from muntin.spark.event_folder import EventFolder, files_of, parts_of, read_part
from muntin.spark.job import read_query
from muntin.stream import Stream

EVENTS = pa.table({"ts": pa.array(np.arange(500) * 1000, pa.timestamp("us")), "k": [f"k{i % 7}" for i in range(500)],
                   "v": np.arange(500)})  # fmt: skip
STREAM = Stream("s", EVENTS.schema, "ts")
WRITERS = {
    ".parquet": lambda table, path: pq.write_table(table, path, row_group_size=200),
    ".arrow": lambda table, path: _write_arrow(table, path),
    ".feather": lambda table, path: feather.write_feather(table, str(path), compression="uncompressed"),
}


def _write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=200)


def read_all(folder: Path) -> pa.Table:
    """As a job does: the columns of the first file, then the parts of all, then the events of each part."""
    EventFolder(None, str(folder), timedelta(0)).stream("s", "ts")  # type: ignore[arg-type]
    batches = [batch for part in parts_of(files_of(str(folder)), 0) for batch in read_part(part, STREAM)]  # type: ignore[arg-type]
    return pa.Table.from_batches(batches, STREAM.schema)


def attempt(folder: Path, file: Path) -> pa.Table | None:
    """What is read; None if it is refused, by the name of the file."""
    try:
        return read_all(folder)
    except MuntinError as error:
        assert str(file) in str(error)
        assert str(error).count("\n") <= 3
        return None


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_that_ends_too_early(tmp_path: Path, suffix: str) -> None:
    """At every length of a half-written file: none of it is read."""
    file = tmp_path / f"x{suffix}"
    WRITERS[suffix](EVENTS, file)
    assert attempt(tmp_path, file) == EVENTS
    whole = file.read_bytes()
    lengths = {*range(64), *range(64, len(whole), len(whole) // 60), *range(len(whole) - 64, len(whole))}
    for length in lengths:
        file.write_bytes(whole[:length])
        assert attempt(tmp_path, file) is None, f"{length} of {len(whole)} bytes"


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_that_is_damaged(tmp_path: Path, suffix: str) -> None:
    """Bytes that were changed, and others that never were such a file; a change of values alone cannot be seen."""
    file, random = tmp_path / f"x{suffix}", np.random.default_rng(5)
    WRITERS[suffix](EVENTS, file)
    whole = np.frombuffer(file.read_bytes(), np.uint8)
    refused = 0
    for _ in range(150):
        damaged = whole.copy()
        begin = int(random.integers(0, len(whole)))
        damaged[begin : begin + int(random.integers(1, 40))] = random.integers(0, 256)
        file.write_bytes(damaged.tobytes())
        refused += attempt(tmp_path, file) is None
    assert refused > 10
    for garbage in (b"", b"\0" * 100, b"PAR1", b"PAR1PAR1", b"ARROW1\0\0", b"ARROW1\0\0ARROW1", b"a,b\n1,2\n",
                    random.bytes(5_000)):  # fmt: skip
        file.write_bytes(garbage)
        assert attempt(tmp_path, file) is None


def test_types_that_muntin_lacks_are_left_out(tmp_path: Path) -> None:
    """A query that reads such a column is told its type."""
    more = EVENTS.append_column("d", pa.array([Decimal(10**20)] * 500)).append_column(
        "l", pa.array([[1]] * 500)
    )
    pq.write_table(more.append_column("b", pa.array([b"x"] * 500)), tmp_path / "0.parquet")
    stream = EventFolder(None, str(tmp_path)).stream("s", "TS")  # type: ignore[arg-type]
    assert stream.schema.names == EVENTS.column_names
    for name, kind in (("d", "decimal128"), ("l", "list"), ("b", "binary")):
        with pytest.raises(MuntinError, match=f"no column '{name}': in the files it is {kind}"):
            read_query(stream, f"SELECT COUNT({name}) FROM s [ROWS 5]")


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_that_is_something_else(tmp_path: Path, suffix: str) -> None:
    """Without a column, with another type, with a time that is NULL; a folder, a link to nothing."""
    (tmp_path / "a").mkdir()
    WRITERS[suffix](EVENTS, tmp_path / "a" / f"0{suffix}")
    file = tmp_path / "a" / f"1{suffix}"
    others = {
        "without": EVENTS.drop_columns(["k"]),
        "text": EVENTS.set_column(2, "v", EVENTS["v"].cast(pa.string())),
        "number": EVENTS.set_column(1, "k", EVENTS["v"]),
        "null": EVENTS.set_column(0, "ts", pa.nulls(500, pa.timestamp("us"))),
        "empty": pa.table({"other": pa.array([1])}),
    }
    for name, table in others.items():
        WRITERS[suffix](table, file)
        with pytest.raises(SchemaError) as raised:
            read_all(tmp_path / "a")
        assert str(file) in str(raised.value), name
    file.unlink()
    file.mkdir()
    assert attempt(tmp_path / "a", file) is None
    file.rmdir()
    file.symlink_to(tmp_path / "nothing")
    assert attempt(tmp_path / "a", file) is None
    file.unlink()
    WRITERS[suffix](EVENTS.select(["v", "k", "ts"]).append_column("more", EVENTS["v"]), file)
    assert attempt(tmp_path / "a", file) == pa.concat_tables([EVENTS, EVENTS])
