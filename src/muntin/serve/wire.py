"""Rows as they come over HTTP: JSON from people and scripts, Arrow from programs. How they go: `json_text.py`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from muntin.arrow_bytes import UnsoundBytes, read_batches
from muntin.decimal_text import check_json, check_texts, may_be_long
from muntin.errors import SchemaError, nearest
from muntin.fixed_point import is_decimal
from muntin.instant import to_microseconds
from muntin.key_value import key_column
from muntin.shard.record_batch import to_table
from muntin.sql.type_name import type_name
from muntin.stream import Stream
from muntin.table import Table

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
LINES = "application/x-ndjson"
CSV = "text/csv"
_WHOLE = re.compile(r"-?[0-9]{1,19}")  # of 64 bits, or nearly
_MAY_HALVE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")  # halves of surrogate pairs, alone or not
_TEXT, _BIGINT, _HALF = pa.string(), pa.int64(), 2**63


def read_rows(declared: Stream | Table, body: bytes, kind: str) -> pa.Table:
    """The events or rows of a request, by its Content-Type; a SchemaError if they cannot be read."""
    readers: dict[str, Callable[[], pa.Table]] = {
        ARROW: lambda: arrow_rows(body),
        LINES: lambda: _lines(declared, body),
        JSON: lambda: _lines(declared, _as_lines(declared, body)),
        CSV: lambda: _csv(declared, body),
    }
    name = kind.partition(";")[0].strip().lower() or JSON
    if name not in readers:
        raise SchemaError(f"rows cannot be read from '{name}': send {', '.join(readers)}")
    try:
        return readers[name]()
    except (pa.ArrowException, UnsoundBytes, UnicodeDecodeError) as error:
        raise SchemaError(f"the rows cannot be read: {(str(error).splitlines() or ['?'])[0]}") from None


def arrow_rows(body: bytes) -> pa.Table:
    """Rows in Arrow's stream format."""
    try:
        return pa.Table.from_batches(read_batches(body, may_be_compressed=True))
    except UnsoundBytes as error:
        raise SchemaError(f"the body is no Arrow stream: {error}") from None


def read_json(body: bytes, parse_float: Callable[[str], Any] = float) -> Any:
    """What a JSON text says."""
    try:
        found = json.loads(body, parse_float=parse_float)
        if _MAY_HALVE.search(body):
            json.dumps(found, default=str, ensure_ascii=False).encode()
        return found
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise SchemaError(
            f"UTF-8 cannot say {half!r} of the body: it is one half of a surrogate pair"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the body is no JSON: {error}") from None


def _as_lines(declared: Stream | Table, body: bytes) -> bytes:
    """A list of objects, or an object of lists, as JSON lines."""
    decimals = _decimals(declared)
    given = read_json(body, Decimal if decimals else float)  # with all their digits
    if isinstance(given, dict) and given and all(isinstance(each, list) for each in given.values()):
        lengths = {len(each) for each in given.values()}
        if len(lengths) > 1:
            raise SchemaError("the columns differ in length")
        given = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise SchemaError("rows are a list of objects, or an object of lists: [{…}, …] or {column: […], …}")
    for row in given if decimals else ():
        row.update((name, str(row[name])) for name in decimals if isinstance(row.get(name), Decimal))
    return "\n".join(json.dumps(row, default=float) for row in given).encode()


def _decimals(declared: Stream | Table) -> list[str]:
    return [field.name for field in declared.schema if is_decimal(field.type)]


def _lines(declared: Stream | Table, body: bytes) -> pa.Table:
    """Times may be texts, or integers of microseconds: the first of each column says which, and speaks for all."""
    if not body.strip():
        return declared.schema.empty_table()
    check_json(body, _decimals(declared))
    kinds = {
        field.name: pa.string() if pa.types.is_duration(field.type) else field.type
        for field in declared.schema
    }
    times = [name for name, kind in kinds.items() if pa.types.is_timestamp(kind)]
    guesses = [[name for name in times if _is_number(name, body)], times, []]
    wrong: pa.ArrowInvalid | None = None
    for guess in guesses:
        try:
            return _read_lines(body, kinds | dict.fromkeys(guess, pa.int64()))
        except pa.ArrowInvalid as error:
            wrong = wrong or error
            if not times:
                break
    assert wrong is not None
    if (column := _unread(body, kinds)) is None:
        raise wrong
    reason = str(wrong).splitlines()[0].removeprefix("JSON parse error: ")
    raise SchemaError(f"column '{column}' cannot be read as {type_name(kinds[column])}: {reason}")


def _unread(body: bytes, kinds: dict[str, pa.DataType]) -> str | None:
    """The first column that cannot be read when it is read alone; None if the body is no JSON at all."""
    for name, kind in kinds.items() if _can_read(body, {}) else ():
        guesses = (kind, pa.int64()) if pa.types.is_timestamp(kind) else (kind,)
        if not any(_can_read(body, {name: guess}) for guess in guesses):
            return name
    return None


def _can_read(body: bytes, kinds: dict[str, pa.DataType]) -> bool:
    try:
        _read_lines(body, kinds)
    except pa.ArrowInvalid:
        return False
    return True


def _is_number(name: str, body: bytes) -> bool:
    """Whether the first value of a field that is no NULL is a number; a guess, since the name may stand elsewhere."""
    first = re.search(re.escape(json.dumps(name).encode()) + rb'\s*:\s*([-0-9"])', body)
    return first is not None and first[1] != b'"'


def _read_lines(body: bytes, kinds: dict[str, pa.DataType]) -> pa.Table:
    parsing = pyarrow.json.ParseOptions(explicit_schema=pa.schema(kinds), unexpected_field_behavior="ignore")
    # in one block: a line may be longer than Arrow's usual ones
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=min(len(body) + 1, 2**31 - 1))
    table = pyarrow.json.read_json(pa.BufferReader(body), reading, parsing)
    table.validate(full=True)  # bytes that are no UTF-8 would be found by whoever reads an answer
    return table


def _csv(declared: Stream | Table, body: bytes) -> pa.Table:
    kinds = {
        field.name: pa.string() if pa.types.is_duration(field.type) else field.type
        for field in declared.schema
    }
    options = pyarrow.csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
    decimals = _decimals(declared)
    as_texts = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(decimals, pa.string()), include_columns=decimals
    )
    try:
        if decimals and may_be_long(body):
            for column in pyarrow.csv.read_csv(io.BytesIO(body), convert_options=as_texts).columns:
                check_texts(column)
        return pyarrow.csv.read_csv(io.BytesIO(body), convert_options=options)
    except KeyError:
        given = pyarrow.csv.read_csv(io.BytesIO(body)).column_names
        missing = next(name for name in kinds if name not in given)
        raise SchemaError(
            f"the header of the CSV has no column '{missing}' of {declared.label}{nearest(missing, given)}"
        ) from None


def key_of(given: Any, kinds: list[tuple[str, pa.DataType]]) -> Any:
    """A key as JSON has it, as `lookup` takes it: texts of dates and times become these."""
    parts = given if len(kinds) > 1 else [given]
    if not isinstance(parts, list) or len(parts) != len(kinds):
        raise SchemaError(f"a key has {len(kinds)} parts, in a list: {', '.join(name for name, _ in kinds)}")
    read = [_part(part, *kind) for part, kind in zip(parts, kinds, strict=True)]
    return tuple(read) if len(kinds) > 1 else read[0]


def _is_plain(value: Any, kind: pa.DataType) -> bool:
    """Whether a value is a key as it stands, as most are: to make an array of one takes as long as to look it up."""
    if type(value) is str:
        return kind == _TEXT and value.isascii()
    return type(value) is int and kind == _BIGINT and -_HALF <= value < _HALF


def _part(value: Any, name: str, kind: pa.DataType) -> Any:
    if _is_plain(value, kind):
        return value
    if isinstance(value, str):
        try:
            if pa.types.is_timestamp(kind):
                value = datetime.fromisoformat(value).replace(tzinfo=None)
            elif pa.types.is_date(kind):
                value = date.fromisoformat(value)
            elif is_decimal(kind):
                value = Decimal(value)
            elif pa.types.is_floating(kind) and value in ("NaN", "Infinity", "-Infinity"):
                value = float(value)
        except (ValueError, ArithmeticError):
            pass  # the error of the key says what it takes
    if is_decimal(kind) and type(value) is float:
        value = Decimal(repr(value))
    return key_column([value], kind, name)[0].as_py()


def requests_of(body: bytes, at: str) -> pa.Table:
    """A table of requests, as JSON."""
    given = read_json(body)
    if isinstance(given, list) and given and all(isinstance(each, dict) for each in given):
        given = {name: [row.get(name) for row in given] for name in given[0]}
    if not isinstance(given, dict) or not given or not all(isinstance(each, list) for each in given.values()):
        raise SchemaError("requests are a list of objects, or an object of lists")
    return to_table({name: _times(values) if name == at else values for name, values in given.items()})


def _times(values: list[Any]) -> pa.Array:
    return pa.array([None if each is None else to_microseconds(each) for each in values], pa.int64()).cast(
        pa.timestamp("us")
    )


def instant_of(text: str | None) -> Any:
    """An instant of a request: an integer, or a text; whoever takes it says what is wrong with it."""
    return int(text) if text is not None and _WHOLE.fullmatch(text) else text


def json_or_text(text: str) -> Any:
    """A key of a request: JSON, or a text without quotes."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # which a text of brackets alone raises
        return text
