"""A record of the log: one thing that happens to the engine, as bytes.

4 bytes   how long the description is
JSON      the description: {"do": "push", "stream": "trades"}
the rest  a body, if there is one: Arrow's stream format
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from muntin.described import COUNT, WHOLE, Absent, Each, check_shape
from muntin.own.registered import check_versions, versions_in
from muntin.serve.producers import Once

_LENGTH = struct.Struct("<I")
_SHAPE = {
    "do": str,
    "stream": Absent(str),
    "table": Absent(str),
    "sql": Absent(str),
    "until": Absent(WHOLE),
    "ranges": Absent([(str, COUNT, WHOLE, COUNT)]),  # of a source: part, start, end, messages
    "bad": Absent([(str, COUNT)]),  # messages in them that are no events
    "producer": Absent(str),  # who numbers its changes
    "sequence": Absent(COUNT),
    "at": Absent(WHOLE),  # the clock on the wall
    "functions": Absent(Each(COUNT)),  # of the user's own: their versions
    "last": Absent(COUNT),  # the number of the last record that was logged together with this one
}


@dataclass(frozen=True)
class Record:
    """What is done, with what.

    >>> unpack_record(Record("execute", {"sql": "DROP QUERY q"}).pack())
    Record(do='execute', told={'sql': 'DROP QUERY q'}, body=b'')
    """

    do: str  # "push", "take", "load", "execute", "advance"
    told: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""
    events: pa.RecordBatch | None = field(
        default=None, repr=False, compare=False
    )  # at hand, and not in the log

    @property
    def once(self) -> Once | None:
        """What its producer calls it."""
        return Once(self.told["producer"], self.told["sequence"]) if "producer" in self.told else None

    def called(self, once: Once | None) -> Record:
        """The same, numbered by its producer."""
        return self if once is None else replace(self, told=self.told | once._asdict())

    def pack(self) -> bytes:
        """As it stands in the log, with the versions of functions of the user's own that its statements call."""
        called = versions_in([self.told["sql"]] if "sql" in self.told else [])
        known = {"functions": called} if called else {}
        head = json.dumps({"do": self.do, **self.told, **known}).encode()
        return _LENGTH.pack(len(head)) + head + self.body


def unpack_record(data: bytes) -> Record:
    """What `pack` made; an error if functions that it calls are not there: a start would go on without its query."""
    (length,) = _LENGTH.unpack_from(data)
    told = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    check_shape(told, _SHAPE, "the record")
    check_versions(told.pop("functions", {}), "the log")
    return Record(told.pop("do"), told, data[_LENGTH.size + length :])


def read_table(body: bytes) -> pa.Table:
    """The rows of a body."""
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()
