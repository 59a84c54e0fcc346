"""The runtimes a case can run on, behind one face. A new runtime joins by adding itself to RUNTIMES.

Rows come back as dictionaries with naive UTC datetimes, in the order in which the runtime gives them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import muntin
from muntin.stream import Stream
from reference import Answer, ReferenceEngine, declared

Row = dict[str, Any]
Batch = Mapping[str, Sequence[Any]]


class Runtime(Protocol):
    """What a case needs of a runtime; `is_ordered` if its rows come in the order that cases write them in."""

    is_ordered: bool

    def create(self, sql: str) -> None: ...
    def derive(self, sql: str) -> None: ...
    def register(self, name: str, sql: str) -> None: ...
    def push(self, stream: str, batch: Batch) -> None: ...
    def lookup(self, name: str, keys: Sequence[Any] | None, at: int | None) -> list[Row]: ...
    def advance(self, until: int | None) -> dict[str, list[Row]]: ...
    def drop(self, name: str) -> None: ...
    def checkpoint(self) -> None: ...
    def late(self, stream: str) -> int: ...


class Reference:
    """The oracle itself: shows that a case expects what semantics.md says."""

    is_ordered = True

    def __init__(self) -> None:
        self.engine = ReferenceEngine()

    def create(self, sql: str) -> None:
        self.engine.execute(sql)

    derive = create

    def register(self, name: str, sql: str) -> None:
        self.engine.register(sql, name=name)

    def push(self, stream: str, batch: Batch) -> None:
        self.engine.push(stream, batch)

    def lookup(self, name: str, keys: Sequence[Any] | None, at: int | None) -> list[Row]:
        return self.engine.lookup(name, None if keys is None else list(keys), at).rows

    def advance(self, until: int | None) -> dict[str, list[Row]]:
        answers: dict[str, Answer] = self.engine.advance(until)
        return {name: answer.rows for name, answer in answers.items() if answer.rows}

    def drop(self, name: str) -> None:
        self.engine.drop(name)

    def checkpoint(self) -> None:
        """It has nothing to lose."""

    def late(self, stream: str) -> int:
        return self.engine.late(stream)


class Embedded:
    """muntin.Engine."""

    is_ordered = True

    def __init__(self) -> None:
        self.engine = muntin.Engine()
        self.streams: dict[str, Stream] = {}

    def create(self, sql: str) -> None:
        stream = declared(sql)
        self.streams[stream.name] = stream
        self.engine.execute(sql)

    def derive(self, sql: str) -> None:
        self.engine.execute(sql)

    def register(self, name: str, sql: str) -> None:
        self.engine.register(sql, name=name)

    def push(self, stream: str, batch: Batch) -> None:
        self.engine.push(stream, as_table(batch, self.streams[stream]))

    def lookup(self, name: str, keys: Sequence[Any] | None, at: int | None) -> list[Row]:
        answer: pa.Table = self.engine.lookup(name, key=None if keys is None else list(keys), at=at)
        return list(answer.to_pylist())

    def advance(self, until: int | None) -> dict[str, list[Row]]:
        return {name: answer.to_pylist() for name, answer in self.engine.advance(until=until).items()}

    def drop(self, name: str) -> None:
        self.engine.drop(name)

    def checkpoint(self) -> None:
        self.engine = checkpointed(self.engine)

    def late(self, stream: str) -> int:
        return int(self.engine.stats()["streams"][stream]["late"])


RUNTIMES: dict[str, Callable[[], Runtime]] = {"reference": Reference, "embedded": Embedded}


# Thousands of checkpoints: where files can be in memory, nobody waits for the disk to have them.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def as_table(batch: Batch, stream: Stream) -> pa.Table:
    """A batch of Python values (times in microseconds) as Arrow, typed as the stream declares."""
    return pa.table(
        {name: pa.array(values, stream.schema.field(name).type) for name, values in batch.items()}
    )


def checkpointed(engine: muntin.Engine) -> muntin.Engine:
    """The engine, written to a file and read back."""
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        path = Path(folder) / "checkpoint"
        engine.checkpoint(path)
        return muntin.Engine.restore(path)
