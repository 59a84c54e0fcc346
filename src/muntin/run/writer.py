"""One file of answers, written beside its place and moved there when it is whole."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

ROW_GROUP = 65_536  # rows gathered before they are written


class AnswerFile:
    """Rows of one schema in Parquet, CSV or JSON lines.

    Until `commit` the rows are in a hidden file next to the target; `discard` leaves no trace.
    """

    def __init__(self, path: Path, schema: pa.Schema, format: str):
        self.path = path
        self.schema = schema
        self.format = format
        self.part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._held: list[pa.Table] = []
        self._rows = 0
        self._sink: BinaryIO | None = None
        self._write: Callable[[pa.Table], None]
        self._finish: Callable[[], None]

    def write(self, table: pa.Table) -> None:
        """Append rows; small tables are gathered, so that Parquet row groups do not get tiny."""
        self._held.append(table)
        self._rows += table.num_rows
        if self._rows >= ROW_GROUP:
            self._spill()

    def commit(self) -> None:
        """Finish the file and put it in place, at once and whole."""
        self._spill()
        self._finish()
        self._close()
        os.replace(self.part, self.path)

    def discard(self) -> None:
        """Forget the rows and remove what was written."""
        self._close()
        with suppress(FileNotFoundError):
            self.part.unlink()

    def _spill(self) -> None:
        if self._sink is None:
            self._open()
        if self._rows:
            self._write(pa.concat_tables(self._held).cast(self.schema))
            self._held, self._rows = [], 0

    def _open(self) -> None:
        self._sink = sink = self.part.open("wb")
        if self.format == "parquet":
            parquet = pa.parquet.ParquetWriter(sink, self.schema, compression="zstd")
            self._write, self._finish = parquet.write_table, parquet.close
        elif self.format == "csv":
            csv = pa.csv.CSVWriter(sink, as_written(self.schema.empty_table()).schema)
            self._write, self._finish = lambda table: csv.write_table(as_written(table)), csv.close
        else:
            self._write = lambda table: write_json_lines(table, sink)
            self._finish = sink.flush

    def _close(self) -> None:
        if self._sink is not None:
            self._sink.close()


def write_json_lines(table: pa.Table, out: BinaryIO) -> None:
    """One JSON object a row: times in ISO 8601; NaN and infinities, which JSON lacks, as texts."""
    for batch in table.to_batches(max_chunksize=ROW_GROUP):
        lines = [json_text({name: _plain(value) for name, value in row.items()}) for row in batch.to_pylist()]
        out.write(("\n".join(lines) + "\n").encode())


def json_text(value: Any) -> str:
    """`value` as JSON; what JSON has no form for becomes a text.

    >>> json_text({"symbol": "Æ"}), json_text(datetime(2024, 1, 2))
    ('{"symbol": "Æ"}', '"2024-01-02T00:00:00"')
    """
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def as_written(table: pa.Table) -> pa.Table:
    """The table with what CSV has no form for as texts: lists as JSON, lengths of time as in Python.

    >>> as_written(pa.table({"x": [[1, 2]]})).to_pylist()
    [{'x': '[1, 2]'}]
    """
    for number, field in enumerate(table.schema):
        write = (
            json_text if pa.types.is_list(field.type) else str if pa.types.is_duration(field.type) else None
        )
        if write is not None:
            texts = [None if value is None else write(value) for value in table.column(number).to_pylist()]
            table = table.set_column(number, pa.field(field.name, pa.string()), pa.array(texts, pa.string()))
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
