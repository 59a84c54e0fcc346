"""Divisibility: which slides among many are multiples of which."""

from __future__ import annotations

from collections.abc import Iterable


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
