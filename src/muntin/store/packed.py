"""Packed: a description that JSON can hold and named arrays, as bytes and back.

An Arrow stream with a row per array (name, how it is encoded, bytes); the description, as JSON, in the
schema's metadata. Nothing executable. Unpacking copies nothing: the arrays look into the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrow_bytes import UnsoundBytes, read_batches, read_metadata
from muntin.errors import CheckpointError, MuntinError

_ENCODINGS = frozenset(np.dtype(each).str for each in ("i1", "i4", "i8", "u1", "u4", "u8", "f8", "?"))
_SCHEMA = pa.schema([("name", pa.string()), ("encoding", pa.string()), ("data", pa.large_binary())])


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """What is read within came from outside: if it is not as it must be, that is said of `what`, whatever failed."""
    try:
        yield
    except MuntinError:
        raise
    except Exception as error:  # whatever a made-up description leads to
        how = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise CheckpointError(f"{what} is damaged: {how}") from error


def pack(description: dict[str, Any], arrays: dict[str, Any]) -> pa.Buffer:
    """NumPy and Arrow arrays by name.

    >>> description, arrays = unpack(pack({"version": 1}, {"key": np.arange(3)}))
    >>> description, arrays["key"].tolist()
    ({'version': 1}, [0, 1, 2])
    """
    sink = pa.BufferOutputStream()
    schema = _SCHEMA.with_metadata({"description": json.dumps(description)})
    rows = [(name, *_encode(array)) for name, array in arrays.items()]
    with pa.ipc.new_stream(sink, schema) as writer:
        for row in rows:
            writer.write_batch(pa.record_batch([[cell] for cell in row], schema=schema))
    return sink.getvalue()


def unpack(packed: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description and the arrays, which may not be written to."""
    batches = read_batches(packed)
    try:
        description = json.loads(read_metadata(packed)[b"description"])
    except (KeyError, ValueError, RecursionError) as error:
        raise UnsoundBytes(f"its description is damaged: {error}") from None
    arrays = {}
    for batch in batches:
        if (
            not batch.schema.equals(_SCHEMA)
            or len(batch) != 1
            or any(each.null_count for each in batch.columns)
        ):
            raise UnsoundBytes("it has something that is no array")
        name, encoding = (batch.column(place)[0].as_py() for place in (0, 1))
        arrays[name] = _decode(encoding, batch.column(2)[0].as_buffer())
    if not isinstance(description, dict):
        raise UnsoundBytes("its description is no description")
    return description, arrays


def _encode(array: Any) -> tuple[str, Any]:
    if isinstance(array, np.ndarray):
        return array.dtype.str, np.ascontiguousarray(array).view(np.uint8).data
    batch = pa.record_batch([array], names=["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return "arrow", memoryview(sink.getvalue())


def _decode(encoding: str, data: pa.Buffer) -> Any:
    if encoding in _ENCODINGS:
        if data.size % np.dtype(encoding).itemsize:
            raise UnsoundBytes("it has an array of parts of numbers")
        return np.frombuffer(data, np.dtype(encoding))
    if encoding != "arrow":
        raise UnsoundBytes(f"it has an array of '{encoding:.20}'")
    batches = read_batches(data)
    if len(batches) != 1 or batches[0].num_columns != 1:
        raise UnsoundBytes("it has an array in pieces")
    return batches[0].column(0)
