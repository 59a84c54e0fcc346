"""Decimals as texts, before Arrow reads them: it ends the process at an exponent such as that of `1e-999999999`.

No DECIMAL has so many digits that its text needs more than three digits of an exponent; what has more is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_TOO_FAR = r"[eE][+-]?0*[1-9][0-9]{3}"
_PERHAPS = re.compile(_TOO_FAR.encode() + rb"|\\u")  # or written otherwise
_SPACE = re.compile(r"\s*")


def may_be_long(body: bytes) -> bool:
    """Whether there may be such an exponent in a text of any format; O(bytes)."""
    return _PERHAPS.search(body) is not None


def check_texts(texts: Any) -> None:
    """A `pa.ArrowInvalid` that shows the first text whose exponent is too long; O(characters)."""
    found = pc.match_substring_regex(texts, _TOO_FAR)
    if pc.any(found).as_py():
        first = texts if isinstance(texts, pa.Scalar) else texts.filter(found)[0]
        raise _unreadable(first.as_py())


def check_json(body: bytes, names: Collection[str]) -> None:
    """The same for numbers and texts of these fields in JSON, one text or several. Most bodies are only searched."""
    if not names or not may_be_long(body):
        return

    def check(pairs: list[tuple[str, Any]]) -> None:
        for name, value in pairs:
            if name in names and isinstance(value, str) and re.search(_TOO_FAR, value):
                raise _unreadable(value)

    decoder = json.JSONDecoder(object_pairs_hook=check, parse_float=str)
    text, at = body.decode(errors="replace"), 0
    while rest := _SPACE.match(text, at):
        if rest.end() == len(text):
            return
        try:
            _, at = decoder.raw_decode(text, rest.end())
        except pa.ArrowInvalid:
            raise
        except (ValueError, RecursionError) as error:
            raise pa.ArrowInvalid(f"JSON with long exponents cannot be read: {error}") from None


def _unreadable(text: str) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"'{text[:40]}' has an exponent that no DECIMAL has")
