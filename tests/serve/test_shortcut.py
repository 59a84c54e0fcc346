"""A plain look-up is answered from its bytes; whatever is not plain is left to those who know what it means."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from muntin.errors import NotFound
from muntin.serve import access
from muntin.serve.access import Pace, Tokens
from muntin.serve.pages import Pages
from muntin.serve.shortcut import Shortcut

LINE = b"GET /queries/busy/answer?key=%22A%22 HTTP/1.1\r\n"
HOST = b"Host: localhost:8088\r\n"


async def never(*_: Any) -> Any:
    """Nobody asks the long way here."""
    raise AssertionError


def look_up(name: str, key: str) -> list[dict[str, Any]] | None:
    if name == "gone":
        raise NotFound("there is no query 'gone'")
    return None if name == "waits" else [{"key": key, "at": datetime(2026, 1, 31)}]


def body(data: bytes, pace: float = 0.0) -> bytes | None:
    return Shortcut(never, look_up, Tokens(None), Pace(pace), Pages(False)).body_for(data, "me")


@pytest.mark.parametrize(
    "headers",
    [
        HOST,
        HOST + b"Content-Type: application/json\r\nContent-Length: 0\r\n",
        HOST + b"accept: */*\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\nUser-Agent: x (y; z)\r\n",
        HOST + b"Authorization: Bearer abc\r\n",
    ],
)
def test_what_is_plain(headers: bytes) -> None:
    """As clients send it."""
    assert body(LINE + headers + b"\r\n") == b'[{"key": "\\"A\\"", "at": "2026-01-31T00:00:00Z"}]'


@pytest.mark.parametrize(
    "data",
    [
        LINE + HOST,  # not whole
        LINE + HOST + b"\r\nx",  # something behind it
        (LINE + HOST + b"\r\n") * 2,
        LINE + b"\r\n",
        LINE.replace(b"1.1", b"1.0") + HOST + b"\r\n",
        LINE.replace(b"GET", b"PUT") + HOST + b"\r\n",
        LINE.replace(b"%22A%22", b"1&at=3") + HOST + b"\r\n",
        LINE.replace(b"%22A%22", b"a+b") + HOST + b"\r\n",
        LINE.replace(b"%22A%22", b"") + HOST + b"\r\n",
        LINE.replace(b"busy", b"a%20b") + HOST + b"\r\n",
        LINE.replace(b"busy", b"gone") + HOST + b"\r\n",
        LINE.replace(b"busy", b"waits") + HOST + b"\r\n",
        LINE + HOST + b"Origin: https://elsewhere.example\r\n\r\n",
        LINE + HOST + b"Connection: close\r\n\r\n",
        LINE + HOST + b"Content-Length: 3\r\n\r\n",
        LINE + HOST + b"Transfer-Encoding: chunked\r\n\r\n",
        LINE + HOST + b"Expect: 100-continue\r\n\r\n",
        LINE + HOST + b"Upgrade: websocket\r\n\r\n",
        LINE + HOST + b"X-Forwarded-For: 1.2.3.4\r\n\r\n",
        LINE + HOST + b"Accept: application/vnd.apache.arrow.stream\r\n\r\n",
        LINE + HOST + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        LINE + HOST + b" folded: yes\r\n\r\n",
        LINE + b"Host : localhost\r\n\r\n",
        LINE + b"Host: l\xf6calhost\r\n\r\n",
        LINE + b"Host: rebound.example\r\n\r\n",
        LINE.replace(b"\r\n", b"\n") + HOST + b"\r\n",
    ],
)
def test_what_is_not(data: bytes) -> None:
    """Nothing is said then."""
    assert body(data) is None


def test_who_is_too_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not answered here: the framework says so. And a look-up that has to wait is counted once."""
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: 0.0))
    shortcut = Shortcut(never, look_up, Tokens(None), Pace(1.0), Pages(False))
    for _ in range(5):
        assert shortcut.body_for(LINE.replace(b"busy", b"waits") + HOST + b"\r\n", "me") is None
    assert shortcut.body_for(LINE + HOST + b"\r\n", "me") is not None
    assert shortcut.body_for(LINE + HOST + b"\r\n", "me") is None
