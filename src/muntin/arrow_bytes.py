"""Arrow batches from bytes that came from outside: read only if all that they say of themselves is so.

Arrow believes what a message says of its buffers, and of how large they become when they are decompressed: a
crafted message reads memory that is not its own, or asks for more than there is. So the few numbers that matter
are read here first, and the arrays are compared with their buffers before anybody looks into them.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

MOST_DECOMPRESSED = 1 << 28  # bytes that the batches of a stream may become together
_RECORD_BATCH = 3  # of the kinds of message headers
_BUFFER = struct.Struct("<qq")
_REFUSED = (pa.ArrowException, OSError, ValueError, IndexError, TypeError, EOFError, struct.error)


class UnsoundBytes(ValueError):
    """Bytes that are no Arrow batch, or not the one that they say they are."""


def read_batches(data: Any, may_be_compressed: bool = False) -> list[pa.RecordBatch]:
    """All batches of an Arrow stream, without a copy if they are not compressed; at least one.

    >>> read_batches(stream_bytes(pa.record_batch([pa.array([1, 2])], ["x"])))[0].to_pydict()
    {'x': [1, 2]}
    """
    try:
        messages = list(pa.ipc.MessageReader.open_stream(pa.BufferReader(data)))
        if messages[0].type != "schema":
            raise UnsoundBytes("it does not begin with a schema")  # Arrow would not survive it
        schema = _named(pa.ipc.read_schema(messages[0]))
        if any(message.type != "record batch" for message in messages[1:]):
            raise UnsoundBytes("there is something that is no batch")
        left = MOST_DECOMPRESSED
        for message in messages[1:]:
            left -= _check_buffers(message.metadata.to_pybytes(), message.body, may_be_compressed, left)
        return [_read(message, schema) for message in messages[1:]]
    except UnsoundBytes:
        raise
    except _REFUSED as error:
        raise UnsoundBytes(_first_line(error)) from None


def stream_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows in Arrow's stream format, which `read_batches` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_metadata(data: Any) -> dict[bytes, bytes]:
    """What was written beside the schema of an Arrow stream."""
    return read_sound_schema(data).metadata or {}


def read_batch(data: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The batch that one message holds, without a copy."""
    try:
        return _sound(pa.ipc.read_message(data), schema, False)
    except UnsoundBytes:
        raise
    except _REFUSED as error:
        raise UnsoundBytes(_first_line(error)) from None


def read_sound_schema(data: Any) -> pa.Schema:
    """A schema from its bytes."""
    try:
        message = pa.ipc.read_message(pa.py_buffer(data))
        if message.type != "schema":  # Arrow would not survive it
            raise UnsoundBytes("it is no schema")
        return _named(pa.ipc.read_schema(message))
    except UnsoundBytes:
        raise
    except _REFUSED as error:
        raise UnsoundBytes(_first_line(error)) from None


def _sound(message: Any, schema: pa.Schema, may_be_compressed: bool) -> pa.RecordBatch:
    _check_buffers(message.metadata.to_pybytes(), message.body, may_be_compressed)
    return _read(message, schema)


def _read(message: Any, schema: pa.Schema) -> pa.RecordBatch:
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    return batch


def _named(schema: pa.Schema) -> pa.Schema:
    """A schema whose names are texts: Arrow finds out only when they are asked for."""
    for name in schema.names:
        name.encode()
    return schema


def _check_buffers(metadata: bytes, body: Any, may_be_compressed: bool, most: int = MOST_DECOMPRESSED) -> int:
    """Buffers lie in the body, and become no larger than is allowed; how large they become, if compressed."""
    header = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    kind = header.field(1)
    if kind < 0 or metadata[kind] != _RECORD_BATCH:
        raise UnsoundBytes("it is no batch")
    batch = header.table(2)
    size = 0 if body is None else body.size
    is_compressed = batch.field(3) >= 0
    if is_compressed and not may_be_compressed:
        raise UnsoundBytes("it is compressed")
    becomes = 0
    for offset, length in batch.pairs(2):
        if offset < 0 or length < 0 or offset + length > size:
            raise UnsoundBytes("a buffer lies outside of it")
        if is_compressed and length:
            if length < 8:
                raise UnsoundBytes("a buffer is too short to be compressed")
            becomes += max(0, int.from_bytes(body.slice(offset, 8).to_pybytes(), "little", signed=True))
    if becomes > most:
        raise UnsoundBytes(f"it would become {MOST_DECOMPRESSED - most + becomes:,} bytes")
    return becomes


class _Table:
    """A table of a flat buffer: fields are found through its list of offsets."""

    def __init__(self, data: bytes, place: int):
        self._data, self._place = data, place
        self._offsets = place - struct.unpack_from("<i", data, place)[0]
        if not 0 <= self._offsets <= len(data) - 4:
            raise UnsoundBytes("its head is damaged")
        self._many = struct.unpack_from("<H", data, self._offsets)[0]

    def field(self, number: int) -> int:
        """Where a field is; -1 if it is not there."""
        at = 4 + 2 * number
        found = struct.unpack_from("<H", self._data, self._offsets + at)[0] if at + 2 <= self._many else 0
        return self._place + found if found else -1

    def _follow(self, number: int) -> int:
        at = self.field(number)
        if at < 0:
            raise UnsoundBytes("its head is damaged")
        place: int = at + struct.unpack_from("<I", self._data, at)[0]
        return place

    def table(self, number: int) -> _Table:
        return _Table(self._data, self._follow(number))

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A list of structures of two integers."""
        if self.field(number) < 0:
            return []
        at = self._follow(number)
        many = struct.unpack_from("<I", self._data, at)[0]
        if many * _BUFFER.size > len(self._data):
            raise UnsoundBytes("its head is damaged")
        return [_BUFFER.unpack_from(self._data, at + 4 + each * _BUFFER.size) for each in range(many)]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
