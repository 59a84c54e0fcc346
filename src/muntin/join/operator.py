"""The join operator: all joins of an engine, fed by the streams they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.answer import Coverage
from muntin.arrays import LONG_AGO, Arrays, Ints, order_of
from muntin.errors import MuntinError, NoValue
from muntin.expression import Expression
from muntin.join import snapshot
from muntin.join.emission import emit, skip
from muntin.join.group import JoinGroup, JoinRegistration, Keyed
from muntin.join.lookup import lookup
from muntin.join_query import JoinQuery, JoinSignature
from muntin.plan.explain import JOIN_RULE, KeptMatches, explain_join
from muntin.plan.sharing import SharedGroup, SharedStore
from muntin.shard.clock import Clock
from muntin.shard.emit.portion import DEFAULT_ROWS, Answers
from muntin.shard.intake import Admitted, evaluate
from muntin.shard.read.left_out import tell
from muntin.shard.shard import Shard
from muntin.store.event_log import EventLog
from muntin.stream import Stream

_ANY = ""  # counts the queries that read a stream, whatever they read of it


class JoinBatch(NamedTuple):
    """Events of one stream, in order of time, with all that joins need of them."""

    at: Ints
    columns: dict[str, pa.Array]
    keyed: list[tuple[JoinGroup, int, Keyed]]  # for each group and side that reads the stream


class JoinOperator:
    """All joins; `clock_of` gives the clock of a stream, which its own operator moves."""

    def __init__(
        self, clock_of: Callable[[str], Clock], backlog_bytes: int, portion_rows: int = DEFAULT_ROWS
    ):
        self._portion_rows = portion_rows
        self.clock_of = clock_of
        self._backlog_bytes = backlog_bytes
        self.needed_bytes = 0  # held when there was no backlog the last time
        self.logs: dict[str, EventLog] = {}  # by stream
        self.groups: dict[JoinSignature, JoinGroup] = {}
        self.group_of: dict[str, JoinGroup] = {}  # by query
        self._readers: dict[str, Counter[str]] = {}  # of each stream: how many queries read a column

    # -- queries -----------------------------------------------------------------------------------

    @property
    def registrations(self) -> dict[str, JoinRegistration]:
        """Queries by name, in order of registration."""
        return {name: group.registrations[name] for name, group in self.group_of.items()}

    def reads(self, stream: str) -> bool:
        """Whether some query joins the stream."""
        return stream in self.logs

    def register(self, queries: Mapping[str, JoinQuery]) -> None:
        """Add queries; they answer at once from what is kept for others already."""
        for name, query in queries.items():
            group = self._group(query)
            registration = JoinRegistration(query, group.watermark, group.watermark)
            registration.since, registration.known_from = _knowledge(group, query)
            group.add(name, registration)
            self.group_of[name] = group
            for side in query.sides:
                self._readers.setdefault(side.stream.name, Counter()).update((*side.columns, _ANY))
        self._fit_logs({side.stream.name: side.stream for query in queries.values() for side in query.sides})

    def drop(self, name: str) -> None:
        """Remove a query and free what only it needed; no other answer changes."""
        group = self.group_of.pop(name)
        query = group.registrations[name].query
        group.remove(name)
        if not group.registrations:
            del self.groups[group.signature]
        for side in query.sides:
            readers = self._readers[side.stream.name]
            readers.subtract((*side.columns, _ANY))
            self._readers[side.stream.name] = +readers
        self._fit_logs({side.stream.name: side.stream for side in query.sides})

    def start_again(self, stream: str) -> None:
        """Register anew, as of now, the queries that read a stream; their counters go on."""
        old = {
            name: each
            for name, each in self.registrations.items()
            if any(side.stream.name == stream for side in each.query.sides)
        }
        for name in old:
            self.drop(name)
        self.register({name: each.query for name, each in old.items()})
        for name, each in old.items():
            anew = self.group_of[name].registrations[name]
            anew.emitted, anew.missed = each.emitted, each.missed

    def _group(self, query: JoinQuery) -> JoinGroup:
        signature = query.signature
        if signature not in self.groups:
            names = (signature.left, signature.right)
            left, right = (self.logs.setdefault(name, EventLog()) for name in names)
            clocks = (self.clock_of(signature.left), self.clock_of(signature.right))
            self.groups[signature] = JoinGroup(signature, (left, right), clocks)
        return self.groups[signature]

    def _fit_logs(self, streams: Mapping[str, Stream]) -> None:
        """The logs of these streams keep the columns that queries read, and only those."""
        for name, stream in streams.items():
            readers = self._readers[name]
            if not readers:
                del self.logs[name], self._readers[name]
                continue
            columns = readers.keys() - {_ANY}
            if columns != set(self.logs[name].columns):
                self.logs[name].keep({each: stream.schema.field(each).type for each in sorted(columns)})

    # -- events ------------------------------------------------------------------------------------

    def prepare(self, stream: str, admitted: Admitted) -> JoinBatch:
        """Evaluate what joins need of a batch; whatever can fail does so here, before anything changes."""
        given = dict(zip(admitted.events.schema.names, admitted.events.columns, strict=True))
        reading = [
            (group, number)
            for group in self.groups.values()
            for number, side in enumerate(group.sides)
            if side.stream == stream
        ]
        at = admitted.at
        order = np.arange(len(at)) if admitted.ascends else order_of(at)
        index = pa.array(order)
        values: dict[Expression, pa.Array] = {
            value: evaluate(value, given).take(index)
            for group, number in reading
            for value in group.sides[number].on
        }
        keyed = [(group, number, group.sides[number].keyed(values)) for group, number in reading]
        # taken, so copied: what the caller does to his arrays later is none of ours
        columns = {name: given[name].take(index) for name in self.logs[stream].columns}
        return JoinBatch(at[order], columns, keyed)

    def insert(self, stream: str, batch: JoinBatch) -> None:
        """Take in events that their stream has taken in."""
        self.logs[stream].extend(batch.at, batch.columns)
        for group, side, keyed in batch.keyed:  # of a stream joined with itself, the left side first
            group.insert(side, batch.at, keyed)

    def settled_to(self) -> list[int | None]:
        """The instant that each group's look-ups are expected from."""
        return [group.settled_to for group in self.groups.values()]

    def forget(self, settled_to: Sequence[int | None]) -> None:
        """Drop what no window needs from these instants on, and the backlog of closed windows if it is too
        large."""
        if not self.groups:
            return
        is_over = self.held_bytes() > self.needed_bytes + self._backlog_bytes
        has_backlog = [
            group.forget(base, is_over) for base, group in zip(settled_to, self.groups.values(), strict=True)
        ]
        needed: dict[str, int] = {}
        for group in self.groups.values():
            for side in group.sides:
                needed[side.stream] = min(needed.get(side.stream, side.log.end), side.events.dropped)
        for stream, first in needed.items():
            self.logs[stream].drop_first(max(0, first - self.logs[stream].first))
        if is_over or not any(has_backlog):
            self.needed_bytes = self.held_bytes()

    # -- answers -----------------------------------------------------------------------------------

    def lookup(self, name: str, key: Any = None, at: int | None = None) -> pa.Table:
        """One query's answers as of one instant."""
        group = self.group_of[name]
        registration = group.registrations[name]
        if key is not None:
            raise MuntinError(
                f"query '{name}' is a join, which is not looked up by key; write WHERE, or filter the answer"
            )
        table, left_out, _ = lookup(group, registration, at)
        if left_out.rows and registration.query.fold is not None and not registration.query.keys:
            raise NoValue(f"query '{name}' has no answer: {left_out.reason}")
        tell(name, registration, left_out, stacklevel=3)
        return table

    def coverage(self, name: str) -> Coverage:
        """Whether the windows of a join are known from their start, or from when on they are."""
        group = self.group_of[name]
        return group.registrations[name].coverage(group.now)

    def value(self, name: str, key: Any = None, at: int | None = None) -> Any:
        """The first value of the answer of a join that has one row."""
        query = self.group_of[name].registrations[name].query
        if query.fold is None or query.keys:
            raise MuntinError(
                f"query '{name}' has a row for each pair or key, so no single value; use lookup, or aggregates "
                "without GROUP BY"
            )
        table = self.lookup(name, key, at)
        return table.column(0)[0].as_py() if table.num_rows else None

    def lookup_many(self, names: tuple[str, ...], at: int | None = None) -> pa.Table:
        """Joins have no single values to bundle."""
        raise MuntinError(f"lookup_many is for queries over one stream; '{names[0]}' is a join: use lookup")

    def advance(self, until: int | None = None) -> Answers:
        """Answers of windows that closed up to `until` (by default the watermark), each once; a portion, if
        there are many."""
        answers = Answers()
        for group in self.groups.values():
            found = emit(group, until, self._portion_rows)
            answers.update(found)
            answers.more |= found.more
        self.forget(self.settled_to())
        return answers

    def skip(self) -> None:
        """As `advance` to the watermark, when the answers have been given out already."""
        for group in self.groups.values():
            skip(group)
        self.forget(self.settled_to())

    def owed(self, name: str) -> int:
        """How many instants of a query have closed that no `advance` has gone past, silent ones included."""
        group = self.group_of[name]
        registration, first, target = group.registrations[name], group.first, group.watermark
        slide = registration.query.slide
        if first is None or target is None or not slide:
            return 0
        after = first if registration.emitted_to is None else max(first, registration.emitted_to)
        return max(0, target // slide - after // slide)

    # -- upkeep ------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """All state: a description that JSON can hold, and named arrays."""
        return snapshot.take(self)

    def restore(self, description: dict[str, Any], arrays: Arrays, queries: dict[str, JoinQuery]) -> None:
        """State from a snapshot, into an operator without queries."""
        snapshot.put(self, description, arrays, queries)

    def nbytes(self) -> int:
        """Bytes of state: events, their chains, and matches."""
        logs = sum(log.nbytes() for log in self.logs.values())
        return logs + sum(group.nbytes() for group in self.groups.values())

    def held_bytes(self) -> int:
        """Of `nbytes`, without what is set aside for more: how long a backlog grows must not depend on when
        arrays do."""
        logs = sum(log.held_bytes() for log in self.logs.values())
        return logs + sum(group.held_bytes() for group in self.groups.values())

    def check(self) -> None:
        """Assert every invariant of the state."""
        for log in self.logs.values():
            log.check()
        for group in self.groups.values():
            group.check()
        # there is a log for each stream that a group reads, and a group for each query
        assert self.logs.keys() == {side.stream for group in self.groups.values() for side in group.sides}
        assert set(self.group_of) == {name for each in self.groups.values() for name in each.registrations}


def _knowledge(group: JoinGroup, query: JoinQuery) -> tuple[tuple[int, int], tuple[int, int]]:
    """From which events on, and from which times on, a new query sees all it asks for: what a query that
    contains it sees, or else only what comes from now on."""
    left, right = group.sides
    if left.clock.now is None and right.clock.now is None:
        return (left.log.end, right.log.end), (LONG_AGO, LONG_AGO)
    hosts = [each for each in group.registrations.values() if each.hosts(query)]
    if hosts:
        host = min(hosts, key=lambda each: each.known_from)
        known = (
            max(host.known_from[0], left.forgotten_to),
            max(host.known_from[1], right.forgotten_to),
        )
        return host.since, known
    now = [LONG_AGO if side.clock.now is None else side.clock.now for side in group.sides]
    return (left.log.end, right.log.end), (now[0], now[1])


# How a batch reaches joins: its stream takes it in first, and either both do or neither.


def feed(joins: JoinOperator, shard: Shard, batch: Any) -> int:
    """Push a batch to a stream that joins read; returns how many of its events were late. All or nothing: what
    can fail comes before the first change."""
    stream = shard.stream.name
    admitted = shard.admit(batch)
    prepared = joins.prepare(stream, admitted)
    settled_to = joins.settled_to()  # before the batch, so that what it closes can still be asked for
    late = shard.take_in(admitted)
    joins.forget(settled_to)
    joins.insert(stream, prepared)
    return late


def join_stats(joins: JoinOperator) -> list[dict[str, Any]]:
    """For each join group: what it joins, its queries, events by side, matches found and kept, bytes."""
    return [
        {
            "join": str(group.signature),
            "queries": len(group.registrations),
            "events": list(_kept(group).events),
            "found": group.matches.found,
            "matches": len(group.matches),
            "bytes": _kept(group).nbytes,
        }
        for group in joins.groups.values()
    ]


def shared_joins(joins: JoinOperator) -> tuple[list[SharedStore], list[SharedGroup]]:
    """Join groups and what they read: the events of their streams, and the matches found among them."""
    stores = [
        SharedStore(f"{name}/log", name, "log", "events to be joined", f"{len(log):,} events", log.nbytes())
        for name, log in joins.logs.items()
    ]
    groups = []
    for number, group in enumerate(joins.groups.values(), 1):
        signature, id = group.signature, f"join/{number}"
        found = f"{len(group.matches):,} matches of {group.matches.found:,} found"
        stores.append(SharedStore(id, "", "matches", f"matches of {signature}", found, group.nbytes()))
        logs = dict.fromkeys(f"{name}/log" for name in (signature.left, signature.right))
        sides = {side for each in group.registrations.values() for side in each.query.sides}
        windows = tuple(map(str, sorted({side.window for side in sides})))
        queries = tuple(group.registrations)
        groups.append(SharedGroup(f"join#{number}", "", "join", JOIN_RULE, (id, *logs), queries, windows))
    return stores, groups


def explain_joins(joins: JoinOperator, only: JoinSignature | None = None) -> str:
    """A paragraph for each join group, or for one."""
    groups = joins.groups.values() if only is None else [joins.groups[only]]
    return "\n\n".join(
        explain_join(
            group.signature, {name: each.query for name, each in group.registrations.items()}, _kept(group)
        )
        for group in groups
    )


def _kept(group: JoinGroup) -> KeptMatches:
    left, right = group.sides
    logs = {id(side.log): side.log.nbytes() for side in group.sides}
    return KeptMatches(
        (len(left.events), len(right.events)),
        len(group.matches),
        group.matches.found,
        group.nbytes() + sum(logs.values()),
    )
