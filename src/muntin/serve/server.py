"""`muntin serve`: a service and its port, from start to stop."""

from __future__ import annotations

import gc
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from muntin.engine import Engine
from muntin.errors import MissingPackage, MuntinError
from muntin.serve.access import Limits, Tokens
from muntin.serve.admission import admit
from muntin.serve.crier import Crier
from muntin.serve.log_lines import set_up_log
from muntin.serve.pages import is_local
from muntin.serve.script import Roster, read_names
from muntin.serve.service import Service
from muntin.serve.settings import Settings
from muntin.sql.connections import blanked
from muntin.sql.syntax import (
    CreateSinkSyntax,
    CreateStreamSyntax,
    CreateTableSyntax,
    CreateViewSyntax,
    OptionsSyntax,
    RegisterSyntax,
    StatementSyntax,
)
from muntin.view.folders import Folders

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
        if self.tokens is None and not is_local(self.host.encode()):
            raise MuntinError(
                f"without tokens everybody who reaches {self.host} may do everything: give --tokens FILE, or listen at "
                "127.0.0.1"
            )


def check_script(text: str, folders: Sequence[Path] = ()) -> str:
    """What a script declares; an error at the word if a first start would refuse it. The script is applied to an engine
    that ends with this call. No source or sink is opened, and no history of BACKFILL is read."""
    names = {
        CreateStreamSyntax: ("stream", "streams"), CreateTableSyntax: ("table", "tables"),
        RegisterSyntax: ("query", "queries"), CreateViewSyntax: ("materialized view", "materialized views"),
        CreateSinkSyntax: ("sink", "sinks"),
    }  # fmt: skip
    with _place_of_views(text) as archive:
        engine = Engine(archive=archive, folders=[*filter(None, [archive]), *folders])
        try:
            statements = admit(text, engine, Folders(folders))
            histories = (each.backfill_span for each in statements if isinstance(each, RegisterSyntax))
            Roster().execute(engine, blanked(text, filter(None, histories)))
        finally:
            engine.close()
    kinds = Counter(map(type, statements))
    told = [f"{many:,} {names[kind][many > 1]}" for kind in names if (many := kinds[kind])]
    return "\n".join([", ".join(told) or "nothing", *_connections(statements)])


@contextmanager
def _place_of_views(text: str) -> Iterator[str | None]:
    """A folder that goes again; None for a script without views, which needs no place that can be written."""
    if not any(isinstance(each, CreateViewSyntax) for each in read_names(text)):
        yield None
        return
    try:
        folder = TemporaryDirectory()
    except OSError as error:
        raise MuntinError(f"materialised views are checked in a folder that goes again: {error}") from None
    with folder as path:
        yield path


def _connections(statements: Iterable[StatementSyntax]) -> Iterator[str]:
    """A line for each source and sink."""
    for each in statements:
        match each:
            case CreateStreamSyntax(name=name, source=source) if source is not None:
                yield f"  stream {name.text} from {_told(source)}"
            case CreateSinkSyntax(name, query, options):
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
