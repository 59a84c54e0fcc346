"""Summaries as texts: what a sketch knows of a window, to be stored, sent and merged elsewhere.

In base 64, so that any sink can keep it:

    8 bytes    format version
    32 bytes   SHA-256 of what follows
    the rest   an Arrow stream, compressed; numbers about the whole are JSON in the schema's metadata

Nothing executable. Texts of version 0.1.0 are the Arrow stream alone, compressed by Arrow. They are read, but a text
whose numbers were changed is not told from one whose were not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from muntin.arrow_bytes import MOST_DECOMPRESSED, UnsoundBytes, read_batches, read_metadata
from muntin.described import Misshapen, check_shape
from muntin.errors import MuntinError

QUANTILES, COUNTS = "quantiles", "counts"
MOST_ELEMENTS = 2**62  # that all counts and shares of a summary may add up to
_MAGIC, _VERSION = b"MUNTSU", b"02"
_ARROW = b"\xff\xff\xff\xff"  # what texts of version 0.1.0 begin with
_ABOUT = {"kind": str, "facts": dict}


def pack_summary(kind: str, facts: dict[str, Any], columns: dict[str, pa.Array]) -> str:
    """
    >>> text = pack_summary(COUNTS, {"count": 3}, {"item": pa.array(["a", "b"])})
    >>> unpack_summary(text, COUNTS)[0], kind_of(text)
    ({'count': 3}, 'counts')
    """
    batch = pa.record_batch(columns)
    schema = batch.schema.with_metadata({"muntin": json.dumps({"kind": kind, "facts": facts})})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    body = zlib.compress(sink.getvalue())
    return base64.b64encode(_MAGIC + _VERSION + hashlib.sha256(body).digest() + body).decode()


def unpack_summary(text: str, kind: str) -> tuple[dict[str, Any], dict[str, pa.Array]]:
    """The facts and columns of a summary of one kind."""
    about, batch = _read(text)
    if about["kind"] != kind:
        raise MuntinError(f"this is a summary of {about['kind']}, not of {kind}")
    return about["facts"], dict(zip(batch.schema.names, batch.columns, strict=True))


def kind_of(text: str) -> str:
    """What a summary is of."""
    kind: str = _read(text)[0]["kind"]
    return kind


def damaged(how: object) -> MuntinError:
    """A summary that says what cannot be."""
    return MuntinError(f"this summary is damaged: {how}")


def check_facts(facts: Mapping[str, Any], shape: Mapping[str, Any]) -> None:
    """Raise an error unless the numbers about a summary are those that there must be, and no others."""
    try:
        check_shape(facts, dict(shape), "it")
    except Misshapen as error:
        raise damaged(error) from None
    if unknown := facts.keys() - shape.keys():
        raise damaged(f"it has a '{min(unknown)}'")


def check_column(columns: Mapping[str, pa.Array], name: str, kind: pa.DataType | None = None) -> pa.Array:
    """A column of a summary, without NULL; an error if it is not there."""
    found = columns.get(name)
    if found is None or found.null_count or (kind is not None and found.type != kind):
        raise damaged(f"its '{name}' is not what it must be")
    return found


def _read(text: str) -> tuple[dict[str, Any], pa.RecordBatch]:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _no_summary() from None
    if content[:4] == _ARROW:
        return _read_stream(content, may_be_compressed=True)
    if content[:6] != _MAGIC:
        raise _no_summary()
    if content[6:8] != _VERSION:
        version = content[6:8].decode(errors="replace")
        raise MuntinError(f"this summary has version {version}; this muntin reads {_VERSION.decode()}")
    body = content[40:]
    if hashlib.sha256(body).digest() != content[8:40]:
        raise damaged("its checksum does not match")
    return _read_stream(_decompressed(body), may_be_compressed=False)


def _decompressed(body: bytes) -> bytes:
    """At most so many bytes: what is small may say that it is huge."""
    machine = zlib.decompressobj()
    try:
        stream = machine.decompress(body, MOST_DECOMPRESSED)
    except zlib.error as error:
        raise damaged(error) from None
    if not machine.eof or machine.unused_data:
        raise damaged(f"it would become more than {MOST_DECOMPRESSED:,} bytes, or is cut short")
    return stream


def _read_stream(stream: bytes, may_be_compressed: bool) -> tuple[dict[str, Any], pa.RecordBatch]:
    try:
        (batch,) = read_batches(stream, may_be_compressed)
        about = json.loads(read_metadata(stream)[b"muntin"])
        check_shape(about, _ABOUT, "it")
    except UnsoundBytes as error:
        raise damaged(error) from None
    except (KeyError, ValueError, RecursionError):
        raise _no_summary() from None
    if len(set(batch.schema.names)) < len(batch.schema.names):
        raise damaged("it has two columns of one name")
    return about, batch


def _no_summary() -> MuntinError:
    return MuntinError(
        "this is no summary: give what APPROX_QUANTILE_SUMMARY or APPROX_COUNT_SUMMARY answered"
    )
