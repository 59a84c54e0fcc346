"""Clients of `muntin serve` that cost little: sockets that stay open, requests that are bytes already."""

from __future__ import annotations

import json
import multiprocessing
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import quote

ARROW = "application/vnd.apache.arrow.stream"
LINES = "application/x-ndjson"


def request(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    """A request as it goes over the wire."""
    head = f"{method} {path} HTTP/1.1\r\nHost: muntin\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def look_up(query: str, key: Any) -> bytes:
    """A request for the answer of one key."""
    return request("GET", f"/queries/{query}/answer?key={quote(json.dumps(key))}")


class Caller:
    """A connection that is used again and again."""

    def __init__(self, port: int):
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""

    def ask(self, wanted: bytes) -> bytes:
        """The body of the answer; an error if its status is not 200."""
        self._socket.sendall(wanted)
        while (end := self._left.find(b"\r\n\r\n")) < 0:
            self._left += self._received()
        head, rest = self._left[:end], self._left[end + 4 :]
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        parts, size = [rest], len(rest)
        while size < length:
            parts.append(self._received())
            size += len(parts[-1])
        whole = b"".join(parts)
        self._left = whole[length:]
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{wanted[:80]!r} was answered with {head[:30]!r} {whole[:300]!r}")
        return whole[:length]

    def _received(self) -> bytes:
        found = self._socket.recv(1 << 20)
        if not found:
            raise ConnectionError("the server has closed the connection")
        return found

    def close(self) -> None:
        self._socket.close()


def ask_paced(port: int, seconds: float, per_second: float, make: Callable[[int], bytes]) -> list[float]:
    """Ask for so long, so many times a second (0: one after the other); how long each answer took.

    One that is asked late, because the one before was slow, counts from when it should have been asked.
    """
    caller, taken, began, number = Caller(port), list[float](), time.perf_counter(), 0
    while (now := time.perf_counter()) - began < seconds:
        due = began + number / per_second if per_second else now
        if now < due:
            time.sleep(due - now)
        caller.ask(make(number))
        taken.append(time.perf_counter() - due)
        number += 1
    caller.close()
    return taken


def ask_open(
    port: int, seconds: float, per_second: float, connections: int, asked: list[bytes]
) -> list[float]:
    """Ask for so long, so many times a second, whether or not those before are answered; how long each answer took.

    One thread has all connections. A request whose turn comes when all of them wait counts from when it was due.
    """
    chosen, taken, number = selectors.DefaultSelector(), list[float](), 0
    free = deque(socket.create_connection(("127.0.0.1", port)) for _ in range(connections))
    for each in free:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chosen.register(each, selectors.EVENT_READ)
    waiting: dict[Any, float] = {}
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < seconds or waiting:
        while free and (due := began + number / per_second) <= now and due - began < seconds:
            here = free.popleft()
            here.sendall(asked[number % len(asked)])
            waiting[here], number = due, number + 1
        for key, _ in chosen.select(
            max(0.0, began + number / per_second - time.perf_counter()) if free else None
        ):
            told = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
            if not told.startswith(b"HTTP/1.1 200"):  # an answer is short: it comes whole
                raise RuntimeError(f"a look-up was answered with {told[:300]!r}")
            taken.append(time.perf_counter() - waiting.pop(key.fileobj))
            free.append(key.fileobj)  # type: ignore[arg-type]
    return taken


def follow(port: int, seconds: float, many: int) -> int:
    """So many subscriptions for so long; the bytes that they were sent."""
    chosen, size, end = selectors.DefaultSelector(), 0, time.perf_counter() + seconds
    held = memoryview(bytearray(1 << 20))
    for _ in range(many):
        opened = socket.create_connection(("127.0.0.1", port))
        opened.sendall(b"GET /answers HTTP/1.1\r\nHost: muntin\r\n\r\n")
        chosen.register(opened, selectors.EVENT_READ)
    while time.perf_counter() < end:
        for key, _ in chosen.select(0.1):
            found = key.fileobj.recv_into(held)  # type: ignore[union-attr]
            size += found
            if not found:
                raise ConnectionError("a subscription has ended")
    return size


@contextmanager
def beside(work: Callable[..., Any], *arguments: Any) -> Iterator[Callable[[], tuple[Any, float]]]:
    """Have something done by a process of its own; a function that waits for what it gives, and the CPU s it took."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(False)
    process = context.Process(target=_told, args=(there, work, arguments), daemon=True)
    process.start()
    there.close()
    try:
        yield here.recv
    finally:
        process.terminate()
        process.join()


def _told(to: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    before = time.process_time()
    found = work(*arguments)
    to.send((found, time.process_time() - before))
