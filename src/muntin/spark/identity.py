"""The identity of a job's state: what must be the same when a checkpoint is gone on with.

| part | why |
|---|---|
| name of the stream, time column | texts of queries name the stream; windows are of that time |
| types of the columns that queries have read | cells and events in the state have these types |
| keys of the routes, shards of each | each key belongs to one shard, for good |

Queries, the delay, `fold`, and columns that no query has read may differ. The identity is in the head of every ledger,
and in one more ledger, that of the job: shards of other keys would find no state, and could not tell that there is
some under the keys of before.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from muntin.errors import CheckpointError
from muntin.spark.job import Job, Route
from muntin.spark.ledger import Head
from muntin.sql.type_name import type_name
from muntin.stream import Stream

_KINDS = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float32(), pa.float64(), pa.string(), pa.date32(),
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


def bind(head: Head, job: Job, route: Route | None) -> None:
    """Note in a head what its state is of; a column that was read once stays bound to its type."""
    routes = job.routes if route is None else (route,)
    read = typed(job.stream, [name for each in routes for name in each.columns])
    head.stream, head.time, head.columns = job.stream.name, job.stream.time, read | (head.columns or {})


def check_identity(head: Head, job: Job, route: Route | None) -> None:
    """An error that names both sides if the state of a head is not that of a job. Version 0.1.0 wrote neither stream
    nor columns: such a state is taken to be of this job's."""
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
    known = {name: pa.field(name, _KINDS[kind]) for name, kind in head.columns.items()}
    return pa.schema(list((known | fields).values()))


def _shown(kind: str) -> str:
    return type_name(_KINDS[kind]) if kind in _KINDS else kind
