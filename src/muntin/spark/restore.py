"""A stopped job, opened for look-ups: its checkpoint is read, and its shards are asked in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from muntin.answer import Coverage
from muntin.argument import shown, text_of, texts_of
from muntin.arrays import LONG_AGO
from muntin.errors import CheckpointError, MuntinError, NotFound, nearest
from muntin.instant import to_microseconds
from muntin.own.registered import check_versions
from muntin.query import Query
from muntin.shard.read.lookup import key_columns
from muntin.shard.read.lookup_at import AtPoints
from muntin.shard.requests import Requests, answerable, read_requests
from muntin.spark.answer_table import AnswerTable
from muntin.spark.asking import ASKED, REQUESTS, by_owner
from muntin.spark.job import SPREAD, Job, Route
from muntin.spark.ledger import KINDS, Head, Ledger, columns_in, parse_head
from muntin.spark.processor import ShardProcessor
from muntin.spark.ranked import is_ranked, lookup_ranked
from muntin.spark.session import STATE_SETTINGS
from muntin.spark.shard import SparkShard
from muntin.spark.state import with_settings
from muntin.stream import Stream
from muntin.table import Table


def restore(checkpoint: str, session: SparkSession | None = None) -> RestoredState:
    """The state of a job that has stopped, to be asked as an embedded engine is.

    It is as of the last micro-batch that the checkpoint has: `latest` is the time of the latest event, `watermark` what
    nothing will come before. Look-ups stand just after the latest event, unless they are given an instant. The state is
    read into this process by `session`, by default the one that is active; nothing is written.
    """
    text_of("checkpoint", checkpoint)
    session = SparkSession.getActiveSession() if session is None else session
    if session is None:
        raise MuntinError("there is no Spark session that could read a checkpoint: give one, as session=…")
    heads, ledgers = _read(session, checkpoint)
    return opened(checkpoint, heads, ledgers)


@dataclass
class StoredLedger:
    """What a checkpoint has of one shard, as the variables of its ledger."""

    base: dict[int, bytes] = field(default_factory=dict)
    log: dict[int, bytes] = field(default_factory=dict)

    def ledger(self) -> Ledger:
        return Ledger(None, _Pieces(self.base), _Pieces(self.log))


@dataclass
class _Pieces:
    """A variable of the state that is read only."""

    pieces: Mapping[int, bytes]

    def getValue(self, key: tuple[int]) -> tuple[bytes]:
        return (self.pieces[key[0]],)


def _read(session: SparkSession, checkpoint: str) -> tuple[list[Head], dict[str, StoredLedger]]:
    """Heads, and the rest of each ledger by its name."""
    try:
        with with_settings(session, STATE_SETTINGS):
            load = {
                name: session.read.format("statestore").option("stateVarName", name).load(checkpoint)
                for name in ("head", "base", "log")
            }
            heads = {
                row["key"][0]: parse_head(row["value"]["text"]) for row in load["head"].toLocalIterator()
            }
            found = {head.ledger: StoredLedger() for head in heads.values()}
            for name in ("base", "log"):
                for row in _rows(load[name]):
                    ledger = found[heads[row["key"][0]].ledger]
                    getattr(ledger, name)[row["user_map_key"][0]] = bytes(row["user_map_value"][0])
    except PySparkException as error:
        raise CheckpointError(
            f"'{checkpoint}' is not a checkpoint of muntin: {str(error).splitlines()[0]}"
        ) from None
    return list(heads.values()), found


def _rows(df: DataFrame) -> Iterator[Any]:
    yield from df.select("key", "user_map_key", "user_map_value").toLocalIterator()


def opened(checkpoint: str, heads: Sequence[Head], ledgers: Mapping[str, StoredLedger]) -> RestoredState:
    """The shards of ledgers."""
    of_shards = [head for head in heads if head.route != Job.NAME]
    if not of_shards:
        raise CheckpointError(f"the checkpoint '{checkpoint}' has no shard yet: no micro-batch has had rows")
    if any(head.columns is None for head in of_shards):
        raise CheckpointError(
            f"muntin 0.1.0 wrote the checkpoint '{checkpoint}', without the columns of its stream: let the job go on "
            "with this version for a micro-batch"
        )
    for head in of_shards:
        check_versions(head.functions, f"the checkpoint '{checkpoint}'")
    job = _job_of(of_shards)
    routes: dict[str, list[SparkShard]] = {}
    for route in job.routes:
        own = {head.bucket: head for head in of_shards if head.route == route.name}
        if own.keys() != set(range(route.shards)):
            raise CheckpointError(
                f"the checkpoint '{checkpoint}' has {len(own)} of {route.shards} shards for the keys '{route.name}'"
            )
        routes[route.name] = [
            _Opening(job, ledgers[own[bucket].ledger].ledger()).open(own[bucket], route)
            for bucket in sorted(own)
        ]
    return RestoredState(job, routes)


def _job_of(heads: Sequence[Head]) -> Job:
    """A job that says of its shards what the checkpoint does."""
    columns = {name: KINDS[kind] for head in heads for name, kind in (head.columns or {}).items()}
    stream = Stream(heads[0].stream, pa.schema(list(columns.items())), heads[0].time)
    declared = {name: told for head in heads for name, told in head.tables.items()}
    tables = tuple(
        Table(
            name,
            pa.schema([(each, KINDS[kind]) for each, kind in told["columns"].items()]),
            tuple(told["key"]),
        )
        for name, told in declared.items()
    )
    routes = {
        head.route: Route(
            head.route, head.route, {}, tuple(head.columns or {}), head.shards, None,
            held={name: _by(told["by"]) for name, told in head.tables.items()},
        )
        for head in sorted(heads, key=lambda head: head.route)
    }  # fmt: skip
    return Job(stream, tuple(routes.values()), AnswerTable(pa.schema([]), {}), tables=tables)


def _by(told: Any) -> Any:
    return None if told is None else tuple((column, KINDS[kind]) for column, kind in told)


class _Opening(ShardProcessor):
    """Finds a shard in its ledger."""

    def open(self, head: Head, route: Route) -> SparkShard:
        found = self._find(head, route)
        assert isinstance(found, SparkShard)
        return found

    def _make(self, head: Head, route: Route) -> SparkShard:
        kind = OpenedShard if head.asked else SparkShard
        return kind(self._job, route, head.bucket, columns_in(head, self._job, route))


class OpenedShard(SparkShard):
    """A shard of a job that answers requests (request_shard.py): it has its events, all that are in the checkpoint, and
    none of the requests."""

    BACKLOG = 0

    def __init__(self, job: Job, route: Route, bucket: int, columns: pa.Schema | None = None):
        super().__init__(job, route, bucket, columns)
        self._shard.pass_by(LONG_AGO, LONG_AGO)

    def insert(self, packed: Iterable[tuple[str, bytes]]) -> int:
        return super().insert(each for each in packed if each[0] not in (REQUESTS, ASKED))

    def skip(self, greatest: int, delay: int | None) -> None:
        self._see(greatest)
        self._shard.pass_by(greatest - (delay or 0), LONG_AGO)

    def _take(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        description.pop("requests", None)
        super()._take(
            description, {name: each for name, each in arrays.items() if not name.startswith(f"{REQUESTS}/")}
        )


class RestoredState:
    """All shards of a job. `lookup`, `value`, `lookup_at` and `coverage` are those of an `Engine`; of a keyed query the
    shard that owns the key is asked, or all of them, whose rows follow one another in the order of shards."""

    def __init__(self, job: Job, routes: dict[str, list[SparkShard]]):
        self._stream = job.stream
        self._routes = routes
        self._route_of = {name: route for route, shards in routes.items() for name in shards[0].queries}

    @property
    def queries(self) -> dict[str, str]:
        """Texts by name."""
        return {name: self._routes[route][0].queries[name] for name, route in self._route_of.items()}

    @property
    def latest(self) -> datetime | None:
        """The time of the latest event; None if there was none."""
        return _instant(
            max((clock.greatest for clock in self._clocks() if clock.greatest is not None), default=None)
        )

    @property
    def watermark(self) -> datetime | None:
        """No event before this instant would have been taken in any more: as the last micro-batch has left it."""
        return _instant(
            max((clock.watermark for clock in self._clocks() if clock.watermark is not None), default=None)
        )

    def _clocks(self) -> Iterator[Any]:
        return (each.shard.clock for shards in self._routes.values() for each in shards)

    def lookup(self, name: str, key: Any = None, at: Any = None) -> pa.Table:
        """One query's answers, of all keys, one key or a list of keys; just after the latest event, or at an instant
        that the state still covers."""
        shards = self._shards(name)
        instant = None if at is None else to_microseconds(at)
        query = self._asked(name)
        if is_ranked(query) and len(shards) > 1:
            return lookup_ranked([each.shard for each in shards], query, name, key, instant)
        if not isinstance(query, Query) or key is None or len(shards) == 1:
            return pa.concat_tables([each.shard.lookup(name, key, instant) for each in shards])
        keys = key if isinstance(key, list) else [key]
        owned = (
            list(by_owner(key_columns(query.keys, keys), len(shards)))
            if keys
            else [(0, np.zeros(0, np.int64))]
        )
        if not isinstance(key, list):
            return shards[owned[0][0]].shard.lookup(name, key, instant)
        return pa.concat_tables(
            [
                shards[bucket].shard.lookup(name, [keys[row] for row in rows], instant)
                for bucket, rows in owned
            ]
        )

    def value(self, name: str, key: Any = None, at: Any = None) -> Any:
        """The first value of one answer, as a plain Python object; None if it is NULL or the key has no answer."""
        shards, query = self._shards(name), self._asked(name)
        instant = None if at is None else to_microseconds(at)
        if len(shards) == 1 or key is None or isinstance(key, list):
            return shards[0].shard.value(name, key, instant)
        if is_ranked(query):
            first = self.lookup(name, key, at)
            place = len(query.keys) if len(query.outputs) > len(query.top.by) else 0
            return first.column(place)[0].as_py() if first.num_rows else None
        if isinstance(query, Query):
            ((bucket, _),) = by_owner(key_columns(query.keys, key), len(shards))
            return shards[bucket].shard.value(name, key, instant)
        found = (each.shard.value(name, key, instant) for each in shards)
        return next((each for each in found if each is not None), None)

    def lookup_at(self, names: str | Sequence[str], requests: Any, *, at: str = "at") -> pa.Table:
        """Answers for each row of a table of requests, in their order, as `Engine.lookup_at` gives them."""
        chosen = [names] if isinstance(names, str) else list(dict.fromkeys(texts_of("names", names)))
        if not chosen:
            raise MuntinError("give the name of a query, or a list of names")
        queries = {name: answerable(name, self._asked(name)) for name in chosen}
        given = read_requests(queries, requests, at, is_prefixed=not isinstance(names, str))
        return given.wide(given.answered({name: self._at_points(name, given) for name in chosen}))

    def _at_points(self, name: str, requests: Requests) -> AtPoints:
        shards, keys = self._shards(name), requests.keys[name]
        if len(shards) == 1 or not len(requests):
            return shards[0].shard.lookup_at({name: keys}, requests.at)[name]
        parts, places = [], []
        for bucket, rows in by_owner(keys, len(shards)):
            own = [each.take(pa.array(rows)) for each in keys]
            parts.append(shards[bucket].shard.lookup_at({name: own}, requests.at[rows])[name])
            places.append(rows)
        back = np.argsort(np.concatenate(places))
        values = [
            pa.concat_arrays(some).take(pa.array(back))
            for some in zip(*(each.values for each in parts), strict=True)
        ]
        found, complete = (np.concatenate([each[i] for each in parts])[back] for i in (1, 2))
        return AtPoints(values, found, complete)

    def coverage(self, name: str) -> Coverage:
        """Whether the windows of a query are covered just after the latest event, in all shards."""
        found = [each.shard.coverage(name) for each in self._shards(name)]
        return next((each for each in found if not each.complete), found[0])

    def _asked(self, name: str) -> Any:
        return self._shards(name)[0].parsed_queries[name]

    def _shards(self, name: str) -> list[SparkShard]:
        text_of("name", name)
        if name not in self._route_of:
            raise NotFound(f"there is no query '{name}' in the checkpoint{nearest(name, self._route_of)}")
        if self._route_of[name].startswith(SPREAD):
            raise MuntinError(
                f"query '{name}' is spread: each shard has a share of its events, and its answers are in the sink alone"
            )
        return self._routes[self._route_of[name]]

    def __repr__(self) -> str:
        return (
            f"RestoredState({self._stream.name}, {len(self._route_of)} queries, latest {shown(self.latest)})"
        )


def _instant(at: int | None) -> datetime | None:
    return (
        None
        if at is None or at == LONG_AGO
        else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    )
