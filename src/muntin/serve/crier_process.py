"""The process of the crier: one loop, which reads portions of answers from disk and sends them to all who follow.

The bytes of a portion are made once for all who follow all queries. A connection that has not taken what came before is
handed what comes when it has; if too much waits for it, it is told so and dropped, and nobody waits for it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from muntin.serve.crier import CONNECTION, DROPPED, GONE, MESSAGE
from muntin.serve.portion import Portion, events_of, unpack

_MOST = 256  # portions that may wait for a connection
_BEAT = 15.0  # seconds after which a silent subscription says that it is there
_GRACE = 5.0  # seconds in which subscriptions have to take what waits for them when the server ends
_STILL_HERE = b": still here\n\n"
_TOO_SLOW = b"event: dropped\ndata: this subscription was too slow; go on with Last-Event-ID\n\n"
_END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """A part of a body of unknown length, as HTTP has it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection:
    """A subscription: what waits for it, and how much of the first has been sent."""

    def __init__(self, opened: socket.socket, queries: frozenset[str] | None):
        opened.setblocking(False)
        self.socket, self.queries = opened, queries
        self.waiting: deque[bytes] = deque()
        self._sent = 0  # bytes of the first
        self.is_ending = False
        self.is_dropped = False
        self.last = time.monotonic()  # when it was last handed something

    def offer(self, data: bytes) -> None:
        """Something to send, unless too much waits."""
        if self.is_ending:
            return
        if len(self.waiting) < _MOST:
            self.waiting.append(data)
            self.last = time.monotonic()
        else:
            self.is_dropped = True
            while len(self.waiting) > 1:  # what has begun goes on: it may have been sent by half
                self.waiting.pop()
            self.end(chunk(_TOO_SLOW))

    def end(self, last: bytes = b"") -> None:
        """Nothing comes behind what waits."""
        if not self.is_ending:
            self.waiting.append(last + _END)
            self.is_ending = True

    def send(self) -> bool:
        """As much as it takes now; False if it is over."""
        try:
            while self.waiting:
                first = self.waiting[0]
                self._sent += self.socket.send(memoryview(first)[self._sent :])
                if self._sent < len(first):
                    return True
                self.waiting.popleft()
                self._sent = 0
        except BlockingIOError:
            return True
        except OSError:
            return False
        return not self.is_ending


class CrierProcess:
    """All connections, and where portions are read."""

    def __init__(self, server: socket.socket, folder: Path):
        self._server, self._folder = server, folder
        self._held = b""  # of a message that is not whole
        self._given: deque[int] = deque()  # connections that came with messages
        self._connections: set[Connection] = set()
        self._chosen = selectors.DefaultSelector()
        self._chosen.register(server, selectors.EVENT_READ)
        self._segment: tuple[int, int] | None = None  # the one that was read last, and its descriptor

    def run(self) -> None:
        """Until the server ends."""
        while True:
            for key, _ in self._chosen.select(1.0):
                if key.data is None:
                    if not self._listen():
                        self._finish()
                        return
                elif key.data in self._connections:
                    self._attend(key.data)
            beat = time.monotonic() - _BEAT
            for each in [each for each in self._connections if each.last < beat]:
                if each.waiting:
                    each.last = time.monotonic()  # it is slow, not idle
                else:
                    self._hand(each, chunk(_STILL_HERE))

    def _listen(self) -> bool:
        """Do what the server says; False if it has ended."""
        try:
            told, given, _, _ = socket.recv_fds(self._server, 1 << 16, 256)
        except ConnectionError:
            return False
        if not told:
            return False
        self._given += given
        self._held += told
        while len(self._held) >= MESSAGE.size:
            about, segment, end, length = MESSAGE.unpack_from(self._held)
            if about == CONNECTION:
                if len(self._held) < MESSAGE.size + length:
                    break
                queries = json.loads(self._held[MESSAGE.size : MESSAGE.size + length])
                self._held = self._held[MESSAGE.size + length :]
                self._take(None if queries is None else frozenset(queries))
            else:
                self._held = self._held[MESSAGE.size :]
                if self._connections:
                    self._cry(segment, end, length)
        return True

    def _take(self, queries: frozenset[str] | None) -> None:
        made = Connection(socket.socket(fileno=self._given.popleft()), queries)
        self._connections.add(made)
        self._chosen.register(made.socket, selectors.EVENT_READ, made)

    def _cry(self, segment: int, end: int, length: int) -> None:
        portion = unpack(self._read(segment, end - length, length))
        whole: bytes | None = None
        for each in list(self._connections):
            if each.queries is None:
                whole = chunk(portion.events) if whole is None else whole
                self._hand(each, whole)
            elif some := _of_queries(portion, each.queries):
                self._hand(each, chunk(some))

    def _read(self, segment: int, start: int, length: int) -> bytes:
        if self._segment is None or self._segment[0] != segment:
            if self._segment is not None:
                os.close(self._segment[1])
            self._segment = segment, os.open(self._folder / f"{segment:020}.log", os.O_RDONLY)
        return os.pread(self._segment[1], length, start)

    def _hand(self, to: Connection, data: bytes) -> None:
        to.offer(data)
        self._send(to)

    def _attend(self, to: Connection) -> None:
        """It takes more now, or has said something: that it has gone, most likely."""
        try:
            if not to.socket.recv(4_096):
                self._leave(to)
                return
        except BlockingIOError:
            pass
        except OSError:
            self._leave(to)
            return
        self._send(to)

    def _send(self, to: Connection) -> None:
        if not to.send():
            self._leave(to)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if to.waiting else 0)
        if self._chosen.get_key(to.socket).events != wanted:
            self._chosen.modify(to.socket, wanted, to)

    def _leave(self, who: Connection) -> None:
        self._connections.discard(who)
        self._chosen.unregister(who.socket)
        who.socket.close()
        with suppress(OSError):  # the server has gone; so will this process
            self._server.send(DROPPED if who.is_dropped else GONE)

    def _finish(self) -> None:
        """Let all take what waits for them."""
        until = time.monotonic() + _GRACE
        self._chosen.unregister(self._server)
        for each in list(self._connections):
            each.end()
            self._send(each)
        while self._connections and (left := until - time.monotonic()) > 0:
            for key, _ in self._chosen.select(left):
                self._attend(key.data)


def _of_queries(portion: Portion, queries: frozenset[str]) -> bytes:
    return events_of(row for row in portion.rows if row[1] in queries)


def main() -> None:
    """Ended by the server alone, whoever else is told to end."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as server:
        CrierProcess(server, Path(sys.argv[2])).run()
