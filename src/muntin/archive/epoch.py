"""Epoch: one published state of an archive; it never changes, and whoever reads it keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muntin.archive.arrivals import Arrivals
from muntin.archive.definition import Definition
from muntin.archive.indexing import Indexing
from muntin.archive.liveness import Invalidations, Liveness
from muntin.archive.segment import Segment
from muntin.archive.stored import Part, Stored


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
