"""What a checkpoint holds: shards, entries and bytes, read by Spark's own state reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from muntin.errors import CheckpointError
from muntin.spark.job import Job
from muntin.spark.ledger import parse_head
from muntin.spark.session import STATE_SETTINGS


@dataclass(frozen=True)
class ShardState:
    """One shard as its checkpoint has it; `bytes` are those of its base and its log."""

    route: str
    bucket: int
    partition: int
    format: int
    entries: int
    base: int
    bytes: int
    late: int
    bad: int
    answers: int  # given out …
    overflows: int  # … and left out, since a value of them does not exist
    latest: datetime | None


def read_state(session: SparkSession, checkpoint: str) -> list[ShardState]:
    """The shards of a checkpoint, by route and number; the query must not be running."""
    try:
        with with_settings(session, STATE_SETTINGS):
            rows = session.read.format("statestore").option("stateVarName", "head").load(checkpoint).collect()
    except PySparkException as error:
        raise CheckpointError(
            f"'{checkpoint}' is not a checkpoint of shared windows: {str(error).splitlines()[0]}"
        ) from None
    shards = []
    for row in rows:
        head = parse_head(row["value"]["text"])
        if head.route == Job.NAME:
            continue
        latest = None
        if head.greatest is not None:
            latest = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=head.greatest)
        shards.append(
            ShardState(
                head.route, head.bucket, row["partition_id"], head.format, head.entries, head.base,
                head.base_bytes + head.log_bytes, head.late, head.bad, head.answers, head.overflows, latest,
            )
        )  # fmt: skip
    return sorted(shards, key=lambda each: (each.route, each.bucket))


@contextmanager
def with_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """A session with other settings for a while; afterwards its own are as they were."""
    own = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in own.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def show_state(shards: list[ShardState]) -> str:
    """A line for each shard, and one for all."""
    lines = [
        f"{'keys':24} {'shard':>5} {'partition':>9} {'entries':>8} {'base at':>8} {'bytes':>12} {'late':>8} "
        f"{'bad':>8} {'answers':>12} {'left out':>8}  latest"
    ]
    for each in shards:
        latest = each.latest.strftime("%Y-%m-%d %H:%M:%S.%f") if each.latest else "-"
        lines.append(
            f"{each.route or '(none)':24} {each.bucket:>5} {each.partition:>9} {each.entries:>8,} "
            f"{each.base:>8,} {each.bytes:>12,} {each.late:>8,} "
            f"{each.bad:>8,} {each.answers:>12,} {each.overflows:>8,}  {latest}"
        )
    formats = ", ".join(sorted({str(each.format) for each in shards})) or "-"
    total = sum(each.bytes for each in shards)
    lines.append(f"{len(shards)} shards, {total:,} bytes, format version {formats}")
    return "\n".join(lines)
