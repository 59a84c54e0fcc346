"""Batch chains: all windows of a pool put into chains in one sweep, from short to long.

Fast and close to the fewest chains there can be, which `chain_cover` finds from here.

Patroumpas & Sellis, Algorithm 1, SubsumeWindows: a window can only follow the last member of a chain,
and the chains that move least often are tried first.
"""

from __future__ import annotations

from collections.abc import Iterable

from muntin.plan.divisibility import divisors_among
from muntin.plan.window_chain import Spec, WindowChain


def batch_chains(specs: Iterable[Spec]) -> list[WindowChain]:
    """Chains for some windows, those that move least often first; O(n log n + n * chains) at most.

    >>> batch_chains([(8, 2), (8, 4), (12, 4), (6, 3), (21, 3), (24, 8), (32, 4), (10, 5)])
    [<10, 5>, <32, 4>, <6, 3> <21, 3>, <8, 2: 4> <12, 4> <24, 8>]
    """
    pool = sorted(set(specs))
    divisors = divisors_among(slide for _, slide in pool)
    chains: dict[int, list[WindowChain]] = {slide: [] for slide in reversed(divisors)}
    for size, slide in pool:
        candidates = (chain for base in divisors[slide] for chain in chains[base])
        # nothing is longer than this window, so that where it is embedded is always at the end
        if not any(chain.embed(size, slide) for chain in candidates):
            chains[slide].append(WindowChain.of(size, slide))
    return [chain for some in chains.values() for chain in some]
