"""Stored: a run on disk with what the directory knows of it, and parts made of such runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive.definition import EXPIRES, Definition
from muntin.archive.segment import Segment
from muntin.errors import ArchiveError


@dataclass(frozen=True)
class Stored:
    """A segment of results, and the least and greatest of what decides whether they are alive."""

    segment: Segment
    least_expiry: int
    greatest_expiry: int
    least_inputs: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many results."""
        return self.segment.rows

    @property
    def size(self) -> int:
        """Bytes."""
        return self.segment.size

    def describe(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "file": self.segment.name, "rows": self.rows, "bytes": self.size, "expiry": [self.least_expiry,
            self.greatest_expiry], "inputs": self.least_inputs,
        }  # fmt: skip

    @classmethod
    def from_description(cls, folder: Path, description: dict[str, Any], definition: Definition,
                         is_sorted: bool) -> Stored:  # fmt: skip
        """Open what `describe` described; an error if the file is another."""
        order = definition.order if is_sorted else ()
        segment = Segment(folder / description["file"], definition.schema, order)
        if (segment.rows, segment.size) != (description["rows"], description["bytes"]):
            raise ArchiveError(
                f"segment '{segment.path}' is damaged: it has {segment.rows:,} rows in {segment.size:,} bytes, "
                f"the directory says {description['rows']:,} in {description['bytes']:,}"
            )
        least, greatest = description["expiry"]
        return cls(segment, least, greatest, tuple(description["inputs"]))


@dataclass(frozen=True)
class Part:
    """One sub-index: at most a few runs, and up to which update invalidations have been applied to it."""

    runs: tuple[Stored, ...] = ()
    applied: int = 0


@dataclass
class Extent:
    """Collects the least and greatest of what decides liveness, as rows pass by."""

    definition: Definition
    least_expiry: int = 0
    greatest_expiry: int = 0
    least_inputs: tuple[int, ...] = ()
    is_empty: bool = True

    def see(self, rows: pa.Table) -> pa.Table:
        """Pass rows on."""
        bounds = pc.min_max(rows[EXPIRES])
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        inputs = tuple(pc.min(rows[name]).as_py() for name in self.definition.inputs)
        if self.is_empty:
            self.least_expiry, self.greatest_expiry, self.least_inputs = least, greatest, inputs
        else:
            self.least_expiry, self.greatest_expiry = (
                min(self.least_expiry, least),
                max(self.greatest_expiry, greatest),
            )
            self.least_inputs = tuple(map(min, self.least_inputs, inputs))
        self.is_empty = False
        return rows

    def stored(self, segment: Segment) -> Stored:
        """The segment that was made of the rows."""
        return Stored(segment, self.least_expiry, self.greatest_expiry, self.least_inputs)
