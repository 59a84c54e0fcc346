"""A view as plain data: what travels to tasks, and with Spark Connect to the process that keeps the view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from muntin.sql import parse_view
from muntin.stream import Stream
from muntin.view_query import ViewQuery


@dataclass(frozen=True)
class Told:
    """A view by its text; who gets it parses the text again, once per process."""

    text: str
    streams: tuple[tuple[str, bytes, str, int], ...]

    @classmethod
    def of(cls, view: ViewQuery, streams: Iterable[Stream]) -> Told:
        """What others are told of a view over streams."""
        known = ((each.name, each.schema.serialize().to_pybytes(), each.time, each.delay) for each in streams)
        return cls(view.text, tuple(known))


@lru_cache(maxsize=8)
def view_of(told: Told) -> ViewQuery:
    """The view that was told of."""
    streams = {
        name: Stream(name, pa.ipc.read_schema(pa.py_buffer(schema)), time, delay)
        for name, schema, time, delay in told.streams
    }
    view = parse_view(told.text, streams)
    assert view is not None
    return view
