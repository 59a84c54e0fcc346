"""What the demo replays: a declared stream, its batches, and the queries that watch it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """`watched` names the queries whose newly qualifying keys are shown as alerts, `shown` those
    whose answers close the demo."""

    stream: str
    title: str
    create_statement: str
    queries: dict[str, str]
    batches: Iterator[pa.RecordBatch]
    watched: tuple[str, ...]
    shown: tuple[str, ...]


def open_source(name: str, queries: int, seed: int, events: int | None = None) -> Source:
    """The source called `name` with `queries` queries; MuntinError says how to get a missing one."""
    # Imported here because flights need an optional package.
    if name == "flights":
        from muntin.demo.flights import flight_source

        return flight_source(queries, seed, events)
    from muntin.demo.trades import trade_source

    return trade_source(queries, seed, events)
