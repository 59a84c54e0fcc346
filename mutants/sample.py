"""A sample of mutations: seeded, from every folder, and of every kind."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from math import sqrt

from mutants.mutation import Mutation


def sample(found: Iterable[Mutation], count: int, seed: int) -> list[Mutation]:
    """So many mutations, in random order, at most one of a line.

    Folders have shares by the root of their size, so that a large folder does not crowd out a small one. Within a
    folder all kinds are as likely: swapped arguments are many, and often noticed at once.
    """
    by_folder: dict[str, dict[str, list[Mutation]]] = defaultdict(lambda: defaultdict(list))
    for each in found:
        by_folder[each.folder][each.kind].append(each)
    chance = random.Random(seed)
    turns = [folder for folder, kinds in sorted(by_folder.items()) for folder in [folder] * _share(kinds)]
    chosen: dict[tuple[str, int], Mutation] = {}
    while len(chosen) < count and turns:
        folder = chance.choice(turns)
        kinds = by_folder[folder]
        if not kinds:
            turns = [turn for turn in turns if turn != folder]
            continue
        kind = chance.choice(sorted(kinds))
        each = kinds[kind].pop(chance.randrange(len(kinds[kind])))
        if not kinds[kind]:
            del kinds[kind]
        chosen.setdefault((each.path, each.line), each)
    return list(chosen.values())


def _share(kinds: dict[str, list[Mutation]]) -> int:
    return max(1, round(sqrt(sum(len(each) for each in kinds.values()))))
