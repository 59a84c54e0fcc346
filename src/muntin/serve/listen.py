"""A port that answers until the process is asked to stop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from muntin.errors import MuntinError
from muntin.serve.corked import CorkedProtocol

if TYPE_CHECKING:
    from muntin.serve.server import Port

_BACKLOG = 2_048  # connections that wait to be taken
_GRACE = 30  # seconds that requests have to end when the server stops


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]):
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say so first: whoever follows answers would keep the server waiting."""
        self._stopping()
        await super().shutdown(sockets)

    def end(self) -> None:
        """Stop soon; from any thread."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise the signal again once it has stopped, and the process would end before a checkpoint."""

        def stop(*_: object) -> None:
            self.should_exit = True

        before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def listen(
    app: Any, port: Port, stopping: Callable[[], None], when_failed: Callable[[Callable[[], None]], None]
) -> None:
    """Answer at a port, whose address is printed once it is open, until SIGTERM or Ctrl-C, or until what was given to
    `when_failed` is called; then call `stopping`."""
    family = socket.AF_INET6 if ":" in port.host else socket.AF_INET
    with socket.socket(family) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((port.host, port.number))
            opened.listen(_BACKLOG)  # before the address is printed: whoever reads it may call at once
        except OSError as error:
            raise MuntinError(f"cannot listen at {port.host}:{port.number}: {error.strerror}") from None
        config = uvicorn.Config(
            app, http=CorkedProtocol, log_level="warning", access_log=False, timeout_graceful_shutdown=_GRACE,
            ssl_certfile=port.certificate, ssl_keyfile=port.key,
        )  # fmt: skip
        where = f"[{port.host}]" if ":" in port.host else port.host
        scheme = "https" if config.is_ssl else "http"
        address = f"{scheme}://{where}:{opened.getsockname()[1]}"
        print(
            f"muntin listens at {address}; {address}/console/ shows what it does, {address}/docs says what it takes",
            flush=True,
        )
        server = _Server(config, stopping)
        when_failed(server.end)
        server.run(sockets=[opened])
