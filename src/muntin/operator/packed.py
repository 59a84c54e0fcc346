"""Packed: a description that JSON can hold and named arrays, as bytes and back.

An Arrow stream with a row per array (name, how it is encoded, bytes); the description, as JSON, in the
schema's metadata. Nothing executable. Unpacking copies nothing: the arrays look into the bytes.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

_SCHEMA = pa.schema([("name", pa.string()), ("encoding", pa.string()), ("data", pa.large_binary())])


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
    with pa.ipc.open_stream(packed) as reader:
        description = json.loads(reader.schema.metadata[b"description"])
        arrays = {}
        for batch in reader:
            name, encoding = (batch.column(place)[0].as_py() for place in (0, 1))
            arrays[name] = _decode(encoding, batch.column(2)[0].as_buffer())
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
    if encoding != "arrow":
        return np.frombuffer(data, np.dtype(encoding))
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch().column(0)
