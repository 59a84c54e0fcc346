"""A shard: one stream at work, or some of its keys. What a runtime drives: events in, answers out, state to bytes.

Runtimes, joins and views call what is here and nothing behind it; `state` is for this folder alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import Coverage
from muntin.arrays import Arrays, Ints
from muntin.crew import ALONE, Crew
from muntin.errors import MuntinError
from muntin.plan import Request
from muntin.plan.sharing import SharedGroup, SharedStore
from muntin.query import Query
from muntin.shard import snapshot
from muntin.shard.absorb import Folded, absorb
from muntin.shard.at_work import explain_all, explain_query, group_stats, shared, stream_stats
from muntin.shard.backfill import Backfill
from muntin.shard.clock import Clock, wall_clock
from muntin.shard.emit.crowd_emission import Pause, no_pause
from muntin.shard.emit.emission import closed, emit, skip
from muntin.shard.emit.emitted import Emitted
from muntin.shard.emit.portion import DEFAULT_ROWS, Answers
from muntin.shard.gaps import know_from
from muntin.shard.intake import Admitted
from muntin.shard.read.answers import answer_one
from muntin.shard.read.coverage import coverage_of
from muntin.shard.read.evaluate import Answered
from muntin.shard.read.lookup import lookup, lookup_many, rows, value
from muntin.shard.read.lookup_at import AtPoints, lookup_at
from muntin.shard.read.question import Question
from muntin.shard.record_batch import to_record_batch
from muntin.shard.registration import Registration
from muntin.shard.state import State
from muntin.shard.table_join.joined_rows import Owns
from muntin.shard.table_join.past import owes_with, release_past
from muntin.shard.table_join.table_join import join_of
from muntin.shard.without_value import WithoutValue, find_without_value
from muntin.shard.write_buffer import WriteBuffer
from muntin.sketch.keyed_sketches import DEFAULT_BUDGET
from muntin.stream import Stream
from muntin.table_query import TableQuery
from muntin.tables.rows import TableRows


class Shard:
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
        tables: Mapping[str, TableRows] = MappingProxyType({}),
        owns: Owns | None = None,
        crew: Crew = ALONE,
    ):
        self._portion_rows = portion_rows
        self._make_state = partial(
            State,
            stream,
            backlog_bytes,
            adaptive,
            sketch_bytes,
            wall,
            is_planned_by_demand,
            tables=tables,
            owns=owns,
            crew=crew,
        )
        self._state = self._make_state()
        self._buffer = WriteBuffer(stream)

    @property
    def state(self) -> State:
        """All that has been pushed is in it: what waits is taken in before anybody looks."""
        if self._buffer:
            self._buffer.empty_into(self._state)
        return self._state

    @property
    def stream(self) -> Stream:
        """What is pushed."""
        return self._state.stream

    @property
    def clock(self) -> Clock:
        """How far event time has come."""
        return self.state.clock

    @property
    def overflows(self) -> int:
        """Rows that `advance` has left out, of all queries there ever were."""
        return self._state.overflows

    @property
    def registrations(self) -> dict[str, Registration]:
        """Queries by name, in order of registration."""
        return self._state.registrations

    @property
    def has_lanes(self) -> bool:
        """Whether queries that are registered may read lanes of a store that they share."""
        return self._state.manager.has_lanes

    @has_lanes.setter
    def has_lanes(self, has_lanes: bool) -> None:
        self.state.manager.has_lanes = has_lanes

    def request_of(self, query: Query | TableQuery) -> Request:
        """What `register` takes; an error if the query cannot be served."""
        return self._state.manager.request_of(query)

    def register(self, queries: Mapping[str, Request]) -> None:
        """Add queries, all or none; they answer at once from what is kept already."""
        self.state.register(queries)

    def begin_backfill(self, queries: Mapping[str, Request]) -> Backfill:
        """Queries that will be joined when their history has been filled in; it follows what is pushed from now on."""
        backfill = Backfill(self.state, queries)
        self.state.backfills.append(backfill)
        return backfill

    def end_backfill(self, backfill: Backfill) -> None:
        """It is over, or given up."""
        self.state.backfills.remove(backfill)

    def join(self, backfill: Backfill) -> None:
        """Take over the queries of a backfill, which has all of its history."""
        backfill.finish()
        self.state.graft(backfill)

    def drop(self, name: str) -> None:
        """Remove a query and free what only it needed; no other answer changes."""
        self.state.drop(name)

    def settle_plan(self) -> None:
        """Before time begins: have the plan that depends on which queries there are, not on how they came and went."""
        self.state.settle_plan()

    def insert(self, batch: Any) -> int:
        """Take in a batch, all or nothing; returns how many of its events were late."""
        if self._buffer.is_for(self._state):
            batch = to_record_batch(self.stream, batch)
            if self._buffer.take(self._state, batch):
                return 0
        return self.state.take_in(self.state.admit(batch))

    def admit(self, batch: Any) -> Admitted:
        """The events of a batch that are neither late nor ahead; nothing changes yet."""
        return self.state.admit(batch)

    def take_in(self, admitted: Admitted) -> int:
        """Take in events that were admitted just now, all or nothing; returns how many of the batch were late."""
        return self.state.take_in(admitted)

    def find_without_value(self, admitted: Admitted) -> WithoutValue:
        """Which of the events that could not be taken in just now are to blame."""
        return find_without_value(admitted.events, self.state.wanted)

    def absorb(self, folded: Sequence[Folded]) -> None:
        """Take in cells that were folded elsewhere, as if it had been given their events."""
        absorb(self.state, folded)

    def lookup(self, name: str, key: Any = None, at: int | None = None) -> pa.Table:
        """One query's answers as of one instant."""
        return lookup(self.state, name, key, at)

    def rows(self, name: str, key: Any = None, at: int | None = None) -> list[dict[str, Any]]:
        """One query's answer, as plain Python objects."""
        return rows(self.state, name, key, at)

    def value(self, name: str, key: Any = None, at: int | None = None) -> Any:
        """The first value of one query's answer, as a plain Python object."""
        return value(self.state, name, key, at)

    def answers(self, name: str, instants: Ints) -> Answered:
        """One query's answers at several instants, in order, with the rows left out."""
        return answer_one(self.state, Question(name, instants))

    def coverage(self, name: str) -> Coverage:
        """Whether the windows of a query are known from their start, or from when on they are."""
        return coverage_of(self.state, name)

    def lookup_many(self, names: tuple[str, ...], at: int | None = None) -> pa.Table:
        """The first values of many un-keyed queries, a row for each."""
        return lookup_many(self.state, names, at)

    def lookup_at(self, asked: Mapping[str, Sequence[pa.Array]], at: Ints) -> dict[str, AtPoints]:
        """Answers of queries at each of some instants, for the keys that their columns name; once the watermark has
        passed them."""
        return lookup_at(self.state, asked, at)

    def advance(self, until: int | None = None) -> Answers:
        """Answers of windows that closed up to `until` (by default the watermark), each once; a portion, if
        there are many."""
        return self.emit(until).by_query()

    def emit(self, until: int | None = None, pause: Pause = no_pause) -> Emitted:
        """The same, not cut into a table for each query yet. `pause` is called between its steps."""
        clock = self.state.clock
        target = clock.watermark if until is None else until
        if target is None:
            return Emitted()
        answers = emit(self.state, target, self._portion_rows, pause)
        pause()
        self._move(until)
        return answers

    def closed(self, name: str, after: int | None, until: int) -> Iterator[pa.Table]:
        """Answers of a query's windows that closed after an instant and up to another, some at a time. They count as
        given out to nobody: what `advance` owes stays."""
        return closed(self.state, name, after, until, self._portion_rows)

    def know_from(self, instant: int) -> None:
        """Something is missing before an instant: no window that begins there is complete."""
        know_from(self.state, instant)

    def owed(self, name: str) -> int:
        """How many instants of a query have closed that no `advance` has gone past, silent ones included."""
        clock, registration = self.state.clock, self.state.registrations[name]
        if clock.first is None or clock.watermark is None or not registration.pace.every:
            return 0
        after = registration.owes_after(clock.first)
        return max(0, registration.pace.tick(clock.watermark) - registration.pace.tick(after))

    def without_window(self, name: str) -> int | None:
        """Rows of a table that have no window, if they are to say how long it is; None if nobody asks them."""
        join = join_of(self.state, name)
        return None if join is None or join.query.span is None else len(join.without_window(self.state))

    def skip(self, until: int) -> None:
        """As `advance`, but nobody wants the answers: they were given out by a shard before this one."""
        if any(each.emits_changes for each in self.state.registrations.values()):
            while emit(self.state, until, self._portion_rows).more:  # who is in must be known
                pass
        else:
            skip(self.state, until)
        self._move(until)

    def pass_by(self, until: int, asked_from: int | None = None) -> None:
        """Time has reached an instant, and nobody wants what has closed: all is forgotten that look-ups do not need
        which stand there or later, or at `asked_from` or later."""
        state = self.state
        state.asked_from = until if asked_from is None else asked_from
        state.clock.promise(until)
        if state.clock.watermark is not None:
            now = state.clock.now
            state.forget_before(min(until, state.asked_from, until if now is None else now))
        state.sweepers.sweep()

    def _move(self, until: int | None) -> None:
        clock = self.state.clock
        if until is not None and (clock.watermark is None or until > clock.watermark):
            clock.promise(until)
        self.state.forget()
        self.state.sweepers.sweep()

    def rewind(self, to: int) -> None:
        """Set the watermark back: all state is dropped, and every query is registered anew as of an instant; their
        counters go on. All or nothing."""
        clock, old = self.state.clock, self.state.registrations
        watermark, before = clock.watermark, clock.state()
        name = self.state.stream.name
        if self.state.backfills:
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
        fresh = self._make_state()
        clock.rewind(to)
        fresh.clock = clock  # joins and views read it, too
        try:
            fresh.manager.has_lanes = self.state.manager.has_lanes
            fresh.register({name: self.request_of(each.asked) for name, each in old.items()})
        except BaseException:
            clock.restore(before)
            raise
        for query, each in fresh.registrations.items():
            each.emitted, each.missed = old[query].emitted, old[query].missed
        self._state = fresh
        release_past(fresh)

    def seen_until(self, table: str) -> int | None:
        """A change of a table is not seen by instants up to this one; None if none of them will be asked for."""
        watermark = self.state.clock.watermark
        return watermark if watermark is not None and owes_with(self.state, table, watermark) else None

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """All state: a description that JSON can hold, and named arrays."""
        return snapshot.take(self.state)

    def restore(
        self, description: dict[str, Any], arrays: Arrays, queries: Mapping[str, Query | TableQuery]
    ) -> None:
        """State from a snapshot, into a shard without queries."""
        snapshot.put(self.state, description, arrays, queries)

    def stats(self, with_costs: bool = True) -> dict[str, Any]:
        """Events accepted and late, event time, watermark, and what is kept; O(queries) with what groups cost."""
        told = stream_stats(self.state)
        return told | group_stats(self.state) if with_costs else told

    def explain(self, name: str | None = None) -> str:
        """The plan of one query, or of all."""
        return explain_all(self.state) if name is None else explain_query(self.state, name)

    def sharing(self) -> tuple[list[SharedStore], list[SharedGroup]]:
        """The stores and window groups, with who reads them; O(groups), beside the names of their queries."""
        return shared(self.state)

    def nbytes(self) -> int:
        """Bytes of state."""
        return self.state.nbytes()

    def check(self) -> None:
        """Assert every invariant of the state."""
        self.state.check()
