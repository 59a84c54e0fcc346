"""The windows of the experiments: three classes by their greatest slide, drawn at random."""

from __future__ import annotations

from random import Random

from muntin.plan.window_chain import Spec

CLASSES = {"smooth": 10, "medium": 20, "abrupt": 30}  # the greatest slide of each
LONGEST = 60
COUNTS = (1_000, 2_000, 5_000, 10_000)


def draw_windows(name: str, count: int, seed: int, multiples: bool = False, least: int = 1) -> list[Spec]:
    """Windows (size, slide) of a class in timestamps: any slide of it from `least` on, then any size above it, or
    any multiple of it; each as likely as the others.

    >>> draw_windows("smooth", 3, seed=1), draw_windows("smooth", 3, seed=1, multiples=True, least=2)
    ([(20, 3), (18, 10), (34, 2)], [(12, 4), (51, 3), (54, 6)])
    """
    dice = Random(seed)
    slides = [dice.randint(least, CLASSES[name]) for _ in range(count)]
    return [(dice.choice(_sizes(slide, multiples)), slide) for slide in slides]


def _sizes(slide: int, multiples: bool) -> range:
    return range(2 * slide, LONGEST + 1, slide) if multiples else range(slide + 1, LONGEST + 1)


def in_seconds(spec: Spec) -> str:
    """The window clause, a timestamp being a second.

    >>> in_seconds((8, 2))
    '[RANGE 8 SECONDS SLIDE 2 SECONDS]'
    """
    size, slide = spec
    return f"[RANGE {size} SECONDS SLIDE {slide} SECOND{'S' if slide > 1 else ''}]"
