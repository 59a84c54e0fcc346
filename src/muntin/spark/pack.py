"""Packing: the events of one task become a few rows for each shard.

| row | start | data |
|---|---|---|
| `cells` | of their first slice | cells that events were folded into (fold.py) |
| `events` | least time | the events themselves |
| `counted` | before all others | how many events were read of each slice: for the number of late ones (fold.py) |
| `time` | before all others | none: how far time has come, told to every shard by every task |
| `statement` | before all others | a text that every shard is told (control.py) |
| `load t`, `changes t` | before all others | rows of table `t` (loaded_tables.py, changes.py) |
| `refused t` | before all others | why rows of table `t` were left out, for the first shard |
| `bad` | before all others | events that are left out, with the reasons, for the first shard (bad_events.py) |

A shard that got no events must still learn that time goes on, or its windows would not close.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Ints
from muntin.arrow_bytes import stream_bytes
from muntin.errors import MuntinError
from muntin.expression import Expression
from muntin.keys.key_dictionary import KeyDictionary
from muntin.shard.intake import WantedColumns, evaluate
from muntin.shard.record_batch import to_record_batch, to_times
from muntin.shard.without_value import find_without_value
from muntin.spark.answer_table import Refusal
from muntin.spark.bad_events import BAD, EMIT, FAIL, INSTEAD, has_time, no_time, to_bytes, told_of
from muntin.spark.fold import CountedSlices, FoldPlan, TaskFold
from muntin.spark.job import Job, Route, key_query, read_query, source_of
from muntin.spark.narrow import narrowed, widened
from muntin.spark.shard_of import shard_of_keys
from muntin.spark.shared_roster import job_at
from muntin.spark.shares import dealt_by
from muntin.stream import Stream

PACKED = pa.schema(
    [
        ("shard", pa.int32()),
        ("start", pa.int64()),
        ("origin", pa.int32()),  # the task that wrote it …
        ("turn", pa.int32()),  # … and its rows in order
        ("kind", pa.string()),
        ("greatest", pa.int64()),  # event time, NULL if the task read no event
        ("events", pa.int64()),  # that the task read, in one of its rows
        ("data", pa.binary()),
        ("ahead", pa.int64()),  # events that the task left out, in one of its rows
        ("least", pa.int64()),  # event time, in rows of kind `time`
        (
            "bad",
            pa.int64(),
        ),  # events that the task left out since they cannot be taken in, in rows of kind `time`
        ("roster", pa.int64()),  # the note that its queries are in, in rows of kind `time` (shared_roster.py)
    ]
)
CLOCK = "muntin clock"  # a column with the clock on the wall, where there is an AHEAD
PackedRow = tuple[int, int, str, int | None, int, bytes | None]  # all but what rows written together share
_MOST_CELLS = 1 << 18  # held by a task before they are sent on
MOST_EVENTS = 1 << 18
_AT_ONCE = 1 << 16  # events that are packed together


def pack_events(
    job: Job,
    batches: Iterable[pa.RecordBatch],
    origin: int,
    wall: int | None = None,
    batch: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows for the shards of all routes. Events too far ahead of the clock on the `wall`, by default the one in
    their column `CLOCK`, are left out: how far the stream has come is not known where its events are read. `batch` is
    the number of the micro-batch, by default the one that Spark tells of."""
    job, notes = job_at(job, batch)
    rows = _Rows(origin, notes)
    packers = [(route, _packer(job, route)) for route in job.routes]
    counted = CountedSlices(job.slice_step) if job.slice_step else None
    bad = _BadEvents(job)
    events, greatest, ahead = 0, LONG_AGO, 0
    least: int | None = None
    for some in gathered(batches):
        given = bad.leave_out_of_time(to_record_batch(job.reading, some))
        at = to_times(job.reading, given)
        given, at, left_out = admitted(job.stream, some, given, at, wall)
        ahead += left_out
        if not len(at):
            yield from rows.of_bad(job, bad)
            continue
        events, greatest = events + len(at), max(greatest, int(at.max()))
        least = int(at.min()) if least is None else min(least, int(at.min()))
        if counted is not None:
            counted.insert(at)
        for route, packer in packers:
            bad.insert(route, packer, given, at)
            if len(packer) >= (_MOST_CELLS if route.fold else MOST_EVENTS):
                yield from rows.of(route, packer, greatest)
        yield from rows.of_bad(job, bad)
    for route, packer in packers:
        if len(packer):
            yield from rows.of(route, packer, greatest)
    if counted is not None and events:
        yield rows.of_counts(job, counted, greatest)
    yield rows.of_time(job, greatest if events else None, events, ahead, least, bad.counts)


def admitted(
    stream: Stream, some: pa.Table, given: pa.RecordBatch, at: Ints, wall: int | None
) -> tuple[pa.RecordBatch, Ints, int]:
    """The events that are not ahead, their times, and how many are. `some` may have the clock on the wall."""
    if stream.ahead is None:
        return given, at, 0
    kept = at <= (_clock_of(some) if wall is None else wall) + stream.ahead
    if kept.all():
        return given, at, 0
    return given.filter(pa.array(kept)), at[kept], int((~kept).sum())


def _clock_of(events: pa.Table) -> int:
    """The clock on the wall of a micro-batch, which is the same in every row."""
    return int(events.column(CLOCK)[0].cast(pa.timestamp("us", "UTC")).value)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in tables of some size: Spark's batches may be small, and each costs something."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _AT_ONCE:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


class _Rows:
    """Rows of one task, numbered in order."""

    def __init__(self, origin: int, notes: Mapping[str, int | None]):
        self._origin = origin
        self._notes = notes
        self._turn = 0

    def of(self, route: Route, packer: TaskFold | EventSorter, greatest: int) -> Iterator[pa.RecordBatch]:
        kind = "cells" if route.fold else "events"
        for bucket, start, data in packer.take(greatest):
            yield self._batch([(route.ids[bucket], start, kind, greatest, 0, data)])

    def of_counts(self, job: Job, counted: CountedSlices, greatest: int) -> pa.RecordBatch:
        """To one shard of each route that folds: cells have no trace of events that no query lets pass."""
        data = counted.take()
        told: list[PackedRow] = [
            (route.ids[0], LONG_AGO, "counted", greatest, 0, data) for route in job.routes if route.fold
        ]
        return self._batch(told)

    def of_bad(self, job: Job, bad: _BadEvents) -> Iterator[pa.RecordBatch]:
        if told := bad.take():
            yield self._batch([(job.routes[0].ids[0], LONG_AGO, BAD, None, 0, to_bytes(told))])

    def of_time(
        self,
        job: Job,
        greatest: int | None,
        events: int,
        ahead: int,
        least: int | None,
        bad: Mapping[str, int],
    ) -> pa.RecordBatch:
        told: list[PackedRow] = [
            (each, LONG_AGO, "time", greatest, 0, None) for route in job.routes for each in route.ids
        ]
        told.append((job.ID, LONG_AGO, "time", greatest, 0, None))
        told[0] = (*told[0][:4], events, None)
        lost = {route.ids[0]: bad[route.name] for route in job.routes if route.name in bad}
        counts = [lost.get(each[0], 0) for each in told]
        notes = [self._notes.get(route.name) for route in job.routes for _ in route.ids]
        self._turn += 1
        return packed_rows(self._origin, self._turn, told, ahead, least, counts, [*notes, None])

    def _batch(self, rows: list[PackedRow]) -> pa.RecordBatch:
        self._turn += 1
        return packed_rows(self._origin, self._turn, rows)


def packed_rows(
    origin: int,
    turn: int,
    rows: list[PackedRow],
    ahead: int = 0,
    least: int | None = None,
    bad: Sequence[int] = (),
    roster: Sequence[int | None] = (),
) -> pa.RecordBatch:
    """Rows that one task writes together; the first of them tells how many events were `ahead`, each perhaps how many
    were `bad`."""
    shard, start, kind, greatest, events, data = (list(column) for column in zip(*rows, strict=True))
    numbers = [[origin] * len(rows), [turn] * len(rows)]
    left_out = [ahead] + [0] * (len(rows) - 1)
    columns = [shard, start, *numbers, kind, greatest, events, data, left_out, [least] * len(rows)]
    columns += [list(bad) or [0] * len(rows), list(roster) or [None] * len(rows)]
    return pa.record_batch(columns, schema=PACKED)


class _BadEvents:
    """Bad events that one task has read: how many of each route, and what is to be told of them."""

    def __init__(self, job: Job):
        self._job = job
        self._told: list[Refusal] = []
        self.counts: dict[str, int] = {}

    def leave_out_of_time(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """The events that have a time; those that have none count for the first route."""
        if self._job.bad_events == FAIL:
            return events  # whoever reads the times says which row has none
        timed = has_time(self._job.reading, events)
        if timed.all():
            return events
        lost = events.filter(pa.array(~timed))
        self._note(self._job.routes[0], lost, [no_time(self._job.stream)] * lost.num_rows, None)
        return events.filter(pa.array(timed))

    def insert(self, route: Route, packer: TaskFold | EventSorter, events: pa.RecordBatch, at: Ints) -> None:
        """Have a packer take in events, perhaps without some."""
        try:
            packer.insert(events, at)
        except MuntinError as error:
            if self._job.bad_events == FAIL:
                raise type(error)(f"{error}; {INSTEAD}") from None
            found = find_without_value(events, packer.wanted)
            if found.sound.all():
                raise
            sound = pa.array(found.sound)
            packer.insert(events.filter(sound), at[found.sound])
            self._note(route, events.filter(pa.array(~found.sound)), found.why(), route.keys)

    def _note(self, route: Route, events: pa.RecordBatch, why: list[str], keys: str | None) -> None:
        self.counts[route.name] = self.counts.get(route.name, 0) + events.num_rows
        if self._job.bad_events == EMIT:
            self._told += told_of(events, why, keys)

    def take(self) -> list[Refusal]:
        """What is to be told; then nothing is left."""
        told, self._told = self._told, []
        return told


def _packer(job: Job, route: Route) -> TaskFold | EventSorter:
    """Takes in events, and gives them out by shard. What is parsed for it is kept for the next task."""
    place = (job.fingerprint, route.name)
    if place not in _MAKERS:
        if len(_MAKERS) >= _MOST_MAKERS:
            _MAKERS.clear()
        _MAKERS[place] = _make_maker(job, route)
    return _MAKERS[place]()


def _make_maker(job: Job, route: Route) -> Callable[[], TaskFold | EventSorter]:
    if route.fold is not None:
        plan = FoldPlan(job.reading, route.fold, job.tables)
        return lambda: TaskFold(plan, route.shards)
    # a query of the route says what its keys are: their canonical text leaves a column called "select" unquoted
    text = next(iter(route.queries.values()), None) or key_query(job.reading, route.keys)
    query = source_of(read_query(job.reading, text, tables=job.tables))
    keys = dealt_by(query) if route.whole else query.key_expressions
    return lambda: EventSorter(keys, route.columns, route.shards, job.is_table)


_MAKERS: dict[tuple[str, str], Callable[[], TaskFold | EventSorter]] = {}  # by job and route
_MOST_MAKERS = 64


# Events as they are, to the shards that own their keys: for queries that need every single one.


class EventSorter:
    """Events that one task has read and not yet sent on, of one route."""

    def __init__(
        self, keys: tuple[Expression, ...], columns: tuple[str, ...], shards: int, is_narrow: bool = False
    ):
        self._expressions = keys
        self._is_narrow = is_narrow
        self._columns = list(columns)
        self._shards = shards
        self._keys = KeyDictionary([part.type for part in keys]) if keys else None
        self._held: list[pa.RecordBatch] = []
        self._times: list[Ints] = []
        self._ids: list[Ints] = []
        self.wanted = WantedColumns(frozenset(), frozenset(), frozenset({keys} if keys else ()))

    def insert(self, events: pa.RecordBatch, at: Ints) -> None:
        if self._keys is not None and self._shards > 1:
            given = dict(zip(events.schema.names, events.columns, strict=True))
            self._ids.append(self._keys.encode([evaluate(part, given) for part in self._expressions]))
        self._held.append(events.select(self._columns))
        self._times.append(at)

    def __len__(self) -> int:
        """Events held."""
        return sum(map(len, self._times))

    def take(self, greatest: int) -> Iterator[tuple[int, int, bytes]]:
        """Bucket, least time and bytes for each shard that some events belong to; then hold none. O(events)."""
        events, at = pa.concat_batches(self._held), np.concatenate(self._times)
        events = narrowed(events) if self._is_narrow else events
        self._held, self._times = [], []
        if self._shards == 1:
            yield 0, int(at.min()), stream_bytes(events)
            return
        if self._keys is None:
            yield from self._dealt(events, at)
            return
        bucket = self._bucket_of_event()
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(self._shards + 1))
        for each in range(self._shards):
            chosen = order[edges[each] : edges[each + 1]]
            if len(chosen):
                yield each, int(at[chosen].min()), stream_bytes(events.take(pa.array(chosen)))

    def _dealt(self, events: pa.RecordBatch, at: Ints) -> Iterator[tuple[int, int, bytes]]:
        """Without keys it makes no difference who gets which: as many each, side by side."""
        edges = np.arange(self._shards + 1) * len(at) // self._shards
        for each, (lo, hi) in enumerate(itertools.pairwise(edges.tolist())):
            if lo < hi:
                yield each, int(at[lo:hi].min()), stream_bytes(events.slice(lo, hi - lo))

    def _bucket_of_event(self) -> np.ndarray:
        assert self._keys is not None
        ids, self._ids = np.concatenate(self._ids), []
        keys = self._keys.take(np.arange(len(self._keys)))
        return shard_of_keys(keys, self._shards).astype(np.int16)[ids]  # so narrow, it is sorted by radix


def read_batch(packed: bytes) -> pa.RecordBatch:
    """What `stream_bytes` wrote, of columns as wide as they were."""
    return widened(read_narrow(packed))


def read_narrow(packed: bytes) -> pa.RecordBatch:
    """What `stream_bytes` wrote."""
    with pa.ipc.open_stream(packed) as reader:
        return reader.read_next_batch()
