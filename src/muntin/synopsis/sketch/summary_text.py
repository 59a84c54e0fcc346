"""Summaries as texts: what a sketch knows of a window, to be stored, sent and merged elsewhere.

An Arrow stream, compressed, in base 64, so that any sink can keep it. Numbers about the whole are JSON in the
schema's metadata. Nothing executable.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import pyarrow as pa

from muntin.errors import MuntinError

QUANTILES, COUNTS = "quantiles", "counts"
_VERSION = 1
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


def pack_summary(kind: str, facts: dict[str, Any], columns: dict[str, pa.Array]) -> str:
    """
    >>> text = pack_summary(COUNTS, {"count": 3}, {"item": pa.array(["a", "b"])})
    >>> unpack_summary(text, COUNTS)[0], kind_of(text)
    ({'count': 3}, 'counts')
    """
    about = {"kind": kind, "version": _VERSION, "facts": facts}
    batch = pa.record_batch(columns).replace_schema_metadata({"muntin": json.dumps(about)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


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


def _read(text: str) -> tuple[dict[str, Any], pa.RecordBatch]:
    try:
        with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
            about, batch = json.loads(reader.schema.metadata[b"muntin"]), reader.read_next_batch()
    except (binascii.Error, pa.ArrowException, KeyError, TypeError, ValueError, StopIteration):
        raise MuntinError(
            "this is no summary: give what APPROX_QUANTILE_SUMMARY or APPROX_COUNT_SUMMARY answered"
        ) from None
    if about["version"] != _VERSION:
        raise MuntinError(f"this summary has version {about['version']}; this muntin reads {_VERSION}")
    return about, batch
