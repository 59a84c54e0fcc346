"""A nesting in words: which windows of a stream nest, in how many chains, and which answer for others."""

from __future__ import annotations

from muntin.plan.nesting import Nesting, Signature
from muntin.plan.window_chain import Member, WindowChain
from muntin.plan.wording import count
from muntin.window import span

_SHOWN = 6  # chains, and members of each, before "… and n more"


def explain_nesting(signature: Signature, nesting: Nesting) -> str:
    """A paragraph on the windows of one signature, in the fewest chains.

    >>> seconds = [(8, 2), (8, 4), (16, 4)]
    >>> nesting = Nesting.of((size * 1_000_000, slide * 1_000_000) for size, slide in seconds)
    >>> print(explain_nesting(Signature(None, ()), nesting))
    nesting without keys: 3 windows in 1 chain (the fewest possible), 1 of them piggybacked
      chain    8 SECONDS by 2 SECONDS (and by 4 SECONDS) < 16 SECONDS by 4 SECONDS
    """
    windows = count(nesting.windows, "window", "windows")
    head = (
        f"nesting {signature}: {windows} in {count(len(nesting.chains), 'chain', 'chains')}"
        f" (the fewest possible), {nesting.piggybacked:,} of them piggybacked"
    )
    lines = [f"  chain    {_chain(chain)}" for chain in nesting.chains[:_SHOWN]]
    if len(nesting.chains) > _SHOWN:
        lines.append(f"  … and {len(nesting.chains) - _SHOWN:,} more")
    return "\n".join([head, *lines])


def _chain(chain: WindowChain) -> str:
    more = len(chain.members) - _SHOWN
    return " < ".join(
        [_member(member) for member in chain.members[:_SHOWN]] + [f"… {more:,} more"] * (more > 0)
    )


def _member(member: Member) -> str:
    moves = f"{span(member.size)} by {span(member.slide)}"
    others = ", ".join(span(slide) for slide in sorted(member.piggybacked))
    return moves + (f" (and by {others})" if others else "")
