"""A window chain: time windows that nest, each inside the next, so that one structure can serve them all.

`Wi` nests in `Wj` if it is not longer and `Wj` moves only when `Wi` does: its slide is a multiple. In a
chain, sizes grow and each slide divides the next, so whenever a window moves, all shorter ones do too, and
its content is theirs and a little more. Windows of one size need no place each: those that move less often
are *piggybacked* on the one that moves most often, their *host*, which looks up what they answer.

Patroumpas & Sellis, "Subsuming Multiple Sliding Windows for Shared Stream Computation", sections 3.1 to 3.3,
where a chain is a group, its first member the seed. Two of their rules break chains and are replaced: a
window goes between two members only if it fits both, and a host that leaves stays as a *virtual* one as long
as the windows on it need it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd

Spec = tuple[int, int]  # size and slide of a window


@dataclass(eq=False, slots=True)
class Member:
    """The window of a chain that answers for all of its size."""

    size: int
    slide: int
    is_virtual: bool = False  # nobody asks for this window itself, only for those on it
    piggybacked: set[int] = field(default_factory=set)  # slides of the windows on it: multiples of its own

    def specs(self) -> list[Spec]:
        """The windows it answers for, by slide."""
        own = [] if self.is_virtual else [self.slide]
        return [(self.size, slide) for slide in (*own, *sorted(self.piggybacked))]


@dataclass(eq=False, slots=True)
class WindowChain:
    """Members by size.

    >>> chain = WindowChain.of(8, 4)
    >>> [chain.embed(*spec) for spec in ((8, 2), (16, 4), (4, 1), (12, 6))]
    [True, True, True, False]
    >>> chain
    <4, 1> <8, 2: 4> <16, 4>
    >>> chain.remove(8, 2)
    >>> chain
    <4, 1> <8, 4> <16, 4>
    """

    members: list[Member]
    sizes: list[int] = field(init=False)  # of the members, to search in
    slide: int = field(init=False)  # of the first member: it divides all others; 0 if there is none

    def __post_init__(self) -> None:
        self.sizes = [member.size for member in self.members]
        self._begin()

    @classmethod
    def of(cls, size: int, slide: int) -> WindowChain:
        """A chain of one window."""
        return cls([Member(size, slide)])

    def _begin(self) -> None:
        self.slide = self.members[0].slide if self.members else 0

    def member(self, size: int) -> Member:
        """The member that answers for the windows of a size it has; O(log members)."""
        return self.members[bisect_left(self.sizes, size)]

    def embed(self, size: int, slide: int) -> bool:
        """Give a window that is not in it a place if it has one; O(log members), and to move those behind."""
        position = bisect_left(self.sizes, size)
        fits_before = not position or slide % self.members[position - 1].slide == 0
        if position < len(self.sizes) and self.sizes[position] == size:
            is_in = self._share(self.members[position], slide, fits_before)
        elif is_in := fits_before and not (
            position < len(self.sizes) and self.members[position].slide % slide
        ):
            self.members.insert(position, Member(size, slide))
            self.sizes.insert(position, size)
        self._begin()
        return is_in

    def remove(self, size: int, slide: int) -> None:
        """Take a window out; O(log members + windows of its size)."""
        position = bisect_left(self.sizes, size)
        member = self.members[position]
        if slide == member.slide and not member.is_virtual:
            member.is_virtual = True
        else:
            member.piggybacked.remove(slide)
        if member.is_virtual:
            self._settle(position)
            self._begin()

    def _share(self, host: Member, slide: int, fits_before: bool) -> bool:
        """Place a window beside those of its size."""
        if slide == host.slide:
            host.is_virtual = False
            return True
        if slide % host.slide == 0:
            host.piggybacked.add(slide)
            return True
        if host.slide % slide or not fits_before:
            return False
        if not host.is_virtual:
            host.piggybacked.add(host.slide)
        host.slide, host.is_virtual = slide, False
        return True

    def _settle(self, position: int) -> None:
        """Have a virtual host move as seldom as its neighbours allow: as a window on it, if one fits."""
        host = self.members[position]
        if not host.piggybacked:
            del self.members[position], self.sizes[position]
            return
        after = self.members[position + 1].slide if position + 1 < len(self.members) else 0
        host.slide = gcd(after, *host.piggybacked)
        if host.slide in host.piggybacked:
            host.piggybacked.remove(host.slide)
            host.is_virtual = False

    def check(self) -> None:
        """Assert every invariant of a chain."""
        assert self.members
        assert self.sizes == [member.size for member in self.members]
        assert self.slide == self.members[0].slide
        for one, other in pairwise(self.members):
            assert one.size < other.size  # G1: sizes grow
            assert other.slide % one.slide == 0  # G2: each slide divides the next
        for member in self.members:
            # G3: what is piggybacked moves at some of the instants at which its host does
            assert all(slide % member.slide == 0 and slide != member.slide for slide in member.piggybacked)
            assert member.piggybacked or not member.is_virtual  # a virtual host has windows on it

    def __repr__(self) -> str:
        return " ".join(map(_text, self.members))


def _text(member: Member) -> str:
    others = f": {', '.join(map(str, sorted(member.piggybacked)))}" if member.piggybacked else ""
    return f"<{member.size}, {member.slide}{' virtual' if member.is_virtual else ''}{others}>"
