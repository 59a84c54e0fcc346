"""HTTP connections that are corked: what is written to one within a turn of the event loop goes out together.

uvicorn writes the head of a response and its body one after the other, and each is a system call. The first one wakes
the client for a head that says nothing yet, and the client then competes for the processor with the server that is
about to send the body. Here a look-up is answered with a single call.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_log = logging.getLogger("muntin.serve")
CONNECTION = "muntin.connection"  # of a request, by this name in its scope
_HEAD = b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class Corked:
    """A transport that holds what is written until the turn ends; in all else it is the transport that it wraps."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop):
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Some bytes, later in this turn."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        """Close it, once what is held has gone."""
        self._send()
        self._transport.close()

    def opened(self) -> Any:
        """The socket, to be given away; None if something is still to be written to it, or TLS is spoken there."""
        self._send()
        if (
            self._transport.get_write_buffer_size()
            or self._transport.get_extra_info("ssl_object") is not None
        ):
            return None
        return self._transport.get_extra_info("socket")

    def _send(self) -> None:
        if len(self._held) > 1:
            self._transport.writelines(self._held)
        elif self._held:
            self._transport.write(self._held[0])
        self._held = []


class CorkedProtocol(HttpToolsProtocol):
    """uvicorn's own, on a corked transport."""

    _is_between = True  # whether what comes next begins a request, and is no body

    def connection_made(self, transport: Any) -> None:
        """Somebody has connected."""
        super().connection_made(Corked(transport, self.loop))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Some bytes have come. If they are all of a plain look-up, which can be answered at once, it is."""
        if self._is_between and (self.cycle is None or self.cycle.response_complete):  # type: ignore[redundant-expr]
            client = self.client[0] if self.client else ""
            body = self._body_for(data, client) if data.startswith(b"GET ") else None
            if body is not None:
                self._answer(body)
                return
        super().data_received(data)

    def _body_for(self, data: bytes, client: str) -> bytes | None:
        """None also if the shortcut fails: the framework answers, with status 500 if it fails as well. An error that
        came out here would cut the connection off, and say nothing."""
        try:
            found: bytes | None = self.config.app.body_for(data, client)  # type: ignore[union-attr]
        except Exception:
            _log.exception("a look-up could not be answered from its bytes")
            return None
        return found

    def _answer(self, body: bytes) -> None:
        head = b"".join(b"%b: %b\r\n" % each for each in self.server_state.default_headers)
        self.transport.write(_HEAD % (head, len(body)) + body)
        self.server_state.total_requests += 1
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def on_message_begin(self) -> None:
        """A request begins: it says where it came in, for those who give the connection away."""
        super().on_message_begin()
        self._is_between = False
        self.scope[CONNECTION] = self.transport  # type: ignore[literal-required]

    def on_message_complete(self) -> None:
        """A request has come whole."""
        super().on_message_complete()
        self._is_between = True
