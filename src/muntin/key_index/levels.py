"""levels: how a collective index cuts the past of a key into stretches that double, `parts` of each size.

The *distance* of an event is 1 for the newest event of its key, 2 for the one before it, and so on. Level
j = g * parts + q covers the `2**g` distances from `start(j)` to `end(j)`; here with two parts:

    level      0   1   2     3     4         5           6 ...
    distance   1   2   3..4  5..6  7..10     11..14      15..22

A key has more than v events in a window if its event at distance v + 1 lies in it. One stamp per level is
kept, so look-ups ask for an event that is surely not further away, or surely not nearer. That makes them
wrong by a factor, never in the other direction:

| condition | level asked | a key that is reported has |
|---|---|---|
| more than v | the last that ends at v + 1 or before | more than v * (1 - eps_gt) |
| less than v | the first that starts at v or after | less than v * (1 + eps_lt) |

Reference: Arasu & Widom, VLDB 2004, sections 4.1.1 and 4.1.2, which promise one eps of "roughly 2/p" for both
kinds. With one part eps_lt is 3 and with two it is 1: below 1 only from three parts on. For "more than v" the
paper asks level floor(log2 v) - 1, undefined for v = 0 and at times one level nearer than necessary.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil


@dataclass(frozen=True)
class Levels:
    """The arithmetic of levels; every method O(1), for integers of any size.

    >>> levels = Levels(2)
    >>> [(levels.start(j), levels.end(j)) for j in range(6)]
    [(1, 1), (2, 2), (3, 4), (5, 6), (7, 10), (11, 14)]
    >>> levels.level_above(9), levels.level_below(9)
    (4, 5)
    """

    parts: int  # the paper's p: levels of each size

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"a collective index has 1 part or more, not {self.parts}")

    def start(self, level: int) -> int:
        """The least distance of a level."""
        group, part = divmod(level, self.parts)
        return self.parts * ((1 << group) - 1) + (part << group) + 1

    def end(self, level: int) -> int:
        """The greatest distance of a level, itself included."""
        return self.start(level + 1) - 1

    def level_of(self, distance: int) -> int:
        """The level that covers a distance, from 1 on."""
        group = ((distance - 1) // self.parts + 1).bit_length() - 1
        return self.parts * group + ((distance - 1 - self.parts * ((1 << group) - 1)) >> group)

    def level_above(self, v: int, strict: bool = True) -> int:
        """The level to ask for keys with more than `v` events, or with at least `v` if not `strict`.

        The last that ends no later than the event that decides; level 0, any event at all, if none does.
        """
        distance = max(v + 1 if strict else v, 1)
        level = self.level_of(distance)
        return level if self.end(level) == distance else level - 1

    def level_below(self, v: int, strict: bool = True) -> int:
        """The level to ask for keys with less than `v` events, or with at most `v` if not `strict`.

        The first that starts no earlier than the event that must be missing.
        """
        distance = max(v if strict else v + 1, 1)
        level = self.level_of(distance)
        return level if self.start(level) == distance else level + 1

    @property
    def eps_gt(self) -> Fraction:
        """Keys reported for "more than v" have more than v * (1 - eps_gt).

        >>> [str(Levels(p).eps_gt) for p in (1, 2, 3, 4, 8, 16)]
        ['3/4', '1/2', '2/5', '1/3', '1/5', '1/9']
        """
        return max(Fraction(2, self.parts + 2), Fraction(3, 2 * self.parts + 2))

    @property
    def eps_lt(self) -> Fraction:
        """Keys reported for "less than v" have less than v * (1 + eps_lt).

        >>> [str(Levels(p).eps_lt) for p in (1, 2, 3, 4, 8)]
        ['3', '1', '2/3', '1/2', '1/4']
        """
        return max(Fraction(2, self.parts), Fraction(3, 2 * self.parts - 1))


def parts_for(eps: float | Fraction, both: bool = True) -> int:
    """The fewest parts whose error is at most `eps`: for "more than" alone, or for `both` kinds.

    >>> parts_for(0.25), parts_for(0.25, both=False), parts_for(0.75, both=False), parts_for(Fraction(3))
    (8, 6, 1, 1)
    """
    if not eps > 0:
        raise ValueError(f"an error of {eps} needs no index but exact counts; ask for one above 0")
    eps = eps if isinstance(eps, Fraction) else Fraction(str(eps))
    if both:
        return 1 if eps >= 3 else max(2, ceil(2 / eps))
    return 1 if eps >= Fraction(3, 4) else max(2, ceil(2 / eps) - 2)
