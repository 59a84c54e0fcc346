"""The stateful step: one call per shard and micro-batch, rows packed by many tasks in, answers out."""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from muntin.described import WHOLE, Absent, Maybe, check_shape
from muntin.errors import CheckpointError, MuntinError
from muntin.spark.answer_table import Refusal
from muntin.spark.answers import EMITTED_SCHEMA, emitted_rows
from muntin.spark.bad_events import BAD, COUNT, FAIL, from_bytes
from muntin.spark.changes import REFUSED
from muntin.spark.control import Roster, Step, in_order
from muntin.spark.job import Job, Route
from muntin.spark.ledger import (
    Head,
    Ledger,
    begin_head,
    bind,
    check_held,
    check_identity,
    check_known,
    columns_in,
)
from muntin.spark.loaded_tables import LOAD
from muntin.spark.pack import read_batch
from muntin.spark.report import report_text
from muntin.spark.request_shard import shard_of
from muntin.spark.shared_roster import check_note, this_batch, write_note
from muntin.spark.stateful_shard import StatefulShard
from muntin.store.saved import pack, refusing, unpack

# Shards that live on in a Python worker between micro-batches, so that state is seldom read back.
#
# Spark may give the next micro-batch of a shard to another worker, whose copy has then missed some: it
# takes them in from the log. A copy that did not write what the log says, since its attempt failed, is
# thrown away and rebuilt. The ledger is the truth; what is here only makes it fast.

_MOST = 64  # shards that a worker keeps


@dataclass
class Copy:
    """A shard as of one entry of its ledger, which it knows by token."""

    shard: StatefulShard
    job: str  # the fingerprint of the job that it was made for: another one may read other columns
    entries: int
    token: str


class ShardCache:
    """The copies of one process, by ledger; those used least recently go first."""

    def __init__(self) -> None:
        self._copies: OrderedDict[str, Copy] = OrderedDict()

    def take(self, head: Head, job: str) -> Copy | None:
        """The copy of a ledger's shard, made for a job, if the rest can be had from the log. It is taken out:
        whoever fails half-way leaves nothing behind."""
        copy = self._copies.pop(head.ledger, None)
        if copy is None or copy.job != job or head.tokens.get(copy.entries) != copy.token:
            return None
        return copy

    def put(self, head: Head, job: str, shard: StatefulShard) -> None:
        self._copies[head.ledger] = Copy(shard, job, head.entries, head.tokens[head.entries])
        while len(self._copies) > _MOST:
            self._copies.popitem(last=False)

    def clear(self) -> None:
        self._copies.clear()


CACHE = ShardCache()
_OF_QUERIES = ("register", "fill", "drop")
# an entry of the log: what a micro-batch did to its shard
_ENTRY = {
    "steps": [[str]],
    "greatest": Maybe(WHOLE),
    "delay": Absent(WHOLE),
    "kinds": [str],
    "lanes": Absent(bool),  # whether queries could go to lanes; versions before folded each filter by itself
    "bad": Absent(bool),  # whether events without a value were left out
    "least": Absent(
        WHOLE
    ),  # event time of the micro-batch, where rows of tables or a history are asked about silence
}


def stateful_step(job: Job) -> StatefulProcessor:
    """What Spark is given to run: a class that is made here, and so travels by value, and the job as bytes.

    Whenever a query starts, Spark starts a Python process that is asked for nothing but the state's variables. It need
    not import muntin, which would take it two seconds.
    """
    packed = pickle.dumps(job)

    class Step(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._processor: Any = None
            self._variables = (
                handle.getValueState("head", "text STRING"),
                handle.getMapState("base", "number INT", "piece BINARY"),
                handle.getMapState("log", "entry BIGINT", "data BINARY"),
            )

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
            return iter(self.processor().handle_rows(key, rows))

        def processor(self) -> Any:
            if self._processor is None:
                from muntin.spark.join_processor import processor_of
                from muntin.spark.ledger import Ledger

                self._processor = processor_of(pickle.loads(packed), Ledger(*self._variables))
            return self._processor

    return Step()


class ShardProcessor:
    """Spark's side of a shard: it finds the shard in memory or in the state, and keeps both in step."""

    _ENTRY: Mapping[str, Any] = _ENTRY

    def __init__(self, job: Job, ledger: Ledger):
        self._job = job
        self._ledger = ledger

    def handle_rows(self, key: Any, rows: Iterator[Row]) -> Iterator[Row]:
        """All rows of one shard in one micro-batch."""
        if int(key[0]) == Job.ID:
            self._keep_identity()
            return
        route, bucket = self._job.route_of(int(key[0]))
        given = sorted((row.asDict() for row in rows), key=lambda row: (row["origin"], row["turn"]))
        head = self._ledger.read_head() or begin_head(self._job, route, bucket)
        check_identity(head, self._job, route)
        check_held(
            head, route, [row["kind"].removeprefix(LOAD) for row in given if row["kind"].startswith(LOAD)]
        )
        shard = self._find(head, route)
        before = replace(head)
        description, arrays, refusals = self._entry(head, shard, route, given)
        late, answers = self._apply(shard, head, description, arrays)
        is_first = route is self._job.routes[0]
        told = {name: sum(row[name] for row in given) for name in ("events", "ahead", "bad")}
        told["late"] = late if self._counts(route) else 0
        bad = shard.take_bad()
        told["bad"] += bad.events
        refused = [*(refusals if is_first and bucket == 0 else []), *bad.told]
        head.bad += told["bad"]
        counts = {**shard.take_came(), "late": late, "bad": told["bad"]}
        for portion in answers:  # sent on one by one: a long silence must not fill the worker's memory
            nbytes, overflows = shard.nbytes() if told else 0, shard.take_overflows()
            is_counted = not (
                route.whole and bucket
            )  # what shards say of a spread query is one answer together
            given_out = {name: table.num_rows for name, table in portion.items() if is_counted}
            head.answers += sum(given_out.values())
            head.overflows += sum(overflows.values())
            report = report_text(
                route.name, {**counts, "state_bytes": nbytes}, given_out, overflows, len(shard.queries)
            )
            for emitted in emitted_rows(
                self._job, int(key[0]), portion, refused, **told, overflows=sum(overflows.values()),
                greatest=head.greatest, state_bytes=nbytes, report=report,
            ):  # fmt: skip
                yield Row(**dict(zip(EMITTED_SCHEMA.names, emitted, strict=True)))
            told, counts, refused = {}, {}, []
        if description["steps"] or arrays or head != before:
            bind(head, self._job, route, shard.queries)
            self._ledger.append(head, pack(description, arrays).to_pybytes())
            is_filled = any(step[0] == "fill" for step in description["steps"])
            if is_filled or self._ledger.is_due(head) or before.columns is None:
                self._ledger.write_base(head, shard.snapshot(), is_filled)
            self._ledger.write_head(head)
        if head.entries:
            CACHE.put(head, self._job.fingerprint, shard)

    def _keep_identity(self) -> None:
        """The job's own ledger, which has no entries: any micro-batch may be the first that has rows for shards, so
        that they have no state says nothing, but other keys or another stream than the job's say all."""
        head = self._ledger.read_head() or begin_head(self._job, None, 0)
        check_identity(head, self._job, None)
        if head.configured != self._job.configured:
            head.configured = self._job.configured
            bind(head, self._job, None)
            self._ledger.write_head(head)

    def _find(self, head: Head, route: Route) -> StatefulShard:
        """The shard as of the last entry: from memory, brought up to date, or from the state."""
        copy = CACHE.take(head, self._job.fingerprint)
        if copy is not None:
            shard, done = copy.shard, copy.entries
        else:
            shard, done = self._make(head, route), head.base
            if head.pieces:
                shard.restore(self._ledger.read_base(head))
        replayed = Head(head.route, head.bucket, head.shards, head.routes)
        for number in range(done + 1, head.entries + 1):
            with refusing(f"entry {number} of the log in this checkpoint"):
                description, arrays = unpack(self._ledger.read_entry(number))
                check_shape(description, self._ENTRY, "the entry")
                self._apply(shard, replayed, description, arrays, is_replay=True)
        shard.bad_events = self._job.bad_events
        return shard

    def _make(self, head: Head, route: Route) -> StatefulShard:
        """A shard that has taken in nothing yet."""
        return shard_of(self._job, route, head.bucket, columns_in(head, self._job, route))

    def _counts(self, route: Route) -> bool:
        """Whether the shards of a route count late events."""
        return route is self._job.counting

    def _apply(
        self,
        shard: StatefulShard,
        head: Head,
        description: dict[str, Any],
        arrays: dict[str, Any],
        is_replay: bool = False,
    ) -> tuple[int, Iterator[Mapping[str, pa.Table]]]:
        """Do what an entry says; how many events were late, and the answers (none of a replay), portion by portion:
        the entry has been done when all of them have been drawn."""
        packed = [(kind, arrays[str(i)].data) for i, kind in enumerate(description["kinds"])]
        rows = self._prepare(shard, description, packed, is_replay)
        for word, some in groupby(description["steps"], key=lambda step: str(step[0])):
            if word == "fill" and is_replay:
                raise CheckpointError("a base is missing that has the history of a query")
            self._carry(shard, word, list(some))
        late = shard.insert(rows)
        head.late += late
        return late, self._pass_time(shard, head, description, is_replay)

    def _prepare(
        self, shard: Any, description: dict[str, Any], packed: list[tuple[str, bytes]], is_replay: bool
    ) -> list[tuple[str, bytes]]:
        """Set the shard up as it was when the entry was written, and load tables; the rows that are left to take in."""
        shard.has_lanes = description.get("lanes", False)
        if is_replay:
            shard.bad_events = COUNT if description.get("bad", False) else FAIL
        for kind, data in packed:
            if kind.startswith(LOAD):
                shard.tables.load(kind.removeprefix(LOAD), read_batch(data))
        return [each for each in packed if not each[0].startswith(LOAD)]

    def _carry(self, shard: Any, word: str, steps: list[Step]) -> None:
        """Carry out steps of one kind that follow one another. Queries come at once: they may share what they are
        planned for."""
        if word == "register":
            shard.register({name: text for _, name, text in steps})
        elif word == "fill":
            for files, same in groupby(steps, key=lambda step: str(step[3])):
                shard.fill({name: text for _, name, text, _ in same}, json.loads(files))
        elif word == "rewind":
            for _, to, *stream in steps:
                shard.rewind(int(to), *stream)
        elif word == "change":
            for _, text in steps:
                shard.tables.execute(text)
        else:
            for _, name in steps:
                shard.drop(name)

    def _pass_time(
        self, shard: Any, head: Head, description: dict[str, Any], is_replay: bool
    ) -> Iterator[Mapping[str, pa.Table]]:
        """The answers that are final, now that the stream has come as far as the entry says."""
        if "least" in description:
            shard.begin(description["least"])
        greatest = head.greatest = description["greatest"]
        if greatest is not None and not is_replay:
            return iter(shard.advance(greatest))
        if greatest is not None:
            shard.skip(greatest, description.get("delay"))
        return iter([{}])

    def _entry(
        self, head: Head, shard: Any, route: Route, rows: Sequence[dict[str, Any]]
    ) -> tuple[dict[str, Any], dict[str, Any], list[Refusal]]:
        """What this micro-batch does to the shard, as it is logged: queries, data, how far time has come; and
        statements and rows that were refused."""
        seen = [row["greatest"] for row in rows if row["greatest"] is not None]
        known = [] if head.greatest is None else [head.greatest]
        data = [row for row in rows if row["data"] is not None]
        if self._job.roster is not None:
            for row in rows:
                if row["kind"] == "time":
                    check_note(head.noted, row["roster"], route, self._job.roster)
        steps, head.kept = head.kept, []
        steps = (
            steps + self._reconfigure(head, queries_after(shard.queries, steps), route) + self._rewind(head)
        )
        check_known(head, self._job, route)
        told, refusals = self._carry_out(head, route, data)
        for step in told:
            is_kept = self._job.roster is not None and step[0] in _OF_QUERIES
            (head.kept if is_kept else steps).append(step)
        self._note(head, route, queries_after(shard.queries, steps + head.kept))
        packed = [(row["kind"], row["data"]) for row in data if row["kind"] != "statement"]
        for kind, why in packed:
            if kind.startswith(REFUSED):
                refusals.append({"refused": why.decode(), "table": kind.removeprefix(REFUSED)})
            elif kind == BAD:
                refusals += from_bytes(why)
        packed = [(kind, each) for kind, each in packed if kind != BAD and not kind.startswith(REFUSED)]
        if rewinds := [int(step[1]) for step in steps if step[0] == "rewind"]:
            known = rewinds[-1:]  # how far the stream had come before does not count any more
        description = {
            "steps": steps,
            "greatest": max(seen + known, default=None),
            "delay": self._job.stream.delay,  # a replay must skip what was emitted by it, not by a later one
            "kinds": [kind for kind, _ in packed],
            "lanes": True,
            "bad": self._job.bad_events != FAIL,
        }
        least = [row["least"] for row in rows if row["least"] is not None]
        is_filled = shard.awaits_event or any(step[0] == "fill" for step in steps)
        if least and (route.held or is_filled):  # what is known of silent keys is asked for, too
            description["least"] = min(least)
        arrays = {str(i): np.frombuffer(each, np.uint8) for i, (_, each) in enumerate(packed)}
        return description, arrays, refusals

    def _note(self, head: Head, route: Route, queries: Mapping[str, str]) -> None:
        """Let tasks know of queries that came or went, if it is they who fold for these."""
        if self._job.roster is None:
            head.noted = None
        elif head.kept:
            head.noted = this_batch()
            if head.bucket == 0:
                came = {name: text for name, text in queries.items() if head.came.get(name) == route.name}
                write_note(self._job, route, head.noted, came, head.went)

    def _carry_out(
        self, head: Head, route: Route, data: Iterable[dict[str, Any]]
    ) -> tuple[list[Step], list[Refusal]]:
        """What the statements of a micro-batch do to the shard, and those that were refused."""
        roster, steps, refusals = Roster(head.came, head.went), list[Step](), list[Refusal]()
        for text, histories in in_order(row["data"] for row in data if row["kind"] == "statement"):
            try:
                steps += roster.apply(self._job, route, text, self._watermarks(head), histories)
            except MuntinError as error:
                refusals.append({"refused": str(error), "statement": text})
        head.came, head.went = roster.came, roster.went
        return steps, refusals

    def _rewind(self, head: Head) -> list[Step]:
        """What to do if this run is to start at an instant that the runs before did not start at."""
        asked, watermark = self._job.rewind, self._watermark(head)
        if asked is None or asked == head.rewound:
            return []
        head.rewound = asked
        return [] if watermark is None or asked > watermark else [["rewind", str(asked)]]

    def _watermark(self, head: Head) -> int | None:
        """As the micro-batches before have left it; the same in all shards."""
        return None if head.greatest is None else head.greatest - self._job.stream.delay

    def _watermarks(self, head: Head) -> dict[str, int | None]:
        """The same by stream."""
        return {self._job.stream.name: self._watermark(head)}

    def _reconfigure(self, head: Head, there: Mapping[str, str], route: Route) -> list[Step]:
        """What to do to the queries that are there since the job's own are not those of the last run."""
        if self._job.configured == head.configured:
            return []
        head.configured, head.went = self._job.configured, []
        names = {name for each in self._job.routes for name in each.queries}
        head.came = {name: keys for name, keys in head.came.items() if name not in names}
        stale = [
            name for name, text in there.items() if name not in head.came and route.queries.get(name) != text
        ]
        fresh = {name: text for name, text in route.queries.items() if name in stale or name not in there}
        word, files = ("fill", [json.dumps(self._job.history)]) if self._job.history else ("register", [])
        return [["drop", name] for name in stale] + [[word, *each, *files] for each in fresh.items()]


def queries_after(queries: Mapping[str, str], steps: Iterable[Step]) -> dict[str, str]:
    """Texts by name, when some steps have been done."""
    found = dict(queries)
    for word, *told in steps:
        if word == "drop":
            del found[told[0]]
        elif word in ("register", "fill"):
            found[told[0]] = told[1]
    return found
