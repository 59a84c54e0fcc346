"""Queries that come and go and tables that change while the stream runs: statements as rows of a stream.

A statement goes to every shard of every route with the micro-batch that brought it, and takes effect before
that micro-batch's events. Many tasks read the statements of one micro-batch, so each statement carries its place: its
`position`, or its file and its place there. Every shard applies them in this order.

Each shard keeps a *roster* of all names in use and judges a statement by it and by
the job alone, so all of them come to the same decision; only those of the query's own route act on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from muntin.arrays import LONG_AGO
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.instant import to_microseconds
from muntin.join_query import AnyQuery, JoinQuery
from muntin.plan import request_of
from muntin.query import UNNAMED
from muntin.spark.history import files_told, looked_up
from muntin.spark.job import Job, Route, is_together, over_one_stream, route_name
from muntin.spark.join_job import JoinJob
from muntin.spark.pack import packed_rows
from muntin.spark.ranked import is_ranked
from muntin.sql import (
    DeleteRows,
    DropQuery,
    InsertRows,
    RegisterQuery,
    RewindStream,
    Skipped,
    parse_statements,
    statement_texts,
)
from muntin.table_query import TableQuery
from muntin.tables.keyed_rows import keyed_rows

# As it is logged: ["drop", name], ["register", name, text], ["fill", name, text, files of its history as JSON],
# ["rewind", instant, stream], ["change", INSERT or DELETE]
Step = list[str]


@dataclass
class Roster:
    """Names in use besides the job's own queries."""

    came: dict[str, str] = field(default_factory=dict)  # by a statement: the route of each
    went: list[str] = field(default_factory=list)  # of the job's own, dropped by a statement

    def routes(self, job: Job) -> dict[str, str]:
        """The route of every query at work."""
        own = {name: route.name for route in job.routes for name in route.queries}
        return {name: route for name, route in own.items() if name not in self.went} | self.came

    def apply(
        self, job: Job, route: Route, text: str, watermarks: Mapping[str, int | None],
        histories: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[Step]:  # fmt: skip
        """What the statements of a text do to the shards of one route, streams having come as far as their
        watermarks, and `histories` being what is known of those that they name; an error if they cannot be carried out,
        and then nothing has changed."""
        came, went, steps = dict(self.came), list(self.went), []
        trial = Roster(came, went)
        statements = parse_statements(text, job.sources, queries=self.routes(job), query_of=_refuse)
        for statement, words in zip(statements, statement_texts(text), strict=True):
            in_use = trial.routes(job)
            match statement:
                case RegisterQuery(name, query, path):
                    if name in in_use and not statement.is_replacement:
                        raise NameTaken(
                            f"there is a query '{name}' already; drop it first or choose another name"
                        )
                    if any(name == table.name for table in job.tables):
                        raise NameTaken(f"there is a table '{name}' already; choose another name")
                    if path is not None and isinstance(query, TableQuery | JoinQuery):
                        what = "joins a table" if isinstance(query, TableQuery) else "is a join"
                        raise MuntinError(f"query '{name}' {what}, and takes no BACKFILL; leave it out")
                    filled = [] if path is None else [files_told(histories, path)]
                    keys = job.route_for(name, query) if isinstance(job, JoinJob) else _home(job, name, query)
                    step = ["fill" if filled else "register", name, query.text, *filled]
                    is_shared = name in in_use and in_use[name] == keys == route.name
                    if is_shared:  # it is there before the old one goes: what both need stays
                        steps.append(["register", UNNAMED, query.text])
                    if name in in_use:
                        steps += trial._drop(name, in_use[name], route.name)
                    came[name] = keys
                    if keys == route.name:
                        steps += [step, ["drop", UNNAMED]] if is_shared else [step]
                case DropQuery(name):
                    if name not in in_use:
                        raise NotFound(f"there is no query '{name}'{nearest(name, in_use)}")
                    steps += trial._drop(name, in_use[name], route.name)
                case InsertRows(table, rows):
                    keyed_rows(table, rows)
                    steps += [["change", words]] if table.name in route.held else []
                case DeleteRows(table):
                    steps += [["change", words]] if table.name in route.held else []
                case RewindStream(name, to):
                    if name not in watermarks:
                        raise NotFound(f"there is no stream '{name}'{nearest(name, watermarks)}")
                    instant, watermark = to_microseconds(to), watermarks[name]
                    if watermark is None or instant > watermark:
                        raise MuntinError(f"stream '{name}' has not come as far as {to} yet")
                    steps.append(["rewind", str(instant), name])
                case Skipped():
                    pass
                case _:
                    _refuse()
        self.came, self.went = came, went
        return steps

    def _drop(self, name: str, home: str, route: str) -> list[Step]:
        """Take a name out of use; what shards of one route have to do."""
        if self.came.pop(name, None) is None:
            self.went.append(name)
        return [["drop", name]] if home == route else []


def _home(job: Job, name: str, query: AnyQuery) -> str:
    """The route of a query over one stream; an error if there is none."""
    read = over_one_stream(query)
    request_of(read)
    keys = route_name(read)
    if keys not in {each.name for each in job.routes}:
        raise MuntinError(_no_route(job, name, keys))
    shards = next(each.shards for each in job.routes if each.name == keys)
    if is_ranked(read) and shards > 1 and not job.is_ranked:
        raise MuntinError(
            f"query '{name}' has LIMIT, and the job has no step that ranks the rows of all its shards: give a query "
            "with LIMIT to shared_windows from the start, or run with shards=1"
        )
    return keys


def _no_route(job: Job, name: str, keys: str) -> str:
    known = [each.keys for each in job.routes if not is_together(each.name)]
    if is_together(keys):
        return (
            f"query '{name}' needs what is kept by '{keys.partition(' ')[2]}' in one shard, from the start: give such "
            "a query to shared_windows; one that joins a table may have the stream's columns of ON in GROUP BY instead"
        )
    return f"query '{name}' is by '{keys}', which is not among keys={known}"


def pack_statements(job: Job, batches: Iterable[pa.RecordBatch], origin: int) -> Iterator[pa.RecordBatch]:
    """A row for every shard with each statement, which is in the first column; NULL is none. The other columns tell
    its place among the statements of a micro-batch."""
    shards = [job.ID, *(each for route in job.routes for each in route.ids)]
    turn = 0
    for batch in batches:
        for text, *place in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if text is None:
                continue
            turn += 1
            histories = {path: looked_up(job.stream, path) for path in _histories_in(job, text)}
            told = json.dumps({"place": place, "text": text, "histories": histories}).encode()
            yield packed_rows(origin, turn, [(each, LONG_AGO, "statement", None, 0, told) for each in shards])


def _refuse(_: str = "") -> NoReturn:
    raise MuntinError(
        "a control stream takes REGISTER QUERY, CREATE OR REPLACE QUERY, DROP QUERY, REWIND STREAM, INSERT and DELETE, "
        "nothing else"
    )


def _histories_in(job: Job, text: str) -> list[str]:
    """The paths of histories that statements name; none if shards will refuse the text."""
    try:
        statements = parse_statements(text, job.sources)
    except MuntinError:
        return []
    return [each.backfill for each in statements if isinstance(each, RegisterQuery) and each.backfill]


class Told(NamedTuple):
    """Statements as they came, with what is known of the histories that they name."""

    text: str
    histories: dict[str, Any]


def in_order(packed: Iterable[bytes]) -> list[Told]:
    """The statements of a micro-batch by their places, those without a place last. Statements at the same place are in
    the order given: that of the task that read them, and of their rows there."""
    told = [json.loads(each) for each in packed]
    told.sort(key=lambda each: [(part is None, part) for part in each["place"]])
    return [Told(str(each["text"]), each["histories"]) for each in told]
