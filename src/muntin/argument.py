"""Arguments as callers give them, checked: a wrong type is a `MuntinError` that names the argument."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from muntin.errors import MuntinError

_LONGEST = 60  # characters of a value in an error
_HALF_OF_PAIR = re.compile(r"[\ud800-\udfff]")


def shown(given: Any) -> str:
    """A value as an error shows it, with its type.

    >>> shown(5), shown(None)
    ('5 (int)', 'None')
    """
    if given is None:
        return "None"
    text = repr(given)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f"{text} ({type(given).__name__})"


def half_of_pair(text: str) -> int | None:
    """Where a text has one half of a surrogate pair, which neither UTF-8 nor Arrow can say; None if nowhere.

    >>> half_of_pair("a\\ud800"), half_of_pair("\\U0001F600")
    (1, None)
    """
    if text.isascii() or (found := _HALF_OF_PAIR.search(text)) is None:
        return None
    return found.start()


def text_of(argument: str, given: Any) -> str:
    """The text that an argument is.

    >>> text_of("name", 5)
    Traceback (most recent call last):
    muntin.errors.MuntinError: name is a text, not 5 (int)
    """
    if not isinstance(given, str):
        raise MuntinError(f"{argument} is a text, not {shown(given)}")
    return given


def kept_text_of(argument: str, given: Any) -> str:
    """The text that an argument is, if it can be kept: in UTF-8, that is."""
    if half_of_pair(text := text_of(argument, given)) is not None:
        raise MuntinError(f"UTF-8 cannot say {argument}, {text!r}: it has one half of a surrogate pair")
    return text


def query_name_of(given: Any) -> str:
    """The name of a query."""
    if not isinstance(given, str) or not given or "\0" in given:
        raise MuntinError(f"a query's name is a text that is not empty, not {given!r}")
    return kept_text_of("a query's name", given)


def texts_of(argument: str, given: Any) -> list[str]:
    """The texts that an argument lists."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        wrapped = f": write [{given!r}]" if isinstance(given, str) else ""
        raise MuntinError(f"{argument} is a list of texts, not {shown(given)}{wrapped}")
    found = list(given)
    if not set(map(type, found)) <= {str}:  # thousands are looked up at once
        for each in found:
            text_of(f"each of {argument}", each)
    return found


def count_of(argument: str, given: Any, least: int = 0, most: int | None = None) -> int:
    """The whole number that an argument is."""
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise MuntinError(f"{argument} is a whole number of at least {least}, not {shown(given)}")
    if most is not None and given > most:
        raise MuntinError(f"{argument} is a whole number of at most {most:,}, not {shown(given)}")
    return given


def switch_of(argument: str, given: Any) -> bool:
    """Whether an argument is switched on."""
    if not isinstance(given, bool):
        raise MuntinError(f"{argument} is True or False, not {shown(given)}")
    return given


def note_of(argument: str, given: Any) -> Any:
    """Data that comes back from JSON as it went in: texts, numbers, lists and dicts by text.

    >>> note_of("note", {"offset": 17, "files": ["a", "b"]})
    {'offset': 17, 'files': ['a', 'b']}
    >>> note_of("note", {3: "x"})
    Traceback (most recent call last):
    muntin.errors.MuntinError: note is data that JSON can say and give back, not {3: 'x'} (dict)
    """
    try:
        found = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        found = None
    if found != given:
        raise MuntinError(f"{argument} is data that JSON can say and give back, not {shown(given)}")
    return found


def path_of(argument: str, given: Any) -> Path:
    """The path that an argument names."""
    if not isinstance(given, str | os.PathLike) or not isinstance(found := os.fspath(given), str):
        raise MuntinError(f"{argument} is a path, not {shown(given)}")
    if not found or "\0" in found:
        raise MuntinError(f"{argument} is a path, and {found!r} names none")
    return Path(found)
