"""The operator: a shard at work. What a runtime drives: events in, answers out, state to bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from muntin.engine import snapshot
from muntin.engine.bundle import Bundle
from muntin.engine.emission import emit
from muntin.engine.lookup import lookup, value
from muntin.engine.shard import Shard
from muntin.engine.timed import timed_many
from muntin.query import Query
from muntin.stream import Stream
from muntin.synopsis.contract import Arrays
from muntin.synopsis.sketch.keyed_sketches import DEFAULT_BUDGET

_BUNDLES = 16  # lists of names that lookup_many has prepared


class Operator:
    """All queries over one stream. Not safe to share between threads: its runtime sees to that."""

    def __init__(
        self, stream: Stream, backlog_bytes: int, adaptive: bool = True, sketch_bytes: int = DEFAULT_BUDGET
    ):
        self.shard = Shard(stream, backlog_bytes, adaptive, sketch_bytes)

    def register(self, queries: Mapping[str, Query]) -> None:
        """Add queries, all or none; they answer at once from what is kept already."""
        self.shard.register(queries)

    def drop(self, name: str) -> None:
        """Remove a query and free what only it needed; no other answer changes."""
        self.shard.drop(name)

    def insert(self, batch: Any) -> int:
        """Take in a batch, all or nothing; returns how many of its events were late."""
        return self.shard.insert(batch)

    def lookup(self, name: str, key: Any = None, at: int | None = None) -> pa.Table:
        """One query's answers as of one instant."""
        return lookup(self.shard, name, key, at)

    def value(self, name: str, key: Any = None, at: int | None = None) -> Any:
        """The first value of one query's answer, as a plain Python object."""
        return value(self.shard, name, key, at)

    def lookup_many(self, names: tuple[str, ...], at: int | None = None) -> pa.Table:
        """The first values of many un-keyed queries, a row for each."""
        instant = self.shard.clock.now if at is None else at
        return timed_many(self.shard, names, lambda: self._bundle(names).table(instant))

    def _bundle(self, names: tuple[str, ...]) -> Bundle:
        bundles = self.shard.bundles
        if names not in bundles:
            if len(bundles) >= _BUNDLES:
                bundles.clear()
            bundles[names] = Bundle(self.shard, names)
        bundle: Bundle = bundles[names]
        return bundle

    def advance(self, until: int | None = None) -> dict[str, pa.Table]:
        """Answers of every window that closed up to `until` (by default the watermark), each once."""
        clock = self.shard.clock
        target = clock.watermark if until is None else until
        if target is None:
            return {}
        answers = emit(self.shard, target)
        if until is not None and (clock.watermark is None or until > clock.watermark):
            clock.promise(until)
        self.shard.forget()
        self.shard.sweep()
        return answers

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """All state: a description that JSON can hold, and named arrays."""
        return snapshot.take(self.shard)

    def restore(self, description: dict[str, Any], arrays: Arrays, queries: dict[str, Query]) -> None:
        """State from a snapshot, into an operator without queries."""
        snapshot.put(self.shard, description, arrays, queries)

    def check(self) -> None:
        """Assert every invariant of the state."""
        self.shard.check()
