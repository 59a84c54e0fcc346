"""Levels of stairs: how fine granules must be at which age, so that every window finds its edges.

A window of one minute that moves by seconds has edges at any second, but none of them is older than a
minute; what is older only has to have the edges of longer windows. So from the longest window down, the step
is the greatest common divisor of the steps of all windows that reach as far:

    windows   30 days, SLIDE 1 hour     ages   ...................................|..........|.....| now
              1 hour, SLIDE 1 minute    step   1 hour                              1 minute   1 second
              1 minute, SLIDE 1 second

Each step divides the next coarser one, and an edge that a window can have at some age lies on the grid of
that age: by construction, whatever the sizes and slides. (That slides divide each other, and sizes are multiples
of them, would not be enough: `[RANGE 6 SLIDE 2]` beside `[RANGE 12 SLIDE 4]` needs granules of 2 up to age 8.)

Granules wait until they fill one of the next level. Where an hour would have to be filled with seconds, a level of
minutes comes in between, though no window asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import gcd, isqrt
from typing import NamedTuple

from muntin.store.needs import Shape

# Every level has its part in every look-up: it must save this part of the granules, ...
_WORTH = 9 / 8
_FEW_WAIT = 256  # ... and one that no window asks for, this many that would wait for the next level


class Level(NamedTuple):
    """Granules of `step` up to the age `reach`, from where the level before it ends; if that is the same age,
    only those that wait for the next level."""

    step: int
    reach: int


def levels_for(longest: Mapping[Shape, int]) -> tuple[Level, ...]:
    """The levels for the longest windows of each shape, finest first; O(n log n).

    Adjacent levels are merged where the coarser one saves next to nothing, and others put in between where
    they save much.

    >>> levels_for({(1, 1): 60, (60, 60): 3600, (3600, 3600): 2_592_000})
    (Level(step=1, reach=61), Level(step=60, reach=3660), Level(step=3600, reach=2595600))
    >>> levels_for({(2, 2): 6, (4, 4): 120})
    (Level(step=2, reach=8), Level(step=4, reach=124))
    >>> levels_for({(1, 1): 60, (3600, 3600): 2_592_000})
    (Level(step=1, reach=61), Level(step=60, reach=61), Level(step=3600, reach=2595600))
    """
    levels: list[Level] = []
    step = 0
    reaches = [(size + slide, step) for (slide, step, *_), size in longest.items()]
    for reach, window_step in sorted(reaches, reverse=True):
        finer = gcd(step, window_step)
        if finer != step:
            levels.insert(0, Level(finer, reach))
            step = finer
    return _filled(_merged(tuple(levels)))


def granules(levels: Sequence[Level]) -> int:
    """The most granules that a key can have in such levels: those of their ages, and those that wait
    until they fill a granule of the next level.

    >>> granules([Level(1, 61), Level(60, 3660), Level(3600, 2_595_600)])
    964
    """
    total = younger = 0
    for number, (step, reach) in enumerate(levels):
        waiting = levels[number + 1].step if number + 1 < len(levels) else 0
        total += -(-(reach - younger) // step) + waiting // step + 1
        younger = reach
    return total


def granules_within(levels: Sequence[Level], size: int) -> int:
    """About how many granules a window of some size is made of.

    >>> granules_within([Level(1, 61), Level(60, 3660)], 600)
    69
    """
    total = younger = 0
    for step, reach in levels:
        total += max(0, min(reach, size) - younger) // step
        younger = reach
    return total


def granules_on_one_grid(longest: Mapping[Shape, int]) -> int:
    """The same if all windows share one grid.

    >>> granules_on_one_grid({(1, 1): 60, (60, 60): 3600, (3600, 3600): 2_592_000})
    2595601
    """
    step = gcd(*(step for _, step, *_ in longest))
    return max(size + slide for (slide, *_), size in longest.items()) // step + 1


def _merged(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Without the levels that save too little."""
    for number in range(1, len(levels)):
        wider = Level(levels[number - 1].step, levels[number].reach)
        fewer = (*levels[: number - 1], wider, *levels[number + 1 :])
        if granules(fewer) <= _WORTH * granules(levels):
            return _merged(fewer)
    return levels


def _filled(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """With levels in between where granules would wait long for the next one."""
    for number in range(1, len(levels)):
        younger, older = levels[number - 1], levels[number]
        waiting = older.step // younger.step
        between = Level(younger.step * _middle_divisor(waiting), younger.reach)
        more = (*levels[:number], between, *levels[number:])
        is_between = younger.step < between.step < older.step
        if is_between and waiting > _FEW_WAIT and granules(levels) > _WORTH * granules(more):
            return _filled(more)
    return levels


@lru_cache(maxsize=1024)
def _middle_divisor(number: int) -> int:
    """The largest divisor that is at most the square root.

    >>> _middle_divisor(3600), _middle_divisor(24), _middle_divisor(7)
    (60, 4, 1)
    """
    return next(divisor for divisor in range(isqrt(number), 0, -1) if number % divisor == 0)
