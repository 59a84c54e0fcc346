"""Asking: requests on their way to the shards that can answer them.

    requests --an ask per list of keys--> pieces by shard --shuffle--> answers --several asks: by chunk--> wide rows

Queries of one route whose keys have the same names form an *ask*: the same columns of a request are their keys, and one
shard answers all of them. A task cuts the requests that it reads into *chunks*, and for each ask it sends each shard a
*piece* of the chunk: the requests whose key it owns. The first ask carries all columns of the requests, the others only
positions in the chunk, by which their answers find the rows again.

A chunk is known by a hash of its rows. So an attempt that is repeated calls it by the same name, and two chunks of one
name have the same rows, whose answers may change places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Ints
from muntin.arrow_bytes import stream_bytes
from muntin.errors import SchemaError
from muntin.query import Query
from muntin.shard.requests import COMPLETE, FOUND, Requests, answerable, read_requests
from muntin.spark.answer_table import named_fields
from muntin.spark.job import Job, Route, route_name
from muntin.spark.pack import PackedRow, gathered, packed_rows
from muntin.spark.plan_job import plan_job
from muntin.spark.shard_of import shard_of_keys
from muntin.sql import parse_query, shared_templates
from muntin.sql.type_name import type_name
from muntin.stream import Stream

REQUESTS = "requests"  # rows of this kind have a piece …
ASKED = "asked"  # … and these the greatest instant of all requests that a task has read, told to every shard
POSITION, AT, CHUNK, ASK = "position", "at", b"chunk", b"ask"
ONE = "query"  # what a query is called that has no name


@dataclass(frozen=True)
class Ask:
    """Queries that are asked together: by which columns of the requests, and in which route."""

    route: str
    keys: tuple[str, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Asking:
    """What requests are like, and what they become."""

    at: str  # the column of their instants
    schema: pa.Schema  # of the requests
    asks: tuple[Ask, ...]
    fields: dict[str, pa.Schema]  # by query: its columns in the wide table, with the types that Spark has
    is_prefixed: bool  # whether these begin with the name of the query
    delay: int  # of the requests' watermark

    def __repr__(self) -> str:
        # part of what tells jobs apart: types are written out
        told = {name: str(fields) for name, fields in self.fields.items()}
        return f"Asking({self.identity}, {self.asks}, {told}, {self.is_prefixed}, {self.delay})"

    @cached_property
    def identity(self) -> str:
        """What a checkpoint is bound to, in words: requests that wait in it have these columns, and went these ways."""
        columns = ", ".join(f"{field.name} {type_name(field.type)}" for field in self.schema)
        ways = "; ".join(f"{', '.join(ask.keys) or 'no key'}" for ask in self.asks)
        return f"requests ({columns}) at {self.at} by {ways}"

    @property
    def is_in_parts(self) -> bool:
        """Whether the answers of a request come from several shards."""
        return len(self.asks) > 1

    @cached_property
    def wide(self) -> pa.Schema:
        """The requests' own columns, then those of all queries."""
        return pa.schema([*self.schema, *(field for some in self.fields.values() for field in some)])


def plan_lookups(
    stream: Stream,
    queries: str | Mapping[str, str],
    requests: pa.Schema,
    *,
    at: str = "at",
    delay: int = 0,
    shards: int = 4,
    fold: bool = True,
    zone: str | None = "UTC",
    zones: Mapping[str, str | None] | None = None,
) -> Job:
    """The job that answers requests with these columns; an error if queries cannot be looked up, or requests lack what
    they need."""
    texts = {ONE: queries} if isinstance(queries, str) else dict(queries)
    parsed = parse_lookups(stream, texts)
    is_prefixed = not isinstance(queries, str)
    refuse_twins(requests.names)
    read_requests(parsed, requests.empty_table(), at, is_prefixed)
    fields = {name: _fields(name, query, is_prefixed, zone, zones or {}) for name, query in parsed.items()}
    refuse_twins([*requests.names, *(each for some in fields.values() for each in some.names)])
    job = plan_job(stream, texts, shards=shards, fold=fold, zone=zone, zones=zones)
    asks: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, query in parsed.items():
        asks.setdefault((route_name(query), tuple(key.name for key in query.keys)), []).append(name)
    made = [Ask(*way, tuple(names)) for way, names in asks.items()]
    made.sort(
        key=lambda ask: not ask.keys
    )  # the first one carries the requests: all shards should share that
    return replace(job, asking=Asking(at, requests, tuple(made), fields, is_prefixed, delay))


def parse_lookups(stream: Stream, queries: Mapping[str, str]) -> dict[str, Query]:
    """Queries of a stream alone; an error for those whose answers of the past are not those that they had then."""
    templates = shared_templates()
    return {
        name: answerable(name, parse_query(text, {stream.name: stream}, templates))
        for name, text in queries.items()
    }


def _fields(
    name: str, query: Query, is_prefixed: bool, zone: str | None, zones: Mapping[str, str | None]
) -> pa.Schema:
    outputs = named_fields(name, query, zone, zones)[len(query.keys) :]
    given = [*outputs, pa.field(FOUND, pa.bool_()), pa.field(COMPLETE, pa.bool_())]
    return pa.schema(
        [pa.field(f"{name}.{each.name}" if is_prefixed else each.name, each.type) for each in given]
    )


def refuse_twins(names: Iterable[str]) -> None:
    """Spark takes names that differ in case for one; two columns of one name could not be told apart."""
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.get(name.casefold())
        if twin is not None:
            raise SchemaError(
                f"the requests with their answers would have two columns '{twin}' and '{name}', which Spark takes for "
                "one: rename a column of the requests, or a query"
            )
        seen[name.casefold()] = name


# -- in tasks --------------------------------------------------------------------------------------


def pack_requests(job: Job, batches: Iterable[pa.RecordBatch], origin: int) -> Iterator[pa.RecordBatch]:
    """Rows for the shards that own the keys of requests, and the greatest instant for all shards."""
    assert job.asking is not None
    texts = {name: text for route in job.routes for name, text in route.queries.items()}
    queries = parse_lookups(job.stream, {name: texts[name] for name in job.asking.fields})
    greatest, turn = LONG_AGO, 0
    for table in gathered(batches):
        table = table.combine_chunks()
        requests = read_requests(queries, table, job.asking.at, job.asking.is_prefixed)
        greatest = max(greatest, int(requests.at.max()))
        turn += 1
        yield packed_rows(origin, turn, list(_pieces(job, requests)))
    if turn:
        told = greatest.to_bytes(8, "little", signed=True)
        rows: list[PackedRow] = [
            (each, LONG_AGO, ASKED, None, 0, told) for route in job.routes for each in route.ids
        ]
        yield packed_rows(origin, turn + 1, rows)


def _pieces(job: Job, requests: Requests) -> Iterator[PackedRow]:
    """A row for each ask and shard that some of the requests concern."""
    assert job.asking is not None
    (whole,) = requests.table.to_batches()
    name = hashlib.blake2b(stream_bytes(whole), digest_size=12).hexdigest() if job.asking.is_in_parts else ""
    for number, ask in enumerate(job.asking.asks):
        route = next(each for each in job.routes if each.name == ask.route)
        keys = requests.keys[ask.queries[0]]
        columns = {POSITION: pa.array(np.arange(len(requests), dtype=np.int32)), AT: pa.array(requests.at)}
        columns |= {f"key {i}": column for i, column in enumerate(keys)}
        if number == 0:
            columns |= {f"own {i}": _in_utc(column) for i, column in enumerate(whole.columns)}
        schema = pa.schema([(name, each.type) for name, each in columns.items()])
        piece = pa.record_batch(list(columns.values()), schema.with_metadata({CHUNK: name, ASK: str(number)}))
        for bucket, rows in _by_shard(route, keys):
            some = piece if rows is None else piece.take(pa.array(rows))
            least = int(requests.at.min() if rows is None else requests.at[rows].min())
            yield route.ids[bucket], least, REQUESTS, None, 0, stream_bytes(some)


def _in_utc(column: pa.Array) -> pa.Array:
    """Instants come in the zone of the session, which may be another one when requests that waited are answered."""
    is_instant = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp(column.type.unit, "UTC")) if is_instant else column


def _by_shard(route: Route, keys: list[pa.Array]) -> Iterator[tuple[int, Ints | None]]:
    """Which requests each shard owns; None: all of them."""
    if route.shards == 1:
        yield 0, None
        return
    yield from by_owner(keys, route.shards)


def by_owner(keys: list[pa.Array], shards: int) -> Iterator[tuple[int, Ints]]:
    """The rows of each shard that owns some of these keys."""
    owner = shard_of_keys(keys, shards)
    order = np.argsort(owner.astype(np.int16), kind="stable")  # so narrow, it is sorted by radix
    edges = np.searchsorted(owner[order], np.arange(shards + 1))
    for bucket in np.flatnonzero(np.diff(edges)).tolist():
        yield bucket, order[edges[bucket] : edges[bucket + 1]]


def tag_of(ask: int, chunk: str) -> str:
    """Under which name a shard gives out answers."""
    return f"{ask} {chunk}"


def ask_of(tag: str) -> tuple[int, str | None]:
    """The number of the ask and the name of the chunk; None if there is one ask, whose rows are whole.

    >>> ask_of(tag_of(1, "e3b0")), ask_of(tag_of(0, ""))
    ((1, 'e3b0'), (0, None))
    """
    ask, _, chunk = tag.partition(" ")
    return int(ask), chunk or None
