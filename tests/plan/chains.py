"""What window chains must be, written naively: the twin that the planner's chains are compared with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from muntin.plan.nesting import Nesting
from muntin.plan.window_chain import Spec, WindowChain

Plain = list[tuple[Spec, set[int]]]  # hosts in order, each with the slides of the windows on it


def nesting_of(*specs: Spec) -> Nesting:
    nesting = Nesting()
    for spec in specs:
        nesting.register(*spec)
    nesting.check()
    return nesting


def plain(chain: WindowChain) -> Plain:
    return [((each.size, each.slide), set(each.piggybacked)) for each in chain.members]


def members(chain: WindowChain) -> list[Spec]:
    return [(each.size, each.slide) for each in chain.members]


def is_chain(hosts: Sequence[Spec]) -> bool:
    """G1 and G2."""
    return all(one[0] < other[0] and other[1] % one[1] == 0 for one, other in pairwise(hosts))


def can_share(specs: Iterable[Spec]) -> bool:
    """Whether windows fit one chain without a virtual host: those of one size on the one that moves most often."""
    by_size: dict[int, list[int]] = {}
    for size, slide in specs:
        by_size.setdefault(size, []).append(slide)
    hosts = [(size, min(slides)) for size, slides in sorted(by_size.items())]
    is_on_host = all(slide % host == 0 for size, host in hosts for slide in by_size[size])
    return is_on_host and is_chain(hosts)


def fewest(specs: Sequence[Spec]) -> int:
    """Over all ways to part the windows into chains."""
    return min(len(parts) for parts in _partitions(list(specs)) if all(map(can_share, parts)))


def _partitions(specs: list[Spec]) -> Iterator[list[list[Spec]]]:
    if not specs:
        yield []
        return
    first, rest = specs[0], specs[1:]
    for parts in _partitions(rest):
        yield [[first], *parts]
        for place, part in enumerate(parts):
            yield [*parts[:place], [first, *part], *parts[place + 1 :]]


def random_specs(dice: random.Random, count: int, longest: int = 12, most: int = 6) -> list[Spec]:
    sizes = [dice.randint(1, longest) for _ in range(count)]
    return [(size, dice.randint(1, min(size, most))) for size in sizes]
