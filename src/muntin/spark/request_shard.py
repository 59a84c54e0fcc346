"""A shard that answers requests: it has events as any shard has, and the requests that wait for the watermark.

events     . . .. . ... │ . .  ..     watermark: what lies before it is final
requests     ^      ^^  │   ^    ^    answered as soon as it has passed them, each once; the others wait
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.arrow_bytes import stream_bytes
from muntin.described import WHOLE, Maybe, check_shape
from muntin.errors import CheckpointError
from muntin.shard.read.lookup_at import AtPoints
from muntin.spark.asking import ASK, ASKED, AT, CHUNK, POSITION, REQUESTS, Asking, tag_of
from muntin.spark.job import Job, Route
from muntin.spark.narrow import widened
from muntin.spark.pack import read_batch, read_narrow
from muntin.spark.shard import SparkShard

_SAVED = {"asked": Maybe(WHOLE), "pieces": WHOLE}


def shard_of(job: Job, route: Route, bucket: int, columns: pa.Schema | None = None) -> SparkShard:
    """A shard of a job, without queries."""
    return (SparkShard if job.asking is None else RequestShard)(job, route, bucket, columns)


class Piece(NamedTuple):
    """Requests of one chunk and ask that wait, in order of their instants."""

    chunk: str
    ask: int
    rows: pa.RecordBatch
    at: Ints

    @classmethod
    def read(cls, rows: pa.RecordBatch) -> Piece:
        at = np.asarray(rows.column(AT))
        if len(at) and bool((at[1:] < at[:-1]).any()):
            order = np.argsort(at, kind="stable")
            rows, at = rows.take(pa.array(order)), at[order]
        told = rows.schema.metadata
        return cls(told[CHUNK].decode(), int(told[ASK]), rows, at)

    def split(self, until: int) -> tuple[Piece, Piece]:
        """Those up to an instant, and the others. O(log requests)."""
        place = int(np.searchsorted(self.at, until, side="right"))
        return (
            self._replace(rows=self.rows.slice(0, place), at=self.at[:place]),
            self._replace(rows=self.rows.slice(place), at=self.at[place:]),
        )


class RequestShard(SparkShard):
    """One shard of a route, and the requests for its keys."""

    BACKLOG = 0  # nobody asks what has closed

    def __init__(self, job: Job, route: Route, bucket: int, columns: pa.Schema | None = None):
        super().__init__(job, route, bucket, columns)
        assert job.asking is not None
        self._asking: Asking = job.asking
        self._waiting: list[Piece] = []
        self._asked: int | None = None  # the greatest instant of all requests, wherever they went

    def insert(self, packed: Iterable[tuple[str, bytes]]) -> int:
        """Take in rows of data and of requests; how many events were late."""
        rest, events = [], []
        for kind, data in packed:
            if kind == REQUESTS:
                self._waiting.append(Piece.read(read_batch(data)))
            elif kind == ASKED:
                asked = int.from_bytes(data, "little", signed=True)
                self._asked = asked if self._asked is None else max(self._asked, asked)
            elif kind == "events":
                events.append(self._with_all_columns(read_narrow(data)))
            else:
                rest.append((kind, data))
        if events:  # at once: pieces of several tasks may lie side by side in time
            names = self._stream.schema.names
            return super().insert(rest) + self._shard.insert(
                widened(*(each.select(names) for each in events))
            )
        return super().insert(rest)

    def advance(self, greatest: int) -> Iterator[Mapping[str, pa.Table]]:  # type: ignore[override]
        """Answers of the requests that the watermark has passed, now that the stream has come as far as `greatest`."""
        self._see(greatest)
        yield self.pass_by(greatest - self._delay)
        self._forget()

    def pass_by(self, watermark: int) -> dict[str, pa.Table]:
        """Answers of requests up to an instant before which nothing will come any more."""
        self._shard.clock.promise(watermark)
        split = [each.split(watermark) for each in self._waiting]
        self._waiting = [later for _, later in split if len(later.at)]
        due = [now for now, _ in split if len(now.at)]
        answers: dict[str, list[pa.Table]] = {}
        for number in sorted({each.ask for each in due}):
            some = [each for each in due if each.ask == number]
            table, lo = self._answer(number, some), 0
            for chunk, many in _runs(some):
                answers.setdefault(tag_of(number, chunk), []).append(table.slice(lo, many))
                lo += many
        return {tag: pa.concat_tables(parts) for tag, parts in answers.items()}

    def _answer(self, number: int, pieces: list[Piece]) -> pa.Table:
        """A row for each request: its position, its own columns if the ask carries them, and its answers."""
        ask = self._asking.asks[number]
        given = pa.Table.from_batches(
            [each.rows.replace_schema_metadata() for each in pieces]
        ).combine_chunks()
        (rows,) = given.to_batches()
        keys = [rows.column(f"key {i}") for i in range(len(ask.keys))]
        at = np.asarray(rows.column(AT))
        found = self._shard.lookup_at(dict.fromkeys(ask.queries, keys), at)
        own = [each for each in rows.schema.names if each == POSITION or each.startswith("own ")]
        columns = {name: rows.column(name) for name in own}
        for name in ask.queries:
            columns |= _columns(name, found[name], self._asking.fields[name])
        return pa.table(columns)

    def skip(self, greatest: int, delay: int | None) -> None:
        """As `advance`, when the answers have been given out already."""
        self._see(greatest)
        watermark = greatest - (self._delay if delay is None else delay)
        self._shard.clock.promise(watermark)
        self._waiting = [
            later for _, later in (each.split(watermark) for each in self._waiting) if len(later.at)
        ]
        self._forget()

    def _forget(self) -> None:
        """Keep what requests may still ask for: they have a watermark of their own. Until the first one has come, it
        is taken to be where the events' is, less the delay of requests."""
        watermark = self._shard.clock.promised
        reached = watermark if self._asked is None else self._asked
        self._shard.pass_by(watermark, min(watermark, reached - self._asking.delay))

    def forget_before(self, instant: int) -> None:
        """No request will ask for an instant before this one, and no event will come."""
        self._shard.pass_by(instant)

    def take_overflows(self) -> dict[str, int]:
        """How many answers of each query have been left out since the last time, since a value does not exist."""
        self._told_overflows = -1  # look-ups are counted by query alone
        return super().take_overflows()

    # -- snapshots ---------------------------------------------------------------------------------

    def _described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        description, arrays = super()._described()
        saved = {"asked": self._asked, "pieces": len(self._waiting)}
        arrays |= {
            f"requests/{i}": np.frombuffer(stream_bytes(each.rows), np.uint8)
            for i, each in enumerate(self._waiting)
        }
        return description | {"requests": saved}, arrays

    def _take(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        saved = description.pop("requests", None)
        check_shape(saved, _SAVED, "the requests")
        pieces = [arrays.pop(f"requests/{i}", None) for i in range(saved["pieces"])]
        if any(each is None for each in pieces):
            raise CheckpointError("the state is damaged: it has fewer requests than it says")
        self._waiting = [Piece.read(_checked(read_batch(each.tobytes()), self._asking)) for each in pieces]
        self._asked = saved["asked"]
        super()._take(description, arrays)
        self._forget()  # no more than before: what comes next must not take it for a shard without requests

    def nbytes(self) -> int:
        return super().nbytes() + sum(int(each.rows.nbytes) for each in self._waiting)

    @property
    def last_instant(self) -> int | None:
        """That of the latest request that waits; None if none does."""
        return max((int(each.at[-1]) for each in self._waiting if len(each.at)), default=None)


def _runs(pieces: list[Piece]) -> Iterator[tuple[str, int]]:
    for each in pieces:
        yield each.chunk, len(each.at)


def _columns(name: str, found: AtPoints, fields: pa.Schema) -> dict[str, pa.Array]:
    given = [*found.values, pa.array(found.found), pa.array(found.complete)]
    return {
        f"answer {name}/{i}": each if each.type == field.type else each.cast(field.type)
        for i, (each, field) in enumerate(zip(given, fields, strict=True))
    }


def _checked(rows: pa.RecordBatch, asking: Asking) -> pa.RecordBatch:
    """What a snapshot has of requests; an error if it cannot be that."""
    rows.validate(full=True)
    told = rows.schema.metadata or {}
    number = int(told.get(ASK, b"-1"))
    if not 0 <= number < len(asking.asks) or CHUNK not in told:
        raise CheckpointError("the state is damaged: it has requests for a list of keys that nobody has")
    names = [POSITION, AT, *(f"key {i}" for i in range(len(asking.asks[number].keys)))]
    names += [f"own {i}" for i in range(len(asking.schema))] if number == 0 else []
    if rows.schema.names != names:
        raise CheckpointError(f"the state is damaged: its requests have the columns {rows.schema.names}")
    return rows
