"""How far random tests look: ordinary runs take some of the seeds and examples, MUNTIN_THOROUGH=1 all of them.

A greater number, such as MUNTIN_THOROUGH=30, has Hypothesis try so many times as many examples, other ones each time.
What the documentation promises by number is all done by ordinary runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
THOROUGH = int(os.environ.get("MUNTIN_THOROUGH") or 0)


def every_second(things: Sequence[T]) -> Sequence[T]:
    """Of things that differ little in what they try."""
    return things if THOROUGH else things[::2]


def some_of(count: int, percent: int) -> int:
    """
    >>> some_of(300, 50) == (300 if THOROUGH else 150)
    True
    """
    assert 0 < percent < 100, "a part of them, in percent"
    return count if THOROUGH else max(1, count * percent // 100)
