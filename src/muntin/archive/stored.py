"""Stored: a run on disk with what the directory knows of it, and parts made of such runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.disk import SUFFIX
from muntin.archive.segment import Segment
from muntin.described import COUNT, WHOLE, Absent
from muntin.errors import ArchiveError

_NAME = re.compile(rf"[0-9A-Za-z_-]+{re.escape(SUFFIX)}")


# of a run, as the directory describes it; archives of version 0.1.0 have no checksums
RUN = {
    "file": str,
    "rows": COUNT,
    "bytes": COUNT,
    "checksum": Absent(str),
    "expiry": (WHOLE, WHOLE),
    "inputs": [WHOLE],
    "greatest_inputs": Absent([WHOLE]),  # version 0.1 did not know them
}


def own_name(name: str) -> str:
    """The name of a segment, which is a file of the archive's own folder and nothing else."""
    if not _NAME.fullmatch(name):
        raise ArchiveError(f"the directory is damaged: '{name:.60}' is no segment of its folder")
    return name


def refuse_other(segment: Segment, checksum: str | None) -> None:
    """Raise an error if a segment is not the one that the directory was written for."""
    if checksum is not None and checksum != segment.checksum:
        raise ArchiveError(
            f"segment '{segment.path}' is damaged: it is whole, but not the one that the directory knows"
        )


@dataclass(frozen=True)
class Stored:
    """A segment of results, and the least and greatest of what decides whether they are alive."""

    segment: Segment
    least_expiry: int
    greatest_expiry: int
    least_inputs: tuple[int, ...]
    greatest_inputs: tuple[int, ...] | None = None  # None: version 0.1 wrote it

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
            "file": self.segment.name, "rows": self.rows, "bytes": self.size, "checksum": self.segment.checksum,
            "expiry": [self.least_expiry, self.greatest_expiry], "inputs": list(self.least_inputs),
            **({} if self.greatest_inputs is None else {"greatest_inputs": list(self.greatest_inputs)}),
        }  # fmt: skip

    @classmethod
    def from_description(cls, folder: Path, description: dict[str, Any], definition: Definition,
                         is_sorted: bool) -> Stored:  # fmt: skip
        """Open what `describe` described; an error if the file is another."""
        order = definition.order if is_sorted else ()
        path = folder / own_name(description["file"])
        segment = Segment(path, definition.schema, order, (GENERATED, EXPIRES, *definition.inputs))
        refuse_other(segment, description.get("checksum"))
        if (segment.rows, segment.size) != (description["rows"], description["bytes"]):
            raise ArchiveError(
                f"segment '{segment.path}' is damaged: it has {segment.rows:,} rows in {segment.size:,} bytes, "
                f"the directory says {description['rows']:,} in {description['bytes']:,}"
            )
        if len(description["inputs"]) != len(definition.inputs):
            raise ArchiveError(f"the directory is damaged: of '{segment.name}' it knows too few inputs")
        least, greatest = description["expiry"]
        inputs = description.get("greatest_inputs")
        return cls(
            segment, least, greatest, tuple(description["inputs"]), None if inputs is None else tuple(inputs)
        )


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
    greatest_inputs: tuple[int, ...] = ()
    is_empty: bool = True

    def see(self, rows: pa.Table) -> pa.Table:
        """Pass rows on."""
        bounds = pc.min_max(rows[EXPIRES])
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        places = [pc.min_max(rows[name]) for name in self.definition.inputs]
        inputs, latest = (tuple(each[end].as_py() for each in places) for end in ("min", "max"))
        if self.is_empty:
            self.least_expiry, self.greatest_expiry = least, greatest
            self.least_inputs, self.greatest_inputs = inputs, latest
        else:
            self.least_expiry, self.greatest_expiry = (
                min(self.least_expiry, least),
                max(self.greatest_expiry, greatest),
            )
            self.least_inputs = tuple(map(min, self.least_inputs, inputs))
            self.greatest_inputs = tuple(map(max, self.greatest_inputs, latest))
        self.is_empty = False
        return rows

    def stored(self, segment: Segment) -> Stored:
        """The segment that was made of the rows."""
        return Stored(
            segment, self.least_expiry, self.greatest_expiry, self.least_inputs, self.greatest_inputs
        )
