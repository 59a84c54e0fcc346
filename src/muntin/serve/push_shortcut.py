"""A shortcut for pushes: events in Arrow's format, taken before the web framework is asked.

To route such a request and resolve its dependencies takes a framework as long as the engine takes for some thousand
events. So a plain one, with a good token, is read, handed to the writer and answered here. What is wrong with it is
said in the framework's own words. Requests with numbers of a producer, from other sites, or in other formats are left
to it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from muntin.errors import MuntinError
from muntin.serve.access import Limits, Pace, Tokens
from muntin.serve.body import hand_in, read_body
from muntin.serve.problems import refused, told
from muntin.serve.service import Service
from muntin.serve.wire import ARROW, JSON

_BEFORE = "/streams/"
_SMALL = 2**18  # bytes that are read faster than a thread takes over
_SPECIAL = {b"origin", b"muntin-producer", b"muntin-sequence", b"content-encoding"}


class PushShortcut:
    """Takes plain pushes."""

    def __init__(self, service: Service, limits: Limits, tokens: Tokens, pace: Pace):
        self._service, self._limits, self._tokens, self._pace = service, limits, tokens, pace

    async def takes(self, scope: Any, receive: Any, send: Any) -> bool:
        """Whether it has taken and answered a request; if not, nothing has been read or said."""
        path = scope.get("path", "")
        if not path.startswith(_BEFORE) or scope["method"] != "POST":
            return False
        name, headers = path[len(_BEFORE) :], dict(scope["headers"])
        if name not in self._service.streams or headers.get(b"content-type") != ARROW.encode():
            return False
        authorization, client = headers.get(b"authorization", b"").decode("latin-1"), scope.get("client")
        if _SPECIAL & headers.keys() or not self._tokens.allows(authorization, "write"):
            return False
        if not self._pace.takes(client[0] if client else ""):
            return False
        request = Request(scope, receive)
        try:
            response = await self._pushed(name, request)
        except ClientDisconnect:
            return True  # there is nobody to answer
        except MuntinError as error:
            response = await told(request, error)
        except HTTPException as error:
            response = await refused(request, error)
        await response(scope, receive, send)
        return True

    async def _pushed(self, name: str, request: Request) -> Response:
        body = await read_body(request, self._limits)
        given = self._service.streams[name], self._service.push, self._limits, body, ARROW
        done = hand_in(*given) if len(body) <= _SMALL else await run_in_threadpool(hand_in, *given)
        events = await asyncio.wrap_future(done)
        return Response(b'{"events":%d}' % events, media_type=JSON)
