"""Files of events as batches of a stream: Parquet, Arrow, CSV with a header, or JSON lines; one or a folder of them.

Every batch but the last has exactly `batch_rows` events, whatever the file's own blocks are: a query
without SLIDE answers once a batch, so its answers must not depend on the format.

The history of new queries is read from such files as well, beside the stream, which goes on meanwhile (`filling`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from muntin.decimal_text import check_json, check_texts
from muntin.derived import WindowStream
from muntin.engine.catalog import Asked, Catalog
from muntin.engine.read_ahead import read_ahead
from muntin.engine.row_groups import read_groups
from muntin.errors import MuntinError, NotFound, SchemaError, nearest
from muntin.fixed_point import is_decimal
from muntin.join_query import JoinQuery
from muntin.plan.request import Request
from muntin.shard.backfill import Backfill
from muntin.shard.record_batch import to_record_batch
from muntin.stream import Stream
from muntin.table import Table
from muntin.view.folders import Folders
from muntin.view_select import StandingQuery

SUFFIXES = {
    ".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
BLOCK_BYTES = 8 << 20  # of a text file, parsed at once


S = TypeVar("S", Stream, Table)
_Read = tuple[pa.RecordBatch, int]  # a batch, and how many bytes of the file have been read with it


class EventFile(Generic[S]):
    """One input file, opened for one stream, or for the rows of a table; columns that it does not have are left out.
    `whole`: the same with columns that nobody reads. The file must have them in types that fit; none is decoded."""

    def __init__(self, path: Path, stream: S, whole: S | None = None):
        self.path = path
        self.stream: S = stream
        self._whole: S = whole or stream
        self.format, self.compression = format_of(path)
        if not path.is_file():
            raise NotFound(f"there is no input file '{path}'")
        self.bytes = os.path.getsize(path)
        self.bytes_read = 0

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The events in the order of the file; an error names the file."""
        read = {
            "parquet": self._read_parquet, "csv": self._read_csv, "jsonl": self._read_jsonl, "arrow": self._read_arrow,
        }  # fmt: skip
        try:
            yield from even_batches(self._followed(read[self.format](batch_rows)), batch_rows)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError) as fault:
            raise SchemaError(f"cannot read '{self.path}': {fault}") from fault
        except (UnicodeDecodeError, OSError) as fault:
            raise MuntinError(f"cannot read '{self.path}': {fault}") from fault

    def _followed(self, read: Iterator[_Read]) -> Iterator[pa.RecordBatch]:
        """Batches as they are handed out; how far the file has been read is told by these."""
        for batch, self.bytes_read in read_ahead(read):
            yield batch

    @property
    def fraction(self) -> float:
        """How much of the file has been read, in bytes."""
        return min(1.0, self.bytes_read / self.bytes) if self.bytes else 1.0

    def _read_parquet(self, batch_rows: int) -> Iterator[_Read]:
        with pa.parquet.ParquetFile(self.path, pre_buffer=False) as file:  # a thread reads ahead in any case
            self._check_schema(file.schema_arrow)
            rows = max(file.metadata.num_rows, 1)
            seen = 0
            for batch in read_groups(file, self.stream.schema.names, batch_rows):
                seen += batch.num_rows
                yield batch.select(self.stream.schema.names), self.bytes * seen // rows

    def _read_arrow(self, batch_rows: int) -> Iterator[_Read]:
        """The random access format (Feather is one) or the streaming one."""
        with pa.memory_map(str(self.path)) as source:
            if bytes(source.read(6)) == b"ARROW1":
                file = pa.ipc.open_file(source)
                batches: Iterable[pa.RecordBatch] = map(file.get_batch, range(file.num_record_batches))
                count = file.num_record_batches
            else:
                source.seek(0)
                batches = file = pa.ipc.open_stream(source)
                count = 0  # which is known at the end
            self._check_schema(file.schema)
            for number, batch in enumerate(batches, 1):
                # of the random access format, `tell` says nothing
                place = self.bytes * number // count if count else source.tell()
                yield batch.select(self.stream.schema.names), place

    def _read_csv(self, batch_rows: int) -> Iterator[_Read]:
        options = pa.csv.ReadOptions(block_size=BLOCK_BYTES)
        with pa.csv.open_csv(self._decompressed(self._open()), options) as peek:
            inferred = peek.schema
        self._check_names(inferred.names)
        convert = pa.csv.ConvertOptions(
            include_columns=self.stream.schema.names,
            column_types={field.name: readable_type(field, inferred) for field in self.stream.schema},
            null_values=[""],  # NA and null are words, and tickers
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,  # an empty text is written as ""
        )
        file = self._open()
        with pa.csv.open_csv(self._decompressed(file), options, convert_options=convert) as reader:
            for batch in reader:
                yield self._settled(batch), self._place(file)

    def _read_jsonl(self, batch_rows: int) -> Iterator[_Read]:
        if not self.bytes:
            return
        self._check_exponents()
        options = pa.json.ReadOptions(block_size=BLOCK_BYTES)
        with pa.json.open_json(self._decompressed(self._open()), options) as peek:
            self._check_names(peek.schema.names)
            inferred = peek.schema
        fields = [field.with_type(_json_type(field, inferred)) for field in self.stream.schema]
        parse = pa.json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
        file = self._open()
        with pa.json.open_json(self._decompressed(file), options, parse) as reader:
            for batch in reader:
                yield batch.select(self.stream.schema.names), self._place(file)

    def _check_exponents(self) -> None:
        """Of decimals in JSON lines."""
        if decimals := [field.name for field in self.stream.schema if is_decimal(field.type)]:
            file, rest = self._decompressed(self._open()), b""
            while block := file.read(BLOCK_BYTES):
                lines, _, rest = (rest + block).rpartition(b"\n")
                check_json(lines, decimals)
            check_json(rest, decimals)

    def _open(self) -> pa.NativeFile:
        """The file as Arrow's own, which its threads read ahead without Python: one that is still at it when the
        process ends would abort it, and one that is closed beneath them is not theirs any more. So it is closed
        when nobody has it, not before."""
        return pa.OSFile(str(self.path))

    def _place(self, file: pa.NativeFile) -> int:
        try:
            return int(file.tell())
        except ValueError:  # Arrow closes some files when it has reached their end
            return self.bytes

    def _decompressed(self, file: pa.NativeFile) -> pa.NativeFile:
        return pa.CompressedInputStream(file, self.compression) if self.compression else file

    def _check_schema(self, schema: pa.Schema) -> None:
        """Of a file that knows the types of its columns."""
        self._check_names(schema.names)
        to_record_batch(self._whole, schema.empty_table())

    def _check_names(self, names: list[str]) -> None:
        for column in self._whole.schema.names:
            if column not in names:
                raise SchemaError(f"'{self.path}' has no column '{column}'{nearest(column, names)}")

    def _settled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Zoned and nanosecond times as the stream's own: UTC, rounded down to its unit; and texts of decimals."""
        columns = [
            _settled(column, field.type)
            for column, field in zip(batch.columns, self.stream.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=self.stream.schema.names)


class EventFiles(Generic[S]):
    """All event files of a folder, in the order of their names; what begins with a dot or an underscore is none."""

    def __init__(self, path: Path, stream: S, whole: S | None = None):
        shown = [each for each in sorted(path.iterdir()) if each.is_file() and each.name[0] not in "._"]
        if not shown:
            raise NotFound(f"there is no file in the folder '{path}'")
        self.path = path
        self.stream: S = stream
        self.files: list[EventFile[S]] = [EventFile(each, stream, whole) for each in shown]
        self.bytes: int = sum(file.bytes for file in self.files)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The events of one file after the other; an error names the file."""
        # in the stream's own types, so that what one file ends with and the next begins with make one batch
        batches = (
            to_record_batch(file.stream, batch) for file in self.files for batch in file.batches(batch_rows)
        )
        yield from even_batches(batches, batch_rows)

    @property
    def fraction(self) -> float:
        """How much has been read, in bytes."""
        return min(1.0, sum(file.bytes_read for file in self.files) / self.bytes) if self.bytes else 1.0


def open_events(path: Path, stream: S, whole: S | None = None) -> EventFile[S] | EventFiles[S]:
    """The event file, or folder of them, at a path."""
    return (EventFiles if path.is_dir() else EventFile)(path, stream, whole)


def format_of(path: Path) -> tuple[str, str | None]:
    """Format and compression that a file's name promises.

    >>> format_of(Path("trades.csv.gz"))
    ('csv', 'gzip')
    """
    compression = COMPRESSIONS.get(path.suffix.lower())
    suffix = (path.with_suffix("") if compression else path).suffix.lower()
    if suffix not in SUFFIXES:
        raise MuntinError(f"cannot tell the format of '{path}': use one of {', '.join(SUFFIXES)}")
    return SUFFIXES[suffix], compression


def readable_type(field: pa.Field, inferred: pa.Schema) -> pa.DataType:
    """The type to parse a CSV column as: the stream's, save for zones and nanoseconds in times. A length of time is a
    text such as '5 minutes', which whoever takes the batch reads."""
    seen = inferred.field(field.name).type
    if pa.types.is_duration(field.type) or is_decimal(field.type):
        return pa.string()
    if pa.types.is_timestamp(field.type) and pa.types.is_timestamp(seen):
        return pa.timestamp("ns" if seen.unit == "ns" else field.type.unit, seen.tz)
    return field.type


def _settled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if is_decimal(kind):
        check_texts(column)
        return pc.utf8_trim_whitespace(column).cast(kind)
    return column.cast(kind, safe=False) if pa.types.is_timestamp(kind) and column.type != kind else column


def _json_type(field: pa.Field, inferred: pa.Schema) -> pa.DataType:
    """Integers stay integers, so that whoever takes the batch sees that a time was written as one."""
    if pa.types.is_duration(field.type):
        return pa.string()
    is_number = pa.types.is_timestamp(field.type) and pa.types.is_integer(inferred.field(field.name).type)
    return pa.int64() if is_number else field.type


def even_batches(batches: Iterable[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows cut into batches of `batch_rows`; the last may be shorter.

    >>> parts = [pa.record_batch({"x": [1, 2, 3]}), pa.record_batch({"x": [4]})]
    >>> [batch["x"].to_pylist() for batch in even_batches(parts, 2)]
    [[1, 2], [3, 4]]
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows < batch_rows:
            continue
        joined = held[0] if len(held) == 1 else pa.concat_batches(held)
        whole = rows - rows % batch_rows
        for start in range(0, whole, batch_rows):
            yield joined.slice(start, batch_rows)
        rows -= whole
        held = [joined.slice(whole)] if rows else []  # an empty one would have the next batch copied
    if rows:
        yield pa.concat_batches(held)


# History as users have it: past events of a stream, as batches; a path, an Arrow reader, or what `push`
# takes.

_ROWS = 131_072  # of a batch: what is in memory at a time; half as many take more CPU time


def history_batches(
    stream: S, history: Any, folders: Folders, what: str = "history", narrow: S | None = None
) -> Iterator[pa.RecordBatch]:
    """The events of a history, or the rows for a table, in the order they are given and in its schema; in that of
    `narrow`, the same with fewer columns, if the history is in files.

    `history` is the path of a Parquet, Arrow, CSV or JSON lines file or of a folder of them, a pyarrow Table,
    RecordBatch or RecordBatchReader, a pandas or polars frame, or a dict of columns. A path, and every file of a
    folder, must lie in one of the `folders`.
    """
    if isinstance(history, (str, os.PathLike)):
        folders.require(history, what)
        events = open_events(Path(history), narrow or stream, stream)
        for file in events.files if isinstance(events, EventFiles) else ():
            folders.require(file.path, what)  # which may be a link
        return (to_record_batch(events.stream, batch) for batch in events.batches(_ROWS))
    given: Iterator[Any]
    if isinstance(history, pa.RecordBatchReader):
        given = _read(history, what)
    else:
        whole = to_record_batch(stream, history)
        given = (whole.slice(start, _ROWS) for start in range(0, whole.num_rows, _ROWS))
    return (to_record_batch(stream, batch) for batch in given)


def _read(reader: pa.RecordBatchReader, what: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except pa.ArrowException as error:
        raise SchemaError(f"the {what} cannot be read: {str(error).splitlines()[0]}") from error


_ROUNDS = 3  # in which a backfill catches up with the stream, before the last in which the stream waits


@contextmanager
def filling(
    catalog: Catalog, lock: AbstractContextManager[Any], asked: Mapping[str, Asked], history: Any
) -> Iterator[Backfill]:
    """Queries of one stream with their history filled in, ready to be grafted; until the block ends they follow
    what is pushed."""
    if joins := [name for name, each in asked.items() if isinstance(each, JoinQuery)]:
        raise MuntinError(f"a backfill is the history of one stream; query '{joins[0]}' joins two")
    if read := [name for name, each in asked.items() if isinstance(each, StandingQuery)]:
        raise MuntinError(
            f"a backfill is the history of one stream; query '{read[0]}' reads a view as of its updates"
        )
    requests = {name: each for name, each in asked.items() if isinstance(each, Request)}
    if joined := [name for name, each in requests.items() if each.joined is not None]:
        raise MuntinError(f"query '{joined[0]}' joins a table, and takes no backfill; leave it out")
    streams = {request.query.stream.name: request.query.stream for request in requests.values()}
    if len(streams) != 1:
        names = ", ".join(streams) or "none"
        raise MuntinError(f"a backfill is the history of one stream; these queries read {names}")
    (stream,) = streams.values()
    if isinstance(stream, WindowStream):
        raise MuntinError(
            f"stream '{stream.name}' {stream.origin}, and has no other history; register without a backfill"
        )
    with lock:
        shard = catalog.shards.get(stream.name)
        if shard is None or shard.stream is not stream:
            shard = catalog.make_shard(stream)  # a script that creates it is about to run
        backfill = shard.begin_backfill(requests)
    try:
        backfill.fill(history_batches(stream, history, catalog.folders, narrow=backfill.narrow))
        for _ in range(_ROUNDS):  # what was pushed meanwhile, ever less of it
            with lock:
                live = backfill.take_held()
            backfill.catch_up(live)
        yield backfill
    finally:
        with lock:
            shard.end_backfill(backfill)
