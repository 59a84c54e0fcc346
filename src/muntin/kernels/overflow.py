"""Whether integer sums have overflown: a look at all of them without arrays in between."""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def is_apart(total, shadow, far):
    """Whether any total is `far` from its shadow, which was added up in floats."""
    found = False
    for i in range(len(total)):
        found |= abs(float(total[i]) - shadow[i]) > far  # without a branch it is vectorised
    return found
