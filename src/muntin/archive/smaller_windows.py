"""Smaller windows: results of a join answer the same join over shorter windows.

A result is in it if all its inputs are still in the shorter windows; it was generated at the same instant.
The places of its inputs decide. Results without places have only their expiry, which tells when all windows are
shorter by the same span and the expiry is exact: a view's own is rounded up to its next update, so views keep
places. Longer windows cannot be served: what they still hold is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, Definition
from muntin.errors import WindowTooLarge


def is_inside(rows: pa.Table, sizes: Sequence[int], definition: Definition, now: int,
              counts: Sequence[int] = ()) -> Any:  # fmt: skip
    """Whether each result is also one of the same join over windows of these sizes, as a NumPy array."""
    check_sizes(sizes, definition)
    if not definition.inputs:
        return rows[EXPIRES].to_numpy() - (definition.sizes[0] - sizes[0]) > now
    inside = np.ones(rows.num_rows, bool)
    ends = counts if definition.by_count else [now] * len(sizes)
    for name, size, end in zip(definition.inputs, sizes, ends, strict=True):
        inside &= rows[name].to_numpy() + size > end
    return inside


def check_sizes(sizes: Sequence[int], definition: Definition) -> None:
    """Raise an error if windows of these sizes cannot be answered from the view."""
    if len(sizes) != len(definition.sizes):
        raise WindowTooLarge(f"the view joins {len(definition.sizes)} windows, not {len(sizes)}")
    for number, (size, smaller) in enumerate(zip(definition.sizes, sizes, strict=True), 1):
        if smaller > size:
            raise WindowTooLarge(f"window {number} of {smaller} is larger than the view's, which is {size}")
    is_even = len({size - smaller for size, smaller in zip(definition.sizes, sizes, strict=True)}) == 1
    if not is_even and not definition.inputs:
        raise WindowTooLarge(
            "the windows are not all shorter by the same span, and the view does not keep the time of each input"
        )


@dataclass(frozen=True)
class Sharing:
    """What it costs to answer several windows from one view, against a view for each (in bytes)."""

    shared: int  # the times of inputs that the shared results carry beyond their own
    separate: int  # the results of the smaller windows, kept on their own

    @property
    def pays(self) -> bool:
        """Whether one view is the smaller."""
        return self.shared < self.separate


def compare_sharing(
    results: int, row_bytes: float, many: Sequence[Sequence[int]], definition: Definition
) -> Sharing:
    """Estimate the bytes of both ways, for windows of `many` sizes beside the view's own.

    Results of a join with windows shorter by some part are fewer by about that part of each.
    """
    shares = [
        float(np.prod([smaller / size for smaller, size in zip(sizes, definition.sizes, strict=True)]))
        for sizes in many
    ]
    return Sharing(8 * len(definition.inputs) * results, int(sum(shares) * results * row_bytes))
