"""Requests of a file: the keys and instants that `muntin lookup-at` answers, and whatever columns stand beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from muntin.engine.event_file import format_of
from muntin.errors import MuntinError, NotFound, SchemaError
from muntin.query import Query


def read_request_file(path: Path, queries: Mapping[str, Query]) -> pa.Table:
    """All rows and columns of a Parquet, Arrow, CSV or JSON lines file. Text formats do not know types: keys are read
    in those of the queries, so that '007' stays a text where the key is one."""
    format, _ = format_of(path)
    if not path.is_file():
        raise NotFound(f"there is no file of requests '{path}'")
    keys = {key.name: key.expression.type for query in queries.values() for key in query.keys}
    # times and lengths of time are written in many ways, which whoever takes the table reads
    plain = {
        name: kind for name, kind in keys.items() if not pa.types.is_temporal(kind) or pa.types.is_date(kind)
    }
    try:
        return _READ[format](path, plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError) as fault:
        raise SchemaError(f"cannot read '{path}': {fault}") from fault
    except (UnicodeDecodeError, OSError) as fault:
        raise MuntinError(f"cannot read '{path}': {fault}") from fault


def _read_parquet(path: Path, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    with pa.parquet.ParquetFile(path) as file:
        return file.read()


def _read_arrow(path: Path, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """The random access format (Feather is one) or the streaming one."""
    with pa.OSFile(str(path)) as source:
        is_random = bytes(source.read(6)) == b"ARROW1"
        source.seek(0)
        return (pa.ipc.open_file(source) if is_random else pa.ipc.open_stream(source)).read_all()


def _read_csv(path: Path, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    convert = pa.csv.ConvertOptions(
        column_types=dict(kinds),
        null_values=[""],  # NA and null are words, and tickers
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,  # an empty text is written as ""
    )
    return pa.csv.read_csv(str(path), convert_options=convert)


def _read_jsonl(path: Path, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    names = pa.json.read_json(str(path)).schema.names  # a column that is not there would be NULL otherwise
    fields = [(name, kind) for name, kind in kinds.items() if name in names]
    return pa.json.read_json(str(path), parse_options=pa.json.ParseOptions(explicit_schema=pa.schema(fields)))


_READ = {"parquet": _read_parquet, "arrow": _read_arrow, "csv": _read_csv, "jsonl": _read_jsonl}
