"""Rules that are rows of a table: which of them pass their thresholds, or do so no longer."""

from __future__ import annotations

from muntin.kernels.answers import sort_key
from muntin.kernels.jit import kernel


@kernel
def rules_passing(bits, are_floats, valid, width, key, window, low, high, inside, finds_changes, out):
    """The rules whose number is from `low` to `high`, or, if changes are to be found, those of which that is another
    answer than `inside` says; how many there are.

    Rule r looks at slot `window[r] * width + key[r]`; it has none, and does not pass, if `key[r]` is negative. What
    `bits` and `valid` are, `find_bands` tells.
    """
    count = 0
    are_all_valid = len(valid) == 0
    for r in range(len(key)):
        passes = False
        if key[r] >= 0:
            slot = window[r] * width + key[r]
            number = sort_key(bits[slot], are_floats)
            passes = low[r] <= number <= high[r] and (are_all_valid or valid[slot])
        if passes != (finds_changes and inside[r]):
            out[count] = r
            count += 1
    return count
