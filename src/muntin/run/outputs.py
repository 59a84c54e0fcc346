"""Where answers go: a typed file per query, or all queries in one long table.

| `--out` | queries | what is written |
|---|---|---|
| a directory, or a path without suffix | any | `QUERY.parquet` (or the chosen format) for each, typed |
| a file | one | its typed answers |
| a file | several | a long table: a row for each value of each answer |
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from muntin.engine.event_file import SUFFIXES, format_of
from muntin.errors import MuntinError
from muntin.query import Key

LONG = pa.schema(
    [("query", pa.string()), ("key", pa.string()), ("window_start", pa.timestamp("us")),
     ("window_end", pa.timestamp("us")), ("complete", pa.bool_()), ("column", pa.string()),
     ("value", pa.float64()), ("text", pa.string())]
)  # fmt: skip


class Answerable(Protocol):
    """A query, or a SELECT from a view."""

    @property
    def keys(self) -> tuple[Key, ...]: ...

    def emission_schema(self) -> pa.Schema: ...


class OutputFiles:
    """The files of one run and which answers go to which."""

    def __init__(self, out: Path, queries: Mapping[str, Answerable], format: str = "parquet"):
        self.queries = queries
        self.files: dict[str, AnswerFile] = {}  # by query; under "" for all of them
        if is_directory(out):
            for name, query in queries.items():
                path = out / f"{quote(name, safe=' ')}.{format}"
                self.files[name] = AnswerFile(path, query.emission_schema(), format)
            return
        format = format_to_write(out)
        if len(queries) == 1:
            (name,) = queries
            self.files[name] = AnswerFile(out, queries[name].emission_schema(), format)
        else:
            self.files[""] = AnswerFile(out, LONG, format)

    def write(self, answers: Mapping[str, pa.Table]) -> int:
        """Append answers of any queries; how many there were."""
        for name, table in answers.items():
            if name in self.files:
                self.files[name].write(table)
            else:
                self.files[""].write(long_table(name, self.queries[name], table))
        return sum(table.num_rows for table in answers.values())


@contextmanager
def open_outputs(out: Path, queries: Mapping[str, Answerable], format: str) -> Iterator[OutputFiles]:
    """Outputs whose files appear when the block ends well, and not at all when it does not."""
    outputs = OutputFiles(out, queries, format)
    directory = out if is_directory(out) else out.parent
    made = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield outputs
        for file in outputs.files.values():
            file.commit()
    except BaseException as fault:
        for file in outputs.files.values():
            file.discard()
        if made and directory.exists() and not any(directory.iterdir()):
            directory.rmdir()
        if isinstance(fault, OSError):
            raise MuntinError(f"cannot write '{out}': {fault.strerror or fault}") from fault
        raise


def format_to_write(out: Path) -> str:
    """The format that the name of a file of answers promises; an error if they are not written so."""
    format, compression = format_of(out)
    if compression or format == "arrow":
        what = "compressed by name" if compression else "written as Arrow files"
        written = [suffix for suffix, each in SUFFIXES.items() if each != "arrow"]
        raise MuntinError(f"answers are not {what}: use one of {', '.join(written)}")
    return format


def is_directory(out: Path) -> bool:
    """Whether `--out` names a directory: one that is there, or a path without a suffix."""
    return out.is_dir() or not out.suffix


def long_table(name: str, query: Answerable, table: pa.Table) -> pa.Table:
    """Answers as one row a value: numbers in `value`, anything else in `text`; a row without a value for an
    answer that has none."""
    table, rows = as_written(table), table.num_rows
    head = [pa.repeat(pa.scalar(name), rows), key_text(query, table)]
    window = [table["window_start"], table["window_end"], table["complete"]]
    if table.num_columns == len(query.keys) + len(window):  # nothing but keys, as DISTINCT gives
        nothing = [pa.nulls(rows, LONG.field(name).type) for name in ("column", "value", "text")]
        return pa.table([*head, *window, *nothing], schema=LONG)
    parts = []
    beside = {key.name for key in query.keys} | {"window_start", "window_end", "complete"}
    for each in (name for name in table.column_names if name not in beside):
        column = table[each]
        value, text = pa.nulls(rows, pa.float64()), pa.nulls(rows, pa.string())
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            value = column.cast(pa.float64(), safe=False)
        elif pa.types.is_boolean(column.type):
            value = column.cast(pa.int8()).cast(pa.float64())
        else:
            text = column.cast(pa.string())
        label = pa.repeat(pa.scalar(each), rows)
        parts.append(pa.table([*head, *window, label, value, text], schema=LONG))
    return pa.concat_tables(parts)


def key_text(query: Answerable, table: pa.Table) -> pa.Array:
    """The key of each answer as a JSON object, NULL for a query without GROUP BY."""
    if not query.keys:
        return pa.nulls(table.num_rows, pa.string())
    members = [_member_text(key.name, table[key.name].combine_chunks()) for key in query.keys]
    joined = pc.binary_join_element_wise(*members, ", ")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _member_text(name: str, column: pa.Array) -> pa.Array:
    """`"name": value` for each row; each distinct value is written only once."""
    encoded = column.dictionary_encode(null_encoding="encode")
    texts = [f"{json_text(name)}: {json_text(value)}" for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


# One file of answers, written beside its place and moved there when it is whole.

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
        if self._sink is not None:
            with suppress(OSError, pa.ArrowException):  # a full disk, which may be why
                self._finish()  # writers would do so when they are collected, to a file that is closed
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
