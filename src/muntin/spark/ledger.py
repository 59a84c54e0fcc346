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
from dataclasses import asdict, dataclass, field
from typing import Any

from muntin.errors import CheckpointError

FORMAT = 3  # raise it when a ledger can no longer be read by what came before
_READABLE = (2, 3)  # 2 has no identity
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
    late: int = 0
    rewound: int | None = None  # the instant that a run was last told to start again at
    stream: str = ""  # the identity of the state, see identity.py
    time: str = ""
    columns: dict[str, str] | None = None  # their types; None in format 2
    configured: str = ""  # what the job's own queries were, as a hash
    came: dict[str, str] = field(default_factory=dict)  # queries that came by statement, of all routes …
    went: list[str] = field(default_factory=list)  # … and went: see control.py


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
        head.format = FORMAT
        self._head.update((json.dumps(asdict(head)),))

    def is_due(self, head: Head) -> bool:
        """Whether the log has outgrown the base, in bytes or in entries."""
        entries = min(_MOST, max(_FEW, head.base_bytes // _PER_ENTRY))
        return head.log_bytes > max(head.base_bytes, _SMALL) or head.entries - head.base >= entries

    def write_base(self, head: Head, snapshot: Any) -> None:
        """Replace the base by a snapshot as of the last entry, and forget entries that it includes."""
        view = memoryview(snapshot)
        pieces = [view[lo : lo + _PIECE].tobytes() for lo in range(0, len(view), _PIECE)]
        for number, piece in enumerate(pieces):
            self._base.updateValue((number,), (piece,))
        for number in range(len(pieces), head.pieces):
            self._base.removeKey((number,))
        head.base, head.pieces = head.entries, len(pieces)
        head.base_bytes, head.log_bytes = len(view), 0
        for entry in [entry for entry in head.tokens if entry <= head.entries - _KEPT]:
            self._log.removeKey((entry,))
            del head.tokens[entry]

    def read_base(self, head: Head) -> bytes:
        return b"".join(self._base.getValue((number,))[0] for number in range(head.pieces))

    def read_entry(self, entry: int) -> bytes:
        found: bytes = self._log.getValue((entry,))[0]
        return found


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
