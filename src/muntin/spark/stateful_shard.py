"""A stateful shard: what the stateful step asks of a shard, whether it windows one stream or joins two.

How time goes on is not part of it: one stream has come as far as an instant, and joins have an instant for each stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from muntin.spark.answer_table import Refusal


class BadSoFar(NamedTuple):
    """How many events a shard has left out, and what is to be told of them."""

    events: int
    told: list[Refusal]


class StatefulShard(Protocol):
    """`SparkShard`, or `JoinShard`."""

    bad_events: str

    @property
    def queries(self) -> dict[str, str]:
        """Texts of the queries at work, by name."""

    def register(self, queries: Mapping[str, str]) -> None:
        """Add queries, all or none; they answer from what is there."""

    def drop(self, name: str) -> None: ...

    def rewind(self, to: int, stream: str | None = None) -> None:
        """Have a stream start again at an instant that it has passed."""

    def insert(self, packed: Iterable[tuple[str, bytes]]) -> int:
        """Take in rows of data; how many of their events were late."""

    def take_overflows(self) -> dict[str, int]:
        """How many rows of each query have been left out since the last time, since a value of them does not exist."""

    def take_came(self) -> dict[str, int]:
        """How many events, cells and bytes have come since the last time."""

    def take_bad(self) -> BadSoFar:
        """Events that have been left out since the last time, since they cannot be taken in."""

    def snapshot(self) -> pa.Buffer:
        """All state, as bytes."""

    def restore(self, packed: bytes) -> None:
        """State from a snapshot, into a shard without queries."""

    def nbytes(self) -> int: ...

    def check(self) -> None:
        """Assert every invariant of the state."""
