"""A sample of mutations: seeded, from every folder, and of every kind.

Who is in the sample depends on the text of each mutant, not on its place. When a function moves or other code changes,
nearly the same mutants are drawn again, so that survivors can be followed from one version to the next.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from math import sqrt

from mutants.mutation import Mutation
from mutants.project import read


def sample(found: Iterable[Mutation], count: int, seed: int) -> list[Mutation]:
    """So many mutations, in random order, at most one of a line.

    Each folder has one, and more by the root of its size, so that a large folder does not crowd out a small one.
    Within a folder all kinds are as likely: swapped arguments are many, and often noticed at once.
    """
    by_folder: dict[str, dict[str, list[Mutation]]] = defaultdict(lambda: defaultdict(list))
    for each in found:
        by_folder[each.folder][each.kind].append(each)
    lots = {
        each: _lot(each, seed) for kinds in by_folder.values() for some in kinds.values() for each in some
    }
    weights = {folder: sqrt(sum(map(len, kinds.values()))) for folder, kinds in by_folder.items()}
    drawn = {folder: _in_turn(kinds, lots) for folder, kinds in by_folder.items()}
    taken = dict.fromkeys(sorted(by_folder), 0)
    chosen: dict[tuple[str, int], Mutation] = {}
    while len(chosen) < count and taken:
        folder = min(taken, key=lambda folder: (taken[folder] > 0, (taken[folder] + 1) / weights[folder]))
        each = next(drawn[folder], None)
        if each is None:
            del taken[folder]
        elif (each.path, each.line) not in chosen:
            chosen[each.path, each.line] = each
            taken[folder] += 1
    return sorted(chosen.values(), key=lots.__getitem__)


def _in_turn(kinds: dict[str, list[Mutation]], lots: dict[Mutation, bytes]) -> Iterator[Mutation]:
    """The mutations of a folder by their lots, one kind after the other."""
    ranked = [sorted(kinds[kind], key=lots.__getitem__) for kind in sorted(kinds)]
    for round_ in zip_longest(*ranked):
        yield from sorted((each for each in round_ if each is not None), key=lots.__getitem__)


def _lot(mutation: Mutation, seed: int) -> bytes:
    """A random number for the text of a mutant."""
    source = read(mutation.path)
    told = f"{seed} {mutation.kind} {mutation.before(source)} {mutation.after(source)} {mutation.path} {mutation.line}"
    text = told.rpartition(" ")[0].rpartition(" ")[0]  # where it stands only tells equal texts apart
    return hashlib.sha256(text.encode()).digest()[:8] + hashlib.sha256(told.encode()).digest()[:8]
