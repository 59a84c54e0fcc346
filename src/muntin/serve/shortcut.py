"""A shortcut: the look-up of one key, answered before the web framework is asked.

To route a request, resolve its dependencies and validate its parameters takes a framework several times as long as the
look-up. So the plainest look-ups are answered here: `GET /queries/{name}/answer?key=…` with a good token, as JSON. All
others, and all that go wrong, are left to the framework, which knows what to say.

Of these, the plainest of all need not even be parsed: a request whose bytes have a well-known form, while the engine is
free, is answered where its bytes come in (`corked.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from fastapi import Request

from muntin.errors import MuntinError
from muntin.serve.access import Pace, Tokens
from muntin.serve.json_text import json_value
from muntin.serve.pages import Pages
from muntin.serve.problems import told
from muntin.serve.settings import TooSlow
from muntin.serve.wire import ARROW, JSON

_BEFORE, _BEHIND = "/queries/", "/answer"
_FEW = 100  # rows: a key has one, unless the query joins tables

# A request as most clients send it: a name and a key without anything that would have to be told apart, and headers.
_PLAIN = re.compile(
    rb"GET /queries/(\w+)/answer\?key=([!$%'-*,-~]+) HTTP/1\.1\r\n((?:[\w-]+: [\t -~]*\r\n)+)\r\n", re.ASCII
)
# Headers that change nothing; any other, and any of these with another value, is for those who know what it means.
_IDLE = {b"user-agent", b"accept-encoding", b"accept-language", b"content-type", b"cache-control"}
_KNOWN = {b"connection": b"keep-alive", b"content-length": b"0"}

_JSON = json.JSONEncoder(default=json_value, allow_nan=False)  # a NaN is an error: it takes the long way

Send = Callable[[MutableMapping[str, Any]], Any]
Rows = list[dict[str, Any]]
LookUp = Callable[[str, str, str | None], Any]  # of a query, a key and an instant as they came
AtOnce = Callable[[str, str], Rows | None]  # of a query and a key; None if it would have to wait


class Shortcut:
    """Answers look-ups of one key."""

    def __init__(self, look_up: LookUp, at_once: AtOnce, tokens: Tokens, pace: Pace, pages: Pages):
        self._look_up, self._at_once, self._tokens, self._pace = look_up, at_once, tokens, pace
        self._pages = pages

    def body_for(self, data: bytes, client: str) -> bytes | None:
        """The body of the answer to a request that came as these bytes; None if others have to look at it."""
        if (found := _PLAIN.fullmatch(data)) is None:
            return None
        authorization = b""
        for line in found[3][:-2].split(b"\r\n"):
            name, _, value = line.partition(b": ")
            name = name.lower()
            if name == b"authorization" and not authorization:
                authorization = value
            elif name == b"accept":
                if ARROW.encode() in value:
                    return None
            elif name == b"host":
                if not self._pages.knows(value):
                    return None
            elif name not in _IDLE and _KNOWN.get(name) != value.lower():
                return None
        if not self._tokens.allows(authorization.decode(), "read"):
            return None
        try:
            rows = self._at_once(found[1].decode(), unquote(found[2].decode()))
            body = None if rows is None or len(rows) > _FEW else _JSON.encode(rows).encode()
        except (MuntinError, ValueError):
            return None
        return body if body is not None and self._pace.takes(client) else None

    async def answers(self, scope: Any, send: Send) -> bool:
        """Whether it has answered a request; if not, nothing has been said."""
        path = scope.get("path", "")
        if not path.startswith(_BEFORE) or not path.endswith(_BEHIND) or scope["method"] != "GET":
            return False
        name, asked = path[len(_BEFORE) : -len(_BEHIND)], _parameters(scope["query_string"])
        if asked is None or "/" in name or not self._admits(scope):
            return False
        try:
            found = await self._look_up(name, asked["key"], asked.get("at"))
            if len(found) > _FEW:
                return False
            body = _JSON.encode(found).encode()
        except TooSlow as error:  # to ask again would take as long again
            await (await told(Request(scope), error))(scope, _nothing, send)
            return True
        except (MuntinError, ValueError):
            return False
        headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    def _admits(self, scope: Any) -> bool:
        headers = dict(scope["headers"])
        if ARROW.encode() in headers.get(b"accept", b"") or b"origin" in headers:
            return False
        header = headers.get(b"authorization", b"").decode("latin-1")
        client = scope.get("client")
        return bool(self._tokens.allows(header, "read")) and self._pace.takes(client[0] if client else "")


async def _nothing() -> Any:
    """A look-up has no body."""


def _parameters(query: bytes) -> dict[str, str] | None:
    """`key`, and `at` if it is given; None if there is anything else.

    >>> _parameters(b"key=%22AAPL%22"), _parameters(b"at=3"), _parameters(b"key=1&key=2")
    ({'key': '"AAPL"'}, None, None)
    """
    if query.startswith(b"key=") and b"&" not in query and b"+" not in query and len(query) > 4:
        return {"key": unquote(query[4:].decode("latin-1"))}
    pairs = parse_qsl(query.decode("latin-1"))
    found = dict(pairs)
    is_plain = "key" in found and len(found) == len(pairs) and found.keys() <= {"key", "at"}
    return found if is_plain else None
