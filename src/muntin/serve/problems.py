"""Problems: what is said in place of an answer, as JSON with the status that fits."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from muntin.errors import CheckpointError, MuntinError, NameTaken, NotFound, NoValue, SqlError, WindowTooLarge
from muntin.serve.answers import Gone
from muntin.serve.log import LogError
from muntin.serve.producers import OutOfSequence
from muntin.serve.settings import Busy, Stopped, TooMuchOwed, TooSlow

_STATUS: tuple[tuple[type[MuntinError], int], ...] = (
    (Gone, 410), (Busy, 429), (Stopped, 503), (LogError, 507), (CheckpointError, 507), (NotFound, 404),
    (NameTaken, 409), (OutOfSequence, 409), (WindowTooLarge, 422), (NoValue, 422), (TooSlow, 408), (TooMuchOwed, 413),
)  # fmt: skip


def described(error: MuntinError) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": type(error).__name__, "message": str(error).partition("\n")[0]}
    if isinstance(error, SqlError):
        told |= {"message": error.message, "line": error.line, "column": error.column, "excerpt": str(error)}
    return told


class _Told(JSONResponse):
    """JSON that also says what UTF-8 cannot say, as an escape: a request may have named it."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False).encode(errors="backslashreplace")


async def told(request: Request, error: Exception) -> JSONResponse:
    """The engine's own error."""
    assert isinstance(error, MuntinError)
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 400)
    headers = {"Retry-After": "1"} if status == 429 else None
    return _Told({"error": described(error)}, status, headers)


async def refused(request: Request, error: Exception) -> JSONResponse:
    """An error of the server's own, in the same form."""
    assert isinstance(error, HTTPException)
    told = {"kind": "Refused", "message": str(error.detail)}
    return _Told({"error": told}, error.status_code, error.headers)


async def misread(request: Request, error: Exception) -> JSONResponse:
    """A parameter that cannot be read."""
    assert isinstance(error, RequestValidationError)
    told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return _Told({"error": {"kind": "Invalid", "message": told}}, 422)
