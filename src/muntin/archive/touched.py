"""Touched: what an update had to do, in parts and bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Touched:
    """Counted for one update.

    `parts` are those that were due to lose results or got new ones, as the formulas of the paper count
    sub-indices: G + E - 1 for a doubly partitioned index.
    """

    parts: int = 0
    of: int = 0  # parts there are
    inserted: int = 0  # results
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: Touched) -> Touched:
        """Of two updates together."""
        return Touched(
            self.parts + other.parts,
            max(self.of, other.of),
            self.inserted + other.inserted,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )
