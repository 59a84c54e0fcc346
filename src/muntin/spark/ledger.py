"""The ledger: a shard's state as Spark keeps it, a snapshot and a log of what came since.

    head   one text    format, where the log ends, and the token of every entry in it
    base   pieces      a snapshot of the shard as of some entry
    log    entries     everything the shard was given, micro-batch by micro-batch

A micro-batch writes one entry, a delta; when the log has outgrown the base, a new base is written, so that
what is written stays within twice what came in. A quiet stream has many small entries: after some number of them a
new base is written, too, so that log, head and replay stay short. The head's tokens tell a shard that is still in
memory whether it is the one that wrote the ledger: tokens are drawn anew for every attempt.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from muntin.errors import CheckpointError
from muntin.fixed_point import MOST_DIGITS
from muntin.own.registered import check_versions, versions_in
from muntin.spark.held_rows import By
from muntin.spark.job import Job, Route
from muntin.sql.type_name import type_name
from muntin.stream import Stream
from muntin.table import SPAN, Table

FORMAT = 5  # raise it when a ledger can no longer be read by what came before
_WITH_FUNCTIONS = 6  # of a ledger whose queries call functions of the user's own
_READABLE = (2, 3, 4, 5, 6)  # 2 has no identity, 3 no cells by lanes, 4 no tables
_PIECE = 4 << 20  # bytes of a base that are written at once
_SMALL = 1 << 20  # bytes of log that are not worth a new base
_FEW = 64  # entries that are not worth a new base …
_MOST = 512  # … and the most, however large the base is
_PER_ENTRY = 1 << 18  # bytes of a base that an entry may make it necessary to write again
_KEPT = 4  # entries that stay in the log after a new base, for shards in memory that missed them


@dataclass
class Head:
    """Where a ledger stands; entry `n` is the one that the n-th micro-batch wrote."""

    route: str
    bucket: int
    shards: int  # of the route
    routes: list[str]  # of the job
    format: int = FORMAT
    ledger: str = field(default_factory=lambda: secrets.token_hex(8))
    entries: int = 0  # written so far
    base: int = 0  # entries that the base includes
    pieces: int = 0  # of the base
    base_bytes: int = 0
    log_bytes: int = 0  # since the base
    tokens: dict[int, str] = field(default_factory=dict)  # of entries in the log
    greatest: int | None = None  # event time of the whole stream
    reached: dict[str, int] = field(default_factory=dict)  # the same by stream, of joins
    late: int = 0
    bad: int = 0
    answers: int = 0  # given out
    overflows: int = 0  # left out of them
    noted: int | None = None  # the micro-batch whose note has the queries that came (shared_roster.py) …
    kept: list[list[str]] = field(
        default_factory=list
    )  # … and what is done to queries when the next one begins
    rewound: int | None = None  # the instant that a run was last told to start again at
    stream: str = ""  # the identity of the state (below)
    time: str = ""
    columns: dict[str, str] | None = None  # their types; None in format 2
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)  # their columns, keys, and who holds rows
    configured: str = ""  # what the job's own queries were, as a hash
    asked: str = ""  # what its requests are like, if it has any (asking.py)
    came: dict[str, str] = field(default_factory=dict)  # queries that came by statement, of all routes …
    went: list[str] = field(default_factory=list)  # … and went: see control.py
    functions: dict[str, int] = field(
        default_factory=dict
    )  # of the user's own, that queries call: their versions


class Ledger:
    """One shard's state; `head`, `base` and `log` are Spark's state variables."""

    def __init__(self, head: Any, base: Any, log: Any):
        self._head = head
        self._base = base
        self._log = log

    def read_head(self) -> Head | None:
        """None if the shard has no state yet."""
        found = self._head.get()
        return None if found is None else parse_head(found[0])

    def append(self, head: Head, entry: bytes) -> None:
        """Write what a micro-batch brought; `write_head` makes it count."""
        head.entries += 1
        head.tokens[head.entries] = secrets.token_hex(8)
        head.log_bytes += len(entry)
        self._log.updateValue((head.entries,), (entry,))

    def write_head(self, head: Head) -> None:
        head.format = _WITH_FUNCTIONS if head.functions else FORMAT
        told = {name: value for name, value in asdict(head).items() if value or name != "functions"}
        self._head.update((json.dumps(told),))

    def is_due(self, head: Head) -> bool:
        """Whether the log has outgrown the base, in bytes or in entries."""
        return outgrows(head.entries - head.base, head.log_bytes, head.base_bytes)

    def write_base(self, head: Head, snapshot: Any, is_beyond_log: bool = False) -> None:
        """Replace the base by a snapshot as of the last entry, and forget entries that it includes: all of them if the
        last one cannot be done again from the log (history.py), so that no shard in memory tries to."""
        view = memoryview(snapshot)
        pieces = [view[lo : lo + _PIECE].tobytes() for lo in range(0, len(view), _PIECE)]
        for number, piece in enumerate(pieces):
            self._base.updateValue((number,), (piece,))
        for number in range(len(pieces), head.pieces):
            self._base.removeKey((number,))
        head.base, head.pieces = head.entries, len(pieces)
        head.base_bytes, head.log_bytes = len(view), 0
        for entry in [
            entry for entry in head.tokens if entry <= head.entries - (1 if is_beyond_log else _KEPT)
        ]:
            self._log.removeKey((entry,))
            del head.tokens[entry]

    def read_base(self, head: Head) -> bytes:
        return b"".join(self._base.getValue((number,))[0] for number in range(head.pieces))

    def read_entry(self, entry: int) -> bytes:
        found: bytes = self._log.getValue((entry,))[0]
        return found


def outgrows(entries: int, log_bytes: int, base_bytes: int) -> bool:
    """Whether a log of so many entries and bytes is worth a new base."""
    most = min(_MOST, max(_FEW, base_bytes // _PER_ENTRY))
    return log_bytes > max(base_bytes, _SMALL) or entries >= most


def parse_head(text: str) -> Head:
    """A head from its text; an error if another version of muntin wrote it."""
    found = json.loads(text)
    if found.get("format") not in _READABLE:
        versions = " and ".join(map(str, _READABLE))
        raise CheckpointError(
            f"the state in this checkpoint has format version {found.get('format')}; this muntin reads {versions}. "
            "Go on with the version that wrote it, or start from a new checkpoint"
        )
    found["tokens"] = {int(entry): token for entry, token in found["tokens"].items()}
    return Head(**found)


# The identity of a job's state: what must be the same when a checkpoint is gone on with.
#
# | part | why | |---|---| | name of the stream, time column | texts of queries name the stream; windows are
# of that time | | types of the columns that queries have read | cells and events in the state have these
# types | | keys of the routes, shards of each | each key belongs to one shard, for good | | tables, with their columns
# and primary keys | their rows are in the state |
#
# Queries, the delay, `fold`, and columns that no query has read may differ. The identity is in the head of
# every ledger, and in one more ledger, that of the job: shards of other keys would find no state, and could
# not tell that there is some under the keys of before.

KINDS = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.string(), pa.date32(), SPAN,
        *(pa.decimal128(digits, scale) for digits in range(1, MOST_DIGITS + 1) for scale in range(digits + 1)),
        *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    )
}  # fmt: skip
_GO_ON = "Go on as before, or start from a new checkpoint"
_SAME_KEYS = (
    "queries may come and go between runs, but only with keys that were there from the start; "
    "name them with keys=[…], or start from a new checkpoint"
)


def begin_head(job: Job, route: Route | None, bucket: int) -> Head:
    """The head of a new ledger: of a shard, or of the job itself."""
    head = Head(
        job.NAME if route is None else route.name, bucket, 0 if route is None else route.shards, names_of(job)
    )
    bind(head, job, route)
    return head


def bind(
    head: Head, job: Job, route: Route | None, queries: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Note in a head what its state is of, with the texts of its `queries`; a column that was read once stays bound to
    its type."""
    head.functions = versions_in(queries.values())
    routes = job.routes if route is None else (route,)
    read = typed(job.stream, [name for each in routes for name in each.columns])
    head.stream, head.time, head.columns = job.stream.name, job.stream.time, read | (head.columns or {})
    head.asked = "" if job.asking is None else job.asking.identity
    for each in routes:
        head.tables |= {
            name: {**_declared(job.table(name)), "by": _told(by)} for name, by in each.held.items()
        }


def check_identity(head: Head, job: Job, route: Route | None) -> None:
    """An error that names both sides if the state of a head is not that of a job. Version 0.1.0 wrote neither stream
    nor columns: such a state is taken to be of this job's."""
    check_versions(head.functions, "the state in this checkpoint")
    names = names_of(job)
    if head.routes != names:
        raise CheckpointError(
            f"this checkpoint is of queries by the keys {head.routes}, not {names}: {_SAME_KEYS}"
        )
    if route is not None and head.shards != route.shards:
        raise CheckpointError(
            f"this checkpoint has {head.shards} shards for the keys '{route.name}', not {route.shards}: "
            f"go on with shards={head.shards}, or start from a new checkpoint"
        )
    asked = "" if job.asking is None else job.asking.identity
    if head.asked != asked:
        raise CheckpointError(
            f"this checkpoint is of {head.asked or 'shared windows, without requests'}, not of "
            f"{asked or 'shared windows, without requests'}. {_GO_ON}"
        )
    if head.columns is None:
        return
    if head.stream != job.stream.name:
        raise CheckpointError(
            f"this checkpoint is of stream '{head.stream}', not '{job.stream.name}'. {_GO_ON}"
        )
    if head.time != job.stream.time:
        raise CheckpointError(
            f"this checkpoint has the time in column '{head.time}', not in '{job.stream.time}'. {_GO_ON}"
        )
    now = typed(job.stream, job.stream.schema.names)
    for name, kind in head.columns.items():
        if now.get(name, kind) != kind:
            raise CheckpointError(
                f"this checkpoint has column '{name}' as {_shown(kind)}, not as {_shown(now[name])}. "
                f"CAST the column to {_shown(kind)}, or start from a new checkpoint"
            )
    given = {each.name: _declared(each) for each in job.tables}
    for name, declared in head.tables.items():
        if name not in given:
            raise CheckpointError(f"this checkpoint has a table '{name}', which is not given. {_GO_ON}")
        was = {part: declared[part] for part in given[name]}
        if was != given[name]:
            raise CheckpointError(
                f"this checkpoint has table '{name}' as {_table_text(was)}, not as {_table_text(given[name])}. {_GO_ON}"
            )


def check_held(head: Head, route: Route, loaded: Collection[str]) -> None:
    """An error if shards need other rows of a table than they hold, and the micro-batch does not bring them all: those
    that are `loaded` come anew."""
    for name, by in route.held.items():
        was = head.tables.get(name, {}).get("by", _told(by))
        if was != _told(by) and name not in loaded:
            columns = [
                None if each is None else ", ".join(column for column, _ in each) for each in (was, _told(by))
            ]
            before, now = (f"by {each}" if each else "in all shards" for each in columns)
            raise CheckpointError(
                f"this checkpoint has the rows of table '{name}' {before}, and these queries need them {now}: join it "
                f"by the same columns, or start from a new checkpoint; with keys=[…] all shards have all rows"
            )


def _declared(table: Table) -> dict[str, Any]:
    return {"key": list(table.key), "columns": {field.name: str(field.type) for field in table.schema}}


def _told(by: By) -> list[list[str]] | None:
    return None if by is None else [[column, str(kind)] for column, kind in by]


def _table_text(declared: dict[str, Any]) -> str:
    columns = ", ".join(f"{name} {_shown(kind)}" for name, kind in declared["columns"].items())
    return f"({columns}, PRIMARY KEY ({', '.join(declared['key'])}))"


def check_known(head: Head, job: Job, route: Route) -> None:
    """An error if there is a query that came by a statement, and the job folds events without knowing it."""
    unknown = [name for name, keys in head.came.items() if keys == route.name]
    if unknown and job.roster is not None and head.noted is None:
        raise CheckpointError(
            f"query '{unknown[0]}' came by a statement before there was a roster: go on without roster=…, give that "
            "query, too, or start from a new checkpoint"
        )
    if unknown and route.fold is not None and job.roster is None:
        raise CheckpointError(
            f"query '{unknown[0]}' came by a statement, but without a control stream events are folded for the queries "
            "that are given. Go on with control=…, give that query, too, or start from a new checkpoint"
        )


def names_of(job: Job) -> list[str]:
    return sorted(each.name for each in job.routes)


def typed(stream: Stream, names: Iterable[str]) -> dict[str, str]:
    """Columns of a stream with their types, as a head has them."""
    return {name: str(stream.schema.field(name).type) for name in names}


def columns_in(head: Head, job: Job, route: Route) -> pa.Schema:
    """The columns that a shard may meet: those of its route, and those of queries that are still in its log, even if
    the stream does not have them any more."""
    if head.columns is None:
        return job.stream.schema
    fields = {name: job.stream.schema.field(name) for name in route.columns}
    known = {name: pa.field(name, KINDS[kind]) for name, kind in head.columns.items()}
    return pa.schema(list((known | fields).values()))


def _shown(kind: str) -> str:
    return type_name(KINDS[kind]) if kind in KINDS else kind
