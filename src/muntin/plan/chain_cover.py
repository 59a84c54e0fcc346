"""A chain cover: the fewest chains that hold all windows of a pool.

A window of the same size as one whose slide divides its own is piggybacked, whatever else there is. Of the
hosts that are left, each can be followed by at most one, and each follow at most one: chains are a matching
between hosts and those that nest them, and the more pairs are matched, the fewer chains there are (Dilworth).
Patroumpas & Sellis leave this to future work; it is exact and takes polynomial time.

The matching is Hopcroft & Karp's ("An n^5/2 Algorithm for Maximum Matchings in Bipartite Graphs", 1973),
from the batch chains as a start. There are too many pairs to list them, and no need to: among the hosts of
one slide, ordered by size, those that nest a given one are all from some position on. So a search that takes
them from the end remembers one number for each slide instead of a mark for each host.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from muntin.plan.window_chain import Member, Spec, WindowChain

_NONE = -1


def chain_cover(specs: Iterable[Spec]) -> list[WindowChain]:
    """The fewest chains for some windows, those that move least often first.

    O(n * slides) a round and about the root of n rounds at most; as a rule a few.

    >>> chain_cover([(2, 1), (3, 2), (4, 3), (6, 2), (6, 4)])
    [<4, 3>, <2, 1> <3, 2> <6, 2: 4>]
    """
    members = _hosts(specs)
    follower = _Matching([(member.size, member.slide) for member in members]).follower
    is_first = [True] * len(members)
    for position in follower:
        if position != _NONE:
            is_first[position] = False
    chains = [_chain(members, follower, position) for position, first in enumerate(is_first) if first]
    return sorted(chains, key=lambda chain: (-chain.slide, chain.sizes[0]))


def _hosts(specs: Iterable[Spec]) -> list[Member]:
    """The windows by size, those piggybacked that can be."""
    members: list[Member] = []
    first = 0  # of the members of this size
    for size, slide in sorted(set(specs)):
        if members and members[-1].size != size:
            first = len(members)
        host = next((each for each in members[first:] if slide % each.slide == 0), None)
        if host is None:
            members.append(Member(size, slide))
        else:
            host.piggybacked.add(slide)
    return members


def _chain(members: list[Member], follower: list[int], position: int) -> WindowChain:
    chain = []
    while position != _NONE:
        chain.append(members[position])
        position = follower[position]
    return WindowChain(chain)


class _Matching:
    """As many pairs (host, follower) as possible, each host once on either side; by their positions in order."""

    def __init__(self, hosts: list[Spec]):
        self._hosts = hosts
        self.follower = [_NONE] * len(hosts)
        self.leader = [_NONE] * len(hosts)
        self._by_slide: dict[int, list[int]] = {}
        for position, (_, slide) in enumerate(hosts):
            self._by_slide.setdefault(slide, []).append(position)
        self._multiples = multiples_among(self._by_slide)
        self._start()
        while layers := self._layers():
            for position, follower in enumerate(self.follower):
                if follower == _NONE:
                    self._augment(position, layers)

    def _start(self) -> None:
        position_of = {host: position for position, host in enumerate(self._hosts)}
        for chain in batch_chains(self._hosts):
            positions = [position_of[member.size, member.slide] for member in chain.members]
            for one, other in pairwise(positions):
                self.follower[one], self.leader[other] = other, one

    def _layers(self) -> list[dict[int, list[int]]]:
        """How the shortest ways to a host without a leader go: for each step and slide, the hosts it can reach
        that no earlier step could, the longest last; nothing if there is no way."""
        layers: list[dict[int, list[int]]] = []
        reached = {slide: len(hosts) for slide, hosts in self._by_slide.items()}  # all from here on
        frontier = [position for position, follower in enumerate(self.follower) if follower == _NONE]
        while frontier:
            before = dict(reached)
            for position in frontier:
                for slide in self._multiples[self._hosts[position][1]]:
                    hosts, end = self._by_slide[slide], reached[slide]
                    if end and hosts[end - 1] > position:
                        reached[slide] = bisect_right(hosts, position, 0, end)
            layers.append(
                {
                    slide: self._by_slide[slide][reached[slide] : end]
                    for slide, end in before.items()
                    if reached[slide] < end
                }
            )
            found = [self.leader[host] for hosts in layers[-1].values() for host in hosts]
            if _NONE in found:
                return layers
            frontier = found
        return []

    def _augment(self, position: int, layers: list[dict[int, list[int]]]) -> None:
        """Follow the layers from a host without a follower to one without a leader, and match all on the way
        anew. What was tried is taken out of the layers."""
        way: list[int] = [position]
        taken: list[int] = []  # the follower that each host on the way would take
        while way:
            follower = self._take(way[-1], layers[len(taken)]) if len(taken) < len(layers) else _NONE
            if follower == _NONE:
                way.pop()
                if taken:
                    taken.pop()
                continue
            taken.append(follower)
            if self.leader[follower] == _NONE:
                for one, other in zip(way, taken, strict=True):
                    self.follower[one], self.leader[other] = other, one
                return
            way.append(self.leader[follower])

    def _take(self, position: int, layer: dict[int, list[int]]) -> int:
        """A host of a layer that nests a given one, the longest of its slide."""
        for slide in self._multiples[self._hosts[position][1]]:
            hosts = layer.get(slide)
            if hosts and hosts[-1] > position:
                return hosts.pop()
        return _NONE


# Batch chains: all windows of a pool put into chains in one sweep, from short to long.
#
# Fast and close to the fewest chains there can be, which `chain_cover` finds from here.
#
# Patroumpas & Sellis, Algorithm 1, SubsumeWindows: a window can only follow the last member of a chain, and
# the chains that move least often are tried first.


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


# Divisibility: which slides among many are multiples of which.


def multiples_among(slides: Iterable[int]) -> dict[int, list[int]]:
    """For each slide, its multiples among all of them, itself included, in order.

    For each, either its multiples or the slides there are gone through, whichever are fewer.

    >>> multiples_among([1, 2, 3, 4])
    {1: [1, 2, 3, 4], 2: [2, 4], 3: [3], 4: [4]}
    """
    known = set(slides)
    ordered = sorted(known)
    multiples = {}
    for slide in ordered:
        if ordered[-1] // slide < len(ordered):
            multiples[slide] = [each for each in range(slide, ordered[-1] + 1, slide) if each in known]
        else:
            multiples[slide] = [each for each in ordered if each % slide == 0]
    return multiples


def divisors_among(slides: Iterable[int]) -> dict[int, list[int]]:
    """For each slide, its divisors among all of them, itself included, the greatest first.

    >>> divisors_among([1, 2, 3, 4])
    {1: [1], 2: [2, 1], 3: [3, 1], 4: [4, 2, 1]}
    """
    multiples = multiples_among(slides)
    divisors: dict[int, list[int]] = {slide: [] for slide in multiples}
    for slide in reversed(multiples):
        for each in multiples[slide]:
            divisors[each].append(slide)
    return divisors
