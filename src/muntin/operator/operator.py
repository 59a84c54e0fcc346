"""The operator: a shard at work. What a runtime drives: events in, answers out, state to bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregate.sum import TOO_LARGE
from muntin.arrays import Arrays
from muntin.coverage import Coverage
from muntin.errors import MuntinError
from muntin.operator import snapshot
from muntin.operator.backfill import Backfill
from muntin.operator.bundle import Bundle
from muntin.operator.clock import wall_clock
from muntin.operator.covered import coverage_of
from muntin.operator.emission import emit, skip
from muntin.operator.left_out import LeftOut, tell
from muntin.operator.lookup import lookup, value
from muntin.operator.portion import DEFAULT_ROWS, Answers
from muntin.operator.registration import Registration
from muntin.operator.shard import Shard
from muntin.operator.timed import timed_many
from muntin.plan import Request, request_of
from muntin.query import Query
from muntin.sketch.keyed_sketches import DEFAULT_BUDGET
from muntin.stream import Stream

_BUNDLES = 16  # lists of names that lookup_many has prepared


class Operator:
    """All queries over one stream. Not safe to share between threads: its runtime sees to that."""

    def __init__(
        self,
        stream: Stream,
        backlog_bytes: int,
        adaptive: bool = True,
        sketch_bytes: int = DEFAULT_BUDGET,
        portion_rows: int = DEFAULT_ROWS,
        wall: Callable[[], int] = wall_clock,
        is_planned_by_demand: bool = False,
    ):
        self._portion_rows = portion_rows
        self._make_shard = partial(
            Shard, stream, backlog_bytes, adaptive, sketch_bytes, wall, is_planned_by_demand
        )
        self.shard = self._make_shard()

    @property
    def registrations(self) -> dict[str, Registration]:
        """Queries by name, in order of registration."""
        return self.shard.registrations

    def register(self, queries: Mapping[str, Request]) -> None:
        """Add queries, all or none; they answer at once from what is kept already."""
        self.shard.register(queries)

    def begin_backfill(self, queries: Mapping[str, Request]) -> Backfill:
        """Queries that will be joined when their history has been filled in; it follows what is pushed from now on."""
        backfill = Backfill(self.shard, queries)
        self.shard.backfills.append(backfill)
        return backfill

    def end_backfill(self, backfill: Backfill) -> None:
        """It is over, or given up."""
        self.shard.backfills.remove(backfill)

    def join(self, backfill: Backfill) -> None:
        """Take over the queries of a backfill, which has all of its history."""
        backfill.finish()
        self.shard.graft(backfill)

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

    def coverage(self, name: str) -> Coverage:
        """Whether the windows of a query are known from their start, or from when on they are."""
        return coverage_of(self.shard, name)

    def lookup_many(self, names: tuple[str, ...], at: int | None = None) -> pa.Table:
        """The first values of many un-keyed queries, a row for each."""
        seams = [self.shard.now_of(name) for name in names] if self.shard.clock.now is None else []
        known = [seam for seam in seams if seam is not None]
        instant = max(known, default=self.shard.clock.now) if at is None else at
        table, lost = timed_many(self.shard, names, lambda: self._bundle(names).table(instant))
        for name, rows in Counter(lost).items():
            tell(name, self.shard.registrations[name], LeftOut(rows, TOO_LARGE), stacklevel=3)
        return table

    def _bundle(self, names: tuple[str, ...]) -> Bundle:
        bundles = self.shard.prepared.bundles
        if names not in bundles:
            if len(bundles) >= _BUNDLES:
                bundles.clear()
            bundles[names] = Bundle(self.shard, names)
        bundle: Bundle = bundles[names]
        return bundle

    def advance(self, until: int | None = None) -> Answers:
        """Answers of windows that closed up to `until` (by default the watermark), each once; a portion, if
        there are many."""
        clock = self.shard.clock
        target = clock.watermark if until is None else until
        if target is None:
            return Answers()
        answers = emit(self.shard, target, self._portion_rows)
        self._move(until)
        return answers

    def owed(self, name: str) -> int:
        """How many instants of a query have closed that no `advance` has gone past, silent ones included."""
        clock, registration = self.shard.clock, self.shard.registrations[name]
        if clock.first is None or clock.watermark is None or not registration.slide:
            return 0
        after = registration.owes_after(clock.first)
        return max(0, clock.watermark // registration.slide - after // registration.slide)

    def skip(self, until: int) -> None:
        """As `advance`, but nobody wants the answers: they were given out by an operator before this one."""
        if any(each.query.emits_changes for each in self.shard.registrations.values()):
            while emit(self.shard, until, self._portion_rows).more:  # who is in must be known
                pass
        else:
            skip(self.shard, until)
        self._move(until)

    def _move(self, until: int | None) -> None:
        clock = self.shard.clock
        if until is not None and (clock.watermark is None or until > clock.watermark):
            clock.promise(until)
        self.shard.forget()
        self.shard.sweepers.sweep()

    def rewind(self, to: int) -> None:
        """Set the watermark back: all state is dropped, and every query is registered anew as of an instant; their
        counters go on. All or nothing."""
        clock, old = self.shard.clock, self.shard.registrations
        watermark, before = clock.watermark, clock.state()
        name = self.shard.stream.name
        if self.shard.backfills:
            raise MuntinError(
                f"stream '{name}' cannot be rewound while a query over it is filled from a history"
            )
        if watermark is None or to > watermark:
            stands = (
                "has no watermark yet" if watermark is None else f"stands at {np.datetime64(watermark, 'us')}"
            )
            raise MuntinError(
                f"stream '{name}' {stands}, which is not after {np.datetime64(to, 'us')}; to go forward, use "
                "advance(until=…)"
            )
        fresh = self._make_shard()
        clock.rewind(to)
        fresh.clock = clock  # joins and views read it, too
        try:
            fresh.register({name: request_of(each.query) for name, each in old.items()})
        except BaseException:
            clock.restore(before)
            raise
        for query, each in fresh.registrations.items():
            each.emitted, each.missed = old[query].emitted, old[query].missed
        self.shard = fresh

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """All state: a description that JSON can hold, and named arrays."""
        return snapshot.take(self.shard)

    def restore(self, description: dict[str, Any], arrays: Arrays, queries: dict[str, Query]) -> None:
        """State from a snapshot, into an operator without queries."""
        snapshot.put(self.shard, description, arrays, queries)

    def check(self) -> None:
        """Assert every invariant of the state."""
        self.shard.check()
