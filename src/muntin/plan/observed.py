"""What the state of a window group costs, as observed: counters that EXPLAIN shows as rates."""

from __future__ import annotations

from dataclasses import dataclass, field

_RECENT = 32  # observations; beyond this, old ones count half


@dataclass(slots=True)
class Rate:
    """A mean cost over recent observations: a slow start (a kernel being compiled) is forgotten soon.

    >>> rate = Rate()
    >>> rate.mean is None
    True
    >>> rate.observe(1000, 5000)
    >>> rate.mean
    5.0
    """

    total: int = 0  # how many there have been
    _count: float = 0.0
    _nanoseconds: float = 0.0
    _observations: int = 0

    def observe(self, count: int, nanoseconds: int) -> None:
        self.total += count
        self._count += count
        self._nanoseconds += nanoseconds
        self._observations += 1
        if self._observations == _RECENT:
            self._observations //= 2
            self._count /= 2
            self._nanoseconds /= 2

    def begin_again(self) -> None:
        """What is observed from now on is something else."""
        self._count = self._nanoseconds = 0.0
        self._observations = 0

    @property
    def mean(self) -> float | None:
        """Nanoseconds for each; None if there was none."""
        return self._nanoseconds / self._count if self._count else None


@dataclass(slots=True)
class Observed:
    """Of a group or a store. A look-up is one window at one instant, for all keys, and one component."""

    updates: Rate = field(default_factory=Rate)  # by event
    lookups: Rate = field(default_factory=Rate)

    def begin_again(self) -> None:
        self.updates.begin_again()
        self.lookups.begin_again()
