"""Rules that are rows of a table: which of them pass their thresholds, or do so no longer."""

from __future__ import annotations

import numpy as np

from muntin.kernels.answers import sort_key
from muntin.kernels.jit import kernel


@kernel
def rules_passing(bits, are_floats, valid, slot, edge, is_above, inside, finds_changes, out):
    """The rules whose number is not below their edge (not above it, unless `is_above`), or, if changes are to be found,
    those of which that is another answer than `inside` says; how many there are.

    Rule r looks at slot `slot[r]`; it has none, and does not pass, if that is negative. What `bits` and `valid` are,
    `find_bands` tells.
    """
    count = 0
    for r in range(len(slot)):
        passes = False
        if slot[r] >= 0:
            at = np.uint64(slot[r])
            number = sort_key(bits[at], are_floats)
            passes = (number >= edge[r] if is_above else number <= edge[r]) and valid[at]
        if passes != (finds_changes and inside[r]):
            out[count] = r
            count += 1
    return count
