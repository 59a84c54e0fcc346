"""Bodies of requests, read within limits; and rows as the body of an answer, in the format that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from muntin.arrow_bytes import stream_bytes
from muntin.serve.access import Limits
from muntin.serve.json_text import json_text
from muntin.serve.producers import Once
from muntin.serve.wire import ARROW, read_rows
from muntin.stream import Stream
from muntin.table import Table

_FEW = 100  # rows that are made JSON faster than a thread takes over


def kind_of(request: Request) -> str:
    """The format of a request's body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, limits: Limits) -> bytes:
    """All of it, unless it is too long; it is not read on then."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limits.body_bytes:
            raise HTTPException(413, f"a body has at most {limits.body_bytes:,} bytes")
        parts.append(part)
    return b"".join(parts)


def rows_of(declared: Stream | Table, body: bytes, kind: str, limits: Limits) -> pa.Table:
    """The rows of a body, counted before they are made what the stream has: rows of NULLs alone take no bytes."""
    rows = read_rows(declared, body, kind)
    if rows.num_rows > limits.events:
        raise HTTPException(413, f"a request has at most {limits.events:,} rows, not {rows.num_rows:,}")
    return rows


def hand_in(
    declared: Stream | Table,
    give: Callable[..., Future[Any]],
    limits: Limits,
    body: bytes,
    kind: str,
    once: Once | None = None,
) -> Future[Any]:
    """Give the rows of a body to the writer: the service's `push` or `load`."""
    rows = rows_of(declared, body, kind, limits)
    return give(declared.name, rows, body if kind == ARROW else None, once)


async def answer_rows(request: Request, table: pa.Table, limits: Limits) -> Response:
    """As Arrow where Accept says so, else as JSON."""
    if table.num_rows > limits.rows:
        raise HTTPException(
            413, f"the answer has {table.num_rows:,} rows, more than {limits.rows:,}: ask for keys"
        )
    if ARROW in request.headers.get("accept", ""):
        return Response(stream_bytes(table), media_type=ARROW)
    told = json_text(table) if table.num_rows < _FEW else await run_in_threadpool(json_text, table)
    return Response(told, media_type="application/json")
