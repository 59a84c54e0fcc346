"""A query read cold: by the parser, from its text alone, with no template and no expression of an earlier text."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.join_query import AnyQuery
from muntin.sql.place import pointing_into
from muntin.sql.statement import _query, _read_select
from muntin.stream import Stream


class _Apart(Stream):
    """Equals no other stream, so that nothing compiled for another one is found."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def read_cold(text: str, streams: Mapping[str, Stream]) -> AnyQuery:
    """The query of a text, or its `SqlError`."""
    apart = {name: _Apart(each.name, each.schema, each.time, each.delay) for name, each in streams.items()}
    with pointing_into(text):
        return _query(_read_select(text), apart)
