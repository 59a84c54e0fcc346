"""What the OpenAPI description says beside the addresses: formats of rows, headers, and what problems look like."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Header
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from muntin.serve.producers import Once
from muntin.serve.wire import ARROW, CSV, JSON, LINES


class Described(BaseModel):
    """An error: of SQL, with the place of the word that is wrong."""

    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    excerpt: str | None = None


class Problem(BaseModel):
    """What is said in place of an answer."""

    error: Described


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": told}
    for status, told in {
        400: "The request cannot be read, or asks for what cannot be.", 401: "No token, or none of ours.",
        403: "The token's role does not suffice, or another site asks.", 404: "There is nothing of that name.",
        408: "The look-up took too long.", 409: "The name is taken, or a change before this one is missing.",
        410: "These answers are not kept any more, or have not been given yet.", 413: "More than the limits allow.",
        422: "A parameter is no good, or the answer has no value.",
        429: "Too many requests, changes that wait, or subscriptions: try again.", 503: "The service has stopped.",
        507: "The log cannot be written: the disk is full.",
    }.items()
}  # fmt: skip
FORMATS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"anyOf": [
                {"type": "array", "items": {"type": "object"}},
                {"type": "object", "additionalProperties": {"type": "array"}},
            ]}},
            LINES: {"schema": {"type": "string"}},
            CSV: {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}  # fmt: skip
REQUESTS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {kind: FORMATS["requestBody"]["content"][kind] for kind in (JSON, ARROW)},
    }
}
ROWS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Rows.",
        "content": {JSON: {"schema": {"type": "array", "items": {"type": "object"}}}, ARROW: {}},
    }
}


async def once_of(
    muntin_producer: Annotated[
        str | None, Header(max_length=200, description="Who sends this, and numbers what it sends.")
    ] = None,
    muntin_sequence: Annotated[
        int | None, Header(ge=0, le=2**62, description="The number: one more than that of the last change.")
    ] = None,
) -> Once | None:
    """What a producer calls its change, so that it counts once however often it is sent."""
    if (muntin_producer is None) != (muntin_sequence is None):
        raise HTTPException(400, "give both Muntin-Producer and Muntin-Sequence, or neither")
    if muntin_producer is None or muntin_sequence is None:
        return None
    return Once(muntin_producer, muntin_sequence)


Called = Annotated[Once | None, Depends(once_of)]
