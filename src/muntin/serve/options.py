"""Options of sources and sinks: what may stand in WITH (…), and what is wrong with what stands there.

    WITH (source = 'kafka', brokers = 'localhost:9092', topic = 'trades', format = 'json')

The option `source` (of a stream) or `sink` names the kind; each kind has options of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from muntin.errors import nearest
from muntin.serve.wire import ARROW, CSV, JSON
from muntin.sql.place import Misfit
from muntin.sql.syntax import (
    CreateSinkSyntax,
    CreateStreamSyntax,
    OptionsSyntax,
    OptionSyntax,
    StatementSyntax,
)

Value: TypeAlias = str | int
Given: TypeAlias = dict[str, Value]  # options as they were written

FORMATS = {"json": JSON, "arrow": ARROW, "csv": CSV}  # of a message, as a Content-Type


@dataclass(frozen=True)
class Option:
    """One option of a kind of source or sink."""

    name: str
    about: str
    fault: Callable[[Value], str | None]  # what is wrong with a value
    default: Value | None = None
    is_required: bool = False
    is_path: bool = False  # of a file or folder of this machine


def _text(value: Value) -> str | None:
    return None if isinstance(value, str) and value.strip() else "is a text in quotes"


def _number(value: Value) -> str | None:
    return None if isinstance(value, int) and value >= 1 else "is a whole number, 1 or more"


def _one_of(*words: str) -> Callable[[Value], str | None]:
    shown = " or ".join(f"'{each}'" for each in words)
    return lambda value: None if value in words else f"is {shown}"


def _bad(value: Value) -> str | None:
    is_good = value in ("fail", "skip") or (isinstance(value, str) and re.fullmatch(r"topic:\S+", value))
    return None if is_good else "is 'fail', 'skip' or 'topic:name'"


def _address(value: Value) -> str | None:
    is_good = isinstance(value, str) and re.fullmatch(r"https?://[^\s/]\S*", value)
    return None if is_good else "is an address such as 'https://host/path'"


_KAFKA = (
    Option("brokers", "host:port of brokers, with commas between them", _text, is_required=True),
    Option("topic", "the topic", _text, is_required=True),
    Option("config", "a file of further settings of librdkafka, a line `name=value` for each: TLS, passwords", _text,
           is_path=True),
)  # fmt: skip
SOURCES: dict[str, tuple[Option, ...]] = {
    "http": (),
    "kafka": (
        *_KAFKA,
        Option("format", "of a message: json, arrow or csv", _one_of(*FORMATS), "json"),
        Option("start", "where a first start begins: earliest or latest", _one_of("earliest", "latest"), "earliest"),
        Option("bad", "what to do with a message that is no event: fail, skip, or topic:name to send it there",
               _bad, "fail"),
    ),
    "folder": (
        Option("path", "the folder", _text, is_required=True, is_path=True),
        Option("bad", "what to do with a file that cannot be read: fail or skip", _one_of("fail", "skip"), "fail"),
    ),
}  # fmt: skip
SINKS: dict[str, tuple[Option, ...]] = {
    "kafka": (
        *_KAFKA,
        Option("key", "the column whose value is the key of a message; the answer's id if none is named", _text),
    ),
    "files": (
        Option("path", "the folder", _text, is_required=True, is_path=True),
        Option("format", "parquet or json (JSON lines)", _one_of("parquet", "json"), "parquet"),
        Option("seconds", "after which a file is finished", _number, 60),
        Option("bytes", "at which a file is finished, in memory before compression", _number, 64 * 2**20),
    ),
    "http": (
        Option("url", "the address that answers are posted to", _address, is_required=True),
        Option("token_file", "a file with a token, sent as Authorization: Bearer", _text, is_path=True),
        Option("rows", "answers of one request at most", _number, 500),
        Option("seconds", "that a request may take", _number, 10),
    ),
}  # fmt: skip
_KINDS = {"source": SOURCES, "sink": SINKS}


def read_options(syntax: OptionsSyntax, what: str) -> Given:
    """Options as they were written, `what` being "source" or "sink"; a fault at the word that is wrong."""
    kinds, given = _KINDS[what], dict[str, Value]()
    for each in syntax.options:
        if each.name.text in given:
            raise each.name.misfit(f"option '{each.name.text}' stands here twice")
        given[each.name.text] = each.value
    if what not in given:
        raise Misfit(f"the option '{what}' is missing: {what} = {_shown(kinds)}", syntax.span)
    kind = next(each for each in syntax.options if each.name.text == what)
    if kind.value not in kinds:
        raise Misfit(f"there is no {what} '{kind.value}': {what} = {_shown(kinds)}", kind.span)
    known = {each.name: each for each in kinds[str(kind.value)]}
    for each in syntax.options:
        if each.name.text == what:
            continue
        option = known.get(each.name.text)
        if option is None:
            raise each.name.misfit(
                f"{what} '{kind.value}' has no option '{each.name.text}'{nearest(each.name.text, list(known))}"
            )
        if fault := option.fault(each.value):
            raise Misfit(f"option '{option.name}' {fault}", each.span)
    for option in known.values():
        if option.is_required and option.name not in given:
            raise Misfit(f"{what} '{kind.value}' needs the option '{option.name}': {option.about}", kind.span)
    return given


def filled(given: Given, what: str) -> dict[str, Value | None]:
    """Options with the defaults of those that were not written."""
    return {each.name: each.default for each in _KINDS[what][str(given[what])]} | given


def path_options(syntax: OptionsSyntax, what: str) -> Iterator[OptionSyntax]:
    """Those that name files or folders of this machine."""
    kind = next(each.value for each in syntax.options if each.name.text == what)
    paths = {each.name for each in _KINDS[what][str(kind)] if each.is_path}
    return (each for each in syntax.options if each.name.text in paths)


def check_options(statements: Iterable[StatementSyntax]) -> None:
    """A fault at the first option that is wrong."""
    for statement in statements:
        match statement:
            case CreateStreamSyntax(source=source) if source is not None:
                read_options(source, "source")
            case CreateSinkSyntax(options=options):
                read_options(options, "sink")


def _shown(kinds: Iterable[str]) -> str:
    return " or ".join(f"'{each}'" for each in kinds)
