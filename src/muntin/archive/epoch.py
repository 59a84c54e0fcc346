"""Epoch: one published state of an archive; it never changes, and whoever reads it keeps it.

The *directory* is one small file that says which segments make which part; replaced, it publishes an epoch.

    8 bytes    format version
    32 bytes   SHA-256 of what follows
    the rest   the epoch, as JSON

Segments are written before it and removed after it: a crash at any point leaves the last epoch published,
and perhaps files that nobody refers to, which the next writer removes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.archive.definition import DEFINITION, Definition
from muntin.archive.disk import SUFFIX, remove, replace
from muntin.archive.indexing import Indexing
from muntin.archive.liveness import ARRIVALS, AT, UPDATE, Arrivals, Invalidations, Liveness
from muntin.archive.segment import Segment
from muntin.archive.stored import RUN, Part, Stored, own_name, refuse_other
from muntin.described import COUNT, WHOLE, Absent, Each, Maybe, check_shape
from muntin.errors import ArchiveError, NotFound


@dataclass(frozen=True)
class Index:
    """The parts of an indexing, in the order of their numbers."""

    indexing: Indexing
    parts: tuple[Part, ...]
    retired_at: int | None = None  # it gets no new results any more, because another index does

    @classmethod
    def empty(cls, indexing: Indexing) -> Index:
        """Without results."""
        return cls(indexing, (Part(),) * indexing.parts)

    def runs(self) -> Iterator[Stored]:
        """All runs of all parts."""
        return (run for part in self.parts for run in part.runs)


@dataclass(frozen=True)
class Epoch:
    """All that an archive is after an update."""

    number: int
    definition: Definition
    now: int | None  # instant of the last update
    indexes: tuple[Index, ...]  # the last one gets the new results; others are left by a migration
    invalidations: Invalidations
    log: Segment | None  # where these are on disk
    arrivals: Arrivals
    batch: int | None = None  # the last batch it holds, of those that were numbered
    about: Mapping[str, str] = field(default_factory=dict)  # what its owner wrote into it
    known_from: int | None = None  # results of inputs before this time may be missing; None: nobody said

    @property
    def index(self) -> Index:
        """The one that gets the new results."""
        return self.indexes[-1]

    def runs(self) -> Iterator[Stored]:
        """All runs of all indexes."""
        return (run for index in self.indexes for run in index.runs())

    def liveness(self) -> Liveness:
        """What is alive as of the last update."""
        seen = self.arrivals.seen or (0,) * len(self.definition.inputs)  # before the first update
        return Liveness(self.definition, self.now or 0, self.invalidations, seen)

    def files(self) -> set[str]:
        """Names of the segments it is made of."""
        names = {run.segment.name for run in self.runs()}
        return names | {self.log.name} if self.log else names

    def describe(self) -> dict[str, Any]:
        """As plain values: what the directory holds."""
        return {
            "number": self.number,
            "definition": self.definition.describe(),
            "now": self.now,
            "batch": self.batch,
            "about": dict(self.about),
            "known_from": self.known_from,
            "arrivals": self.arrivals.describe(),
            "log": self.log.name if self.log else None,
            "log_checksum": self.log.checksum if self.log else None,
            "indexes": [
                {
                    "indexing": index.indexing.label,
                    "retired_at": index.retired_at,
                    "parts": [
                        {"applied": part.applied, "runs": [run.describe() for run in part.runs]}
                        for part in index.parts
                    ],
                }
                for index in self.indexes
            ],
        }


NAME = "directory"
_VERSION = b"MUNTAR01"
_SHAPE = {
    "number": COUNT,
    "definition": DEFINITION,
    "now": Maybe(WHOLE),
    "batch": Maybe(WHOLE),
    "about": Each(str),
    "arrivals": ARRIVALS,
    "log": Maybe(str),
    "log_checksum": Absent(Maybe(str)),
    "indexes": [{"indexing": str, "retired_at": Maybe(WHOLE), "parts": [{"applied": COUNT, "runs": [RUN]}]}],
}
_ATTEMPTS = 100  # to read an epoch while updates replace it


def publish(folder: Path, epoch: Epoch) -> bool:
    """Make an epoch the one that is read from now on; True if that survives a loss of power."""
    body = json.dumps(epoch.describe()).encode()
    return replace(folder / NAME, _VERSION + hashlib.sha256(body).digest() + body)


def read_epoch(folder: Path) -> Epoch:
    """Open the epoch published last, with all its segments mapped.

    Another process may publish the next one and remove segments meanwhile: then that one is read.
    """
    for _ in range(_ATTEMPTS):
        description = _read_description(folder)
        try:
            return _open(folder, description)
        except NotFound:
            if _read_description(folder)["number"] == description["number"]:
                raise
    raise ArchiveError(f"archive '{folder}' changes faster than it can be opened")


def clean(folder: Path, epoch: Epoch) -> list[str]:
    """Remove what the epoch does not refer to; the names of what was there."""
    used = epoch.files()
    left = [path for path in folder.iterdir() if path.suffix in (SUFFIX, ".tmp") and path.name not in used]
    for path in left:
        remove(path)
    return sorted(path.name for path in left)


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / NAME
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no archive in '{folder}'") from None
    except OSError as error:
        raise ArchiveError(f"'{path}' cannot be read: {error.strerror or error}") from None
    if content[:6] != _VERSION[:6]:
        raise ArchiveError(f"'{path}' is not the directory of an archive")
    if content[:8] != _VERSION:
        version = content[6:8].decode(errors="replace")
        raise ArchiveError(f"archive '{folder}' has format version {version}; this muntin reads 01")
    if hashlib.sha256(content[40:]).digest() != content[8:40]:
        raise ArchiveError(f"'{path}' is damaged: its checksum does not match")
    try:
        description: dict[str, Any] = json.loads(content[40:])
        check_shape(description, _SHAPE, "its description")
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"'{path}' is damaged: {error}") from None
    return description


def _open(folder: Path, description: dict[str, Any]) -> Epoch:
    definition = _read_definition(folder, description["definition"])
    log, invalidations = None, Invalidations(definition)
    if description["log"]:
        log, invalidations = read_log(folder, definition, description["log"], description.get("log_checksum"))
    return Epoch(
        number=description["number"],
        definition=definition,
        now=description["now"],
        indexes=tuple(_open_index(folder, index, definition) for index in description["indexes"]),
        invalidations=invalidations,
        log=log,
        arrivals=Arrivals.from_description(description["arrivals"]),
        batch=description["batch"],
        about=description["about"],
        known_from=description.get("known_from"),  # version 0.1 did not say
    )


def read_log(
    folder: Path, definition: Definition, name: str, checksum: str | None
) -> tuple[Segment, Invalidations]:
    """The segment of invalidations, and these."""
    schema = Invalidations(definition).schema
    log = Segment(folder / own_name(name), schema, (), (AT, UPDATE))
    refuse_other(log, checksum)
    entries = pa.Table.from_batches(log.between(0, log.rows), schema)
    return log, Invalidations(definition, entries)


def _read_definition(folder: Path, description: dict[str, Any]) -> Definition:
    try:
        return Definition.from_description(description)
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"'{folder / NAME}' is damaged: its definition is none: {error}") from None


def _open_index(folder: Path, description: dict[str, Any], definition: Definition) -> Index:
    indexing = Indexing.parse(description["indexing"])
    indexing.check(definition)
    if len(description["parts"]) != indexing.parts:
        raise ArchiveError(
            f"'{folder / NAME}' is damaged: {indexing.label} has {indexing.parts} parts, "
            f"not {len(description['parts'])}"
        )
    is_sorted = indexing.variant.layout.is_sorted
    parts = tuple(
        Part(
            tuple(Stored.from_description(folder, run, definition, is_sorted) for run in part["runs"]),
            part["applied"],
        )
        for part in description["parts"]
    )
    return Index(indexing, parts, description["retired_at"])
