"""The crier: a process that sends answers to those who follow them, so that the engine's process need not.

Fifty subscriptions to all answers are fifty times the bytes. To write them takes the interpreter, and whoever looks
something up waits meanwhile. So the server gives the connection of a subscription away, with `SCM_RIGHTS`, once the
head of its response has been sent. From then on it tells the crier where on disk each portion of answers stands, which
is the same few bytes however many follow.

    server --connections, places of portions--> crier --events--> subscriptions
           <--how many have gone or been dropped--

The crier holds nothing that is not on disk. If it ends, its subscriptions are cut off and come again with the id of the
last event that they saw, as after any broken connection; a new crier is there by then.
"""

from __future__ import annotations

import json
import logging
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

_log = logging.getLogger("muntin.serve")
PORTION, CONNECTION = 0, 1  # what a message is about
# That, the segment and the byte behind a portion, and a length: of it, or of what follows.
MESSAGE = struct.Struct("<BQQI")
GONE, DROPPED = b"g", b"d"  # what has become of a subscription
# The same muntin as here, however it was found.
_PROGRAM = (
    "import json, sys; sys.path = json.loads(sys.argv.pop(1)); "
    "from muntin.serve.crier_process import main; main()"
)
_AGAIN = 10.0  # seconds between two starts
_PATIENCE = 10.0  # seconds in which it has to end


class Crier:
    """The server's end of it, for one thread at a time. Never waits; a process that does not keep up is ended."""

    def __init__(self, folder: Path):
        self._folder = folder  # of the answers
        self._followers = 0
        self._dropped = 0
        self._is_closed = False
        self._began = 0.0
        self._socket: socket.socket | None
        self._process: subprocess.Popen[bytes]
        self._start()

    @property
    def followers(self) -> int:
        """Connections that it has."""
        self._listen()
        return self._followers

    @property
    def dropped(self) -> int:
        """Those that were too slow, since the start."""
        self._listen()
        return self._dropped

    def tell(self, segment: int, end: int, length: int) -> None:
        """A portion has come, and ends at this byte of a segment of the answers."""
        if self._socket is not None and self._followers:
            self._send(MESSAGE.pack(PORTION, segment, end, length))

    def give(self, connection: socket.socket, queries: frozenset[str] | None) -> bool:
        """Let it send to a connection, from the next portion on; False if there is no crier now."""
        self._listen()
        if self._socket is None and time.monotonic() > self._began + _AGAIN and not self._is_closed:
            self._start()
        if self._socket is None:
            return False
        told = json.dumps(None if queries is None else sorted(queries)).encode()
        is_given = self._send(MESSAGE.pack(CONNECTION, 0, 0, len(told)) + told, connection.fileno())
        self._followers += is_given
        return is_given

    def end(self) -> None:
        """Have all subscriptions end, and do not wait."""
        self._is_closed = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def join(self) -> None:
        """Wait until they have ended."""
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self._began = time.monotonic()
        here, there = socket.socketpair()
        here.setblocking(False)
        command = [
            sys.executable,
            "-c",
            _PROGRAM,
            json.dumps(sys.path),
            str(there.fileno()),
            str(self._folder),
        ]
        with there:
            self._process = subprocess.Popen(command, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
        self._socket = here

    def _send(self, message: bytes, *descriptors: int) -> bool:
        assert self._socket is not None
        try:
            if socket.send_fds(self._socket, [message], descriptors) == len(message):
                return True
            why = "it does not keep up"
        except BlockingIOError:
            why = "it does not keep up"
        except OSError as error:
            why = str(error)
        self._give_up(why)
        return False

    def _listen(self) -> None:
        """What has become of subscriptions."""
        while self._socket is not None:
            try:
                told = self._socket.recv(4_096)
            except BlockingIOError:
                return
            except OSError:
                told = b""
            if not told:
                self._give_up("it has ended")
                return
            self._followers -= len(told)
            self._dropped += told.count(DROPPED)

    def _give_up(self, why: str) -> None:
        _log.warning("the process that sends answers to %d subscriptions is ended: %s", self._followers, why)
        assert self._socket is not None
        self._socket.close()
        self._socket, self._followers = None, 0
        self._process.kill()
        self._process.wait()
