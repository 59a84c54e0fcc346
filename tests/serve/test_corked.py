"""What is written to a connection within a turn of the event loop goes out together."""

from __future__ import annotations

import asyncio

from muntin.serve.corked import Corked


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
