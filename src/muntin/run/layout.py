"""Where answers go: a typed file per query, or all queries in one long table.

| `--out` | queries | what is written |
|---|---|---|
| a directory, or a path without suffix | any | `QUERY.parquet` (or the chosen format) for each, typed |
| a file | one | its typed answers |
| a file | several | a long table: a row for each value of each answer |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine.event_file import SUFFIXES, format_of
from muntin.errors import MuntinError
from muntin.query import Key
from muntin.run.writer import AnswerFile, as_written, json_text

LONG = pa.schema(
    [("query", pa.string()), ("key", pa.string()), ("window_start", pa.timestamp("us")),
     ("window_end", pa.timestamp("us")), ("complete", pa.bool_()), ("column", pa.string()),
     ("value", pa.float64()), ("text", pa.string())]
)  # fmt: skip


class Answered(Protocol):
    """A query, or a SELECT from a view."""

    @property
    def keys(self) -> tuple[Key, ...]: ...

    def emission_schema(self) -> pa.Schema: ...


class Layout:
    """The files of one run and which answers go to which."""

    def __init__(self, out: Path, queries: Mapping[str, Answered], format: str = "parquet"):
        self.queries = queries
        self.files: dict[str, AnswerFile] = {}  # by query; under "" for all of them
        if is_directory(out):
            for name, query in queries.items():
                path = out / f"{quote(name, safe=' ')}.{format}"
                self.files[name] = AnswerFile(path, query.emission_schema(), format)
            return
        format, compression = format_of(out)
        written = [suffix for suffix, each in SUFFIXES.items() if each != "arrow"]
        if compression or format == "arrow":
            what = "compressed by name" if compression else "written as Arrow files"
            raise MuntinError(f"answers are not {what}: use one of {', '.join(written)}")
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
def open_layout(out: Path, queries: Mapping[str, Answered], format: str) -> Iterator[Layout]:
    """A layout whose files appear when the block ends well, and not at all when it does not."""
    layout = Layout(out, queries, format)
    directory = out if is_directory(out) else out.parent
    made = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield layout
        for file in layout.files.values():
            file.commit()
    except BaseException as fault:
        for file in layout.files.values():
            file.discard()
        if made and directory.exists() and not any(directory.iterdir()):
            directory.rmdir()
        if isinstance(fault, OSError):
            raise MuntinError(f"cannot write '{out}': {fault.strerror or fault}") from fault
        raise


def is_directory(out: Path) -> bool:
    """Whether `--out` names a directory: one that is there, or a path without a suffix."""
    return out.is_dir() or not out.suffix


def long_table(name: str, query: Answered, table: pa.Table) -> pa.Table:
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


def key_text(query: Answered, table: pa.Table) -> pa.Array:
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
