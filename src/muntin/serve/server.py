"""`muntin serve`: a service and its port, from start to stop."""

from __future__ import annotations

import gc
import ipaddress
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from muntin.errors import MissingPackage, MuntinError, NotFound
from muntin.serve.access import Limits, Tokens
from muntin.serve.crier import Crier
from muntin.serve.log_lines import set_up_log
from muntin.serve.script import read_names
from muntin.serve.service import Service
from muntin.serve.settings import Settings
from muntin.sql import CreateSink, CreateStream, CreateTable, CreateView, RegisterQuery, parse_statements
from muntin.sql.syntax import (
    CreateSinkSyntax,
    CreateStreamSyntax,
    CreateViewSyntax,
    OptionsSyntax,
    RegisterSyntax,
)

_log = logging.getLogger("muntin.serve")
_SWITCH = 0.0005  # seconds for which a thread keeps Python to itself; by default a look-up would wait ten times as long


@dataclass(frozen=True)
class Port:
    """Where a server listens, and who may come."""

    host: str = "127.0.0.1"
    number: int = 8088
    tokens: Path | None = None
    certificate: Path | None = None  # with its key, for TLS
    key: Path | None = None
    limits: Limits = field(default_factory=Limits)
    origins: tuple[str, ...] = ()  # whose pages may call it from a browser; "*": all

    @staticmethod
    def read(listen: str) -> tuple[str, int]:
        """Host and port of `host:port`.

        >>> Port.read("127.0.0.1:8088"), Port.read("[::1]:0")
        (('127.0.0.1', 8088), ('::1', 0))
        """
        host, _, number = listen.rpartition(":")
        if not host or not number.isdigit() or int(number) > 65_535:
            raise MuntinError(
                f"'{listen}' is no address to listen at: write host:port, such as 127.0.0.1:8088"
            )
        return host.strip("[]"), int(number)

    def check(self) -> None:
        """Refuse what would let strangers in."""
        if (self.certificate is None) != (self.key is None):
            raise MuntinError("TLS takes a certificate and its key: give both, or neither")
        if self.tokens is None and not _is_loopback(self.host):
            raise MuntinError(
                f"without tokens everybody who reaches {self.host} may do everything: give --tokens FILE, or listen at "
                "127.0.0.1"
            )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_script(text: str) -> str:
    """What a script declares, in a line; an error at the word if it cannot run."""
    names = {
        CreateStream: ("stream", "streams"), CreateTable: ("table", "tables"), RegisterQuery: ("query", "queries"),
        CreateView: ("materialized view", "materialized views"), CreateSink: ("sink", "sinks"),
    }  # fmt: skip
    kinds = Counter(type(each) for each in parse_statements(text, {}))
    told = [f"{many:,} {names[kind][many > 1]}" for kind in names if (many := kinds[kind])]
    return "\n".join([", ".join(told) or "nothing", *_connections(text)])


def _connections(text: str) -> Iterator[str]:
    """A line for each source and sink; an error at the word of a wrong option."""
    queries = set[str]()
    for each in read_names(text):
        match each:
            case CreateStreamSyntax(name=name, source=source) if source is not None:
                yield f"  stream {name.text} from {_told(source)}"
            case RegisterSyntax(name=name) | CreateViewSyntax(name=name):
                queries.add(name.text)
            case CreateSinkSyntax(name, query, options):
                if query.text not in queries:
                    raise NotFound(
                        f"sink '{name.text}' reads query '{query.text}', which the script does not have"
                    )
                yield f"  sink {name.text} from query {query.text} to {_told(options)}"


def _told(options: OptionsSyntax) -> str:
    return ", ".join(f"{each.name.text} = {each.value!r}" for each in options.options)


def serve(script: Path, folder: Path, port: Port, settings: Settings, log_format: str = "text") -> None:
    """Run until SIGTERM or Ctrl-C; then finish what waits and write a checkpoint. An error if it can take no more
    changes before: whoever has started it is to start it again."""
    try:
        from muntin.serve.http import make_app
        from muntin.serve.listen import listen
    except ImportError:
        raise MissingPackage("muntin serve needs FastAPI and uvicorn: pip install 'muntin[serve]'") from None
    port.check()
    tokens = Tokens(port.tokens)
    text = read_script_file(script)
    set_up_log(log_format)
    sys.setswitchinterval(_SWITCH)
    crier = Crier(folder / "answers")
    try:
        service = Service(folder, text, settings)
    except BaseException:
        crier.end()
        raise
    service.answers.crier = crier
    gc.freeze()  # a search for garbage among the objects of ten thousand queries stops all look-ups, and finds none
    try:
        app = make_app(service, tokens, port.limits, port.origins)
        listen(app, port, service.answers.dismiss, service.when_failed)
    finally:
        service.stop()
        _log.info("stopped: all that was taken is in '%s'", folder)
    if (failure := service.failure) is not None:
        if isinstance(failure, MuntinError):
            raise failure
        raise MuntinError(f"the server has ended: {type(failure).__name__}: {failure}") from failure


def read_script_file(script: Path) -> str:
    """The text of a script."""
    try:
        return script.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise MuntinError(f"'{script}' cannot be read: {getattr(error, 'strerror', error)}") from None
