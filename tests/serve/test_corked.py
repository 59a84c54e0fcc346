"""What is written to a connection within a turn of the event loop goes out together."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from muntin.serve.corked import Corked, CorkedProtocol


class Transport:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.sent: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def writelines(self, some: list[bytes]) -> None:
        self.sent.append(b"".join(some))

    def close(self) -> None:
        self.sent.append("closed")

    def get_extra_info(self, name: str) -> None:
        """Nothing is known of it."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return "closed" in self.sent


def test_a_turn_is_one_write() -> None:
    """A head without a body goes out as well, and nothing is held back by a close."""

    async def speak() -> list[bytes | str]:
        transport = Transport()
        corked = Corked(transport, asyncio.get_running_loop())
        corked.write(b"head ")
        corked.write(b"body")
        assert transport.sent == []
        await asyncio.sleep(0)
        corked.write(b"head alone")
        await asyncio.sleep(0)
        corked.write(b"last ")
        corked.write(b"words")
        corked.close()
        await asyncio.sleep(0)
        assert corked.is_closing()
        return transport.sent

    assert asyncio.run(speak()) == [b"head body", b"head alone", b"last words", "closed"]


def test_a_shortcut_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """The framework answers in its place, also that it fails: the connection is not cut off in silence."""

    class App:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            raise RecursionError

        def body_for(self, data: bytes, client: str) -> bytes:
            raise RecursionError

    async def speak() -> bytes:
        config = uvicorn.Config(App(), http=CorkedProtocol, log_config=None)
        config.load()
        state, transport = ServerState(), Transport()
        protocol = CorkedProtocol(config, state, {})
        protocol.connection_made(transport)
        protocol.data_received(b"GET /queries/busy/answer?key=1 HTTP/1.1\r\nHost: muntin\r\n\r\n")
        await asyncio.gather(*state.tasks)
        await asyncio.sleep(0)
        return b"".join(each for each in transport.sent if isinstance(each, bytes))

    with caplog.at_level(logging.ERROR, "muntin.serve"):
        assert asyncio.run(speak()).startswith(b"HTTP/1.1 500 ")
    assert "a look-up could not be answered from its bytes" in caplog.text
